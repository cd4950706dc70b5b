# SPDX-License-Identifier: Apache-2.0
"""What a solver that fails costs: the bound, or some of it, and never the plan."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from poet_profiles.errors import UserError

from poet_planner.solve.statistics import Statistics


class SolverError(UserError):
    """A solver could not be loaded, refused the model, or failed."""


@contextmanager
def told_as(name: str) -> Generator[None, None, None]:
    """Whatever goes wrong in the solver of that name is a `SolverError` of one line."""
    try:
        yield
    except SolverError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise SolverError(f"solver {name} failed: {reason}; `poet-plan solvers` lists others") from error


@contextmanager
def put_down(statistics: Statistics) -> Generator[None, None, None]:
    """Go on after this if a solver fails, and keep its message for the user."""
    try:
        yield
    except SolverError as error:
        statistics.failed(str(error))
