# SPDX-License-Identifier: Apache-2.0
"""HiGHS beside other uses of HiGHS in one program: what is proven does not depend on them, nor they on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import TypeVar

import highspy
import numpy as np
import pytest
from poet_planner.comparison.methods import poet_ilp
from poet_planner.solve import OptimiseOptions, Parts, optimise
from poet_planner.solve.milp.failure import SolverError
from poet_planner.solve.milp.highs import Lp, LpStatus, silent_highs
from poet_planner.solve.milp.linear_model import LinearModel, Rows
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.time_budget import UNLIMITED
from poet_profiles.schedule import Schedule

from tests.support.graphs.chains import chain

Result = TypeVar("Result")
# What bounds a chain is the relaxation, its LP and its MILP alone.
BY_RELAXATION = Parts(state_space=False, retained_sets=False, background_search=False)


def least_of(cost: float) -> LinearModel:
    """The least of ``cost * (x + 2 y)`` where x + y >= 1.5 and neither is above 1: 2 costs."""
    rows = Rows()
    rows.add([0, 1], [1.0, 1.0], 1.5, np.inf)
    whole = np.zeros(2, dtype=np.bool_)
    return LinearModel.of(np.array([cost, 2 * cost]), 0.0, np.zeros(2), np.ones(2), whole, rows)


def runs(threads: int) -> bool:
    """Whether a program's own run of HiGHS on so many threads succeeds in this thread."""
    own = highspy.Highs()  # type: ignore[no-untyped-call]
    own.setOptionValue("output_flag", False)
    own.setOptionValue("threads", threads)
    own.addVar(0.0, 1.0)
    return bool(own.run() == highspy.HighsStatus.kOk)


def in_new_thread(work: Callable[[], Result]) -> Result:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def planned() -> Schedule:
    return optimise(chain(10), 28, None, OptimiseOptions(time_limit_s=2, capped=False, parts=BY_RELAXATION))


def by_algorithm_1() -> Schedule:
    return poet_ilp.schedule(chain(4), 16, None, OptimiseOptions(time_limit_s=600))


@pytest.mark.parametrize("plan", [planned, by_algorithm_1])
def test_a_run_on_other_threads_before_changes_nothing(plan: Callable[[], Schedule]) -> None:
    alone = in_new_thread(plan)
    beside = in_new_thread(lambda: plan() if runs(threads=2) else None)
    assert alone.bound_j >= sum(node.energy_j for node in chain(4).nodes)
    assert beside == alone


def test_the_bound_that_is_compared_is_that_of_lp_and_milp() -> None:
    """Else the test above could not fail."""
    assert planned().bound_j > 1.01 * sum(node.energy_j for node in chain(10).nodes)


def test_the_users_own_run_behind_ours_succeeds() -> None:
    def ours_then_theirs() -> bool:
        assert Lp(least_of(1.0)).solve(UNLIMITED) is LpStatus.OPTIMAL
        return runs(threads=2)

    assert in_new_thread(ours_then_theirs)


def test_highs_is_silent_before_it_first_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS 1.16 prints its licence as it gets its first callback, which is in the constructor."""
    given, printing = highspy.Highs.enableCallbacks, []

    def enabled(highs: highspy.Highs) -> None:
        printing.append(highs.getOptionValue("output_flag")[1])
        given(highs)

    monkeypatch.setattr(highspy.Highs, "enableCallbacks", enabled)
    silent_highs()
    assert printing == [False]


def test_an_lp_with_later_rows_and_bounds() -> None:
    lp = Lp(least_of(3.0))
    assert lp.solve(UNLIMITED) is LpStatus.OPTIMAL
    assert lp.optimum == pytest.approx(6.0)
    assert lp.point == pytest.approx([1.0, 0.5])
    lp.add_rows([1.0], [1.0], [0, 1], [1], [1.0])
    lp.solve(UNLIMITED)
    assert lp.point == pytest.approx([0.5, 1.0])
    lp.set_bounds(np.zeros(2), np.array([0.25, 1.0]))
    assert lp.solve(UNLIMITED) is LpStatus.INFEASIBLE


def test_a_model_that_highs_refuses_is_told() -> None:
    """It takes a cost of 1e20 for infinite."""
    with pytest.raises(SolverError, match=r"^HiGHS failed \(run\): its model status is .*$"):
        Lp(least_of(1e21)).solve(UNLIMITED)


def test_without_highspy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverError, match=r"^HiGHS cannot be loaded: .*; install highspy again$"):
        Lp(least_of(1.0))
    assert not solver_named("highs").available
    monkeypatch.setitem(sys.modules, "ortools", ModuleType("ortools"))
    with pytest.raises(SolverError, match="beside OR-Tools, which this program has imported"):
        Lp(least_of(1.0))
