# SPDX-License-Identifier: Apache-2.0
"""When each step of a schedule happens and how much RAM is held: what the pictures and the summary show.

The rules of time and RAM are those of docs/SPEC.md, section 4. Whether a schedule keeps the contract is not asked here;
`verify` has said so before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter

from poet_profiles.graph import Graph, Node, Uses
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import calls_of
from poet_profiles.schedule.ram import held_bytes

from poet_planner.graph.batch import nodes_of_batch
from poet_planner.schedule.c_headers import why_no_headers


class CostTerm(StrEnum):
    """What energy is spent on; a free spends none.

    CARD is what operators move between RAM and card as they are computed for the first time: kept tensors and the
    record of them. A step is of one kind, and none of this one: see `Moment.terms_j`.
    """

    COMPUTE = "compute"
    CARD = "card"
    RECOMPUTE = "recompute"
    REFETCH = "refetch"
    PAGE_IN = "page_in"
    PAGE_OUT = "page_out"
    FREE = "free"


@dataclass(frozen=True)
class Moment:
    """One step of the schedule.

    ``node`` is the node computed, or the producer of the value moved or freed. ``ram_bytes`` is what is allocated
    from ``start_s`` on, ``ram_after_bytes`` what stays allocated once a compute's workspace is gone; resident tensors
    are included in both. ``card_s`` and ``card_j`` are what the card takes of a compute.
    """

    kind: CostTerm
    target: str
    node: str
    start_s: float
    end_s: float
    energy_j: float
    ram_bytes: int
    ram_after_bytes: int
    card_s: float = 0.0
    card_j: float = 0.0

    @property
    def terms_j(self) -> dict[CostTerm, float]:
        """Its energy by what it is spent on: what is moved as something is computed again is fetched again."""
        card = {CostTerm.COMPUTE: CostTerm.CARD, CostTerm.RECOMPUTE: CostTerm.REFETCH}.get(self.kind)
        return {self.kind: self.energy_j - self.card_j, card: self.card_j} if card else {self.kind: self.energy_j}

    @property
    def spans_s(self) -> dict[CostTerm, tuple[float, float]]:
        """When it begins and ends; of a compute on the card, what it computes and then what it moves, in sum."""
        if not self.card_s or self.kind not in (CostTerm.COMPUTE, CostTerm.RECOMPUTE):
            return {self.kind: (self.start_s, self.end_s)}
        turn_s = max(self.start_s, self.end_s - self.card_s)
        moves = {CostTerm.CARD: (turn_s, self.end_s)}
        return {self.kind: (self.start_s, turn_s), **moves} if turn_s > self.start_s else moves


def energy_by_term(moments: Iterable[Moment]) -> dict[CostTerm, float]:
    """Joules of a schedule by what they are spent on."""
    spent = dict.fromkeys(CostTerm, 0.0)
    for moment in moments:
        for term, joules in moment.terms_j.items():
            spent[term] += joules
    return spent


def timeline(graph: Graph, schedule: Schedule) -> list[Moment]:
    """One moment for each step of ``schedule``, in its order: what it takes in all micro-batches together."""
    nodes = {node.id: node for node in nodes_of_batch(graph)}
    producer = {value.id: node.id for node in graph.nodes for value in node.values}
    values = {value.id: value for node in nodes.values() for value in node.values}
    clock = _Clock(graph.dma)
    computed: set[str] = set()
    moments = []
    for step, held in zip(schedule.steps, held_bytes(graph, schedule.steps), strict=True):
        energy_j, ram_bytes, card = 0.0, held.during, (0.0, 0.0)
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            again = CostTerm.REFETCH if node.uses is Uses.BUS else CostTerm.RECOMPUTE
            kind = again if node.id in computed else CostTerm.COMPUTE
            computed.add(node.id)
            span = clock.compute(node)
            energy_j, card = node.energy_j, (node.card_time_s, node.card_energy_j)
        elif step.do is Action.FREE:
            kind, ram_bytes = CostTerm.FREE, held.after
            span = clock.free(step.target)
        else:
            page = values[step.target].page
            if page is None:
                raise ValueError(f"{step.target} is not pageable")
            if step.do is Action.PAGE_IN:
                kind, energy_j = CostTerm.PAGE_IN, page.in_energy_j
                span = clock.page_in(step.target, page.in_time_s)
            else:
                kind, energy_j = CostTerm.PAGE_OUT, page.out_energy_j
                span = clock.page_out(step.target, page.out_time_s)
        owner = step.target if step.do is Action.COMPUTE else producer[step.target]
        moments.append(Moment(kind, step.target, owner, *span, energy_j, ram_bytes, held.after, *card))
    return moments


def longest_pause_s(graph: Graph, schedule: Schedule) -> float:
    """Longest time for which a call keeps the CPU: one operator, or waiting for the card, or both.

    A program that runs the schedule call by call (docs/own_application.md) has the CPU back after each of them.
    """
    moments = timeline(replace(graph, micro_batches=1), schedule)
    nodes = {node.id: node for node in graph.nodes}
    longest_s = returned_s = 0.0
    for moment in (moments[number] for number in _ends_of_calls(graph, schedule)):
        paged = moment.kind in (CostTerm.PAGE_IN, CostTerm.PAGE_OUT)
        transfers = paged or (moment.kind is not CostTerm.FREE and nodes[moment.node].uses is Uses.BUS)
        returns_s = moment.start_s if graph.dma and transfers else moment.end_s
        longest_s = max(longest_s, returns_s - returned_s)
        returned_s = returns_s
    return max([longest_s, *(moment.end_s - returned_s for moment in moments)])  # the last one waits for the bus


def _ends_of_calls(graph: Graph, schedule: Schedule) -> Iterable[int]:
    """Last steps of the firmware's calls; all steps of a graph that no firmware runs."""
    if why_no_headers(graph):
        return range(len(schedule.steps))
    return (call.steps[-1] for call in calls_of(graph, schedule))


def ram_over_time(moments: list[Moment]) -> tuple[list[float], list[int]]:
    """Corners of the RAM curve, in the order of time: bytes allocated from each time on.

    RAM changes only where the CPU stands: a transfer beside it takes its RAM when it starts and gives it back with a
    free. So the times never go back, however computes and transfers overlap. Of several changes at one time the curve
    shows the highest and the last: what is freed and allocated again at once was never missing.
    """
    changes = [change for moment in moments for change in _changes(moment)]
    changes.append((max(moment.end_s for moment in moments), moments[-1].ram_after_bytes))
    corners: list[tuple[float, int]] = []
    for time_s, group in groupby(changes, key=itemgetter(0)):
        held = [ram_bytes for _, ram_bytes in group]
        corners += [(time_s, max(held)), (time_s, held[-1])]
    return [time_s for time_s, _ in corners], [ram_bytes for _, ram_bytes in corners]


def _changes(moment: Moment) -> list[tuple[float, int]]:
    """Only a compute that has workspace changes anything when it ends: it gives the workspace back."""
    starts = (moment.start_s, moment.ram_bytes)
    if moment.ram_bytes != moment.ram_after_bytes and moment.kind in (CostTerm.COMPUTE, CostTerm.RECOMPUTE):
        return [starts, (moment.end_s, moment.ram_after_bytes)]
    return [starts]


class _Clock:
    """Time on the CPU and, on a board with DMA, on the one bus beside it."""

    def __init__(self, dma: bool) -> None:
        self._dma = dma
        self._cpu_s = 0.0
        self._bus_s = 0.0
        self._arrives_s: dict[str, float] = {}
        self._leaves_s: dict[str, float] = {}

    def compute(self, node: Node) -> tuple[float, float]:
        self._cpu_s = max([self._cpu_s, *(self._arrives_s.get(value, 0.0) for value in node.inputs)])
        self._cpu_s = max([self._cpu_s, *(self._leaves_s.get(value, 0.0) for value in node.takes_over.values())])
        if node.uses is Uses.CPU:
            start_s, self._cpu_s = self._cpu_s, self._cpu_s + node.time_s
            return start_s, self._cpu_s
        start_s, end_s = self._transfer(node.time_s)
        if node.uses is Uses.BOTH:
            self._cpu_s = end_s
        else:
            self._arrives_s |= {value.id: end_s for value in node.values}
            self._leaves_s |= {id: end_s for id in node.inputs}
        return start_s, end_s

    def free(self, value: str) -> tuple[float, float]:
        self._cpu_s = max(self._cpu_s, self._arrives_s.get(value, 0.0), self._leaves_s.get(value, 0.0))
        return self._cpu_s, self._cpu_s

    def page_in(self, value: str, time_s: float) -> tuple[float, float]:
        span = self._transfer(time_s)
        self._arrives_s[value] = span[1]
        return span

    def page_out(self, value: str, time_s: float) -> tuple[float, float]:
        span = self._transfer(time_s)
        self._leaves_s[value] = span[1]
        return span

    def _transfer(self, time_s: float) -> tuple[float, float]:
        start_s = max(self._cpu_s, self._bus_s)
        self._bus_s = start_s + time_s
        self._cpu_s = start_s if self._dma else self._bus_s
        return start_s, self._bus_s
