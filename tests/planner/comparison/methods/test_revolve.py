# SPDX-License-Identifier: Apache-2.0
"""revolve: its table, the recursion that it solves, and what the schedules compute."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from poet_planner.comparison.methods import revolve
from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.linearisation import blocks
from poet_planner.solve import OptimiseOptions

from tests.support.graphs.chains import block_chain

# Griewank and Walther's t(l, s), for s = 1..8.
TABLE = {
    2: (1, 1, 1, 1, 1, 1, 1, 1),
    3: (3, 2, 2, 2, 2, 2, 2, 2),
    4: (6, 4, 3, 3, 3, 3, 3, 3),
    5: (10, 6, 5, 4, 4, 4, 4, 4),
    6: (15, 8, 7, 6, 5, 5, 5, 5),
    8: (28, 14, 11, 10, 9, 8, 7, 7),
    10: (45, 20, 15, 14, 13, 12, 11, 10),
    16: (120, 45, 33, 27, 25, 24, 23, 22),
    32: (496, 140, 93, 75, 68, 60, 55, 54),
    64: (2016, 420, 258, 200, 172, 156, 147, 137),
    100: (4950, 845, 490, 374, 316, 280, 255, 245),
}


@cache
def by_recursion(steps: int, snapshots: int) -> int:
    if steps <= 1:
        return 0
    if snapshots == 1:
        return steps * (steps - 1) // 2
    return min(k + by_recursion(steps - k, snapshots - 1) + by_recursion(k, snapshots) for k in range(1, steps))


def test_the_fewest_advances_are_the_tables_and_the_recursions() -> None:
    assert {steps: tuple(revolve.advances(steps, s) for s in range(1, 9)) for steps in TABLE} == TABLE
    for steps in range(1, 33):
        for snapshots in range(1, 9):
            assert revolve.advances(steps, snapshots) == by_recursion(steps, snapshots)


@pytest.mark.parametrize("depth", [2, 5, 10, 16])
@pytest.mark.parametrize("snapshots", [1, 2, 3, 5, 16])
def test_schedules_advance_as_often_as_the_table_says(depth: int, snapshots: int) -> None:
    """Each block is run once to record it, and once for each advance; it needs no more snapshots than it may take."""
    graph = block_chain(depth)
    instance = Instance(graph, 1 << 40, None, OptimiseOptions())
    chain = blocks(instance)
    assert len(chain.forward) == depth
    events = revolve.order(instance, chain, snapshots)
    runs = sum(times for node, times in Counter(events).items() if graph.nodes[node].id.startswith("w"))
    assert runs == depth + revolve.advances(depth, snapshots)
    found = instance.evaluated(events)
    assert found is not None
    # Snapshots but the start's, which no value stands for; then x or w of two blocks, and a gradient in and out.
    assert found.peak <= 4 * (snapshots - 1 + 4)


def test_few_snapshots_save_ram() -> None:
    instance = Instance(block_chain(16), 1 << 40, None, OptimiseOptions())
    chain = blocks(instance)
    found = [instance.evaluated(revolve.order(instance, chain, snapshots)) for snapshots in (1, 3, 8)]
    peaks = [one.peak for one in found if one is not None]
    assert peaks == sorted(peaks)
    assert len(set(peaks)) == 3
