# SPDX-License-Identifier: Apache-2.0
"""Griewank and Walther 2000, Algorithm 799: revolve (ACM Transactions on Mathematical Software 26(1), 19-45).

A chain of l steps is reversed with s snapshots, the state at its start included. To *advance* is to compute a step and
keep its end value; to *record* is to compute it and keep all that its reversal reads. The fewest advances follow a
recursion, by which the snapshots are set. Steps are the blocks of the graph (see `linearisation`) and count alike,
whatever they cost and however large their values are. Of all numbers of snapshots the cheapest that fits counts.
"""

from __future__ import annotations

import math
from functools import cache

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Instance
from poet_planner.comparison.methods.linearisation import Blocks, blocks
from poet_planner.planning.method import Method, Option
from poet_planner.solve import OptimiseOptions


def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The cheapest schedule of revolve that fits.

    Raises
    ------
    UserError
        If each needs more RAM, or more time; or wants to compute a node again that must not be.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    chain = blocks(instance)
    most = len(chain.forward)
    return instance.cheapest("revolve", (order(instance, chain, snapshots) for snapshots in range(most, 0, -1)))


METHOD = Method(
    name="revolve",
    source="Griewank and Walther 2000, ACM TOMS 26(1), Algorithm 799",
    decides="snapshots of a chain of equal steps, and the sweeps between them",
    schedule=schedule,
    recomputes=True,
    takes=(Option.TIME_LIMIT,),
)


@cache
def advances(steps: int, snapshots: int) -> int:
    """The fewest advances that reverse so many steps: r l - C(s + r, r - 1), for the least r with C(s + r, s) >= l."""
    if steps <= 1:
        return 0
    sweeps = 1
    while math.comb(snapshots + sweeps, snapshots) < steps:
        sweeps += 1
    return sweeps * steps - math.comb(snapshots + sweeps, sweeps - 1)


@cache
def next_snapshot(steps: int, snapshots: int) -> int:
    """How many steps to advance to the next snapshot: of the best numbers the largest. There are two steps at least."""
    counts = range(steps - 1, 0, -1)
    return min(counts, key=lambda k: k + advances(steps - k, snapshots - 1) + advances(k, snapshots))


def order(instance: Instance, chain: Blocks, snapshots: int) -> list[int]:
    """The training step with so many snapshots, the network's input included."""
    return _Reversal(instance, chain).events(snapshots)


class _Reversal:
    """The events so far, and what they leave in RAM."""

    def __init__(self, instance: Instance, chain: Blocks) -> None:
        self._instance = instance
        self._chain = chain
        self._events: list[int] = []
        self._visited = 0  # blocks that have been computed once
        self._held: set[int] = set()
        # How many snapshots each value belongs to.
        self._snapshots: list[frozenset[int]] = []

    def events(self, snapshots: int) -> list[int]:
        # Parts still to be reversed, the next one last: the first block, the block after the last, and snapshots. A
        # part that begins at a snapshot of its own ends that snapshot when it comes up.
        parts = [(0, len(self._chain.forward), snapshots, False)]
        while parts:
            first, end, left, ends_snapshot = parts.pop()
            if ends_snapshot:
                self._snapshots.pop()
            if end - first == 1:
                self._reverse(first)
            elif left == 1:
                for block in range(end - 1, first - 1, -1):
                    self._advance(first, block)
                    self._reverse(block)
            else:
                middle = first + next_snapshot(end - first, left)
                self._advance(first, middle)
                self._snapshots.append(self._end_values(middle - 1))
                parts += [(first, middle, left, True), (middle, end, left - 1, False)]
        return self._events

    def _advance(self, first: int, end: int) -> None:
        for block in range(first, end):
            self._compute(block, self._end_values(block))
            self._keep(self._end_values(block))

    def _reverse(self, block: int) -> None:
        """Record a block and run its backward nodes."""
        instance = self._instance
        backward = self._chain.backward[block]
        needed = (v for node in backward for v in instance.inputs[node] if instance.is_forward(instance.producer[v]))
        self._compute(block, dict.fromkeys(needed))
        self._events += backward
        self._keep(frozenset())

    def _compute(self, block: int, wanted: frozenset[int] | dict[int, None]) -> None:
        """Compute what is missing of some values; all of a block when it is computed first."""
        if block == self._visited:
            self._visited += 1
            nodes = self._chain.forward[block]
        else:
            nodes = self._instance.to_make(wanted, self._held | self._instance.empty)
        self._events += nodes
        self._held |= {v for node in nodes for v in self._instance.outputs[node]}

    def _keep(self, values: frozenset[int]) -> None:
        """Forget all but the snapshots and these values."""
        self._held = set(values).union(*self._snapshots)

    def _end_values(self, block: int) -> frozenset[int]:
        """What a block leaves to the next one."""
        return frozenset(self._instance.outputs[self._chain.forward[block][-1]])
