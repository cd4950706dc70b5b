# SPDX-License-Identifier: Apache-2.0
"""Operators in place, for methods that do not know them: what a node takes over is gone after it."""

from __future__ import annotations

from collections.abc import Iterable

from poet_planner.solve.instance import Problem, inputs_of


def remade(problem: Problem, events: Iterable[int]) -> list[int]:
    """``events`` with all that a node takes over made again before the node is computed again, if it was not.

    The methods' papers know no operators in place.
    """
    n = len(problem.node_time)
    gone: set[int] = set()
    made: list[int] = []

    def compute(j: int) -> None:
        taken = {int(v) for v in inputs_of(problem, j) if problem.taken[v]}
        for v in sorted(taken & gone):
            compute(int(problem.producer[v]))
        made.append(j)
        gone.difference_update(range(problem.output_start[j], problem.output_start[j + 1]))
        gone.update(taken)

    for event in events:
        if event < n:
            compute(event)
        else:
            made.append(event)
            gone.discard(event - n)
    return made
