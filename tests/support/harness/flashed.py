# SPDX-License-Identifier: Apache-2.0
"""The programs' command lines called in this process, and boards flashed with a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import Result
from poet_harness.cli import app as harness
from typer import Typer
from typer.testing import CliRunner


def called(program: Typer, *arguments: object) -> Result:
    done = CliRunner().invoke(program, [*map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    return done


def flash(builds: Path, plan: Path, *boards: Sequence[str]) -> None:
    """Build a plan's image for each board, of which options tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        for board in boards:
            called(harness, "flash", *board, "--plan", plan)
