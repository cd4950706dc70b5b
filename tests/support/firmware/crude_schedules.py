# SPDX-License-Identifier: Apache-2.0
"""Two schedules of any graph, made in the plainest way and not by the optimiser: page all, recompute all."""

from __future__ import annotations

from dataclasses import dataclass, field

from poet_profiles.graph import Graph, Node
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Schedule, Status, Step


@dataclass
class Writer:
    """Writes a schedule step by step, each block at the lowest free place."""

    graph: Graph
    steps: list[Step] = field(default_factory=list)
    live: dict[str, tuple[int, int]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    arena: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self.maker = {value.id: node for node in self.graph.nodes for value in node.values}
        self.sizes = {value.id: aligned(value.bytes) for node in self.graph.nodes for value in node.values}
        self.last_use = {value: index for index, node in enumerate(self.graph.nodes) for value in node.inputs}

    def place(self, name: str, size: int) -> int:
        offset = 0
        for start, length in sorted(self.live.values()):
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        self.live[name] = (offset, size)
        self.arena = max(self.arena, offset + size)
        self.peak = max(self.peak, sum(length for _, length in self.live.values()))
        return offset

    def compute(self, node: Node) -> None:
        for value, taken in node.takes_over.items():
            self.live[value] = self.live.pop(taken)
        new = [value.id for value in node.values if value.bytes and value.id not in node.takes_over]
        offsets = {value: self.place(value, self.sizes[value]) for value in new}
        offsets |= {value: self.live[value][0] for value in node.takes_over}
        workspace = self.place("workspace", aligned(node.workspace_bytes)) if node.workspace_bytes else None
        self.live.pop("workspace", None)
        self.steps.append(Step(Action.COMPUTE, node.id, offsets, workspace))

    def page_in(self, value: str) -> None:
        self.steps.append(Step(Action.PAGE_IN, value, {value: self.place(value, self.sizes[value])}))

    def page_out(self, value: str) -> None:
        self.steps.append(Step(Action.PAGE_OUT, value))
        self.stored.add(value)

    def free(self, value: str) -> None:
        self.steps.append(Step(Action.FREE, value))
        del self.live[value]

    def schedule(self) -> Schedule:
        peak = self.graph.resident_bytes + self.peak
        budget = self.graph.resident_bytes + self.arena
        return Schedule(self.graph.name, graph_hash(self.graph), budget, None, tuple(self.steps), 0.0, 0.0, peak,
                        self.arena, Status.FEASIBLE, 0.0, 0.0)  # fmt: skip


def everything_paged(graph: Graph) -> Schedule:
    """Until parameters change, which no transfer may follow."""
    writer = Writer(graph)
    paging = True
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            if writer.sizes[value] and value not in writer.live:
                writer.page_in(value)
        writer.compute(node)
        paging = paging and node.operation is not None
        for value in list(writer.live):
            used = writer.last_use.get(value, -1) > index
            if used and not paging:
                continue
            if used and value not in writer.stored:
                writer.page_out(value)
            writer.free(value)
    return writer.schedule()


def everything_recomputed(graph: Graph) -> Schedule:
    writer = Writer(graph)

    def need(value: str) -> None:
        if writer.sizes[value] and value not in writer.live:
            run(writer.maker[value])

    def run(node: Node) -> None:
        for value in node.inputs:
            need(value)
        writer.compute(node)

    for index, node in enumerate(graph.nodes):
        run(node)
        for value in list(writer.live):
            kept = writer.maker[value].backward and writer.last_use.get(value, -1) > index
            if not kept:
                writer.free(value)
    return writer.schedule()
