# SPDX-License-Identifier: Apache-2.0
"""Cycles a multiply-accumulate of convolutions and matrix products, beside CMSIS-DSP.

    .venv/bin/python -m benchmarks.firmware.kernels [--cmsis DIR]

Runs on both emulated cores, so every figure is `emulated`, and writes kernels.csv. CMSIS-DSP's arm_mat_mult_f32
computes the matrix product that an operator amounts to, on matrices laid out for it in advance: copying an image into a
matrix is not counted against it, its padding is against the operator. CMSIS-DSP's sources are fetched from the package
index by pip (the source package `cmsisdsp`), unless --cmsis names a folder that holds them.

Every shape is judged by itself; no average hides one. README.md has the goals. A fully connected layer at batch 1 has
no tile: each multiply-accumulate loads a weight, or, in the weight gradient, stores a result. By the cycle table that
costs one cycle for the product, one for the sum, and at least 17/16 for the weight or result: a load or store of N
registers takes 1 + N cycles, and the row's own elements need registers, too. That is 3.06 cycles, before those
elements, the loop and the call. Such a product may take half as much again.

Exits 1 if a figure is missed or could not be judged, and lists every miss.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from poet_profiles.firmware.operators import OPERATORS, is_winograd, output_extent

from benchmarks.firmware.emulated_core import FIRMWARE, HERE, OPERATOR_SOURCES, EmulatedCore

CMSIS_DSP = "cmsisdsp==1.10.3"
BLOCKED_CYCLES = 3.0  # a multiply-accumulate on the M4F, at most
DEPTHWISE_CYCLES = {"conv2d": 3.5, "conv2d_backward_input": 4.5, "conv2d_backward_weight": 4.5}
LAID_OUT_CYCLES = {"conv2d": 6.0, "conv2d_backward_input": 10.0, "conv2d_backward_weight": 10.0}
WINOGRAD_CYCLES = 1.9  # likewise, of the direct convolution
WINOGRAD_ERROR = 1e-6  # relative to the largest result, at most
ONE_ROW_FLOOR = 2 + 17 / 16  # product, sum, and a sixteenth of a load or store of sixteen elements
ONE_ROW_CYCLES = 1.5 * ONE_ROW_FLOOR
LEAST_SPEEDUP = 1.5  # over CMSIS-DSP on the M0+
TABLE = HERE / "kernels.csv"


@dataclass(frozen=True)
class Layer:
    """A convolution of square kernels, padded so that a stride of 1 keeps the plane's extent, or not at all."""

    channels: int
    filters: int
    height: int
    width: int
    kernel: int
    stride: int = 1
    groups: int = 1
    padded: bool = True

    @property
    def pad(self) -> int:
        return self.kernel // 2 if self.padded else 0

    @property
    def label(self) -> str:
        form = "depthwise " if self.groups == self.channels > 1 else ""
        plane = f"{self.height}x{self.width}, {form}{self.kernel}x{self.kernel}"
        unpadded = "" if self.padded else ", no padding"
        return f"{self.channels} -> {self.filters}, {plane}, stride {self.stride}{unpadded}"

    @property
    def params(self) -> dict[str, int]:
        p = {"n": 1, "c": self.channels, "h": self.height, "w": self.width, "k": self.filters}
        p |= {"r": self.kernel, "s": self.kernel, "sh": self.stride, "sw": self.stride}
        p |= {"ph": self.pad, "pw": self.pad}
        return p | {"g": self.groups, "bias": 0}


def square(*layers: tuple[int, int, int, int, int]) -> tuple[Layer, ...]:
    """From channels in and out, extent, kernel, stride."""
    return tuple(Layer(c, k, extent, extent, r, stride) for c, k, extent, r, stride in layers)


# MLPerf Tiny's ResNet-8, which has all shapes of the paper's ResNet-18 (`poet_resnet18`), its DS-CNN and its
# MobileNet's depthwise layers; and layers that fit 32 KB.
RESNET8 = square((3, 16, 32, 3, 1), (16, 16, 32, 3, 1), (16, 32, 32, 3, 2), (32, 32, 16, 3, 1), (16, 32, 32, 1, 2))
RESNET8 += square((32, 64, 16, 3, 2), (64, 64, 8, 3, 1), (32, 64, 16, 1, 2))
DS_CNN = (Layer(64, 64, 25, 5, 1), Layer(64, 64, 25, 5, 3, groups=64))
MOBILENET = tuple(
    Layer(channels, channels, extent, extent, 3, stride, groups=channels)
    for channels, extent, stride in (
        (8, 48, 1),
        (16, 48, 2),
        (32, 24, 1),
        (32, 24, 2),
        (64, 12, 1),
        (64, 12, 2),
        (128, 6, 1),
        (128, 6, 2),
        (256, 3, 1),
    )
)
# Depthwise layers of other networks, whose planes are laid out first.
LAID_OUT = (
    Layer(16, 16, 26, 26, 3, groups=16, padded=False),
    Layer(16, 16, 25, 25, 3, 2, groups=16, padded=False),
    Layer(16, 16, 25, 25, 3, 2, groups=16),
)
NARROW = square((1, 8, 8, 3, 1), (8, 8, 8, 3, 1), (8, 16, 8, 3, 2), (8, 16, 8, 1, 2))
PRODUCTS = ((16, 64, 10), (32, 32, 32), (64, 64, 64))
FULLY_CONNECTED = (64, 10)  # both networks' last layer
BATCHES = (1, 8)

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """An operator, and the shape (m, k, n) of the matrix product that it, or one of its groups, amounts to."""

    op: str
    params: Mapping[str, int]
    product: tuple[int, int, int]
    label: str
    most: float  # cycles a multiply-accumulate on the M4F

    @property
    def macs(self) -> int:
        return OPERATORS[self.op].sizes(self.params).flops // 2


def convolutions(layers: Iterable[Layer]) -> Iterator[Case]:
    for layer in layers:
        p = layer.params
        rows, columns = (output_extent(x, layer.kernel, layer.stride, layer.pad) for x in (layer.height, layer.width))
        positions, filters = rows * columns, layer.filters // layer.groups
        taps = layer.channels // layer.groups * layer.kernel**2
        products = {
            "conv2d": (filters, taps, positions),
            "conv2d_backward_input": (taps, filters, positions),
            "conv2d_backward_weight": (filters, positions, taps),
        }
        for op, product in products.items():
            blocked = WINOGRAD_CYCLES if is_winograd(p) else BLOCKED_CYCLES
            depthwise = (LAID_OUT_CYCLES if layer in LAID_OUT else DEPTHWISE_CYCLES)[op]
            yield Case(op, p, product, layer.label, blocked if layer.groups == 1 else depthwise)


def linear(m: int, k: int, n: int, label: str, most: float) -> Case:
    return Case("linear", {"m": m, "k": k, "n": n, "bias": 0}, (m, k, n), label, most)


def matmul(m: int, k: int, n: int, ta: int, label: str, most: float) -> Case:
    return Case("matmul", {"b": 1, "m": m, "k": k, "n": n, "ta": ta, "tb": 0}, (m, k, n), label, most)


def products() -> Iterator[Case]:
    k, n = FULLY_CONNECTED
    for m in BATCHES:
        label = f"{k} -> {n}, batch {m}"
        most = ONE_ROW_CYCLES if m == 1 else BLOCKED_CYCLES
        yield linear(m, k, n, label, most)
        yield matmul(m, n, k, 0, f"{label}, input gradient", most)
        yield matmul(n, m, k, 1, f"{label}, weight gradient", most)
    for m, k, n in PRODUCTS:
        label = f"{m} x {k} x {n}"
        yield linear(m, k, n, label, BLOCKED_CYCLES)
        yield matmul(m, k, n, 0, label, BLOCKED_CYCLES)
        yield matmul(m, k, n, 1, f"{label}, a transposed", BLOCKED_CYCLES)


@dataclass(frozen=True)
class Result:
    """Cycles a multiply-accumulate of the operator and of CMSIS-DSP; the largest error of Winograd's algorithm."""

    core: str
    case: Case
    own: float
    peer: float | None
    error: float | None

    @property
    def misses(self) -> list[str]:
        """Figures that it falls short of."""
        missed = []
        if self.core == "cortex-m4f" and self.own > self.case.most:
            missed.append(f"more than {self.case.most:.2f} cycles")
        if self.core == "cortex-m4f" and self.peer is not None and self.own > self.peer:
            missed.append("slower than CMSIS-DSP")
        if self.core == "cortex-m0plus" and self.peer is not None and self.peer < LEAST_SPEEDUP * self.own:
            missed.append(f"less than {LEAST_SPEEDUP} times as fast as CMSIS-DSP")
        if self.error is not None and self.error > WINOGRAD_ERROR:
            missed.append(f"off by more than {WINOGRAD_ERROR:.0e}")
        return missed

    @property
    def row(self) -> list[str]:
        """Its line of the table."""
        beside = ["", ""] if self.peer is None else [f"{self.peer:.2f}", f"{self.peer / self.own:.2f}"]
        error = "" if self.error is None else f"{self.error:.1e}"
        return [self.core, self.case.op, self.case.label, f"{self.own:.2f}", *beside, error, self.verdict]

    @property
    def verdict(self) -> str:
        if self.misses:
            return "MISSED"
        if self.core == "cortex-m4f" and self.own > BLOCKED_CYCLES:
            return f"met: {self.case.most:.2f}"
        return "met"


def _inputs(case: Case) -> list[Floats]:
    random = np.random.default_rng(0)
    return [random.standard_normal(size // 4, np.float32) for size in OPERATORS[case.op].sizes(case.params).inputs]


def _windows(x: Doubles, pad: int) -> Doubles:
    """Of 3x3, at every position of a padded plane: (channels, rows, columns, 3, 3)."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(x, ((0, 0), (pad, pad), (pad, pad))), (3, 3), (1, 2))


def _doubles(case: Case, *shapes: tuple[int, ...]) -> list[Doubles]:
    return [array.astype(np.float64).reshape(shape) for array, shape in zip(_inputs(case), shapes, strict=True)]


def _convolved(case: Case) -> Doubles:
    p = case.params
    x, w = _doubles(case, (p["c"], p["h"], p["w"]), (p["k"], p["c"], 3, 3))
    return np.einsum("cyxrs,kcrs->kyx", _windows(x, p["ph"]), w, optimize=True)


def _input_gradient(case: Case) -> Doubles:
    p = case.params
    gy, w = _doubles(case, (p["k"], p["h"], p["w"]), (p["k"], p["c"], 3, 3))
    return np.einsum("kyxrs,kcrs->cyx", _windows(gy, 2 - p["ph"]), w[:, :, ::-1, ::-1], optimize=True)


def _weight_gradient(case: Case) -> Doubles:
    p = case.params
    gy, x = _doubles(case, (p["k"], p["h"], p["w"]), (p["c"], p["h"], p["w"]))
    return np.einsum("kyx,cyxrs->kcrs", gy, _windows(x, p["ph"]), optimize=True)


CONVOLUTIONS = {
    "conv2d": _convolved,
    "conv2d_backward_input": _input_gradient,
    "conv2d_backward_weight": _weight_gradient,
}
"""In double precision, of one image in 3x3 windows that keep the plane's extent."""


class Bench:
    """One core with the operators and their peers."""

    def __init__(self, core: str, cmsis: Path | None, build: Path) -> None:
        kernels = FIRMWARE / "src" / "kernels"
        sources, keep, includes = OPERATOR_SOURCES, ["poet_operators"], [kernels]
        if cmsis:
            sources.append(cmsis / "Source" / "MatrixFunctions" / "arm_mat_mult_f32.c")
            keep.append("arm_mat_mult_f32")
            includes += [cmsis / "Include", cmsis / "PrivateInclude"]
        # Its own unrolled variant; the second macro frees its headers from a board's.
        defines = ["ARM_MATH_LOOPUNROLL", "__GNUC_PYTHON__"]
        self.name = core
        self.core = EmulatedCore(core, sources, keep, build, includes, defines)
        self.has_cmsis = cmsis is not None

    def operator(self, case: Case) -> float:
        """Cycles a multiply-accumulate."""
        return self._run(case)[0]

    def error(self, case: Case) -> float | None:
        """The largest, relative to the largest result, by Winograd's algorithm; None where it is not used."""
        if case.op not in CONVOLUTIONS or not is_winograd(case.params):
            return None
        exact = CONVOLUTIONS[case.op](case)
        return float(np.abs(self._run(case)[1] - exact.ravel()).max() / np.abs(exact).max())

    def _run(self, case: Case) -> tuple[float, Floats]:
        """Cycles a multiply-accumulate, and the first output."""
        core, sizes = self.core, OPERATORS[case.op].sizes(case.params)
        core.free()
        inputs = [core.place(array) for array in _inputs(case)]
        outputs = [core.place(size) for size in sizes.outputs]
        workspace = core.place(sizes.workspace)
        params = core.words([case.params[name] for name in OPERATORS[case.op].params])
        arguments = core.words([params, core.words(inputs), core.words(outputs), workspace, 0, 0, 0])
        status, cycles = core.call(f"poet_{case.op}_run", arguments)
        assert status == 0, (case, status)
        first = np.frombuffer(core.machine.read_memory(outputs[0], sizes.outputs[0]), np.float32)
        return cycles / case.macs, first

    def cmsis(self, case: Case) -> float:
        """Cycles a multiply-accumulate of the matrix product in CMSIS-DSP."""
        m, k, n = case.product
        a, b, places = self._matrices(case)
        shapes = ((m, k), (k, n), (m, n))
        matrices = [
            self.core.words([rows | columns << 16, place])
            for (rows, columns), place in zip(shapes, places, strict=True)
        ]
        status, cycles = self.core.call("arm_mat_mult_f32", *matrices)
        assert status == 0, (case, status)
        self._check(a @ b, places[2])
        return cycles / (m * k * n)

    def _matrices(self, case: Case) -> tuple[Floats, Floats, tuple[int, int, int]]:
        """Both factors, and the places of them and of the result."""
        m, k, n = case.product
        random = np.random.default_rng(0)
        a, b = random.standard_normal((m, k), np.float32), random.standard_normal((k, n), np.float32)
        self.core.free()
        return a, b, (self.core.place(a), self.core.place(b), self.core.place(4 * m * n))

    def _check(self, expected: Floats, place: int) -> None:
        computed = np.frombuffer(self.core.machine.read_memory(place, expected.nbytes), np.float32)
        assert np.abs(computed.reshape(expected.shape) - expected).max() <= 1e-5 * np.abs(expected).max()


def fetch_cmsis(build: Path) -> Path | None:
    """CMSIS-DSP's sources, unpacked; None where the package index does not answer."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-binary", ":all:", "--dest", str(build), CMSIS_DSP]
    if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
        return None
    (archive,) = build.glob("cmsisdsp-*.tar.gz")
    with tarfile.open(archive) as package:
        package.extractall(build, filter="data")
    return build / archive.name.removesuffix(".tar.gz")


def measure(bench: Bench, cases: Iterator[Case]) -> Iterator[Result]:
    for case in cases:
        peer = bench.cmsis(case) if bench.has_cmsis else None
        yield Result(bench.name, case, bench.operator(case), peer, bench.error(case))


def write_table(results: Iterable[Result]) -> None:
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["core", "operator", "shape", "cycles_mac", "cmsis_dsp", "ratio", "error", "verdict"])
        writer.writerows(result.row for result in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmsis", type=Path, help="folder with CMSIS-DSP's Source, Include and PrivateInclude")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        cmsis = options.cmsis or fetch_cmsis(Path(folder))
        if cmsis is None:
            print(f"kernels: pip could not fetch {CMSIS_DSP}: no comparison with CMSIS-DSP", file=sys.stderr)
        for core, layers in (("cortex-m4f", RESNET8 + DS_CNN + MOBILENET + LAID_OUT), ("cortex-m0plus", NARROW)):
            bench = Bench(core, cmsis, Path(folder))
            results += [*measure(bench, convolutions(layers)), *measure(bench, products())]
    if cmsis is not None:
        write_table(results)
    missed = [(result, miss) for result in results for miss in result.misses]
    for result, miss in missed:
        print(f"MISSED on {result.core}: {result.case.op} {result.case.label}: {result.own:.2f} cycles/MAC, {miss}")
    print(f"one row: at least {ONE_ROW_FLOOR:.2f} cycles by the table, at most {ONE_ROW_CYCLES:.2f} allowed")
    print(f"{len(results)} shapes, {len(missed)} misses")
    return 1 if missed or cmsis is None else 0


if __name__ == "__main__":
    sys.exit(main())
