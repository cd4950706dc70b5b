"""Cycles a multiply-accumulate of convolutions and matrix products, beside a triple loop and CMSIS-DSP.

    .venv/bin/python benchmarks/firmware/kernels.py [--cmsis DIR]

Runs on both emulated cores, so every figure is `emulated`. The triple loop and CMSIS-DSP's arm_mat_mult_f32 compute the
matrix product that an operator amounts to, on matrices laid out for them in advance: copying an image into a matrix is
not counted against them, its padding is against the operator. CMSIS-DSP's sources are fetched from the package index by
pip (the source package `cmsisdsp`), unless --cmsis names a folder that holds them. Exits 1 if a figure is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from emulated_core import FIRMWARE, HERE, EmulatedCore
from poet_profiles.operators import OPERATORS, output_extent
from rich.console import Console
from rich.table import Table

CMSIS_DSP = "cmsisdsp==1.10.3"
MOST_CYCLES = 3.0  # a multiply-accumulate on the M4F
LEAST_SPEEDUP = 1.5  # over the triple loop on the M0+

# Channels in and out, height and width, kernel, stride: ResNet-8 of MLPerf Tiny, and layers that fit 32 KB.
RESNET8 = ((3, 16, 32, 3, 1), (16, 16, 32, 3, 1), (16, 32, 32, 3, 2), (32, 32, 16, 3, 1), (16, 32, 32, 1, 2))
RESNET8 += ((32, 64, 16, 3, 2), (64, 64, 8, 3, 1), (32, 64, 16, 1, 2))
NARROW = ((8, 8, 8, 3, 1), (8, 16, 8, 3, 2), (8, 16, 8, 1, 2))
PRODUCTS = ((32, 32, 32), (64, 64, 64))

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """An operator, and the shape (m, k, n) of the matrix product that it amounts to."""

    op: str
    params: Mapping[str, int]
    product: tuple[int, int, int]
    label: str

    @property
    def macs(self) -> int:
        return OPERATORS[self.op].sizes(self.params).flops // 2


def convolutions(layers: tuple[tuple[int, int, int, int, int], ...]) -> Iterator[Case]:
    for c, k, h, r, stride in layers:
        p = {"n": 1, "c": c, "h": h, "w": h, "k": k, "r": r, "s": r, "sh": stride, "sw": stride}
        p |= {"ph": r // 2, "pw": r // 2, "g": 1, "bias": 0}
        positions, taps = output_extent(h, r, stride, r // 2) ** 2, c * r * r
        label = f"{c} -> {k}, {h}x{h}, {r}x{r}, stride {stride}"
        yield Case("conv2d", p, (k, taps, positions), label)
        yield Case("conv2d_backward_input", p, (taps, k, positions), label)
        yield Case("conv2d_backward_weight", p, (k, positions, taps), label)


def products() -> Iterator[Case]:
    for m, k, n in PRODUCTS:
        label = f"{m} x {k} x {n}"
        yield Case("linear", {"m": m, "k": k, "n": n, "bias": 0}, (m, k, n), label)
        for ta in (0, 1):
            p = {"b": 1, "m": m, "k": k, "n": n, "ta": ta, "tb": 0}
            yield Case("matmul", p, (m, k, n), label + (", a transposed" if ta else ""))


@dataclass(frozen=True)
class Result:
    """Cycles a multiply-accumulate: the operator's, the triple loop's and, where there is one, CMSIS-DSP's."""

    case: Case
    own: float
    plain: float
    peer: float | None


class Bench:
    """One core with the operators and their peers."""

    def __init__(self, core: str, cmsis: Path | None, build: Path) -> None:
        sources = [HERE / "triple_loop.c", *sorted((FIRMWARE / "src" / "ops").glob("*.c"))]
        keep, includes = ["poet_operators", "triple_loop"], []
        if cmsis:
            sources.append(cmsis / "Source" / "MatrixFunctions" / "arm_mat_mult_f32.c")
            keep.append("arm_mat_mult_f32")
            includes = [cmsis / "Include", cmsis / "PrivateInclude"]
        # Its own unrolled variant; the second macro frees its headers from a board's.
        defines = ["ARM_MATH_LOOPUNROLL", "__GNUC_PYTHON__"]
        self.core = EmulatedCore(core, sources, keep, build, includes, defines)
        self.has_cmsis = cmsis is not None

    def operator(self, case: Case) -> float:
        """Cycles a multiply-accumulate."""
        core, sizes = self.core, OPERATORS[case.op].sizes(case.params)
        core.free()
        random = np.random.default_rng(0)
        inputs = [core.place(random.standard_normal(size // 4, np.float32)) for size in sizes.inputs]
        outputs = [core.place(size) for size in sizes.outputs]
        workspace = core.place(sizes.workspace)
        params = core.words([case.params[name] for name in OPERATORS[case.op].params])
        arguments = core.words([params, core.words(inputs), core.words(outputs), workspace, 0])
        status, cycles = core.call(f"poet_{case.op}_run", arguments)
        assert status == 0, (case, status)
        return cycles / case.macs

    def triple_loop(self, case: Case) -> float:
        """Cycles a multiply-accumulate of the matrix product in three loops."""
        m, k, n = case.product
        a, b, places = self._matrices(case)
        _, cycles = self.core.call("triple_loop", *places, m, k, n)
        self._check(a @ b, places[2])
        return cycles / (m * k * n)

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


def measure(bench: Bench, cases: Iterator[Case], table: Table) -> Iterator[Result]:
    for case in cases:
        own, plain = bench.operator(case), bench.triple_loop(case)
        peer = bench.cmsis(case) if bench.has_cmsis else None
        beside = ["-"] * 2 if peer is None else [f"{peer:.2f}", f"{peer / own:.2f}"]
        table.add_row(case.op, case.label, f"{own:.2f}", f"{plain:.2f}", f"{plain / own:.2f}", *beside)
        yield Result(case, own, plain, peer)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cmsis", type=Path, help="folder with CMSIS-DSP's Source, Include and PrivateInclude")
    options = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        cmsis = options.cmsis or fetch_cmsis(Path(folder))
        if cmsis is None:
            print(f"kernels: pip could not fetch {CMSIS_DSP}: no comparison with CMSIS-DSP", file=sys.stderr)
        for core, layers in (("cortex-m4f", RESNET8), ("cortex-m0plus", NARROW)):
            columns = ("operator", "shape", "cycles/MAC", "triple loop", "ratio", "CMSIS-DSP", "ratio")
            table = Table(*columns, title=f"{core} (emulated)")
            bench = Bench(core, cmsis, Path(folder))
            results = [*measure(bench, convolutions(layers), table), *measure(bench, products(), table)]
            Console(width=120).print(table)
            missed += list(misses(core, results))
    for miss in missed:
        print(miss)
    return 1 if missed else 0


def misses(core: str, results: list[Result]) -> Iterator[str]:
    """What fell short of the figures above: over all layers together, as a training step runs them."""
    for op in dict.fromkeys(result.case.op for result in results):
        mine = [result for result in results if result.case.op == op]
        macs = sum(result.case.macs for result in mine)
        own = sum(result.own * result.case.macs for result in mine) / macs
        plain = sum(result.plain * result.case.macs for result in mine) / macs
        print(f"{core}: {op}, all shapes together: {own:.2f} cycles/MAC, {plain / own:.2f} times the triple loop")
        if core == "cortex-m4f" and op in ("conv2d", "matmul") and own > MOST_CYCLES:
            yield f"{core}: {op}: {own:.2f} cycles, more than {MOST_CYCLES}"
        if core == "cortex-m0plus" and plain < LEAST_SPEEDUP * own:
            yield f"{core}: {op}: less than {LEAST_SPEEDUP} times the triple loop"
    for result in results:
        if result.peer is not None and result.own > result.peer:
            yield f"{core}: {result.case.op} {result.case.label}: slower than CMSIS-DSP"


if __name__ == "__main__":
    sys.exit(main())
