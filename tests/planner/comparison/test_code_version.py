# SPDX-License-Identifier: Apache-2.0
"""What plans is told apart: in Python and in C."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

COUNTED = ["solve/starts.py", "solve/native/evaluation.c", "solve/native/engine.h", "schedule/verify.py"]
NOT_COUNTED = ["report/summary.py", "solve/native/engine-0.so", "solve/__pycache__/starts.cpython-311.pyc"]


def version_in(folder: Path) -> str:
    code = "from poet_planner.comparison.code_version import code_version; print(code_version())"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("name", "counts"), [*((name, True) for name in COUNTED), *((name, False) for name in NOT_COUNTED)]
)
def test_a_changed_source_is_another_version(name: str, counts: bool, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "planner" / "poet_planner", tmp_path / "poet_planner")
    before = version_in(tmp_path)
    changed = tmp_path / "poet_planner" / name
    changed.parent.mkdir(exist_ok=True)
    with changed.open("a") as file:
        file.write("\n")
    assert (version_in(tmp_path) != before) == counts
