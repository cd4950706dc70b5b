# SPDX-License-Identifier: Apache-2.0
"""A plan's folder as a board runs it: each action with its prediction, and what its tensors are."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.card.layout import CardLayout, card_layout
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.graph import Graph, Kept, Operation, PageCost, Resident
from poet_profiles.graph.kept import BATCH_KINDS, CONSTANT, TRAINED_KINDS
from poet_profiles.graph.micro_batches import waiting_nodes
from poet_profiles.graph.model import number_bytes
from poet_profiles.graph.parts import joined, name_of
from poet_profiles.plan_folder import DATA_FILE, GRAPH_FILE, PROGRAM_FILE, SCHEDULE_FILE
from poet_profiles.plan_folder.files import PlanFiles, there
from poet_profiles.plan_folder.files import read_plan as read_files
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import Call, calls_of
from poet_profiles.schedule.file import document_of_schedule
from poet_profiles.schedule.ram import held_bytes

from .optimizer import TorchOptimizer, optimizer_of
from .program import packed, read_program, tensors_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMPYS = {"u8": "|u1", "i8": "|i1", "i16": "<i2"}
UNKNOWN = PageCost(math.nan, math.nan, math.nan, math.nan)
# Operands that are integers: their place, and the parameter that says how many there are to choose from, None where any
# will do. Every other tensor is f32 (docs/SPEC.md, section 1).
CHOICES: dict[str, tuple[int, str | None]] = {
    "nll_loss": (1, "n"),
    "nll_loss_backward": (1, "n"),
    "embedding": (1, "v"),
    "embedding_backward": (1, "v"),
    "gather": (1, "v"),
    "gather_backward": (1, "v"),
    "streamed_embedding": (1, "v"),
    "streamed_embedding_update": (1, "v"),
    "bernoulli": (0, None),
    "adam_factors": (0, None),
}
WORDS = 2**31
COPIES = ("strided_copy", "fetch")
ADVANCE = "advance"


@dataclass(frozen=True)
class PredictedAction:
    """One call of the firmware with its predicted cost, or on a Linux board one step of the schedule.

    ``op`` and ``params`` are empty for what computes nothing.

    ``peak_bytes`` is the most RAM in use during it, residents included. A training step does it ``runs`` times, once a
    micro-batch, or once after the last: time and energy are those of all runs.
    """

    do: str
    name: str
    op: str
    time_s: float
    energy_j: float
    peak_bytes: int
    params: str = ""
    runs: int = 1

    @property
    def is_marked(self) -> bool:
        """Whether the board raises its window line for it when it traces."""
        return self.do in ("page_in", "page_out") or (self.do == "compute" and bool(self.op))


@dataclass(frozen=True, kw_only=True)
class Plan(PlanFiles):
    """A plan as a board runs it.

    Attributes
    ----------
    residents : tuple of Resident
        Tensors with a fixed place in the board's RAM; the index of one in the protocol is its place here.
    actions : tuple of PredictedAction
        What a step does, one after the other.
    choices : mapping of str to int
        The residents that name one of several, by id: each number is from 0 to below that.
    ignored : mapping of str to int
        Of these, the number beside them that is left out wherever one is read.
    types : mapping of str to str
        NumPy's name of each tensor's type, by id, where it is not ``<f4``.
    documents : tuple of bytes
        What the agent of a Linux board loads: the program, and the schedule. Empty for firmware, which is flashed.
    data : bytes
        What a sketch loads; empty where the folder has none.
    optimizer : TorchOptimizer
        What a step ends with, and where its state lies.
    generators : tuple of str
        Ids of the states of random generators.
    """

    residents: tuple[Resident, ...]
    actions: tuple[PredictedAction, ...]
    choices: Mapping[str, int] = field(default_factory=dict)
    ignored: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    documents: tuple[bytes, ...] = ()
    data: bytes = b""
    optimizer: TorchOptimizer = field(default_factory=TorchOptimizer)
    generators: tuple[str, ...] = ()

    @property
    def kept(self) -> tuple[Kept, ...]:
        """Tensors that lie on the card."""
        return self.graph.kept

    @cached_property
    def card(self) -> CardLayout | None:
        """Where they lie; None without any."""
        return card_layout(self.graph)

    @property
    def micro_batches(self) -> int:
        """Equal parts of a batch, given to the board one after the other: its inputs and targets are of one part."""
        return self.graph.micro_batches

    def type_of(self, tensor: Resident | Kept) -> np.dtype[Any]:
        """The type of a tensor's numbers."""
        return np.dtype(self.types.get(tensor.id, "<f4"))

    @property
    def tensors(self) -> tuple[Resident | Kept, ...]:
        """All that has a place, in RAM or on the card."""
        return (*self.residents, *self.kept)

    @property
    def commits_steps(self) -> bool:
        """Whether each step ends with a commit to the card: something there is no constant."""
        return any(tensor.kind != CONSTANT for tensor in self.kept)

    @property
    def commit_each(self) -> int:
        """So many steps are made to count together."""
        return self.card.commit_each if self.card is not None else 1

    @property
    def keeps_batches(self) -> bool:
        """Whether its batches lie on the card, which is given them once."""
        return any(tensor.kind in BATCH_KINDS for tensor in self.kept)

    def whole(self, tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Tensors by their id in the network, each whole, of those in parts by their id in the graph."""
        return joined(self.tensors, tensors)

    @property
    def resident_unit(self) -> tuple[Resident, ...]:
        """The residents that a commit keeps."""
        return tuple(resident for resident in self.residents if resident.kind in TRAINED_KINDS)


def read_plan(folder: Path) -> Plan:
    """Read a plan's folder."""
    files = read_files(folder)
    graph, schedule = files.graph, files.schedule
    if graph.allocates:
        program = read_program(folder, graph)
        residents, types = tensors_of(program, folder / PROGRAM_FILE)
        documents = (packed(program), packed(document_of_schedule(schedule)))
        actions = tuple(_actions_of_steps(graph, schedule))
        return Plan(**vars(files), residents=residents, actions=actions, types=types, documents=documents)
    _refuse_residents(graph, folder / GRAPH_FILE)
    try:
        choices, ignored = _choices(*([files.extraction.graph] if files.extraction else []), graph)
        tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
        optimizer = optimizer_of(_operations(graph), {tensor.id: name_of(tensor) for tensor in tensors})
        generators = tuple(operation.operands[0] for operation in _operations(graph) if operation.op == ADVANCE)
    except IndexError:
        raise UserError(f"{folder / GRAPH_FILE}: an operand of an operator is missing; plan again") from None
    return Plan(
        **vars(files),
        residents=graph.residents,
        actions=_actions_of_calls(graph, schedule, folder / SCHEDULE_FILE),
        choices=choices,
        ignored=ignored,
        types={**dict.fromkeys(choices, "<i4"), **{one.id: NUMPYS[one.dtype] for one in tensors if one.dtype}},
        data=(folder / DATA_FILE).read_bytes() if (folder / DATA_FILE).is_file() else b"",
        optimizer=optimizer,
        generators=generators,
    )


def _operations(graph: Graph) -> Iterator[Operation]:
    return (node.operation for node in graph.nodes if node.operation)


def _choices(*graphs: Graph) -> tuple[dict[str, int], dict[str, int]]:
    """How many there are to choose from, by the id of each tensor of integers; through copies of them, too.

    And the number that all that read it leave out.
    """
    choices: dict[str, int] = {}
    left_out: dict[str, set[int | None]] = {}
    for operation in reversed([operation for graph in graphs for operation in _operations(graph)]):
        op, operands = operation.op, operation.operands
        if op in CHOICES:
            place, parameter = CHOICES[op]
            number = parse_params(operation.params)[parameter] if parameter else WORDS
            choices[operands[place]] = min(number, choices.get(operands[place], number))
            given = parse_params(operation.params)
            left_out.setdefault(operands[place], set()).add(given["ignored"] if given.get("ignores") else None)
        elif op in COPIES and operation.results[0] in choices:
            choices[operands[0]] = choices[operation.results[0]]
            left_out.setdefault(operands[0], set()).update(left_out[operation.results[0]])
    only = {id: next(iter(numbers)) for id, numbers in left_out.items() if len(numbers) == 1}
    return choices, {id: number for id, number in only.items() if number is not None}


def _refuse_residents(graph: Graph, path: Path) -> None:
    if not graph.residents:
        raise UserError(f"{path}: residents: is missing: no board can run it; plan with --parameters resident")
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    for tensor in tensors:
        size = number_bytes(tensor.dtype)
        if tensor.bytes != size * math.prod(tensor.shape):
            raise UserError(
                f"{path}: {tensor.id}: {tensor.bytes} bytes are not those of shape {list(tensor.shape)}, {size} "
                "a number; plan again"
            )


def check_headers(folder: Path, plan: Plan) -> None:
    """Make sure that the C headers of a plan's folder are those of its graph and schedule."""
    for name, member, wanted in (
        ("poet_model.h", "graph_hash", plan.graph_hash),
        ("poet_schedule.h", "graph_hash", plan.graph_hash),
        ("poet_schedule.h", "hash", plan.schedule_hash),
    ):
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "is no text"
            raise UserError(f"{path}: {words}; make the plan with poet-plan --out {folder}") from None
        if '#include "poet_constants.h"' in text:
            there(folder / "poet_constants.h")
        found = re.search(rf"\.{member} = UINT64_C\(0x([0-9a-f]{{16}})\)", text)
        if found is None or found[1] != wanted:
            has = f"the {member} {found[1]}" if found else f"no {member}"
            raise UserError(
                f"{path}: belongs to another plan than graph.json and schedule.json beside it: it has {has}, they have "
                f"{wanted}; plan again with poet-plan --out {folder}"
            )
    for what, beside in (("inference", plan.inference), ("features", plan.extraction)):
        if beside is not None and f"UINT64_C(0x{beside.schedule_hash})" not in text:
            raise UserError(f"{path}: the {what} in {folder} is missing; plan again with poet-plan --out {folder}")


def _actions_of_calls(graph: Graph, schedule: Schedule, path: Path) -> tuple[PredictedAction, ...]:
    """What the firmware does one after the other: a call may stand for several steps."""
    steps = list(_actions_of_steps(graph, schedule))
    try:
        calls = calls_of(graph, schedule)
    except (KeyError, ValueError) as error:
        raise UserError(f"{path}: has no place for {' '.join(str(error).split())}; plan again") from None
    return tuple(_action_of(call, [steps[number] for number in call.steps]) for call in calls)


def _action_of(call: Call, steps: Sequence[PredictedAction]) -> PredictedAction:
    if len(steps) == 1:
        return steps[0]
    params = zip(OPERATORS[call.op].params, call.params, strict=True)
    return replace(
        steps[0],
        name=", ".join(step.name for step in steps),
        params=" ".join(f"{name}={number}" for name, number in params),
        time_s=math.fsum(step.time_s for step in steps),
        energy_j=math.fsum(step.energy_j for step in steps),
        peak_bytes=max(step.peak_bytes for step in steps),
    )


def _actions_of_steps(graph: Graph, schedule: Schedule) -> Iterator[PredictedAction]:
    nodes = {node.id: node for node in graph.nodes}
    parts, waiting = graph.micro_batches, {node.id for node in waiting_nodes(graph)}
    pages = {value.id: value.page for node in graph.nodes for value in node.values}
    for step, held in zip(schedule.steps, held_bytes(graph, schedule.steps), strict=True):
        do, name = step.do.value, step.target
        if step.do is Action.COMPUTE:
            node = nodes[name]
            op, params = (node.operation.op, node.operation.params) if node.operation else ("", "")
            runs = 1 if name in waiting or op == ADVANCE else parts
            yield PredictedAction(do, name, op, runs * node.time_s, runs * node.energy_j, held.during, params, runs)
        elif step.do is Action.FREE:
            yield PredictedAction(do, name, "", 0.0, 0.0, held.during, runs=parts)
        else:
            page = pages[name] or UNKNOWN
            page_in = step.do is Action.PAGE_IN
            time_s = page.in_time_s if page_in else page.out_time_s
            energy_j = page.in_energy_j if page_in else page.out_energy_j
            yield PredictedAction(do, name, do, parts * time_s, parts * energy_j, held.during, runs=parts)
