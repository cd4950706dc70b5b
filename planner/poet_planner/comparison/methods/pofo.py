# SPDX-License-Identifier: Apache-2.0
"""Beaumont et al. 2021, POFO: Efficient Combination of Rematerialization and Offloading (NeurIPS 2021).

rotor's chain (see `rotor`), whose checkpoints may be offloaded besides: each once, in the forward pass, and prefetched
before the backward of its block. The dynamic program goes over blocks, memory in slots, and what entered the block: its
entering value alone, or all that the block in front saved.

On a serial bus a transfer takes the time it takes, and the two backlogs of the paper, bytes yet to be offloaded and yet
to be prefetched, are always empty. Where transfers run beside the computing, `pofo_dma` has the program with backlogs;
its orders and the serial one are replayed, with page-ins prefetched or not, and the quickest counts. POFO minimises
time; `pofo_energy` is the same program with energy in its place, of which a transfer costs as much hidden as not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Events, Instance, out_of_time
from poet_planner.comparison.methods.offloads import BlockRun, order_of, prefetched
from poet_planner.comparison.methods.pofo_dma import overlapped_orders
from poet_planner.comparison.methods.rotor import Table, after, chain_of
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.instance import Floats


def schedule(
    graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions, energy: bool = False
) -> Schedule:
    """The schedule of least time, or energy, for the chain.

    Raises
    ------
    UserError
        If there is none, or the table takes too long.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    objective = "energy" if energy else "time"

    program = cache(lambda: Offloading(instance, energy))
    hidden = cache(lambda: Offloading(instance, energy=False, hidden=True))

    def orders(budget: int) -> Iterator[Events]:
        made: list[list[int]] = []
        try:
            least = program().cost(budget)
            if least < math.inf:
                made.append(program().order(budget))
            if graph.dma and not energy:
                made += overlapped_orders(instance, hidden().to_go, budget, least)
        except TimeoutError:
            if not made:
                raise out_of_time(f"POFO ({objective})") from None
        if graph.dma and not energy:
            made = _quickest(instance, [*made, *(prefetched(instance, order, budget) for order in made)], budget)
        yield from made

    return instance.planned(f"POFO ({objective})", orders)


def _quickest(instance: Instance, orders: list[list[int]], budget: int) -> list[list[int]]:
    """Of several orders the quickest within so many bytes; all where none is."""
    found = [(instance.evaluated(order), order) for order in orders]
    fitting = [(instance.steps_of(one).time_s, order) for one, order in found if one is not None and one.peak <= budget]
    return [min(fitting)[1]] if fitting else orders


def _method(name: str, decides: str, energy: bool) -> Method:
    return Method(
        name=name,
        source="Beaumont et al. 2021, NeurIPS",
        decides=decides,
        schedule=partial(schedule, energy=energy),
        recomputes=True,
        pages=True,
        takes=(Option.TIME_LIMIT,),
        compute_aware=Aware.YES,
        memory_aware=Aware.YES,
        power_aware=Aware.YES if energy else Aware.NO,
    )


METHODS = (
    _method("pofo_time", "checkpoints of a chain, and which to offload, by dynamic programming over time", False),
    _method("pofo_energy", "as pofo_time, with energy in the place of time", True),
)


@dataclass(frozen=True)
class _Choice:
    """For each number of slots: whether to offload what entered, and where to run to; 0: save all of this block."""

    offload: np.ndarray
    run_to: np.ndarray


class Offloading:
    """The dynamic program over blocks from the first one on, beside rotor's table.

    With ``energy`` costs are joules, otherwise seconds. With ``hidden`` transfers cost nothing, as if all of them were
    hidden: less than any schedule costs.

    Raises
    ------
    TimeoutError
        If the time is up.
    """

    def __init__(self, instance: Instance, energy: bool, hidden: bool = False) -> None:
        self._instance = instance
        self._chain = chain = chain_of(instance, instance.energy_j if energy else instance.time_s)
        self._table = table = Table(chain, instance)
        # Of what enters a block by itself, and of all that the block in front saved: values, slots, cost of paging.
        self._values = (chain.entering, chain.saved)
        self._taken = (table.entering, table.saved)
        page_cost = _nothing if hidden else instance.page_j if energy else instance.page_s
        self._page_cost = [_page_costs(instance, values, page_cost) for values in self._values]
        self._least: dict[tuple[int, int], Floats] = {}
        self._choice: dict[tuple[int, int], _Choice] = {}
        for kind in (0, 1):
            self._least[chain.length, kind] = np.zeros(table.slots + 1)
        for i in range(chain.length - 1, -1, -1):
            for kind in (0, 1):
                self._fill(i, kind)

    def cost(self, budget: int) -> float:
        """Of the best order within so many bytes; infinite if there is none."""
        return float(self._least[0, 0][self._table.slots_in(budget)])

    def to_go(self, block: int, kind: int, sizes: Floats) -> Floats:
        """Of the best order from a block on within so many bytes, those of what enters it included."""
        least = self._least[block, kind]
        return least[np.minimum([self._table.slots_in(size) for size in sizes.tolist()], len(least) - 1)]

    def _fill(self, i: int, kind: int) -> None:
        chain, table = self._chain, self._table
        taken, page_cost = self._taken[kind][i], self._page_cost[kind][i]
        best = np.full(table.slots + 1, math.inf)
        choice = _Choice(np.zeros(len(best), dtype=np.bool_), np.zeros(len(best), dtype=np.int32))

        def try_all(fixed: float | Floats, then: Floats, needed: int, run_to: int) -> None:
            """What enters stays, or is offloaded as soon as the block it enters has been run."""
            nonlocal best
            for offload in (False, True) if taken and page_cost < math.inf else (False,):
                tried = fixed + (page_cost + then if offload else after(then, taken))
                tried[:needed] = math.inf
                better = tried < best
                choice.offload[better], choice.run_to[better] = offload, run_to
                best = np.minimum(best, tried)

        saved = table.saved[i + 1]
        try_all(
            chain.forward[i] + chain.backward[i],
            self._least[i + 1, 1],
            taken + saved + max(table.saving[i], table.backward[i]),
            0,
        )
        needed = 0
        for c in range(i + 1, chain.length):
            needed = max(needed, taken + table.running(i, c))
            if needed > table.slots:
                break
            again = after(table.costs(i, c - 1), taken)
            try_all(table.upto[c] - table.upto[i] + again, self._least[c, 0], needed, c)
        self._least[i, kind], self._choice[i, kind] = best, choice

    def order(self, budget: int) -> list[int]:
        """The best order within so many bytes, if there is one."""
        left, i, kind = self._table.slots_in(budget), 0, 0
        parts: list[BlockRun] = []
        while i < self._chain.length:
            choice, taken = self._choice[i, kind], self._taken[kind][i]
            offload, end = bool(choice.offload[left]), int(choice.run_to[left])
            parts.append(BlockRun(i, end, self._values[kind][i] if offload else frozenset(), left - taken))
            left -= 0 if offload else taken
            i, kind = (end, 0) if end else (i + 1, 1)
        return order_of(self._instance, self._chain, self._table, parts)


def _nothing(_value: int) -> float:
    return 0.0


def _page_costs(instance: Instance, sets: list[frozenset[int]], page_cost: Callable[[int], float]) -> list[float]:
    """The cost of paging each of some sets of values; infinite where one of them cannot be."""
    return [
        sum(page_cost(v) for v in sorted(values)) if all(instance.pageable[v] for v in values) else math.inf
        for values in sets
    ]
