# SPDX-License-Identifier: Apache-2.0
"""Every operator under the address and undefined-behaviour sanitizers, with both ways to multiply."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.firmware.host_operators import FLAGS, SOURCES
from tests.support.levels import examples

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-fno-omit-frame-pointer"]


@pytest.mark.parametrize("defines", [[], ["-DPOET_SOFT_MULTIPLY_ADD"]], ids=["plain", "soft"])
def test_operators_are_clean(tmp_path: Path, defines: list[str]) -> None:
    library = tmp_path / "operators.so"
    sources = [str(source) for source in SOURCES]
    subprocess.run(["gcc", *FLAGS, *SANITIZERS, *defines, "-shared", "-fPIC", *sources, "-o", str(library)], check=True)
    runtimes = [
        subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    given = {**os.environ, "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    command = [sys.executable, "-m", "tests.support.firmware.sanitized_operators", str(library), str(examples(60))]
    done = subprocess.run(command, cwd=ROOT, env=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
