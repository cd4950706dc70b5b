# SPDX-License-Identifier: Apache-2.0
"""The program on the page for programs of your own: it compiles without a warning, and drops no error."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

from tests.support import ROOT

# What `poet-plan --library net` writes, as far as the page's program sees it, and what is the reader's own.
NET = """
#include <poet/poet.h>
#include <string.h>
#define NET_RAM_BYTES 64u
#define NET_BATCH 2u
#define NET_INPUT_BYTES 4u
#define NET_TARGET_BYTES 4u
extern "C" const poet_network net;
int may_format();
const void *sample(uint32_t i);
const void *label(uint32_t i);
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_the_pages_program_compiles_without_a_warning(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "own_application.md").read_text()
    program = page[page.index("    #include <net.h>") :].split("\n\n[", 1)[0]
    (tmp_path / "net.h").write_text(NET)
    (tmp_path / "main.cpp").write_text(textwrap.dedent(program))
    includes = [f"-I{path}" for path in (tmp_path, ROOT / "firmware/include", ROOT / "firmware/boards/include")]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *includes, tmp_path / "main.cpp"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
