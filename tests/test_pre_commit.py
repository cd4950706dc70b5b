# SPDX-License-Identifier: Apache-2.0
"""The hooks of .pre-commit-config.yaml are `make lint`, no more and no less, and fetch nothing."""

from __future__ import annotations

import subprocess
from typing import Any

from pre_commit.clientlib import load_config

from tests.support import ROOT


def _hooks() -> list[dict[str, Any]]:
    """Hooks of the file, which pre-commit itself reads and checks."""
    repositories = load_config(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    return list(repositories[0]["hooks"])


def _commands(make: list[str]) -> list[str]:
    """Command lines of the checks that a call of make would run, without those that set up `.venv`."""
    dry = [make[0], "--dry-run", "--old-file=.venv/.set-up-tests", "VENV=.venv", *make[1:]]
    run = subprocess.run(dry, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if line]


def test_hooks_run_the_commands_of_make_lint() -> None:
    lint = _commands(["make", "--no-print-directory", "lint"])
    hooks = [command for hook in _hooks() for command in _commands(hook["entry"].split())]
    assert any("mypy" in command for command in lint)
    assert hooks == lint


def test_hooks_use_the_tools_of_the_virtual_environment() -> None:
    for hook in _hooks():
        assert (hook["language"], hook["pass_filenames"]) in {("system", False), ("unsupported", False)}
        assert all(command.startswith(".venv/bin/") for command in _commands(hook["entry"].split()))
