# SPDX-License-Identifier: Apache-2.0
"""A schedule as the calls that the firmware makes, one after the other, with every place resolved (docs/SPEC.md, 5).

The planner writes them into the firmware's tables; the harness knows by them what the firmware has timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from poet_profiles.card.layout import blocks_of
from poet_profiles.firmware.operators import OPERATORS, OPTIMIZERS, parse_params
from poet_profiles.graph import Graph, Node, Operation, Uses
from poet_profiles.graph.kept import FETCH, STORE, TRAINED_KINDS
from poet_profiles.graph.micro_batches import waiting_nodes
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule.model import Action, Schedule, Step

PAGE_IN = "in"
PAGE_OUT = "out"
# The low bits of a word that is no place in RAM.
CONSTANT_BIT = 1
KEPT_BIT = 2
KEPT_SHIFT = 2
# First inputs of an optimizer's operator that all its elements share.
_SHARED_INPUTS = {"adam": 1}


@dataclass(frozen=True)
class Page:
    """Where a paged value lies on the card: its first block, counted from the page area's, and its number."""

    block: int
    number: int


@dataclass(frozen=True)
class Call:
    """One operator, or the transfer of one page.

    A word is a place in RAM in bytes, residents first; or, with `CONSTANT_BIT`, in the table of constants; or, with
    `KEPT_BIT`, the number of a tensor on the card.

    Attributes
    ----------
    op : str
        An operator's name, `PAGE_IN` or `PAGE_OUT`.
    steps : tuple of int
        Which steps of the schedule it stands for; frees stand in none.
    params, inputs, outputs : tuple of int
        Parameters and words. The inputs of a page are its place in RAM, its bytes, its first block and its number.
    workspace : int or None
        One more word.
    waits : bool
        Before it, the transfer under way has to be complete. Transfers wait for each other by themselves.
    changes : bool
        It changes a resident parameter or state; or, of a model in micro-batches, one on the card, or commits.
    """

    op: str
    steps: tuple[int, ...]
    params: tuple[int, ...] = ()
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    workspace: int | None = None
    waits: bool = False
    changes: bool = False

    @property
    def words(self) -> tuple[int, ...]:
        """Inputs, outputs and workspace, as they stand in the firmware's table."""
        return (*self.inputs, *self.outputs, *(() if self.workspace is None else (self.workspace,)))


def calls_of(graph: Graph, schedule: Schedule) -> tuple[Call, ...]:
    """The calls of a sound schedule that has offsets; neighbouring updates of tensors side by side are one."""
    places = _Places(graph, schedule)
    bus = _Bus()
    nodes = {node.id: node for node in graph.nodes}
    calls = []
    for number, step in enumerate(schedule.steps):
        if step.do is Action.FREE:
            bus.free(step.target)
        elif step.do is Action.COMPUTE:
            node = nodes[step.target]
            if node.operation is not None:
                call = places.compute(number, step, node, node.operation)
                calls.append(replace(call, waits=bus.compute(node, node.operation, call.changes)))
        else:
            calls.append(places.page(number, step))
            bus.move(step.target, reads=step.do is Action.PAGE_IN)
    return _joined(calls)


def pages_of(graph: Graph, schedule: Schedule) -> dict[str, Page]:
    """The pages of all values that the schedule pages, one after the other in the graph's order."""
    paged = {step.target for step in schedule.steps if step.do is Action.PAGE_OUT}
    pages: dict[str, Page] = {}
    free = 0
    for value in (value for node in graph.nodes for value in node.values if value.id in paged):
        pages[value.id] = Page(free, len(pages))
        free += blocks_of(value.bytes)
    return pages


class _Places:
    """Where each tensor is, from step to step."""

    def __init__(self, graph: Graph, schedule: Schedule) -> None:
        self._arena = graph.resident_bytes
        self._pages = pages_of(graph, schedule)
        self._sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
        self._waiting = {node.id for node in waiting_nodes(graph)} if graph.micro_batches > 1 else set()
        self._lasting = {one.id for one in graph.residents if one.kind in TRAINED_KINDS}
        self._words = {one.id: one.offset for one in graph.residents}
        self._words |= {one.id: one.offset | CONSTANT_BIT for one in graph.constants}
        self._words |= {one.id: number << KEPT_SHIFT | KEPT_BIT for number, one in enumerate(graph.kept)}

    def compute(self, number: int, step: Step, node: Node, operation: Operation) -> Call:
        """Its inputs are looked up first: the first output may lie in the place of one of them."""
        inputs = tuple(self._words[id] for id in operation.operands)
        self._put(step)
        return Call(
            operation.op,
            (number,),
            params=OPERATORS[operation.op].values(parse_params(operation.params)),
            inputs=inputs,
            outputs=tuple(self._words[id] for id in operation.results),
            workspace=self._workspace(step, node),
            changes=node.id in self._waiting or not self._lasting.isdisjoint(operation.results),
        )

    def page(self, number: int, step: Step) -> Call:
        self._put(step)
        page = self._pages[step.target]
        words = (self._words[step.target], self._sizes[step.target], page.block, page.number)
        return Call(PAGE_IN if step.do is Action.PAGE_IN else PAGE_OUT, (number,), inputs=words)

    def _put(self, step: Step) -> None:
        self._words |= {id: self._arena + offset for id, offset in step.offsets.items() if self._sizes[id]}

    def _workspace(self, step: Step, node: Node) -> int | None:
        if not node.workspace_bytes:
            return None
        if step.workspace_offset is None:
            raise ValueError(f"compute {node.id} has no workspace offset")
        return self._arena + step.workspace_offset


class _Bus:
    """Which tensor a transfer may be moving, beside what the CPU does: what has to wait for it (docs/SPEC.md, 4)."""

    def __init__(self) -> None:
        self._moving: str | None = None
        self._reads = False
        self._freed = False  # what it moves has no place any more once it is complete

    def move(self, id: str, reads: bool) -> None:
        """Begins a transfer, which waits by itself for the one before."""
        self._moving, self._reads, self._freed = id, reads, False

    def free(self, id: str) -> None:
        self._freed = self._freed or id == self._moving

    def compute(self, node: Node, operation: Operation, changes: bool) -> bool:
        """Whether it waits."""
        if operation.op in (FETCH, STORE):
            moved = operation.results if operation.op == FETCH else operation.operands
            self.move(moved[0], reads=operation.op == FETCH)
            return False
        arrives = self._reads and self._moving in operation.operands
        taken_over = self._moving in node.takes_over.values()
        # What can still fail has to fail before a weight changes.
        needs_bus = node.uses is Uses.BOTH or changes
        waits = self._moving is not None and (self._freed or arrives or taken_over or needs_bus)
        if waits:
            self._moving, self._freed = None, False
        return waits


def _joined(calls: Iterable[Call]) -> tuple[Call, ...]:
    """Updates that differ in their tensors alone, each of which continues the one before, become one."""
    found: list[Call] = []
    for call in calls:
        if found and _continues(found[-1], call):
            last = found[-1]
            size = last.params[0] + call.params[0]
            found[-1] = replace(last, steps=last.steps + call.steps, params=(size, *last.params[1:]))
        else:
            found.append(call)
    return tuple(found)


def _continues(last: Call, call: Call) -> bool:
    """A later one never waits: the one before changes a weight, after which no transfer begins."""
    if call.op not in OPTIMIZERS or call.op != last.op or call.params[1:] != last.params[1:]:
        return False
    shared = _SHARED_INPUTS.get(call.op, 0)
    before, after = _elements(last, shared), _elements(call, shared)
    behind = [word + 4 * last.params[0] for word in before]
    return after == behind and call.inputs[:shared] == last.inputs[:shared]


def _elements(call: Call, shared: int) -> Sequence[int]:
    return [*call.inputs[shared:], *call.outputs]
