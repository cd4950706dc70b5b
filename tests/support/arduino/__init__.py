# SPDX-License-Identifier: Apache-2.0
"""Doubles of Arduino cores, on this computer or in QEMU."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT

HERE = Path(__file__).parent
SKETCH = ROOT / "firmware" / "examples" / "board" / "Board.ino"
# The same with the 8 MB of QEMU's `virt` that stand for PSRAM.
SLOW_MEMORY = "#include <PoetMemory.h>\n" + SKETCH.read_text().replace(
    "Serial);\n",
    """Serial);
    PoetMemory::begin(reinterpret_cast<void *>(0x80400000u), 8u << 20);
    PoetBoard::useStorage(PoetMemory::open);
""",
)
BOTH = "-Os -g1 -ffunction-sections -fdata-sections -Wall -Wextra -Werror -Wno-unused-parameter"
CXX = "-fno-exceptions -fno-rtti -fno-threadsafe-statics"


@dataclass(frozen=True)
class Core:
    """How a core's platform.txt compiles, and the machine of QEMU that runs the sketch."""

    prefix: str
    machine: str
    standards: tuple[str, str]
    folder: str
    qemu: tuple[str, ...] = ()
    linking: str = ""


RISCV = "-misa-spec=2.2 -mabi={} --specs=picolibc.specs -DF_CPU=160000000UL"
VIRT = ("qemu-system-riscv32", "-machine", "virt", "-bios", "none", "-m", "16M")
ARM = "-mthumb --specs=nano.specs -DF_CPU=100000000UL"
CORES = {
    "host": Core("", "-DF_CPU=1000000000UL", ("gnu17", "gnu++14"), "host"),
    # The compiler has no library for rv32imc.
    "rv32imc": Core(
        "riscv64-unknown-elf-", "-march=rv32imc " + RISCV.format("ilp32"), ("gnu17", "gnu++17"), "riscv", VIRT,
        "-march=rv32im " + RISCV.format("ilp32"),
    ),
    "rv32imafc": Core(
        "riscv64-unknown-elf-", "-march=rv32imafc " + RISCV.format("ilp32f"), ("gnu17", "gnu++17"), "riscv", VIRT
    ),
    "m7": Core(
        "arm-none-eabi-", f"-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16 {ARM}", ("gnu11", "gnu++17"), "mps2",
        ("qemu-system-arm", "-machine", "mps2-an500"),
    ),
    "m4f": Core(
        "arm-none-eabi-", f"-mcpu=cortex-m4 -mfloat-abi=softfp -mfpu=fpv4-sp-d16 {ARM}", ("gnu11", "gnu++14"), "mps2",
        ("qemu-system-arm", "-machine", "mps2-an386"),
    ),
}  # fmt: skip


def built(core: Core, library: Path, folder: Path, sketch: str = SKETCH.read_text(), flags: str = "") -> Path:
    """The sketch's image, of the library as an archive."""
    objects = folder / "objects"
    objects.mkdir(parents=True)
    options = [*f"{BOTH} {core.machine} {flags}".split(), f"-I{library / 'src'}", f"-I{HERE}"]
    c, cxx = (f"{core.prefix}gcc", f"-std={core.standards[0]}"), (f"{core.prefix}g++", f"-std={core.standards[1]}")
    sources = sorted((library / "src").rglob("*.c"))
    subprocess.run([*c, *options, "-c", *sources], cwd=objects, check=True)
    (folder / "sketch.cpp").write_text("#include <Arduino.h>\n" + sketch)
    for source in (*(library / "src").glob("*.cpp"), folder / "sketch.cpp", HERE / core.folder / "core.cpp"):
        into = objects if source.parent == library / "src" else folder
        subprocess.run([*cxx, *CXX.split(), *options, "-c", source], cwd=into, check=True)
    archive = folder / "poet.a"
    subprocess.run([f"{core.prefix}ar", "rcs", archive, *sorted(objects.glob("*.o"))], check=True)
    script = HERE / core.folder / "link.ld"
    link: list[str | Path] = ["-nostartfiles", "-T", script, "-Wl,--no-warn-rwx-segments"] if script.is_file() else []
    link += ["--specs=nosys.specs"] if core.folder == "mps2" else []
    machine, driver = (core.linking or core.machine).split(), "gcc" if script.is_file() else "g++"
    command = [f"{core.prefix}{driver}", *machine, *sorted(folder.glob("*.o")), archive, "-Wl,--gc-sections", *link]
    subprocess.run([*command, "-lm", "-o", folder / "sketch"], check=True)
    return folder / "sketch"


@contextmanager
def running(core: Core, image: Path, lossy: int | None = None, counted: bool = False) -> Iterator[str]:
    """The name of its serial port.

    With ``counted`` time is that of instructions, four nanoseconds each.
    """
    clock = ["-icount", "shift=2,sleep=off"] if counted else []
    qemu = [*core.qemu, "-nographic", "-monitor", "none", "-serial", "pty", *clock, "-kernel", str(image)]
    environment = os.environ | ({"LOSSY": str(lossy)} if lossy else {})
    program = subprocess.Popen(
        qemu if core.qemu else [str(image)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert program.stdout is not None
        for line in program.stdout:
            if found := re.search(r"/dev/\S+", line):
                yield found[0]
                break
        else:
            raise AssertionError("it ended")
    finally:
        program.kill()
        program.wait()
