# SPDX-License-Identifier: Apache-2.0
"""The two programs, called in this process."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

Said = pytest.CaptureFixture[str]


def poet_plan(*arguments: object) -> int:
    """The exit code of `poet-plan`."""
    from poet_planner.cli import main

    return exit_code(main, "poet-plan", *arguments)


def poet_harness(*arguments: object, typed: str = "") -> int:
    """The exit code of `poet-harness`, where somebody types this."""
    from poet_harness.cli import main

    return exit_code(main, "poet-harness", *arguments, typed=typed)


def exit_code(main: Callable[[], None], *words: object, typed: str = "") -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(word) for word in words])
        patch.setattr(sys, "stdin", io.StringIO(typed))
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0)
    return 0
