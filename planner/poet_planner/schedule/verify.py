# SPDX-License-Identifier: Apache-2.0
"""Replays a schedule from the contract alone (docs/SPEC.md, section 4) and says everything that is wrong with it.

Shares no code with the optimiser: it reads the graph and the schedule, and trusts none of the schedule's figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from poet_profiles.graph import Graph, Node, Uses, Value
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.kept import TRAINED_KINDS, commits, is_written
from poet_profiles.schedule import Action, Objective, Schedule, Status, Step

_RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Report:
    """What the replay found.

    Attributes
    ----------
    energy_j, time_s : float
        Of the steps: joules, seconds.
    peak_bytes, arena_bytes : int
        The most RAM at once, resident tensors included; what the offsets need, without them.
    faults : tuple of str
        Everything that is wrong, a line each; empty for a sound schedule.
    """

    energy_j: float
    time_s: float
    peak_bytes: int
    arena_bytes: int
    faults: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.faults


def verify(graph: Graph, schedule: Schedule, check_offsets: bool = True) -> Report:
    """Replay ``schedule`` on ``graph``: order, RAM, offsets, and all the figures that it claims.

    Parameters
    ----------
    check_offsets : bool
        False for a schedule whose offsets have not been assigned.

    Returns
    -------
    Report
        An unsound schedule is no exception: ``Report.faults`` says what is wrong.
    """
    replay = _Replay(graph, check_offsets and not graph.allocates)
    for part in range(graph.micro_batches):
        replay.begin(is_last=part == graph.micro_batches - 1)
        for number, step in enumerate(schedule.steps):
            replay.take(number, step)
        replay.finish()
    if graph.allocates:
        _check_no_offsets(schedule, replay)
    _check_figures(schedule, replay, graph)
    faults = tuple(dict.fromkeys(replay.faults))  # each micro-batch finds them anew
    return Report(replay.energy_j, replay.time_s, replay.peak_bytes, replay.arena_bytes, faults)


class _Replay:
    """The board, one step after the other, and one micro-batch after the other."""

    def __init__(self, graph: Graph, check_offsets: bool) -> None:
        self._graph = graph
        self.check_offsets = check_offsets
        self._nodes: dict[str, Node] = {node.id: node for node in graph.nodes}
        self._values: dict[str, Value] = {value.id: value for node in graph.nodes for value in node.values}
        self._lasting = {resident.id for resident in graph.residents if resident.kind in TRAINED_KINDS}
        self._commits = {node.id for node in commits(graph)}
        self.resident_bytes = graph.resident_bytes
        self._clock: _SerialClock = _OverlappedClock() if graph.dma else _SerialClock()
        self.energy_j = 0.0
        self.busy_s = 0.0
        self.peak_bytes = graph.resident_bytes
        self.arena_bytes = 0
        self.faults: list[str] = []

    @property
    def time_s(self) -> float:
        return self._clock.end_s

    def begin(self, is_last: bool) -> None:
        """A micro-batch, with nothing left of the one before but residents and sums."""
        self._is_last = is_last
        self._changed: set[str] = set()
        self._times_written = {kept.id: 0 for kept in self._graph.kept}
        self._committed = False
        self._in_ram: set[str] = set()
        self._on_card: set[str] = set()
        self._times_computed = dict.fromkeys(self._nodes, 0)
        self._places: dict[str, tuple[int, int]] = {}
        self._held_bytes = self._graph.resident_bytes
        self._clock.settle()

    def take(self, number: int, step: Step) -> None:
        where = f"step {number} ({step.do.value} {step.target})"
        if step.do is not Action.FREE and self._committed:
            self.faults.append(f"{where}: the step is committed already")
        if step.do is Action.COMPUTE:
            node = self._nodes.get(step.target)
            if node is None:
                self.faults.append(f"{where}: the graph has no such node")
            else:
                self._compute(node, step, where)
            return
        value = self._values.get(step.target)
        if value is None:
            self.faults.append(f"{where}: the graph has no such value")
            return
        if step.do is not Action.FREE and self._changed and not self._graph.allocates:
            self.faults.append(f"{where}: {min(self._changed)} has changed before; a card that fails now leaves it so")
        if step.do is Action.PAGE_IN:
            self._page_in(value, step, where)
        elif step.do is Action.PAGE_OUT:
            self._page_out(value, where)
        else:
            self._free(value, where)

    def finish(self) -> None:
        for id, times in self._times_computed.items():
            if times == 0:
                self.faults.append(f"node {id} is never computed")
        for kept in self._graph.kept if self._is_last else ():
            written = self._times_written[kept.id]
            if written != is_written(kept, self._graph):
                self.faults.append(f"{kept.kind} {kept.id} on the card is written {written} times")

    def _compute(self, node: Node, step: Step, where: str) -> None:
        for id in node.inputs:
            if id not in self._in_ram:
                self.faults.append(f"{where}: its input {id} is not in RAM")
        for value in node.values:
            if value.id in self._in_ram:
                self.faults.append(f"{where}: its value {value.id} is in RAM already")
        self._times_computed[node.id] += 1
        stale = self._changed.intersection(node.operation.operands if node.operation else ())
        if self._times_computed[node.id] > 1 and stale:
            self.faults.append(f"{where}: it is computed again from {min(stale)}, which has changed")
        waits = self._waits(node)
        if not waits:
            self._write(node, where)
        if self._times_computed[node.id] == 2 and not node.recomputable:
            self.faults.append(f"{where}: it is not recomputable, and this is the second time")
        left = {id: self._end_taken_over(id, where) for id in node.takes_over.values()}
        for value in node.values:
            self._allocate(value, step, where)
        for id, taken in node.takes_over.items():
            if self.check_offsets and left[taken] is not None and self._places.get(id) != left[taken]:
                self.faults.append(f"{where}: {id} takes over {taken}, but does not lie in its place")
        workspace = _words(node.workspace_bytes)
        self.peak_bytes = max(self.peak_bytes, self._held_bytes + workspace)
        if workspace and self.check_offsets:
            self._place(f"{node.id} (workspace)", step.workspace_offset, workspace, where)
            self._places.pop(f"{node.id} (workspace)", None)
        self._clock.compute(replace(node, time_s=0.0) if waits else node)  # it waits for the bus in any case
        if not waits:
            self.energy_j += node.energy_j
            self.busy_s += node.time_s

    def _waits(self, node: Node) -> bool:
        """Whether it is passed over, until the last micro-batch."""
        operation = node.operation
        if self._is_last or operation is None or operation.op == "advance":
            return False
        changing = self._lasting | self._times_written.keys()
        return node.id in self._commits or not changing.isdisjoint(operation.results)

    def _end_taken_over(self, id: str, where: str) -> tuple[int, int] | None:
        """Ends the life of an input whose place a value of its node takes over; where it lay."""
        place = self._places.get(id)
        if id in self._in_ram:
            self._free(self._values[id], where)
        return place

    def _write(self, node: Node, where: str) -> None:
        """What it changes for good: residents, the next versions on the card, or which versions count."""
        if node.id in self._commits:
            self._committed = True
        elif self._changed and node.uses is not Uses.CPU and not self._graph.kept:  # else the last commit is read back
            self.faults.append(f"{where}: {min(self._changed)} has changed before; a card that fails now leaves it so")
        results = node.operation.results if node.operation else ()
        self._changed |= self._lasting.intersection(results)
        for id in self._times_written.keys() & results:
            self._times_written[id] += 1

    def _page_in(self, value: Value, step: Step, where: str) -> None:
        if value.id not in self._on_card:
            self.faults.append(f"{where}: no copy of it is on the card")
        if value.id in self._in_ram:
            self.faults.append(f"{where}: it is in RAM already")
        self._allocate(value, step, where)
        if value.page is None:
            self.faults.append(f"{where}: it is not pageable")
            return
        self._clock.page_in(value.id, value.page.in_time_s)
        self.energy_j += value.page.in_energy_j
        self.busy_s += value.page.in_time_s

    def _page_out(self, value: Value, where: str) -> None:
        if value.id not in self._in_ram:
            self.faults.append(f"{where}: it is not in RAM")
        self._on_card.add(value.id)
        if value.page is None:
            self.faults.append(f"{where}: it is not pageable")
            return
        self._clock.page_out(value.id, value.page.out_time_s)
        self.energy_j += value.page.out_energy_j
        self.busy_s += value.page.out_time_s

    def _free(self, value: Value, where: str) -> None:
        if value.id not in self._in_ram:
            self.faults.append(f"{where}: it is not in RAM")
            return
        self._in_ram.discard(value.id)
        self._places.pop(value.id, None)
        self._held_bytes -= _words(value.bytes)
        self._clock.free(value.id)

    def _allocate(self, value: Value, step: Step, where: str) -> None:
        if value.id not in self._in_ram:
            self._in_ram.add(value.id)
            self._held_bytes += _words(value.bytes)
        self.peak_bytes = max(self.peak_bytes, self._held_bytes)
        if value.bytes and self.check_offsets:
            self._place(value.id, step.offsets.get(value.id), _words(value.bytes), where)

    def _place(self, what: str, offset: int | None, size: int, where: str) -> None:
        if offset is None:
            self.faults.append(f"{where}: {what} has no offset")
            return
        if offset < 0 or offset % 4:
            self.faults.append(f"{where}: offset {offset} of {what} is not a multiple of 4, 0 or more")
        for other, (start, end) in self._places.items():
            if other != what and offset < end and start < offset + size:
                self.faults.append(f"{where}: {what} at {offset} overlaps {other} at {start}")
        self._places[what] = (offset, offset + size)
        self.arena_bytes = max(self.arena_bytes, offset + size)


class _SerialClock:
    """No DMA: one thing at a time."""

    def __init__(self) -> None:
        self.end_s = 0.0

    def compute(self, node: Node) -> None:
        self.end_s += node.time_s

    def page_in(self, value: str, time_s: float) -> None:
        self.end_s += time_s

    def page_out(self, value: str, time_s: float) -> None:
        self.end_s += time_s

    def free(self, value: str) -> None:
        """Takes no time."""

    def settle(self) -> None:
        """Waits for what is under way: there is nothing."""


class _OverlappedClock(_SerialClock):
    """DMA: one bus beside the CPU."""

    def __init__(self) -> None:
        self._cpu_s = 0.0
        self._bus_s = 0.0
        self._arrives_s: dict[str, float] = {}
        self._let_go_s: dict[str, float] = {}

    @property
    def end_s(self) -> float:  # type: ignore[override]
        return max(self._cpu_s, self._bus_s)

    def compute(self, node: Node) -> None:
        self._cpu_s = max([self._cpu_s, *(self._arrives_s.get(id, 0.0) for id in node.inputs)])
        if node.uses is Uses.CPU:
            self._cpu_s += node.time_s
            return
        end_s = self._transfer(node.time_s)
        if node.uses is Uses.BOTH:
            self._cpu_s = end_s
            return
        self._arrives_s |= {value.id: end_s for value in node.values}
        self._let_go_s |= {id: end_s for id in (*node.inputs, *(value.id for value in node.values))}

    def page_in(self, value: str, time_s: float) -> None:
        self._arrives_s[value] = self._let_go_s[value] = self._transfer(time_s)

    def page_out(self, value: str, time_s: float) -> None:
        self._let_go_s[value] = self._transfer(time_s)

    def free(self, value: str) -> None:
        self._cpu_s = max(self._cpu_s, self._let_go_s.get(value, 0.0))

    def settle(self) -> None:
        self._cpu_s = self._bus_s = self.end_s

    def _transfer(self, time_s: float) -> float:
        self._cpu_s = max(self._cpu_s, self._bus_s)
        self._bus_s = self._cpu_s + time_s
        return self._bus_s


def _words(size: int) -> int:
    return (size + 3) // 4 * 4


def _check_figures(schedule: Schedule, replay: _Replay, graph: Graph) -> None:
    """The schedule's own figures, its limits and its claims against the replay."""
    faults = replay.faults
    if schedule.graph_hash != graph_hash(graph):
        faults.append(f"graph hash {schedule.graph_hash} is not this graph's {graph_hash(graph)}")
    if replay.peak_bytes > schedule.ram_budget_bytes:
        faults.append(f"peak of {replay.peak_bytes} bytes exceeds the budget of {schedule.ram_budget_bytes}")
    if graph.resident_bytes + replay.arena_bytes > schedule.ram_budget_bytes:
        needed = graph.resident_bytes + replay.arena_bytes
        faults.append(f"resident tensors and arena take {needed} bytes, the budget is {schedule.ram_budget_bytes}")
    if schedule.deadline_s is not None and _above(replay.time_s, schedule.deadline_s):
        faults.append(f"time {replay.time_s:.9g} s exceeds the deadline of {schedule.deadline_s:.9g} s")
    cost, bound = _by_objective(schedule, replay)
    for name, stated, found, rounding in (
        ("energy_j", schedule.energy_j, replay.energy_j, 0.0),
        ("time_s", schedule.time_s, replay.time_s, 0.0),
        ("gap", schedule.gap, (cost - bound) / cost if cost else 0.0, 1e-12),
    ):
        if not math.isclose(stated, found, rel_tol=_RELATIVE_TOLERANCE, abs_tol=rounding):
            faults.append(f"{name} is stated as {stated!r}, the replay gives {found!r}")
    if schedule.peak_bytes != replay.peak_bytes:
        faults.append(f"peak_bytes is stated as {schedule.peak_bytes}, the replay gives {replay.peak_bytes}")
    if replay.check_offsets and schedule.arena_bytes != replay.arena_bytes:
        faults.append(f"arena_bytes is stated as {schedule.arena_bytes}, the offsets give {replay.arena_bytes}")
    if _above(schedule.bound_j, replay.energy_j):
        faults.append(f"bound {schedule.bound_j!r} J is above the energy {replay.energy_j!r} J")
    if schedule.objective is Objective.TIME and _above(bound, cost):
        faults.append(f"bound {bound!r} s is above the time {cost!r} s of all computes and transfers")
    if schedule.status is Status.OPTIMAL and schedule.gap > 1e-3:
        faults.append(f'status is "optimal" with a gap of {schedule.gap:.3g}')


def _by_objective(schedule: Schedule, replay: _Replay) -> tuple[float, float]:
    """What the schedule has little of, and its bound: joules, or seconds."""
    if schedule.objective is Objective.TIME:
        return replay.busy_s, math.inf if schedule.bound_s is None else schedule.bound_s
    return replay.energy_j, schedule.bound_j


def _check_no_offsets(schedule: Schedule, replay: _Replay) -> None:
    """On a board that allocates values itself."""
    for number, step in enumerate(schedule.steps):
        if step.offsets or step.workspace_offset is not None:
            where = f"step {number} ({step.do.value} {step.target})"
            replay.faults.append(f"{where}: it has an offset, and the graph's values have none")
    replay.arena_bytes = replay.peak_bytes - replay.resident_bytes
    if schedule.arena_bytes != replay.arena_bytes:
        replay.faults.append(f"arena_bytes is stated as {schedule.arena_bytes}, the values take {replay.arena_bytes}")


def _above(number: float, limit: float) -> bool:
    return number > limit * (1 + _RELATIVE_TOLERANCE)
