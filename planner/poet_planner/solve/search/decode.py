# SPDX-License-Identifier: Apache-2.0
"""From events (see `evaluation`) to the steps of a schedule (docs/SPEC.md, section 4; docs/optimiser/search.md)."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Step

from poet_planner.solve.instance import Ints, Problem, inputs_of


@dataclass(frozen=True)
class Decoded:
    """Steps without offsets, their time in seconds by the schedule semantics, and the most bytes in RAM at once."""

    steps: tuple[Step, ...]
    time_s: float
    peak: int


def decode(graph: Graph, problem: Problem, events: Ints) -> Decoded:
    """The steps of ``events``.

    A paged value is paged out right after its first compute. A value is freed after its last use. If transfers overlap
    compute, it is freed when its transfer has ended or its RAM is needed. A value of no bytes is freed only before its
    node is computed again. Each of the events must be needed, as in what `evaluation.evaluate` leaves.
    """
    return Decoder(graph, problem, events).decoded()


class Decoder:
    """Replays the events and writes the steps: see `decode`."""

    def __init__(self, graph: Graph, problem: Problem, events: Ints) -> None:
        self._graph = graph
        self._problem = problem
        self._events = [int(event) for event in events]
        self._ids = [value.id for node in graph.nodes for value in node.values]
        self._steps: list[Step] = []
        self._held = 0
        self._peak = 0
        self._cpu_s = 0.0
        self._bus_s = 0.0
        self._arrives_s: dict[int, float] = {}
        self._let_go_s: dict[int, float] = {}
        self._leaving: list[int] = []

    def decoded(self) -> Decoded:
        problem, n = self._problem, len(self._problem.node_time)
        paged = {event - n for event in self._events if event >= n}
        over = _last_uses(problem, self._events)
        computed: set[int] = set()
        for place, event in enumerate(self._events):
            self._before(event)
            if event >= n:
                self._page_in(event - n)
            else:
                made = list(range(problem.output_start[event], problem.output_start[event + 1]))
                self._make_room(made, int(problem.workspace[event]))
                self._held += sum(int(problem.size[v]) for v in made)
                self._compute(event, made, again=event in computed)
                for v in made:
                    if v in paged and event not in computed:
                        self._page_out(v)
                computed.add(event)
            for v in over[place]:
                if event < n and v in self._taken_over(event):
                    self._held -= int(problem.size[v])
                elif problem.size[v] > 0:
                    self._leave(v)
        return Decoded(tuple(self._steps), max(self._cpu_s, self._bus_s), self._peak)

    def _compute(self, node: int, made: list[int], again: bool) -> None:
        if again:
            for v in made:
                if self._problem.size[v] == 0:
                    self._step(Action.FREE, v)
        self._steps.append(Step(Action.COMPUTE, self._graph.nodes[node].id))
        problem, inputs = self._problem, inputs_of(self._problem, node).tolist()
        self._cpu_s = max([self._cpu_s, *(self._arrives_s.get(v, 0.0) for v in inputs)])
        self._cpu_s = max([self._cpu_s, *(self._let_go_s.get(v, 0.0) for v in self._taken_over(node))])
        if not problem.uses_bus[node]:
            self._cpu_s += float(problem.node_time[node])
            return
        end_s = self._transfer(problem.node_time[node])
        if problem.uses_cpu[node]:
            self._cpu_s = end_s
        else:
            self._arrives_s |= dict.fromkeys(made, end_s)
            self._let_go_s |= dict.fromkeys((*inputs, *made), end_s)

    def _before(self, event: int) -> None:
        """For decoders that start transfers at another time than where their events stand."""

    def _page_in(self, v: int) -> None:
        self._make_room([v], 0)
        self._held += int(self._problem.size[v])
        self._step(Action.PAGE_IN, v)
        self._let_go_s[v] = self._arrives_s[v] = self._transfer(self._problem.in_time[v])

    def _page_out(self, v: int) -> None:
        self._step(Action.PAGE_OUT, v)
        self._let_go_s[v] = self._transfer(self._problem.out_time[v])

    def _taken_over(self, node: int) -> list[int]:
        return [v for v in inputs_of(self._problem, node).tolist() if self._problem.taken[v]]

    def _transfer(self, time_s: float) -> float:
        self._cpu_s = max(self._cpu_s, self._bus_s)
        self._bus_s = self._cpu_s + float(time_s)
        if not self._problem.dma:
            self._cpu_s = self._bus_s
        return self._bus_s

    def _leave(self, v: int) -> None:
        if self._let_go_s.get(v, 0.0) > self._cpu_s:
            self._leaving.append(v)
        else:
            self._free(v)

    def _make_room(self, made: list[int], workspace: int) -> None:
        """Free values whose transfer has ended, values about to be made anew, and as many more as needed."""
        need = workspace + sum(int(self._problem.size[v]) for v in made)
        for v in list(self._leaving):
            if self._is_gone(v) or v in made or self._held + need > self._problem.budget:
                self._leaving.remove(v)
                self._free(v)
        self._peak = max(self._peak, self._held + need)

    def _is_gone(self, v: int) -> bool:
        """Whether the transfer of a value that leaves has ended."""
        return self._let_go_s[v] <= self._cpu_s

    def _free(self, v: int) -> None:
        self._cpu_s = max(self._cpu_s, self._let_go_s.get(v, 0.0))
        self._held -= int(self._problem.size[v])
        self._step(Action.FREE, v)

    def _step(self, action: Action, v: int) -> None:
        self._steps.append(Step(action, self._ids[v]))


def _last_uses(problem: Problem, events: list[int]) -> list[list[int]]:
    """For each event, the values that are not read after it before they are made anew."""
    n = len(problem.node_time)
    needed: set[int] = set()
    over: list[list[int]] = [[] for _ in events]
    for place in range(len(events) - 1, -1, -1):
        event = events[place]
        made = [event - n] if event >= n else list(range(problem.output_start[event], problem.output_start[event + 1]))
        used = [] if event >= n else inputs_of(problem, event).tolist()
        over[place] += [v for v in made if v not in needed]
        needed -= set(made)
        over[place] += [v for v in used if v not in needed]
        needed |= set(used)
    return over
