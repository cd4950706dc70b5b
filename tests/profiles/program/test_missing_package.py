# SPDX-License-Identifier: Apache-2.0
"""A package that is not there ends a command in one line. (tests/test_demo.py plans a graph file without PyTorch.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from poet_profiles.errors import BAD_INPUT, UserError
from poet_profiles.program.missing_package import missing_packages_named

from tests.support.hidden_package import hiding


def run(hidden: str, folder: Path, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name(program), *map(str, arguments)],
        env={**os.environ, **hiding(hidden, folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("hidden", "program", "arguments", "cure"),
    [
        ("torch", "poet-plan", ["--profile", "m4", "--model", "digits_cnn"], "docs/install.md"),
        ("torch", "poet-agent", [], "docs/install.md"),
        ("pandas", "poet-plan", ["--profile", "m4"], "pip install pandas\n"),
        ("pyomo", "poet-plan", ["solvers"], "pip install pyomo\n"),
        (
            "unicorn",
            "poet-harness",
            ["profile", "--board", "nrf52840", "--emulate"],
            "pip install unicorn capstone pyelftools\n",
        ),
    ],
)
def test_the_line_names_the_package_and_the_cure(
    hidden: str, program: str, arguments: list[str], cure: str, tmp_path: Path
) -> None:
    ended = run(hidden, tmp_path, program, *arguments)
    assert ended.stderr.startswith(f"{program}: {hidden} cannot be imported (No module named '{hidden}")
    assert cure in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.returncode == BAD_INPUT


@pytest.mark.parametrize("name", [None, "poet_planner.costs", "_lzma"])
def test_a_fault_of_poets_or_of_pythons_own_keeps_its_traceback(name: str | None) -> None:
    with pytest.raises(ImportError, match="as it came"), missing_packages_named():
        raise ImportError("as it came", name=name)


def test_a_package_that_is_there_and_cannot_be_loaded_is_named_too() -> None:
    with (
        pytest.raises(UserError, match=r"torch cannot be imported \(libtorch\.so: no such file\)"),
        missing_packages_named(),
    ):
        raise ImportError("libtorch.so: no such file", name="torch._C")
