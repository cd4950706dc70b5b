# SPDX-License-Identifier: Apache-2.0
"""What an evaluation takes for a schedule, however long, and what not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from poet_planner.solve.instance import Ints, build_problem
from poet_planner.solve.relaxation.event_points import overflowing
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.crossover import cross
from poet_planner.solve.search.evaluation import capacity, new_workspace
from poet_planner.solve.search.incumbent import evaluated
from poet_profiles.graph import Graph, Node, PageCost, Value

from tests.support.graphs.chains import chain

PAGE = PageCost(1.0, 1.0, 1.0, 1.0)


def in_three_words(depth: int) -> Ints:
    """The chain forwards and back, everything computed anew for each node of the way back."""
    again = (k for top in range(depth - 1, -1, -1) for k in [*range(top + 1), 2 * depth - 1 - top])
    return np.array([*range(depth), *again], dtype=np.int64)


def test_a_sequence_of_more_events_than_a_search_keeps_is_measured_all_the_same() -> None:
    depth = 110
    problem = build_problem(chain(depth), 12, None)
    events = in_three_words(depth)
    # The way back begins with the end of the chain, which is there still.
    needed = len(events) - depth
    assert needed > capacity(problem)
    found = evaluated(problem, events)
    assert found is not None
    assert (len(found.events), found.energy, found.peak) == (needed, needed, 12)
    assert len(overflowing(problem, np.arange(2 * depth), events)) == 0
    assert len(overflowing(replace(problem, budget=8), np.arange(2 * depth), events)) > 0
    assert not Annealer(problem, 0).adopt(events)


def once() -> Graph:
    """x is computed once only, and two orders of x and y are possible; d needs x again after c."""
    return Graph(
        "once",
        (
            Node("x", 1.0, 0.0, (Value("x", 4, PAGE),), recomputable=False),
            Node("y", 1.0, 1.0, (Value("y", 4),)),
            Node("c", 1.0, 1.0, (Value("c", 4),), ("x", "y")),
            Node("d", 1.0, 1.0, (Value("d", 4),), ("x", "c")),
        ),
    )


def test_what_computes_a_node_twice_that_can_be_computed_once_is_no_schedule() -> None:
    problem = build_problem(once(), 16, None)
    x, y, c, d, page_in = 0, 1, 2, 3, 4
    one, other = (np.array([*first, c, page_in, d], dtype=np.int64) for first in ([x, y], [y, x]))
    assert evaluated(problem, one) is not None
    assert evaluated(problem, np.array([x, y, x, c, page_in, d], dtype=np.int64)) is None
    # Cut after y, the first and then the second have x twice, both of them needed.
    work = new_workspace(problem, np.ones(1, dtype=np.uint64))
    child = cross(problem, one, other, 0.0, 0.0, work)
    assert child is None or list(child).count(x) == 1


@pytest.mark.parametrize("times", [(0.3, 0.2, 0.1), (0.1, 0.2, 0.3)])
def test_the_deadline_of_a_plan_is_met_by_that_plan(times: tuple[float, ...]) -> None:
    """Whichever way the times are added up."""
    nodes = tuple(
        Node(f"n{k}", time_s, 1.0, (Value(f"n{k}", 4),), (f"n{k - 1}",) if k else ()) for k, time_s in enumerate(times)
    )
    for deadline_s in (sum(times), sum(reversed(times))):
        problem = build_problem(Graph("in time", nodes), 100, deadline_s)
        found = evaluated(problem, np.arange(len(times)))
        assert found is not None
        assert found.time <= problem.deadline
