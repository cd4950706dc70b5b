# SPDX-License-Identifier: Apache-2.0
"""Every public header stands alone, in C and in C++."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.support.firmware.core import FIRMWARE

HEADERS = sorted((FIRMWARE / "include" / "poet").glob("*.h"))


MODES = [("c", "-std=c99"), ("c", "-std=gnu2x"), ("c++", "-std=c++11"), ("c++", "-std=gnu++17"), ("c++", "-std=c++20")]


@pytest.mark.parametrize("language", MODES, ids=str)
def test_each_public_header_compiles_alone(language: tuple[str, str]) -> None:
    """The compiler takes each file by itself, though it is called once for all."""
    warnings = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wundef", "-pedantic", "-Werror")
    assert len(HEADERS) > 15
    command = ["gcc", "-fsyntax-only", *warnings, f"-I{FIRMWARE / 'include'}", "-x", *language, *map(str, HEADERS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_header_declares_has_the_names_of_c() -> None:
    assert not [header.name for header in HEADERS if 'extern "C" {' not in header.read_text()]


@pytest.mark.skipif(shutil.which("clang") is None, reason="needs clang")
@pytest.mark.parametrize(
    ("flags", "exit_code"),
    [("-mfloat-abi=hard -mfpu=none", 1), ("-mfloat-abi=hard -mfpu=fpv4-sp-d16", 0), ("-mfloat-abi=soft", 0)],
)
def test_registers_of_a_unit_that_is_not_named_are_refused(flags: str, exit_code: int) -> None:
    """As `zig cc` (0.17.1) has it for thumb-freestanding-eabihf with a Cortex-M by its name alone."""
    command = ["clang", "--target=arm-none-eabi", "-mcpu=cortex-m4", "-ffreestanding", "-fsyntax-only", *flags.split()]
    done = subprocess.run(
        [*command, str(FIRMWARE / "include/poet/model.h")], capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, done.stderr
    assert ("a unit that the compiler was not told of" in done.stderr) == bool(exit_code)
