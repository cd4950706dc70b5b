# SPDX-License-Identifier: Apache-2.0
"""The core as an Arduino library: in Arduino's layout, with the flags of its cores, and linked into a sketch."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from poet_harness.arduino_library import SERVING, write_arduino_library
from poet_harness.cli import main as harness
from poet_planner.cli import main as planner
from poet_profiles.errors import UserError
from poet_profiles.firmware.arduino import library_properties
from poet_profiles.firmware.operators import OPERATORS

from benchmarks.firmware.watch import EXAMPLE, Project
from tests.support import ROOT
from tests.support.firmware.arduino_core import BOARD, C_FLAGS, write_core
from tests.support.programs import exit_code

FIRMWARE = ROOT / "firmware"
# Arduino's library specification, "library.properties file format", and its list of categories.
REQUIRED = ("name", "version", "author", "maintainer", "sentence", "paragraph", "category", "url", "architectures")
CATEGORIES = ("Display", "Communication", "Signal Input/Output", "Sensors", "Device Control", "Timing", "Data Storage")
CATEGORIES = (*CATEGORIES, "Data Processing", "Other")
needs_compiler = pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="no arm-none-eabi-gcc")


def said_by(program: Any, *arguments: str) -> None:
    assert exit_code(program, "poet", *arguments) == 0


def properties(library: Path) -> dict[str, str]:
    lines = (library / "library.properties").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a user makes them: the core by one command, and the watch's network by another."""
    folder = tmp_path_factory.mktemp("arduino") / "libraries"
    said_by(harness, "arduino", str(folder))
    return folder


def test_the_library_has_what_arduino_asks_for(libraries: Path) -> None:
    found = properties(libraries / "poet")
    assert all(found[key] for key in REQUIRED)
    assert re.fullmatch(r"[A-Za-z][\w .-]{0,62}", found["name"]), found["name"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    assert found["category"] in CATEGORIES
    assert found["dot_a_linkage"] == "true"
    assert (libraries / "poet" / "src" / found["includes"]).is_file()
    assert (libraries / "poet/examples/Watch/Watch.ino").is_file()


def test_the_library_has_the_cores_files_and_no_others(libraries: Path) -> None:
    """Those that PlatformIO builds and what serves a host, each once: Arduino compiles whatever lies there."""
    chosen = json.loads((FIRMWARE / "library.json").read_text())["build"]["srcFilter"]
    parts = [FIRMWARE / "src" / name for name in re.findall(r"\+<(\w+)/>", "".join(chosen))]
    assert len(parts) == len(chosen) - 1, chosen
    parts += [FIRMWARE / name for name in SERVING]
    core = {path.read_bytes() for part in parts for path in part.iterdir() if path.suffix in (".c", ".h", ".cpp")}
    public = {path.read_bytes() for path in (FIRMWARE / "include").rglob("*.*")}
    shipped = [path.read_bytes() for path in (libraries / "poet/src").rglob("*.*") if path.name != "identity.h"]
    assert len(shipped) == len(set(shipped))
    assert set(shipped) == core | public


def test_an_earlier_version_is_replaced_and_nothing_else(libraries: Path, tmp_path: Path) -> None:
    earlier = write_arduino_library(tmp_path)
    (earlier / "src" / "ops" / "former.c").write_text("int former;\n")
    write_arduino_library(tmp_path)
    names = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*"))]
    assert names == [path.relative_to(libraries) for path in sorted(libraries.rglob("*"))]
    (earlier / "library.properties").write_text("name=poet\nauthor=Edgar Allan\n")
    with pytest.raises(UserError, match="something else than poet's library; move it"):
        write_arduino_library(tmp_path)
    assert len(properties(earlier)) == 2


def test_a_manifests_line_is_one_line() -> None:
    manifest = {"name": "net", "version": "1.0.0", "headers": "net.h", "description": "of mine\r\nname=poet\x85"}
    text = library_properties(manifest, "poet")
    assert text.splitlines()[4] == "sentence=of mine name=poet"
    assert text.count("\nname=") == 0


@needs_compiler
def test_every_file_compiles_in_the_librarys_own_layout(libraries: Path, tmp_path: Path) -> None:
    source = libraries / "poet" / "src"
    files = sorted(source.rglob("*.c"))
    command = ["arm-none-eabi-gcc", "-c", *C_FLAGS.split(), "-Werror", f"-I{source}", *map(str, files)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.o"))) == len(files) > 150


# Arduino's functions on this computer, for a wearer who makes the gesture that the sketch asks for.
HOST = """
#include <stdint.h>
#include <string.h>
#include <gesture.h>
static int made;
static bool asked = true;
static const char *said;
struct {
    void begin(long) {}
    void println(const char *name)
    {
        said = name;
        for (int k = 0; asked && k < 3; k++) {
            made = strcmp(name, gesture_classes[k]) == 0 ? k : made;
        }
    }
} Serial;
static void delay(int) {}
static int analogRead(uint32_t axis) { return axis % 3 == uint32_t(made) ? 900 : 100; }
#include "Gesture.ino"
int main()
{
    setup();
    asked = false;
    for (made = 2; made >= 0; made--) {
        said = "";
        loop();
        if (strcmp(said, gesture_classes[made]) != 0) {
            return 1 + made;
        }
    }
    return poet_steps(&learner) == 1000 ? 0 : 4;
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_the_smallest_sketch_learns_gestures(libraries: Path, tmp_path: Path) -> None:
    """On this computer: after five of each it names all three."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FIRMWARE / "examples" / "gesture")
        model = ("--model", "gesture:network", "--optimizer", "adam", "--library", "gesture", "--time-limit", "1")
        said_by(planner, "--profile", "nrf52840", *model, "--out", str(tmp_path / "plan"))
    sys.modules.pop("gesture")
    core, net = libraries / "poet/src", tmp_path / "plan/gesture/src"
    needed = set(re.findall(r"POET_OPERATOR_ROW\(\w+, (\w+)\)", (net / "gesture.c").read_text()))
    own = [path for path in core.rglob("*.c") if path.parent.name not in [Path(name).name for name in SERVING]]
    sources = [path for path in own if path.stem in needed or path.stem not in {*OPERATORS, "operators"}]
    (tmp_path / "main.cpp").write_text(HOST)
    includes = [f"-I{folder}" for folder in (core, net, libraries / "poet/examples/Gesture")]
    for command in (
        ["gcc", "-c", "-O1", "-std=gnu11", *includes, *map(str, sources), str(net / "gesture.c")],
        ["gcc", "-c", *includes, str(net / "gesture_data.S")],
        ["g++", "-c", "-Wall", "-Wextra", "-Werror", *includes, "main.cpp"],
    ):
        subprocess.run(command, cwd=tmp_path, check=True)
    objects = [path.name for path in tmp_path.glob("*.o")]
    subprocess.run(["g++", *objects, "-lm", "-o", "sketch"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "sketch")], check=False).returncode == 0


@pytest.fixture(scope="module")
def sketch(libraries: Path) -> Iterator[Path]:
    """The watch, with its recordings beside it and its network among the libraries."""
    if shutil.which("arduino-builder") is None or shutil.which("arduino-ctags") is None:
        pytest.skip("no arduino-builder and arduino-ctags: they are packages of Debian")
    pytest.importorskip("seglearn")
    folder = libraries.parent / "Watch"
    shutil.copytree(libraries / "poet/examples/Watch", folder)
    plan = libraries.parent / "plan"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        (folder / "recordings.c").write_text(importlib.import_module("watch").recordings_c(9))
        said_by(planner, *Project(folder, "nrf52840").planning[:-1], str(plan), "--time-limit", "1")
    sys.modules.pop("watch")
    shutil.copytree(plan / "watch_net", libraries / "watch_net")
    write_core(libraries.parent / "hardware")
    yield folder
    shutil.rmtree(libraries / "watch_net")


def linked(sketch: Path, libraries: Path, build: Path) -> Path:
    """The sketch's image."""
    build.mkdir()
    command = ["arduino-builder", "-compile", "-warnings", "all", "-fqbn", BOARD, "-build-path", str(build)]
    command += ["-hardware", str(libraries.parent / "hardware"), "-libraries", str(libraries), "-tools", str(build)]
    done = subprocess.run(
        [*command, str(sketch / "Watch.ino")],
        env={**os.environ, "HOME": str(build)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr, done.stderr
    return build / "Watch.ino.elf"


def flash_bytes(image: Path) -> int:
    with image.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(one.data_size for one in sections if one["sh_flags"] & 2 and one["sh_type"] != "SHT_NOBITS")


def names_in(image: Path) -> set[str]:
    with image.open("rb") as file:
        return {symbol.name for symbol in ELFFile(file).get_section_by_name(".symtab").iter_symbols()}


@needs_compiler
def test_the_watch_links_as_a_sketch(sketch: Path, libraries: Path, tmp_path: Path) -> None:
    """Its kernels are those that its plan names, as the archive gives them; without one all are linked."""
    image = linked(sketch, libraries, tmp_path / "archive")
    named = set(re.findall(r"POET_KERNELS\((\w+)\)", (libraries / "watch_net/src/watch_net.c").read_text()))
    every = {path.stem for path in (libraries / "poet/src/kernels").glob("kernel_*.c")}
    kernels = {name.removeprefix("poet_") for name in names_in(image)} & every
    assert kernels == {f"kernel_{name}" for name in named} & every
    assert kernels and kernels < every
    apart = tmp_path / "libraries"
    shutil.copytree(libraries, apart)
    manifest = apart / "poet/library.properties"
    manifest.write_text(manifest.read_text().replace("dot_a_linkage=true\n", ""))
    (tmp_path / "hardware").symlink_to(libraries.parent / "hardware")
    assert flash_bytes(image) < flash_bytes(linked(sketch, apart, tmp_path / "objects"))
