# SPDX-License-Identifier: Apache-2.0
"""The page-all schedule: every value leaves for the card once, and comes back for each use; nothing is chosen.

What lies on the card anyway is fetched for each use. It takes about as little RAM as there is a schedule in, and is the
baseline of what choosing is worth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from poet_profiles.graph import Graph, Node, Uses
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Schedule, Status, Step

from poet_planner.graph.batch import once_j
from poet_planner.schedule.allocated import without_offsets
from poet_planner.schedule.lifetimes import Lifetime, first_fit
from poet_planner.schedule.verify import verify

WORKSPACE = ""  # in the place of a value's id, which is never empty


@once_a_graph
def page_all_schedule(graph: Graph) -> Schedule:
    """The page-all schedule with offsets. Its RAM budget is what it needs.

    What cannot be paged is held until its last use. So is, from the first change of a resident on, what is still to be
    read: nothing may be paged after that.
    """
    walk = _Walk(graph)
    for index in range(len(graph.nodes)):
        walk.take(index)
    offsets = first_fit(walk.lifetimes(len(walk.steps)))
    offsets |= {value: offsets[block] for value, block in walk.blocks.items() if block in offsets}
    nodes = {node.id: node for node in graph.nodes}
    energy_j = once_j(graph)
    draft = Schedule(
        graph=graph.name,
        graph_hash=graph_hash(graph),
        ram_budget_bytes=0,
        deadline_s=None,
        steps=tuple(_placed(nodes, number, step, offsets) for number, step in enumerate(walk.steps)),
        energy_j=0.0,
        time_s=0.0,
        peak_bytes=0,
        arena_bytes=0,
        status=Status.FEASIBLE,
        bound_j=energy_j,
        gap=0.0,
    )
    draft = without_offsets(graph, draft)
    replay = verify(graph, draft)
    return replace(
        draft,
        ram_budget_bytes=max(replay.peak_bytes, graph.resident_bytes + replay.arena_bytes),
        energy_j=replay.energy_j,
        time_s=replay.time_s,
        peak_bytes=replay.peak_bytes,
        arena_bytes=replay.arena_bytes,
        gap=(replay.energy_j - energy_j) / replay.energy_j if replay.energy_j else 0.0,
    )


@dataclass
class _Walk:
    """The schedule so far: its steps without offsets, and the block of RAM that each value is in.

    A block is named by the step that begins it, and its first value. ``blocks`` are those of values, by the step that
    brings them: what takes over a value's place is in its block.
    """

    graph: Graph
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.graph.nodes
        self._values = {value.id: value for node in nodes for value in node.values}
        self._fetches = {value.id: node for node in nodes for value in node.values if _is_fetch(node)}
        self._last_use = {id: index for index, node in enumerate(nodes) for id in node.inputs}
        self._in_ram: dict[str, tuple[int, str]] = {}
        self.blocks: dict[tuple[int, str], tuple[int, str]] = {}
        self._ended: list[Lifetime[tuple[int, str]]] = []
        lasting = {resident.id for resident in self.graph.residents if resident.kind in TRAINED_KINDS}
        changing = (index for index, node in enumerate(nodes) if _results(node) & lasting)
        self._first_change = next(changing, len(nodes))

    def take(self, index: int) -> None:
        """Compute a node, with what it needs brought in before it, and what it makes paged out after it."""
        node = self.graph.nodes[index]
        if _is_fetch(node) and any(value.id in self._last_use for value in node.values):
            return
        for id in self._needed(index):
            self._bring(id)
        self._compute(node)
        for value in node.values:
            if (
                value.page
                and value.bytes
                and self._last_use.get(value.id, index) > index
                and index < self._first_change
            ):
                self.steps.append(Step(Action.PAGE_OUT, value.id))
        for id in [id for id in self._in_ram if self._is_over(id, index)]:
            self._free(id)

    def lifetimes(self, end: int) -> list[Lifetime[tuple[int, str]]]:
        """Of all values and workspaces, from the step that brings them to the one that frees them, both included."""
        held = [Lifetime(key, aligned(self._values[id].bytes), key[0], end) for id, key in self._in_ram.items()]
        return [lifetime for lifetime in (*self._ended, *held) if lifetime.bytes]

    def _needed(self, index: int) -> list[str]:
        """What has to be in RAM: from the first change on, all that is read later, too."""
        nodes = self.graph.nodes[index:] if index == self._first_change else self.graph.nodes[index : index + 1]
        made = {value.id for node in nodes for value in node.values}
        return [id for id in dict.fromkeys(id for node in nodes for id in node.inputs) if id not in made]

    def _is_over(self, id: str, index: int) -> bool:
        if self._last_use.get(id, index) <= index:
            return True
        value = self._values[id]
        comes_back = id in self._fetches or (value.page is not None and value.bytes > 0)
        return comes_back and index < self._first_change - 1

    def _bring(self, id: str) -> None:
        if id in self._in_ram:
            return
        if id in self._fetches:
            self._compute(self._fetches[id])
        else:
            self._begin(id, (len(self.steps), id))
            self.steps.append(Step(Action.PAGE_IN, id))

    def _compute(self, node: Node) -> None:
        step = len(self.steps)
        for value in node.values:
            taken = node.takes_over.get(value.id)
            self._begin(value.id, self._in_ram.pop(taken) if taken else (step, value.id))
        self._ended.append(Lifetime((step, WORKSPACE), aligned(node.workspace_bytes), step, step))
        self.steps.append(Step(Action.COMPUTE, node.id))

    def _begin(self, id: str, block: tuple[int, str]) -> None:
        self._in_ram[id] = self.blocks[len(self.steps), id] = block

    def _free(self, id: str) -> None:
        key = self._in_ram.pop(id)
        self._ended.append(Lifetime(key, aligned(self._values[id].bytes), key[0], len(self.steps)))
        if self._values[id].bytes:
            self.steps.append(Step(Action.FREE, id))


def _is_fetch(node: Node) -> bool:
    return node.recomputable and not node.inputs and node.uses is Uses.BUS


def _results(node: Node) -> set[str]:
    return set(node.operation.results) if node.operation else set()


def _placed(nodes: dict[str, Node], number: int, step: Step, offsets: dict[tuple[int, str], int]) -> Step:
    """The step with its offsets, by the number of the step that begins a lifetime."""
    if step.do is Action.PAGE_IN:
        return replace(step, offsets={step.target: offsets[number, step.target]})
    if step.do is not Action.COMPUTE:
        return step
    places = {value.id: offsets[number, value.id] for value in nodes[step.target].values if value.bytes}
    return replace(step, offsets=places, workspace_offset=offsets.get((number, WORKSPACE)))
