# SPDX-License-Identifier: Apache-2.0
"""The inference that a microcontroller's firmware runs beside a training step, on the same parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Kept, Resident
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.sizes import aligned, constant_bytes
from poet_profiles.losses import Loss
from poet_profiles.traced_loss import TracedLoss
from poet_runtime.traced_graph import Kind, TracedGraph

from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.lowering.firmware import Lowering, held, in_parts, refuse_no_numbers
from poet_planner.lowering.int8.frozen_int8 import WEIGHT_ON_INT8
from poet_planner.lowering.memory.card import with_kept_constants
from poet_planner.lowering.memory.in_place import with_taking_over
from poet_planner.lowering.operators.conv_relu_fusion import with_clipped_convolutions
from poet_planner.lowering.operators.draft import (
    Placed,
    added,
    behind_one_another,
    in_flash,
    nodes_of,
    placed,
    region_bytes,
    without_unread_indices,
)
from poet_planner.lowering.operators.fusion import with_joined_groups
from poet_planner.lowering.rewrites import constants

Data = Mapping[str, NDArray[Any]]
_OWN = (Kind.INPUT, Kind.HISTORY, Kind.OUTPUT)


@dataclass(frozen=True)
class LoweredInference:
    """A graph of costs zero, and the data of those of its constants that the training step lacks, by id.

    ``stream`` is the same of a stream's newest columns, which after so many ``calls`` has heard a window. ``loss`` is
    how the training's loss reads the output, None if it has no name and is no data; ``classes`` are the names of what
    the output has scores for.
    """

    graph: Graph
    data: Data
    loss: Loss | TracedLoss | None = None
    classes: tuple[str, ...] = ()
    stream: LoweredInference | None = None
    calls: int = 0


def lower_inference(
    traced: TracedGraph, training: Graph, training_data: Data, streaming: Streaming = FETCHED_WHOLE
) -> LoweredInference:
    """The graph of a forward pass whose residents begin with the training's, each in its place; so do its constants.

    After them stand its own input and output, and what it reads of frozen tensors that the training does not. What the
    training changes is read where it lies; everything else is a constant.

    Parameters
    ----------
    traced : TracedGraph
        As `trace_forward` makes it.
    training : Graph
        As lowered for the firmware.
    training_data : mapping of str to array
        The data of its constants, by id.
    streaming : Streaming
        Which of what is on the card operators read tile by tile, as in the training.

    Raises
    ------
    UserError
        If the forward pass changes a buffer or draws random numbers, a constant holds no number (NaN), or parameters
        are in parts.
    """
    lasting: tuple[Resident | Kept, ...] = (*training.residents, *training.kept)
    if any(tensor.part for tensor in lasting):
        raise UserError("large activations are in slices, and no inference reads the parts of parameters")
    changed = {tensor.id for tensor in lasting if tensor.kind in TRAINED_KINDS}
    frozen = {id: data for id, data in traced.frozen.items() if id not in changed}
    traced = in_parts(replace(traced, frozen=frozen))
    _refuse_changes(traced)
    lowering = Lowering(traced)
    fixed = {one.id for one in (*traced.residents, *lowering.constants) if one.kind is Kind.CONSTANT}
    drafts = [draft for operator in traced.operators for draft in lowering.drafts(operator)]
    drafts = without_unread_indices(with_clipped_convolutions(drafts, fixed))
    drafts = with_joined_groups(drafts, lowering.lasting)
    read = {operand for draft in drafts for operand in draft.operands}
    data = {id: constants.stored(one) for id, one in constants.constant_data(traced).items() if id in read & fixed}
    refuse_no_numbers(traced.name, data)
    _refuse_other_layers(training, read)
    known = {one.id for one in training.constants} | {one.id for one in training.kept}
    names, more = _beside(data, {id: one for id, one in training_data.items() if id in known})
    drafts = [replace(draft, operands=tuple(names.get(id, id) for id in draft.operands)) for draft in drafts]
    own = placed(held((one for one in traced.residents if one.kind in _OWN), drafts))
    residents = (*training.residents, *(_moved(one, training.resident_bytes) for one in own))
    graph = Graph(
        traced.name,
        tuple(nodes_of(traced, drafts)),
        region_bytes(residents),
        training.dma,
        residents,
        constants=(*training.constants, *(_moved(one, constant_bytes(training)) for one in in_flash(more))),
    )
    graph = with_kept_constants(graph, {kept.id: kept for kept in training.kept}, streaming) if training.kept else graph
    if graph.kept != training.kept:
        raise UserError("it reads rows of a frozen tensor on the card that the training reads whole, or the other way")
    return LoweredInference(with_taking_over(graph), more)


def sharing_inputs(graph: Graph, training: Graph) -> Graph:
    """The graph of an inference whose inputs lie where those of the training's batch begin, if they have room there.

    So it destroys the batch that was put.
    """
    own = graph.residents[len(training.residents) :]
    given, batch = ((one for one in these if one.kind == "input") for these in (own, training.residents))
    shared = {one.id: place.offset for one, place in zip(given, batch, strict=False) if one.bytes <= place.bytes}
    behind = behind_one_another(one for one in own if one.id not in shared)
    places = {one.id: training.resident_bytes + one.offset for one in behind} | shared
    residents = (*training.residents, *(replace(one, offset=places[one.id]) for one in own))
    return replace(graph, residents=residents, resident_bytes=region_bytes(residents))


def in_gradients(graph: Graph, training: Graph) -> Graph:
    """The graph of an inference whose own tensors, its output first, lie where gradients do, as far as there is room.

    So it runs between batches alone: it destroys what their parts have added up.
    """
    own = graph.residents[len(training.residents) :]
    gradients = sorted((one for one in training.residents if one.kind == "gradient"), key=lambda one: one.offset)
    runs: list[tuple[int, int]] = []
    for one in gradients:
        start = runs.pop()[0] if runs and runs[-1][1] == one.offset else one.offset
        runs.append((start, one.offset + aligned(one.bytes)))
    places: dict[str, int] = {}
    at, end = max(runs, key=lambda run: run[1] - run[0], default=(0, 0))
    for one in sorted(own, key=lambda one: one.kind != "output"):
        if aligned(one.bytes) <= end - at and (places or one.kind == "output"):
            places[one.id], at = at, at + aligned(one.bytes)
    behind = behind_one_another(one for one in own if one.id not in places)
    places |= {one.id: training.resident_bytes + one.offset for one in behind}
    residents = (*training.residents, *(replace(one, offset=places[one.id]) for one in own))
    return replace(graph, residents=residents, resident_bytes=max(training.resident_bytes, region_bytes(residents)))


def _refuse_changes(traced: TracedGraph) -> None:
    for operator in (*traced.operators, *traced.bookkeeping):
        where = operator.module or "the model"
        if operator.random:
            raise UserError(f"{where} draws random numbers in evaluation mode")
        if operator.updates:
            raise UserError(f"{where} changes {operator.updates[0]} in evaluation mode")


def _refuse_other_layers(training: Graph, read: set[str]) -> None:
    for constant in training.constants:
        layer, _, what = constant.id.partition("..")
        if what == WEIGHT_ON_INT8 and constant.id not in read:
            raise UserError(f"in evaluation mode its frozen part is another: {layer} is not on int8")


def _beside(data: Data, training_data: Data) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Id of each constant, the training's where that has it, and the data of the others."""
    known = {(one.dtype.str, one.tobytes()): id for id, one in training_data.items()}
    names: dict[str, str] = {}
    more: dict[str, NDArray[Any]] = {}
    for id, one in data.items():
        names[id] = known.get((one.dtype.str, one.tobytes())) or _fresh(id, training_data)
        if names[id] not in training_data:
            more[names[id]] = one
    return names, more


def _fresh(id: str, taken: Data) -> str:
    return added(id, "inference") if id in taken else id


def _moved(tensor: Placed, by: int) -> Placed:
    return replace(tensor, offset=tensor.offset + by)
