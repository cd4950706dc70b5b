# SPDX-License-Identifier: Apache-2.0
"""Every operator on both emulated cores: bit for bit what the host computes, so that golden vectors hold there too."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.firmware.operators import OPERATORS, family_of, params_key, taken_over

from tests.support import ROOT
from tests.support.firmware.host_operators import SOURCES, CSizes, Operators
from tests.support.firmware.operator_references import REFERENCES, Draw
from tests.support.firmware.operator_shapes import CONFIGURATIONS, Params
from tests.support.levels import examples

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware import elements
from benchmarks.firmware.emulated_core import EmulatedCore
from benchmarks.firmware.kernels import DS_CNN, LAID_OUT, MOBILENET, RESNET8, Case, convolutions, products

IN_C, IN_C_TOO = ["POET_EVERY_REGISTER=0"], ("conv2d_s8", "linear_s8")
BENCHMARKED = [*convolutions(RESNET8 + DS_CNN + MOBILENET + LAID_OUT), *products()]

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")


@pytest.fixture(scope="module", params=["cortex-m4f", "cortex-m0plus"])
def core(request: pytest.FixtureRequest, core_with: Callable[..., EmulatedCore]) -> EmulatedCore:
    return core_with(request.param, "poet_operators")


def run_on(core: EmulatedCore, name: str, params: Params, seed: int, over: int | None = None) -> list[bytes]:
    """Outputs of the operator on the emulated core; the guards around each buffer must survive.

    With ``over``, the first output lies in the place of that input.
    """
    golden = REFERENCES[name](params, Draw(seed))
    core.free()
    values = core.words(OPERATORS[name].values(params))
    sizes_at = core.place(ctypes.sizeof(CSizes))
    assert core.call(f"poet_{name}_sizes", values, sizes_at)[0] == 0
    sizes = CSizes.from_buffer_copy(core.machine.read_memory(sizes_at, ctypes.sizeof(CSizes)))

    inputs = [core.place(np.ascontiguousarray(array)) for array in golden.inputs]
    lengths = sizes.output_bytes[: sizes.outputs]
    outputs = inputs[-sizes.outputs :] if sizes.in_place else [core.place(length) for length in lengths]
    if over is not None:
        outputs[0] = inputs[over]
    workspace = core.place(sizes.workspace_bytes)
    guard = core.place(64)
    rate = int(np.float32(golden.learning_rate).view(np.uint32))
    arguments = core.words([values, core.words(inputs), core.words(outputs), workspace, rate, 0, 0])
    assert core.call(f"poet_{name}_run", arguments)[0] == 0
    assert core.machine.read_memory(guard, 64) == b"\xff" * 64
    return [core.machine.read_memory(at, length) for at, length in zip(outputs, lengths, strict=True)]


def assert_equals_host(core: EmulatedCore, operators: Operators, name: str, params: Params, seed: int = 0) -> None:
    golden = REFERENCES[name](params, Draw(seed))
    expected = operators.run(name, params, golden.inputs, golden.learning_rate)
    for over in (None, *taken_over(name, params_key(name, params))):
        assert run_on(core, name, params, seed, over) == [output.tobytes() for output in expected]


@pytest.mark.parametrize("name", OPERATORS)
def test_core_equals_host(core: EmulatedCore, operators: Operators, name: str) -> None:
    @settings(
        max_examples=examples(20 if any(op in name for op in ("conv2d", "linear", "matmul")) else 6),
        deadline=None,
        derandomize=True,
    )
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: Params, seed: int) -> None:
        assert_equals_host(core, operators, name, params, seed)

    equal()


@pytest.mark.parametrize("core", ["cortex-m4f"], indirect=True)  # software floating point takes too long for them
@pytest.mark.parametrize("case", BENCHMARKED, ids=lambda case: f"{case.op} {case.label}")
def test_benchmarked_shapes_equal_the_host(core: EmulatedCore, operators: Operators, case: Case) -> None:
    """The shapes whose cycles are measured, on the core whose assembly they run in."""
    assert_equals_host(core, operators, case.op, dict(case.params))


@pytest.mark.parametrize("core", ["cortex-m4f"], indirect=True)
@pytest.mark.parametrize(("h", "w", "kernel"), [(9, 9, 7), (6, 5, 5), (8, 4, 4)])
def test_columns_that_only_begin_like_windows(
    core: EmulatedCore, operators: Operators, h: int, w: int, kernel: int
) -> None:
    """Weight gradients by 36 columns at a time, the first nine of which lie as a 3x3 kernel's do, but not all."""
    params = {"n": 1, "c": 3, "h": h, "w": w, "k": 4, "r": kernel, "s": kernel}
    params |= {"sh": 1, "sw": 1, "ph": 0, "pw": 0, "g": 1, "bias": 0}
    assert_equals_host(core, operators, "conv2d_backward_weight", params)


@pytest.fixture(scope="module", params=["cortex-m4f", "cortex-m0plus"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EmulatedCore:
    """As where the build keeps a register for itself, or the compiler is clang."""
    sources = [path for path in SOURCES if path.parent.name == "kernels" or path.stem in IN_C_TOO]
    keep = [f"poet_{op}_{what}" for op in IN_C_TOO for what in ("sizes", "run")]
    return EmulatedCore(request.param, sources, keep, tmp_path_factory.mktemp("plain"), defines=IN_C)


@pytest.mark.parametrize("op", IN_C_TOO)
def test_operators_on_int8_in_c_alone(operators: Operators, op: str, plain: EmulatedCore) -> None:
    @settings(max_examples=examples(8), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[op], st.integers(0, 2**16))
    def equal(params: Params, seed: int) -> None:
        assert_equals_host(plain, operators, op, params, seed)

    equal()


@pytest.mark.parametrize("family", ["S8", "BLOCKS", "RECURRENT"])
def test_an_image_links_no_family_that_its_plan_does_without(family: str, tmp_path: Path) -> None:
    table = tmp_path / "table.c"
    rows = "#define POET_OPERATOR(code, NAME, name, ...) POET_OPERATOR_ROW(NAME, name),"
    table.write_text(
        f'#include "poet/operator.h"\n#define POET_WITHOUT_{family}\n{rows}\n'
        'const poet_operator some_operators[] = {\n#include "poet/operators.def"\n};\n'
    )
    built = EmulatedCore("cortex-m0plus", [*SOURCES, table], ["some_operators"], tmp_path)
    linked = {name for name in OPERATORS if built.has(f"poet_{name}_run")}
    assert linked == {name for name in OPERATORS if family_of(name) != family}


def test_cycles_an_element_are_listed() -> None:
    command = [sys.executable, "-m", "benchmarks.firmware.elements", "group_norm", "max_pool2d", "adam"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = [line.strip("│").split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    cycles = {row[0].strip(): [float(cell) for cell in row[-2:]] for row in cells}
    assert set(cycles) == {"group_norm", "max_pool2d", "adam"}
    assert all(0 < m4f < m0plus for m4f, m0plus in cycles.values())
    assert cycles["adam"][0] < 80


def test_operators_above_their_limit_are_named(
    core_with: Callable[..., EmulatedCore], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(elements, "EmulatedCore", lambda core, sources, keep, folder: core_with(core, *keep))
    monkeypatch.setattr(sys, "argv", ["elements", "relu", "sgd"])
    assert elements.main() == 0
    monkeypatch.setitem(elements.LIMITS, "relu", 1.0)
    assert elements.main() == 1
    assert capsys.readouterr().err.startswith("relu: ")
