# SPDX-License-Identifier: Apache-2.0
"""The project's history, for rules that hold from a commit on."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT


class History:
    """What git says about a folder; a test is skipped where git cannot say it."""

    def __init__(self, folder: Path = ROOT) -> None:
        self.folder = folder
        try:
            shallow = self.lines("rev-parse", "--is-shallow-repository")
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("no clone of git, or no git")
        if shallow == ["true"]:
            pytest.skip("a shallow clone has no history")

    def lines(self, *command: str) -> list[str]:
        """What a command of git prints."""
        git = ["git", "-c", "core.quotePath=off", *command]
        return subprocess.run(git, cwd=self.folder, capture_output=True, text=True, check=True).stdout.splitlines()

    def text(self, file: str) -> str:
        """A file as `COMMIT:PATH`."""
        return "\n".join(self.lines("show", file))

    def first(self, *what: str) -> list[str]:
        """The oldest commit that `git log` finds: one hash, or none."""
        return self.lines("log", "--format=%H", *what)[-1:]

    def after(self, first: list[str], form: str, *what: str) -> list[str]:
        """One line for each commit that has `first` among its ancestors."""
        return [
            line
            for commit in first
            for line in self.lines("log", f"--format={form}", "--ancestry-path", f"{commit}..HEAD", *what)
        ]


def repository(folder: Path) -> History:
    """A new one for a test, without the settings of whoever runs it."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", folder], check=True)
    for name, value in (("user.name", "Tester"), ("user.email", "tester@example.org"), ("commit.gpgSign", "false")):
        subprocess.run(["git", "config", name, value], cwd=folder, check=True)
    return History(folder)
