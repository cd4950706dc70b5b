# SPDX-License-Identifier: Apache-2.0
"""The training step that a microcontroller's firmware runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import prod
from typing import Any

import torch
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.graph import Graph, Value
from poet_runtime.traced_graph import Kind, Ref, TracedGraph, TracedOperator, TracedResident

from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.lowering.int8.bytes_looked_up import with_bytes_looked_up, with_int16_widened
from poet_planner.lowering.int8.frozen_int8 import folded, with_int8
from poet_planner.lowering.int8.integers import with_integers
from poet_planner.lowering.linux import torch_draft
from poet_planner.lowering.memory.optimizer_step import changes, ends, optimizer_states
from poet_planner.lowering.memory.sums import sums_of, with_sums, with_values_to_add
from poet_planner.lowering.operators.aten import aten_operation
from poet_planner.lowering.operators.conv_relu_fusion import with_clipped_convolutions
from poet_planner.lowering.operators.draft import (
    NARROW,
    Draft,
    added,
    arena_value,
    done,
    in_flash,
    nodes_of,
    placed,
    region_bytes,
    without_unread_indices,
)
from poet_planner.lowering.operators.fusion import with_joined_groups
from poet_planner.lowering.operators.refusals import odd_type, refusal
from poet_planner.lowering.operators.rules import (
    Lowered,
    firmware_operator,
    is_row_major,
    is_transposed,
    places_read,
    swapped,
    with_transposed_result,
)
from poet_planner.lowering.operators.steps import elementwise
from poet_planner.lowering.operators.strided_copies import copied, strided_operator
from poet_planner.lowering.rewrites import constants
from poet_planner.lowering.rewrites.activation_gradients import with_gradients_by_results, with_slopes_before_unpooling
from poet_planner.lowering.rewrites.affine_norms import with_weights
from poet_planner.lowering.rewrites.attention import weights_of_attention, with_plain_attention
from poet_planner.lowering.rewrites.bias_gradients import with_sums_of_biases
from poet_planner.lowering.rewrites.concat import with_padded_joins
from poet_planner.lowering.rewrites.convolutions import with_plain_convolutions
from poet_planner.lowering.rewrites.decompositions import with_decompositions
from poet_planner.lowering.rewrites.losses import with_plain_losses
from poet_planner.lowering.rewrites.one_place import with_products
from poet_planner.lowering.rewrites.padding_row import with_padding_apart
from poet_planner.lowering.rewrites.permuted_gradients import with_gradients_in_order
from poet_planner.lowering.rewrites.random_numbers import drawn, with_own_generator
from poet_planner.lowering.rewrites.split_copies import with_copies_in_two

# What is rewritten in operators that the firmware has, in this order.
ON_INT8 = (folded, with_int8, with_integers)
PASSES = (
    with_bytes_looked_up,
    with_int16_widened,
    *ON_INT8,
    with_plain_attention,
    with_plain_losses,
    with_padding_apart,
    with_sums_of_biases,
    with_plain_convolutions,
    with_products,
    with_weights,
    with_decompositions,
    with_padded_joins,
    with_gradients_in_order,
    with_copies_in_two,
    with_gradients_by_results,
    with_slopes_before_unpooling,
)
_ALWAYS_RESIDENT = (Kind.PARAMETER, Kind.GRADIENT, Kind.INPUT, Kind.TARGET, Kind.LOSS)


def lower_for_firmware(
    traced: TracedGraph,
    dma: bool = False,
    resident_gradients: bool = True,
    optimizer: Optimizer = PLAIN,
    micro_batches: int = 1,
) -> Graph:
    """The graph of a training step, its costs zero; all its operators the firmware's, where the firmware has them.

    An operator that it lacks stays as ``aten.NAME``, with PyTorch's sizes: such a graph can be planned, but not run on
    the firmware. What no step changes is a constant in flash, and so is what operators make of constants alone.

    Parameters
    ----------
    dma : bool
        Whether page transfers overlap compute on the board.
    resident_gradients : bool
        Whether every gradient has a place in RAM for good. Otherwise gradients are values like activations: they wait
        in the arena or on the card until the optimiser's step has read them.
    optimizer : Optimizer
        What the step ends with. Its state is among the residents.
    micro_batches : int
        Above 1, what was traced is the step on one of so many parts of a batch: gradients have places in RAM, in which
        they are added up.

    Raises
    ------
    UserError
        If the firmware has no such options of the optimiser, the loss has parameters of its own, or a constant holds
        no number (NaN).
    """
    if traced.loss_parameters:
        raise UserError(
            f"the loss has a parameter of its own, {min(traced.loss_parameters)}, and the firmware trains the model's "
            "alone; make the loss's layers part of the model"
        )
    sums = sums_of(traced) if micro_batches > 1 else {}
    if sums:
        traced = with_values_to_add(traced)
    elif not resident_gradients:
        traced = _with_gradients_as_values(traced)
    traced = with_own_generator(in_parts(traced))
    lowering = Lowering(traced)
    fixed = {one.id for one in (*traced.residents, *lowering.constants) if one.kind is Kind.CONSTANT}
    drafts = [draft for operator in traced.operators for draft in lowering.drafts(operator)]
    drafts = without_unread_indices(with_clipped_convolutions(drafts, fixed))
    drafts = with_joined_groups(drafts, lowering.lasting)
    states = optimizer_states(traced, optimizer)
    used = {operand for draft in drafts for operand in draft.operands}
    used |= {operand.source for update in lowering.statistics.values() for operand in update.operands}
    lasting = [
        resident
        for resident in (*traced.residents, *lowering.constants, *states)
        if resident.kind in _ALWAYS_RESIDENT or resident.id in used or resident in states
    ]
    residents = placed(held(lasting, drafts))
    data = constants.constant_data(traced)
    in_words = {one.id: constants.stored(data[one.id]) for one in lasting if one.kind is Kind.CONSTANT}
    refuse_no_numbers(traced.name, in_words)
    unread = _unread(traced, lowering.statistics, drafts)
    nodes = (*nodes_of(traced, drafts, unread), *changes(traced, lowering.statistics, optimizer, map(done, unread)))
    graph = Graph(traced.name, nodes, region_bytes(residents), dma, residents, constants=in_flash(in_words))
    return with_sums(graph, sums, micro_batches) if sums else graph


def constant_data(traced: TracedGraph) -> dict[str, NDArray[Any]]:
    """Data of the constants of a graph for the firmware, and of what they were made of, as the firmware has it."""
    data = constants.constant_data(in_parts(traced))
    return {id: constants.stored(tensor) for id, tensor in data.items()}


def in_parts(traced: TracedGraph, passes: Iterable[Callable[[TracedGraph], TracedGraph]] = PASSES) -> TracedGraph:
    """The same step of operators that the firmware has, where it lacks those that PyTorch ran."""
    for rewrite in passes:
        traced = rewrite(traced)
    return traced


def in_integers(traced: TracedGraph) -> TracedGraph:
    """The same step of PyTorch's operators, but for what is on int8: that is the firmware's."""
    return in_parts(traced, ON_INT8)


def _unread(traced: TracedGraph, statistics: dict[str, Lowered], drafts: list[Draft]) -> list[str]:
    """Ids of the nodes that nothing reads: PyTorch's own updates of buffers, which take place when the step is over."""
    read = {operand for draft in drafts for operand in draft.operands} | set(ends(traced, statistics))
    return [draft.id for draft in drafts if read.isdisjoint(value.id for value in draft.values)]


class Lowering:
    """Drafts of one traced graph's nodes.

    ``constants`` are the residents that operators have become, ``statistics`` the updates of running statistics that
    belong at the step's end, by the ids of their nodes.
    """

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self.statistics: dict[str, Lowered] = {}
        self._shapes = {id: value.shape for id, value in traced.values.items()}
        self._shapes |= {resident.id: resident.shape for resident in traced.residents}
        self.constants = constants.computed_constants(traced)
        self._constant_ids = {constant.id for constant in self.constants}
        self._made = {id: value for id, value in traced.values.items() if id not in self._constant_ids}
        self._places_read = places_read(traced)

    def drafts(self, operator: TracedOperator) -> list[Draft]:
        """The nodes that stand for one traced operator: copies of views, and itself."""
        if operator.values and operator.values[0] in self._constant_ids:
            return []
        if (change := self._change(operator)) is not None:
            self.statistics[operator.id] = change
            return []
        lowered = self._operator(operator)
        odd = odd_type(operator, lowered, self._traced.values)
        if lowered is None or odd is not None:
            return [self._refused(operator, odd)]
        copies = self._copies(operator, lowered)
        if None in copies.values():
            return [self._refused(operator, None)]
        made = {place: copy for place, copy in copies.items() if copy is not None}
        operands = tuple(made[place].id if place in made else ref.source for place, ref in enumerate(lowered.operands))
        main = replace(self._draft(operator, operator.id, lowered), operands=operands)
        if lowered.update is not None:
            self.statistics[added(operator.id, "update")] = lowered.update
        return [*made.values(), main]

    def _change(self, operator: TracedOperator) -> Lowered | None:
        """The copy of a new value to a buffer, when the step is over."""
        if operator.target is not torch.ops.aten.copy_.default or not operator.updates:
            return None
        contents: Ref = operator.args[1]
        if contents.source not in self._traced.values or contents.dtype != torch.float32:
            return None
        return copied(contents, self._shapes[contents.source], operator.updates[0])

    def _refused(self, operator: TracedOperator, odd: torch.dtype | None) -> Draft:
        draft = torch_draft(operator, self._traced, *aten_operation(operator, self._traced))
        return replace(draft, refused=refusal(operator, self._traced, odd))

    def _operator(self, operator: TracedOperator) -> Lowered | None:
        source = self._shapes[operator.refs[0].source] if operator.refs else ()
        lowered = (
            firmware_operator(operator)
            or (None if self._reads_stored_flags(operator) else strided_operator(operator, source))
            or drawn(operator, self._traced)
            or weights_of_attention(operator, self._traced)
        )
        if lowered is None or odd_type(operator, lowered, self._traced.values):
            lowered = elementwise(operator, self._made) or lowered
        if lowered and not self._gradients_row_major(lowered.results):
            lowered = with_transposed_result(lowered)
        if lowered is None or not all(self._is_stored_row_major(id) for id in lowered.results):
            return None
        if not all(prod(ref.shape) for ref in lowered.operands):
            return None  # what has no elements lies nowhere
        if not self._places_read.isdisjoint(lowered.results):
            return None
        # Running statistics are values, and not updated in place, after the first of two uses of a module.
        if lowered.update and any(id in self._traced.values for id in lowered.update.results):
            return None
        return lowered

    @property
    def lasting(self) -> set[str]:
        """Values that the step's end reads."""
        read = {ref.source for ref in self._traced.gradients.values()}
        return read | {ref.source for update in self.statistics.values() for ref in update.operands}

    def _reads_stored_flags(self, operator: TracedOperator) -> bool:
        """Whether a flag that lies as an i32 would become a value, which is f32."""
        return any(ref.dtype == torch.bool and ref.source not in self._made for ref in operator.refs)

    def _gradients_row_major(self, results: tuple[str, ...]) -> bool:
        """Whether those of the values that are gradients lie in their parameters' layout."""
        gradients = (ref for ref in self._traced.gradients.values() if ref.source in results)
        return all(is_row_major(ref.shape, ref.stride) for ref in gradients)

    def _is_stored_row_major(self, id: str) -> bool:
        value = self._traced.values.get(id)
        return value is None or is_row_major(value.shape, value.stride)

    def _copies(self, operator: TracedOperator, lowered: Lowered) -> dict[int, Draft | None]:
        """A copying node by the position of each operand that does not lie as the operator reads it.

        None where the firmware cannot copy it.
        """
        copies: dict[int, Draft | None] = {}
        for place, ref in enumerate(lowered.operands):
            read_transposed = place in lowered.transposed and is_transposed(ref)
            if self._is_whole(ref) and (read_transposed or is_row_major(ref.shape, ref.stride)):
                continue
            id = added(operator.id, f"operand{place}")
            copy = copied(swapped(ref) if read_transposed else ref, self._shapes[ref.source], id)
            copies[place] = None if copy is None else self._helper(operator, id, copy)
        return copies

    def _is_whole(self, ref: Ref) -> bool:
        return prod(ref.shape) == prod(self._shapes[ref.source])

    def _helper(self, operator: TracedOperator, id: str, lowered: Lowered) -> Draft:
        sizes = OPERATORS[lowered.op].sizes(lowered.params)
        return Draft(
            id=id,
            traced=operator,
            op=lowered.op,
            params=params_key(lowered.op, lowered.params),
            operands=tuple(ref.source for ref in lowered.operands),
            results=lowered.results,
            values=(Value(id, sizes.outputs[0]),),
            workspace_bytes=sizes.workspace,
            recomputable=True,
        )

    def _draft(self, operator: TracedOperator, id: str, lowered: Lowered) -> Draft:
        sizes = OPERATORS[lowered.op].sizes(lowered.params)
        pairs = zip(lowered.results, sizes.outputs, strict=True)
        values = tuple(arena_value(self._traced, result, size) for result, size in pairs)
        return replace(self._helper(operator, id, lowered), values=values, recomputable=operator.recomputable)


def _with_gradients_as_values(traced: TracedGraph) -> TracedGraph:
    gradients = {ref.source for ref in traced.gradients.values()}
    values = {id: replace(value, resident=None) if id in gradients else value for id, value in traced.values.items()}
    residents = tuple(resident for resident in traced.residents if resident.kind is not Kind.GRADIENT)
    return replace(traced, values=values, residents=residents)


def refuse_no_numbers(name: str, constants: dict[str, NDArray[Any]]) -> None:
    for id, data in constants.items():
        if (data != data).any():
            raise UserError(
                f"{name}: {id} holds what is no number (NaN), and training does not change it; give another"
            )


def held(residents: Iterable[TracedResident], drafts: Iterable[Draft]) -> Iterator[tuple[TracedResident, int]]:
    """Those that are no constants, with their bytes: four a number, but of an input what the operators read of it."""
    residents = [one for one in residents if one.kind is not Kind.CONSTANT]
    narrow = {one.id for one in residents if one.dtype in NARROW}
    read = {
        id: size
        for draft in drafts
        if not narrow.isdisjoint(draft.operands) and draft.op in OPERATORS
        for id, size in zip(draft.operands, OPERATORS[draft.op].sizes(parse_params(draft.params)).inputs, strict=True)
    }
    for one in residents:
        yield one, read[one.id] if one.id in narrow & read.keys() else 4 * prod(one.shape)
