# SPDX-License-Identifier: Apache-2.0
"""A short run of every fuzz target; `make -C firmware/fuzz` runs them for long."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.arduino.plans import small_plan
from tests.support.firmware.core import FIRMWARE
from tests.support.levels import examples


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang is not installed: no libFuzzer")
@pytest.mark.parametrize("target", ["frames", "schedule", "pages", "sdcard", "plans"])
def test_no_crash(target: str, build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if target == "plans":
        small_plan().write_files(build / "plan")
        monkeypatch.setenv("POET_PLAN", str(build / "plan/plan.bin"))
    runs = examples(5_000 if target == "plans" else 20_000)
    command = ["make", "-C", str(FIRMWARE / "fuzz"), f"BUILD={build}", f"LIMIT=-runs={runs} -seed=1", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {runs} runs" in done.stderr
