"""From a traced graph to one that a board can run: operators of the vocabulary, sizes, residents with their places.

For a microcontroller every operator becomes one of the firmware's, with the firmware's sizes (pooling indices are
bytes, labels 32-bit integers), and a plain SGD step stands behind all gradients. For a Linux board, where PyTorch runs
the traced operators themselves, sizes are PyTorch's and an operator outside of the vocabulary is named ``aten.NAME``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from poet_profiles.operators import OPERATORS, params_key

from poet_planner.graph import Graph, Node, Operation, Resident, Value
from poet_planner.lowering.aten import aten_operation
from poet_planner.lowering.rules import Tensors, firmware_operator, is_row_major, with_transposed_result
from poet_planner.tracing.ir import Kind, TracedGraph, TracedOperator, TracedResident

ORDERING_NODE = "gradients"

_ALWAYS_RESIDENT = (Kind.PARAMETER, Kind.GRADIENT, Kind.INPUT, Kind.TARGET, Kind.LOSS)


def lower_for_firmware(traced: TracedGraph) -> Graph:
    """The training step that a microcontroller runs, its costs zero.

    An operator that the firmware lacks stays as ``aten.NAME``, with PyTorch's sizes: such a graph can be planned, but
    not run on the firmware.
    """
    tensors = _tensors(traced)
    drafts = [_firmware_draft(operator, traced, tensors) for operator in traced.operators]
    used = {operand for draft in drafts for operand in draft.operands}
    residents = _placed(
        (resident, _word_bytes(resident))
        for resident in traced.residents
        if resident.kind in _ALWAYS_RESIDENT or resident.id in used
    )
    nodes = [*_nodes(traced, drafts), *_sgd(traced)]
    return Graph(traced.name, tuple(nodes), _end(residents), residents=residents)


def lower_for_linux(traced: TracedGraph, dma: bool) -> Graph:
    """The training step that PyTorch runs on a Linux board, its costs zero: one node for each traced operator.

    Parameters
    ----------
    dma : bool
        Whether page transfers overlap compute on the board.
    """
    tensors = _tensors(traced)
    drafts = [_linux_draft(operator, traced, tensors) for operator in traced.operators]
    residents = _placed((resident, resident.bytes) for resident in traced.residents)
    return Graph(traced.name, tuple(_nodes(traced, drafts)), _end(residents), dma, residents)


def _tensors(traced: TracedGraph) -> Tensors:
    return {**traced.values, **{resident.id: resident for resident in traced.residents}}


@dataclass(frozen=True)
class _Draft:
    """A node whose operands and results still are the traced graph's ids, in the operator's order."""

    traced: TracedOperator
    op: str
    params: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    sizes: tuple[int, ...]
    workspace_bytes: int


def _firmware_draft(operator: TracedOperator, traced: TracedGraph, tensors: Tensors) -> _Draft:
    lowered = firmware_operator(operator, tensors)
    if lowered and not _gradients_row_major(traced, lowered.results):
        lowered = with_transposed_result(lowered)
    if lowered is None:
        return _aten_draft(operator, traced)
    sizes = OPERATORS[lowered.op].sizes(lowered.params)
    operands = tuple(ref.source for ref in lowered.operands)
    key = params_key(lowered.op, lowered.params)
    return _Draft(operator, lowered.op, key, operands, lowered.results, sizes.outputs, sizes.workspace)


def _gradients_row_major(traced: TracedGraph, results: tuple[str, ...]) -> bool:
    """Whether those of the values that are gradients lie in their parameters' layout."""
    return all(is_row_major(ref) for ref in traced.gradients.values() if ref.source in results)


def _linux_draft(operator: TracedOperator, traced: TracedGraph, tensors: Tensors) -> _Draft:
    """PyTorch's operator, under the vocabulary's name where it has one, so that boards can be compared."""
    lowered = firmware_operator(operator, tensors)
    if lowered is None:
        return _aten_draft(operator, traced)
    return _torch_draft(operator, traced, lowered.op, params_key(lowered.op, lowered.params))


def _aten_draft(operator: TracedOperator, traced: TracedGraph) -> _Draft:
    return _torch_draft(operator, traced, *aten_operation(operator, traced))


def _torch_draft(operator: TracedOperator, traced: TracedGraph, op: str, params: str) -> _Draft:
    operands = tuple(dict.fromkeys(ref.source for ref in operator.refs))
    sizes = tuple(traced.values[id].bytes for id in operator.values)
    return _Draft(operator, op, params, operands, operator.values, sizes, operator.workspace_bytes)


def _nodes(traced: TracedGraph, drafts: list[_Draft]) -> list[Node]:
    kept = {result for draft in drafts for result in draft.results}
    before = _order_values(drafts)
    waited_for = {id for ids in before.values() for id in ids}
    return [_node(traced, draft, kept, before[draft.traced.id], waited_for) for draft in drafts]


def _node(traced: TracedGraph, draft: _Draft, kept: set[str], before: list[str], waited_for: set[str]) -> Node:
    operator = draft.traced
    values = [
        Value(id, 0 if traced.values[id].resident else size)
        for id, size in zip(draft.results, draft.sizes, strict=True)
    ]
    if _done(operator.id) in waited_for:
        values.append(Value(_done(operator.id), 0))
    inputs = dict.fromkeys(operand for operand in draft.operands if operand in kept)
    return Node(
        id=operator.id,
        time_s=0.0,
        energy_j=0.0,
        values=tuple(values),
        inputs=(*inputs, *before),
        workspace_bytes=draft.workspace_bytes,
        recomputable=operator.recomputable,
        backward=operator.backward,
        operation=Operation(draft.op, draft.params, _homes(traced, draft.operands), _homes(traced, draft.results)),
    )


def _homes(traced: TracedGraph, ids: Iterable[str]) -> tuple[str, ...]:
    """Where the tensors live: a value that is a gradient or the loss lives in its resident."""
    return tuple((traced.values[id].resident or id) if id in traced.values else id for id in ids)


def _order_values(drafts: list[_Draft]) -> dict[str, list[str]]:
    """By operator, the values of 0 bytes that say which operators have to come before without giving it a tensor."""
    makers = {result: draft.traced.id for draft in drafts for result in draft.results}
    before = {}
    for draft in drafts:
        given = {makers[operand] for operand in draft.operands if operand in makers}
        before[draft.traced.id] = [_done(id) for id in draft.traced.after if id not in given]
    return before


def _done(operator: str) -> str:
    return f"{operator}.done"


def _sgd(traced: TracedGraph) -> list[Node]:
    """The optimiser's step: behind a node of no cost that follows every gradient and the loss.

    So nothing that reads a weight is ever computed for the first time, or needed again, after the weight has changed.
    """
    ends = [ref.source for ref in (*traced.gradients.values(), traced.loss)]
    shapes = {resident.id: resident.shape for resident in traced.residents}
    order = Node(
        id=ORDERING_NODE,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(ORDERING_NODE, 0),),
        inputs=tuple(dict.fromkeys(ends)),
        recomputable=False,
        backward=True,
    )
    updates = [
        Node(
            id=f"{parameter}.sgd",
            time_s=0.0,
            energy_j=0.0,
            values=(Value(f"{parameter}.sgd", 0),),
            inputs=(ORDERING_NODE,),
            recomputable=False,
            backward=True,
            operation=Operation(
                op="sgd",
                params=params_key("sgd", {"size": prod(shapes[parameter])}),
                operands=_homes(traced, (gradient.source, parameter)),
                results=(parameter,),
            ),
        )
        for parameter, gradient in traced.gradients.items()
    ]
    return [order, *updates]


def _word_bytes(resident: TracedResident) -> int:
    """Bytes on the firmware, where every number is four bytes wide."""
    return 4 * prod(resident.shape)


def _placed(residents: Iterable[tuple[TracedResident, int]]) -> tuple[Resident, ...]:
    """Residents behind one another, each at a multiple of 4."""
    placed = []
    offset = 0
    for resident, size in residents:
        kind = "state" if resident.kind is Kind.BUFFER else resident.kind.value
        placed.append(Resident(resident.id, kind, size, offset, resident.shape))
        offset += -(-size // 4) * 4
    return tuple(placed)


def _end(residents: tuple[Resident, ...]) -> int:
    """Size of the resident region."""
    return max((-(-(r.offset + r.bytes) // 4) * 4 for r in residents), default=0)
