# SPDX-License-Identifier: Apache-2.0
"""Peng et al. 2020, Capuchin: Tensor-based GPU Memory Management for Deep Learning (ASPLOS 2020).

It watches one plain pass. Of each forward value that the backward pass reads it takes the longest gap between two
accesses. The gap's *free time* is what is left of it when the value has been paged out after the first access and in
before the second. Values leave in the order of their free time, the longest first, until the peak is within the budget.
Each is swapped if that is hidden, and else comes back by whichever costs less, swapping or computing it again; what it
is made of may have to be computed again, too. `capuchin_energy` compares joules in the place of seconds.

`capuchin_page_first` is what the POET paper describes: values are swapped until none is left to swap, and only then
computed again, those first that save the most bytes a second (*MSPS*, memory saving per second).

Capuchin has no public code; this follows the paper's text. The peak is replayed after each choice, not estimated. Where
transfers do not overlap with compute nothing is hidden, so that a swap costs all of its transfers; free time is still
computed as if it were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import pairwise
from math import inf

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Events, Instance, out_of_time
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions


class Choice(Enum):
    """By what a value is swapped or computed again."""

    SECONDS = "Capuchin"
    JOULES = "Capuchin by energy"
    PAGE_FIRST = "Capuchin, page first"


def schedule(
    graph: Graph,
    ram_bytes: int,
    deadline_s: float | None,
    options: OptimiseOptions,
    choice: Choice = Choice.SECONDS,
) -> Schedule:
    """What Capuchin plans; what breaks the deadline is left out.

    Raises
    ------
    UserError
        If swapping and computing again all that it may is not enough, or it is late.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)

    def orders(budget: int) -> Iterator[Events]:
        try:
            made = Planner(instance, choice).order(budget)
        except TimeoutError:
            raise out_of_time(choice.value) from None
        if made is not None:
            yield made

    return instance.planned(choice.value, orders)


METHOD = Method(
    name="capuchin",
    source="Peng et al. 2020, ASPLOS",
    decides="which values leave, by time to hide it in; each by the cheaper of paging and recomputation",
    schedule=schedule,
    recomputes=True,
    pages=True,
    keeps_deadline=True,
    takes=(Option.TIME_LIMIT,),
    general=Aware.YES,
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
)
METHODS = (
    METHOD,
    replace(
        METHOD,
        name="capuchin_energy",
        decides="as capuchin, with energy in the place of time",
        schedule=partial(schedule, choice=Choice.JOULES),
        power_aware=Aware.YES,
    ),
    replace(
        METHOD,
        name="capuchin_page_first",
        source="Peng et al. 2020, ASPLOS, as Patil et al. 2022 describe it",
        decides="which values to page, by time to hide it in; then which to recompute",
        schedule=partial(schedule, choice=Choice.PAGE_FIRST),
    ),
)


@dataclass(frozen=True)
class Gap:
    """The longest time between two accesses to a value: the nodes of both, and the free time in seconds."""

    evicted_at: int
    back_at: int
    free_s: float


class Planner:
    """The choices, made for one instance after the other budget."""

    def __init__(self, instance: Instance, choice: Choice) -> None:
        self._instance = instance
        self._choice = choice
        self.gaps = gaps(instance)
        self.swapped: set[int] = set()
        self.recomputed: set[int] = set()

    def order(self, budget: int) -> list[int] | None:
        """The order whose peak is within so many bytes; None if there is none.

        Raises
        ------
        TimeoutError
            If the time is up.
        """
        found = self._evict(budget)
        return self._recompute(budget) if found is None and self._choice is Choice.PAGE_FIRST else found

    def _evict(self, budget: int) -> list[int] | None:
        """Let values leave in the order of their free time."""
        for v in sorted(self.gaps, key=lambda v: -self.gaps[v].free_s):
            swap, again = self._swap_cost(v), self._again_cost(v)
            if min(swap, again) == inf:
                continue
            chosen = self.swapped if swap <= again else self.recomputed
            chosen.add(v)
            events, peak, late = self._replayed()
            if late:
                chosen.remove(v)
            elif peak <= budget:
                return events
        return None

    def _swap_cost(self, value: int) -> float:
        """Of paging it out and in: what is not hidden of it, or its energy, which is spent hidden or not."""
        instance = self._instance
        if not instance.pageable[value]:
            return inf
        if self._choice is Choice.JOULES:
            return instance.page_j(value)
        return max(0.0, -self.gaps[value].free_s) if instance.problem.dma else instance.page_s(value)

    def _again_cost(self, value: int) -> float:
        """Of computing it again; what is paged first never is while there is something to page."""
        instance = self._instance
        if self._choice is Choice.PAGE_FIRST or not instance.recomputable[instance.producer[value]]:
            return inf
        cost = instance.energy_j if self._choice is Choice.JOULES else instance.time_s
        return sum(cost[node] for node in self._again(value))

    def _recompute(self, budget: int) -> list[int] | None:
        instance = self._instance
        while True:
            left = [
                v
                for v in self.gaps
                if v not in self.swapped and v not in self.recomputed and instance.recomputable[instance.producer[v]]
            ]
            if not left:
                return None
            self.recomputed.add(max(left, key=self._saving))
            events, peak, _ = self._replayed()
            if peak <= budget:
                return events

    def _replayed(self) -> tuple[list[int], float, bool]:
        """The order of what has been chosen so far, its peak, and whether it is late."""
        instance = self._instance
        if instance.time_left.expired:
            raise TimeoutError
        events = order(instance, self.gaps, self.swapped, self.recomputed)
        found = instance.evaluated(events)
        if found is None:
            return events, inf, False
        return events, found.peak, found.time > instance.problem.deadline

    def _saving(self, value: int) -> float:
        """Bytes saved for each second that it takes to compute a value again."""
        seconds = sum(self._instance.time_s[node] for node in self._again(value))
        return self._instance.size[value] / seconds if seconds > 0 else inf

    def _again(self, value: int) -> list[int]:
        """The nodes to compute so that a value is there again: its own, and those of sources that are not there."""
        instance = self._instance
        nodes: set[int] = set()
        sources = [value]
        while sources:
            node = instance.producer[sources.pop()]
            if node not in nodes:
                nodes.add(node)
                sources += [v for v in instance.inputs[node] if v in self.recomputed]
        return sorted(nodes)


def gaps(instance: Instance) -> dict[int, Gap]:
    """The longest gap of each forward value that has bytes and that the backward pass reads."""
    ends_s: list[float] = []
    for seconds in instance.time_s:
        ends_s.append((ends_s[-1] if ends_s else 0.0) + seconds)
    found = {}
    for v in range(instance.values):
        if not instance.size[v] or not instance.read_backward(v):
            continue
        accesses = [instance.producer[v], *instance.users[v]]
        pairs = list(pairwise(accesses))
        free_s = [ends_s[back] - instance.time_s[back] - ends_s[out] - instance.page_s(v) for out, back in pairs]
        longest = max(range(len(pairs)), key=free_s.__getitem__)
        found[v] = Gap(*pairs[longest], free_s[longest])
    return found


def order(instance: Instance, gaps: dict[int, Gap], swapped: Collection[int], recomputed: Collection[int]) -> list[int]:
    """The graph's order in which these values leave at their gaps, and come back by paging or by computing."""
    leaving = defaultdict(list)
    for v in (*swapped, *recomputed):
        leaving[gaps[v].evicted_at].append(v)
    events: list[int] = []
    held = set(instance.empty)

    def page_in(values: list[int]) -> None:
        events.extend(instance.nodes + v for v in values if v not in held and v in swapped)
        held.update(v for v in values if v in swapped)

    for node in range(instance.nodes):
        inputs = instance.inputs[node]
        page_in(inputs)
        again = instance.to_make(inputs, held.union(swapped))
        for other in again:
            page_in(instance.inputs[other])
            events.append(other)
            held.update(instance.outputs[other])
        events.append(node)
        held.update(instance.outputs[node])
        held.difference_update(leaving[node])
        # What was computed again on the way to another value goes again, until its own next access.
        brought = {v for other in again for v in instance.outputs[other]}
        held -= {v for v in brought.intersection(recomputed) if gaps[v].back_at > node}
    return events
