# SPDX-License-Identifier: Apache-2.0
"""The measured runner still compiles with today's firmware, which the benchmark itself takes too long to show."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.emulated_core import FIRMWARE, HERE
from benchmarks.firmware.runner_overhead import plain_plan


def test_the_program_around_the_runner_is_good_c(tmp_path: Path) -> None:
    source = HERE / "runner_overhead.c"
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{FIRMWARE / 'include'}"]
    subprocess.run(["cc", *flags, f"-I{plain_plan(tmp_path)}", str(source)], check=True)
