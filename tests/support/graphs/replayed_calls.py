# SPDX-License-Identifier: Apache-2.0
"""Replays the calls of a plan on a RAM of named pieces: each read must meet the tensor last written there, whole.

It knows the graph, the schedule and the words, and shares no code with what made the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.graph import Graph, Node
from poet_profiles.schedule import Schedule, Step

Placed = list[tuple[str, tuple[int, int]]]  # tensors, and from where to where each lies
UPDATES = ("sgd", "sgd_momentum", "sgd_general", "adam")


class Call(Protocol):
    """What the replay reads of a call."""

    @property
    def op(self) -> str: ...
    @property
    def params(self) -> Sequence[int]: ...
    @property
    def inputs(self) -> Sequence[int]: ...
    @property
    def outputs(self) -> Sequence[int]: ...
    @property
    def workspace(self) -> int | None: ...
    @property
    def waits(self) -> bool: ...
    @property
    def changes(self) -> bool: ...


@dataclass
class Replay:
    """RAM, card and bus, and everything that was found to be wrong."""

    graph: Graph
    schedule: Schedule
    gathers: bool = False
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        graph = self.graph
        self.nodes = {node.id: node for node in graph.nodes}
        self.bytes = {one.id: one.bytes for one in (*graph.residents, *graph.constants, *graph.kept)}
        self.bytes |= {value.id: (value.bytes + 3) // 4 * 4 for node in graph.nodes for value in node.values}
        self.lasting = {one.id for one in graph.residents if one.kind in ("parameter", "state")}
        self.ram = {one.id: (one.offset, one.offset + one.bytes) for one in graph.residents}
        self.residents = dict(self.ram)
        self.card: dict[int, tuple[int, str]] = {}
        self.bus: tuple[int, int, bool] | None = None  # from, to, whether it reads
        self.freed: list[str] = []
        self.must_wait = False

    def run(self, calls: Sequence[Call]) -> list[str]:
        steps = iter(self.schedule.steps)
        for self.number, call in enumerate(calls):
            if call.op in ("in", "out"):
                self._page(call, self._next(steps))
            else:
                self._compute(call, steps)
        for step in steps:
            if step.do != "free" and not (step.do == "compute" and self.nodes[step.target].operation is None):
                self._fault(f"no call does {step.do} {step.target}")
        for id, place in self.residents.items():
            if self.ram.get(id) != place:
                self._fault(f"{id} is overwritten at the end")
        return self.faults

    def _fault(self, text: str) -> None:
        self.faults.append(f"call {self.number}: {text}")

    def _free(self, ids: list[str]) -> None:
        for id in ids:
            place = self.ram.pop(id, (0, 0))
            self.must_wait |= self.bus is not None and place == self.bus[:2]
        ids.clear()

    def _next(self, steps: Iterator[Step]) -> Step | None:
        """The next step that does something; what is freed before it is noted."""
        for step in steps:
            if step.do == "free":
                self.freed.append(step.target)
            elif step.do != "compute" or self.nodes[step.target].operation is not None:
                return step
        self._fault("the schedule has no step for it")
        return None

    def _page(self, call: Call, step: Step | None) -> None:
        self._free(self.freed)
        if step is None or step.do != f"page_{call.op}":
            self._fault("the schedule has no such page here")
            return
        if call.waits or call.changes:
            self._fault("a page neither waits by a flag nor changes a weight")
        place, size, block, number = call.inputs
        here = (place, place + size)
        if size != self.bytes[step.target]:
            self._fault(f"{step.target} has {self.bytes[step.target]} bytes, not {size}")
        blocks = range(block, block + -(-size // 512))
        self.bus = None
        if call.op == "out":
            self._read(step.target, here)
            self.card |= dict.fromkeys(blocks, (number, step.target))
        else:
            if any(self.card.get(one) != (number, step.target) for one in blocks):
                self._fault(f"the card has no {step.target} there")
            self._write(step.target, here)
        self.bus, self.must_wait = (*here, call.op == "in"), False

    def _compute(self, call: Call, steps: Iterator[Step]) -> None:
        nodes = self._nodes_of(call, steps)
        if not nodes:
            return
        within, self.freed = self.freed, []
        reads = [one for done, node in nodes for one in self._placed(call.inputs, node, nodes[0][1], done, "operands")]
        writes = [one for done, node in nodes for one in self._placed(call.outputs, node, nodes[0][1], done, "results")]
        if call.workspace is not None:
            size = (nodes[0][1].workspace_bytes + 3) // 4 * 4
            writes.append(("", (call.workspace, call.workspace + size)))
        elif any(node.workspace_bytes for _, node in nodes):
            self._fault("it has no workspace")
        changes = any(id in self.lasting for id, _ in writes)
        if changes != call.changes:
            self._fault("what it changes is not said")
        moves = call.op in ("fetch", "store")
        if moves:
            self.bus, self.must_wait = None, False
        self._check_wait(call, nodes[0][1], changes, reads, writes)
        if not (self.gathers and call.changes):
            self._do(nodes[0][1], reads, writes)
        if moves:
            self.bus = (*(writes if call.op == "fetch" else reads)[0][1], call.op == "fetch")
        self._free(within)

    def _do(self, node: Node, reads: Placed, writes: Placed) -> None:
        for id, place in reads:
            self._read(id, place)
        self._check_apart(node, reads, writes)
        for id, place in writes:
            self._write(id, place)

    def _nodes_of(self, call: Call, steps: Iterator[Step]) -> list[tuple[int, Node]]:
        """The nodes that it computes, each with the elements before it."""
        found: list[tuple[int, Node]] = []
        done = 0
        while not found or (call.op in UPDATES and done < call.params[0]):
            step = self._next(steps)
            if not found:
                self._free(self.freed)
            node = self.nodes.get(step.target) if step and step.do == "compute" else None
            if node is None or node.operation is None or node.operation.op != call.op:
                self._fault(f"the schedule does no {call.op} here")
                return []
            params = [*OPERATORS[call.op].values(parse_params(node.operation.params))]
            alone = call.op not in UPDATES
            if params[1:] != list(call.params[1:]) or (alone and params != list(call.params)):
                self._fault(f"{node.id} has other parameters")
            found.append((done, node))
            done += 0 if alone else params[0]
        if call.op in UPDATES and done != call.params[0]:
            self._fault("it has other elements")
        return found

    def _placed(self, words: Sequence[int], node: Node, first: Node, done: int, which: str) -> Placed:
        """Its tensors in RAM; those in flash and on the card are compared with the graph here."""
        ids, firsts = getattr(node.operation, which), getattr(first.operation, which)
        if len(words) != len(ids):
            self._fault(f"{node.id} has {len(ids)} {which}")
        constants = {one.id: one.offset for one in self.graph.constants}
        kept = [one.id for one in self.graph.kept]
        found = []
        for id, shared, word in zip(ids, firsts, words, strict=False):
            if word % 4 == 1 and which == "operands":
                if constants.get(id) != word - 1:
                    self._fault(f"{id} is not there in flash")
            elif word % 4 == 2:
                if kept[word // 4] != id:
                    self._fault(f"{id} is not there on the card")
            elif word % 4 == 0:
                place = word if done and id == shared else word + 4 * done
                found.append((id, (place, place + self.bytes[id])))
            else:
                self._fault(f"word {word} means nothing")
        return found

    def _check_wait(self, call: Call, node: Node, changes: bool, reads: Placed, writes: Placed) -> None:
        needs = False
        if self.bus is not None:
            *moved, arrives = self.bus
            touched = [place for _, place in writes] + [place for _, place in reads if arrives]
            meets = any(_overlap(place, (moved[0], moved[1])) for place in touched)
            needs = meets or changes or node.uses == "both" or self.must_wait
        if needs != call.waits:
            self._fault("it does not wait for the bus" if needs else "it waits for nothing")
        if call.waits:
            self.bus, self.must_wait = None, False

    def _check_apart(self, node: Node, reads: Placed, writes: Placed) -> None:
        """Outputs and workspace lie beside inputs, but for what is changed in place or takes over."""
        for place, (id, written) in enumerate(writes):
            for other, read in reads:
                in_place = id == other or node.takes_over.get(id) == other
                if _overlap(written, read) and not (in_place and written == read):
                    self._fault(f"{id or 'workspace'} lies on its input {other}")
            if any(_overlap(written, one) for _, one in writes[:place]):
                self._fault(f"{id or 'workspace'} lies on another output")

    def _read(self, id: str, place: tuple[int, int]) -> None:
        if self.ram.get(id) != place:
            self._fault(f"{id} is not whole at {place[0]}")
        if self.bus is not None and self.bus[2] and _overlap(place, self.bus[:2]):
            self._fault(f"{id} is on its way in")

    def _write(self, id: str, place: tuple[int, int]) -> None:
        if self.bus is not None and _overlap(place, self.bus[:2]):
            self._fault(f"{id or 'workspace'} is written where a transfer is under way")
        self.ram = {other: there for other, there in self.ram.items() if not _overlap(there, place)}
        if id:
            self.ram[id] = place


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def faults_of(graph: Graph, schedule: Schedule, calls: Sequence[Call]) -> list[str]:
    """Of a whole step, and of one that gathers a micro-batch."""
    faults = Replay(graph, schedule).run(calls)
    if graph.micro_batches > 1:
        faults += Replay(graph, schedule, gathers=True).run(calls)
    return faults
