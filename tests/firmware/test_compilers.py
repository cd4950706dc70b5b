# SPDX-License-Identifier: Apache-2.0
"""The library as its users compile it: what compiles computes the same bits, and what would change them is refused."""

from __future__ import annotations

import ctypes as c
import platform
import re
import shutil
import subprocess
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import initial_state, training_data
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.protocol.status import Status

from tests.support.firmware.core import FIRMWARE, NATIVE, compile_c

pytest.importorskip("unicorn", reason="the emulator is not installed")
from poet_harness.emulation import machine
from unicorn import arm_const

from benchmarks.firmware.emulated_core import MACHINE_FLAGS, EmulatedCore

pytestmark = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")

MODEL, BATCH, STEPS = "tests.support.networks.own:convolutions", 2, 3
SOURCES = [
    path
    for part in ("library", "kernels", "ops", "runtime", "storage")
    for path in sorted((FIRMWARE / "src" / part).glob("*.c"))
]
ARITHMETIC = FIRMWARE / "src" / "kernels" / "arithmetic.c"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
# Each with what gcc does by itself in GNU mode. Three have the flags, of the public files of a core or an operating
# system, that concern a C compiler: STM32duino, Zephyr, and Arduino's mbed core.
FUSED = "-ffp-contract=fast"
SETTINGS = {
    "O0": "-O0 -fno-short-enums -fsigned-char -fshort-wchar -fsingle-precision-constant -fno-builtin",
    "O1": "-O1 -fno-inline",
    "O2": "-O2 -mpure-code -g3",
    "O3": "-O3 -funroll-loops -flto",
    "Os": "-Os -std=gnu11 --param max-inline-insns-single=500",
    "Og": "-Og -fno-omit-frame-pointer",
    "frame pointer": "-O2 -std=c99 -ffreestanding -fno-common -fno-asynchronous-unwind-tables -fno-reorder-functions"
    " -fno-defer-pop -fno-strict-overflow -fno-omit-frame-pointer -mabi=aapcs -fno-pic",
    "softfp": "-Os -std=gnu11 -mfloat-abi=softfp -funsigned-char -fomit-frame-pointer -fmessage-length=0"
    " -fno-delete-null-pointer-checks -g1",
    "GNU mode": "-O2 -std=gnu2x",
}
CORES = {
    "cortex-m4f": ("cortex-m4f", MACHINE_FLAGS["cortex-m4f"]),
    "cortex-m7": ("cortex-m4f", ["-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"]),
    "cortex-m33": ("cortex-m4f", ["-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"]),
    "cortex-m0plus": ("cortex-m0plus", MACHINE_FLAGS["cortex-m0plus"]),
}
COMBINED = [("cortex-m4f", setting) for setting in SETTINGS]
# These take the same assembly.
COMBINED += [("cortex-m7", "O0"), ("cortex-m33", "frame pointer")]
COMBINED += [("cortex-m0plus", "O0"), ("cortex-m0plus", "O3")]


@dataclass(frozen=True)
class Net:
    """An application that trains a network, its sources, and what it says on this computer."""

    sources: list[Path]
    includes: list[Path]
    inputs: bytes
    targets: bytes
    checks: list[int]

    def trained(self, core: EmulatedCore, control: int = 0) -> tuple[int, list[int]]:
        """Status and checks of a core that is built from the sources."""
        checks = core.place(4 * STEPS)
        status, _ = core.call("train_steps", core.place(self.inputs), core.place(self.targets), STEPS, checks, control)
        return status, np.frombuffer(core.machine.read_memory(checks, 4 * STEPS), np.uint32).tolist()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    folder = tmp_path_factory.mktemp("net")
    graph = training_step(MODEL, BATCH).graph(load_board("nrf52840"))
    write_library("net", graph, store_all_schedule(graph), {}, initial_state(MODEL, 0, BATCH), folder)
    needed = {node.operation.op for node in graph.nodes if node.operation}
    library = [path for path in SOURCES if path.stem in needed or path.stem not in {*OPERATORS, "operators"}]
    sources = [NATIVE / "train_steps.c", folder / "src/net.c", folder / "src/net_data.S", *library]
    includes = [folder / "src"]
    data = training_data(MODEL, STEPS, 0, BATCH)
    inputs, targets = data["input"].tobytes(), data["target"].tobytes()
    options = ("-O1", "-shared", "-fPIC", *(f"-I{include}" for include in includes))
    host = c.CDLL(str(compile_c(folder / "host.so", sources, *options)))
    checks = (c.c_uint32 * STEPS)()
    assert host.train_steps(inputs, targets, STEPS, checks, 0) == Status.OK
    assert len(set(checks)) == STEPS
    return Net(sources, includes, inputs, targets, list(checks))


MODELS = {"cortex-m7": arm_const.UC_CPU_ARM_CORTEX_M7, "cortex-m33": arm_const.UC_CPU_ARM_CORTEX_M33}


def model_of(core: str) -> AbstractContextManager[object]:
    """In place of the M4F, whose instructions the M7 and the M33 have as well."""
    return mock.patch.dict(machine.CPU_MODELS, {"cortex-m4f": MODELS.get(core, MODELS["cortex-m7"])})


def machine_flags(core: str, options: list[str]) -> list[str]:
    """What the options do not say otherwise: of two, the linker would choose a C library for neither."""
    said = {option.partition("=")[0] for option in options}
    return [flag for flag in CORES[core][1] if flag.partition("=")[0] not in said]


@pytest.mark.parametrize(("core", "setting"), COMBINED)
def test_three_training_steps_have_equal_bits_however_they_are_compiled(
    core: str, setting: str, net: Net, tmp_path: Path
) -> None:
    emulated = CORES[core][0]
    options = [*SETTINGS[setting].split(), FUSED]
    with mock.patch.dict(MACHINE_FLAGS, {emulated: machine_flags(core, options)}), model_of(core):
        options = [*WARNINGS, *options]
        built = EmulatedCore(emulated, net.sources, ["train_steps"], tmp_path, net.includes, options=options)
    assert net.trained(built) == (Status.OK, net.checks)


def test_rates_do_not_depend_on_the_type_of_constants(tmp_path: Path) -> None:
    """STM32duino takes constants with a point for floats."""
    rates = []
    for name, options in {"double": (), "float": ("-fsingle-precision-constant",)}.items():
        sources = [FIRMWARE / "src" / name for name in ("library/rates.c", "kernels/share.c")]
        built = c.CDLL(str(compile_c(tmp_path / f"{name}.so", sources, "-O2", "-shared", "-fPIC", *options)))
        built.poet_cosine.restype, built.poet_cosine.argtypes = c.c_float, (c.c_float, *[c.c_uint32] * 3)
        rates.append([built.poet_cosine(0.05, step, 20, 1000) for step in range(1000)])
    assert rates[0] == rates[1]


def compiled(compiler: list[str], sources: list[Path], folder: Path, *options: str) -> list[Path]:
    """Objects of all sources."""
    command = [*compiler, *WARNINGS, f"-I{FIRMWARE / 'include'}", *options, "-c", *map(str, sources)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return sorted(folder.glob("*.o"))


@pytest.mark.parametrize(
    ("core", "options"),
    [
        ("cortex-m4f", "-std=c99 -O0 -fno-omit-frame-pointer"),
        ("cortex-m33", "-std=gnu11 -Os"),
        ("cortex-m0plus", "-std=gnu11 -Os"),
    ],
)
def test_every_file_compiles_and_fuses_nothing(core: str, options: str, tmp_path: Path) -> None:
    objects = compiled(["arm-none-eabi-gcc", *CORES[core][1]], SOURCES, tmp_path, *options.split(), FUSED)
    assert len(objects) == len(SOURCES)
    command = ["arm-none-eabi-objdump", "--disassemble", *map(str, objects)]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"\tvfn?m[as]\.f", code)
    assert ("\tvmul.f32" in code) == (core != "cortex-m0plus")
    assert ("<poet_kernel_singles>:" in code) == (core != "cortex-m0plus")  # assembly


def clang(core: str, *options: str) -> list[str]:
    """With the headers of the other compiler's C library."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    search = ["arm-none-eabi-gcc", "-E", "-v", "-x", "c", "/dev/null"]
    said = subprocess.run(search, capture_output=True, text=True, check=True).stderr
    folders = re.findall(r"^ (/.*/include)$", said, re.MULTILINE)
    system = [f"-isystem{folder}" for folder in folders if (Path(folder) / "string.h").is_file()]
    assert system
    return ["clang", "--target=arm-none-eabi", *CORES[core][1], "-nostdlibinc", *system, *options]


@pytest.mark.parametrize(
    "options", ["-O0", "-O2 -fomit-frame-pointer -DPOET_EVERY_REGISTER=1"], ids=lambda options: options[:3]
)
def test_clang_computes_the_same_bits(options: str, net: Net, tmp_path: Path) -> None:
    includes = [f"-I{include}" for include in net.includes]
    objects = compiled(clang("cortex-m4f", *options.split()), net.sources, tmp_path, *includes)
    core = EmulatedCore("cortex-m4f", objects, ["train_steps"], tmp_path / "image")
    assert net.trained(core) == (Status.OK, net.checks)


def test_a_register_that_the_build_keeps_for_itself(net: Net, tmp_path: Path) -> None:
    """Some assembly needs every one; C computes the same."""
    options = [*WARNINGS, "-O2", "-ffixed-r9", "-DPOET_EVERY_REGISTER=0"]
    core = EmulatedCore("cortex-m4f", net.sources, ["train_steps"], tmp_path, net.includes, options=options)
    assert net.trained(core) == (Status.OK, net.checks)


@pytest.mark.parametrize(
    "option",
    [
        *("-Ofast", "-ffast-math", "-funsafe-math-optimizations"),
        *("-fassociative-math -fno-signed-zeros -fno-trapping-math", "-freciprocal-math", "-ffinite-math-only"),
        "-fno-signed-zeros",
    ],
)
def test_a_flag_that_changes_bits_is_refused_by_name(option: str) -> None:
    command = ["arm-none-eabi-gcc", *option.split(), "-fsyntax-only", f"-I{FIRMWARE / 'include'}"]
    run = subprocess.run([*command, str(ARITHMETIC)], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    (error,) = [line for line in run.stderr.splitlines() if "error: #error" in line]
    assert option.split()[0] in error


@pytest.mark.parametrize(
    ("options", "exact"),
    [
        ("-O0", 1),
        ("-O3", 1),
        ("-O2 -ffp-contract=fast", 0),
        ("-O2 -funsafe-math-optimizations", 0),
        ("-O2 -fassociative-math -fno-signed-zeros -fno-trapping-math", 0),
        ("-O2 -freciprocal-math", 0),
        ("-O2 -fno-signed-zeros", 0),
    ],
)
def test_what_clang_has_no_macro_for_is_computed(options: str, exact: int, tmp_path: Path) -> None:
    """For the M7: clang fuses nothing for the M4F."""
    (built,) = compiled(clang("cortex-m7", *options.split()), [ARITHMETIC], tmp_path)
    with model_of("cortex-m7"):
        core = EmulatedCore("cortex-m4f", [built], ["poet_arithmetic_is_ieee"], tmp_path / "image")
    assert core.call("poet_arithmetic_is_ieee")[0] == exact


def test_a_unit_that_is_set_otherwise_does_not_train(net: Net, tmp_path: Path) -> None:
    """Subnormals to zero, as a program linked with -Ofast begins; rounding up, down, to zero. Not: its NaNs alone."""
    core = EmulatedCore("cortex-m4f", net.sources, ["train_steps"], tmp_path, net.includes)
    for control in (1 << 24, 1 << 22, 2 << 22, 3 << 22):
        assert net.trained(core, control)[0] == Status.E_ARITHMETIC
    assert net.trained(core, 1 << 25) == (Status.OK, net.checks)


@pytest.mark.parametrize(
    ("compiler", "file", "words"),
    [
        ("arm-none-eabi-gcc -mbig-endian", FIRMWARE / "src/library/poet.c", "little-endian"),
        pytest.param(
            "gcc -mfpmath=387",
            FIRMWARE / "src/kernels/arithmetic.c",
            "-mfpmath=sse",
            marks=pytest.mark.skipif(platform.machine() != "x86_64", reason="no x87"),
        ),
    ],
)
def test_a_machine_that_cannot_give_the_bits_is_refused(compiler: str, file: Path, words: str) -> None:
    command = [*compiler.split(), "-fsyntax-only", f"-I{FIRMWARE / 'include'}", str(file)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert words in run.stderr
