# SPDX-License-Identifier: Apache-2.0
"""What the graph of one micro-batch obeys (docs/SPEC.md, section 3), and what of it runs once a batch."""

from __future__ import annotations

from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import ACCUMULATE, MATMUL, ROWS, SUM_SO_FAR, parse_params
from poet_profiles.firmware.steps import ADDITION, POINTWISE
from poet_profiles.graph.kept import CONSTANT, FETCH, TRAINED_KINDS, commits
from poet_profiles.graph.model import Graph, Kept, Node, Operation, Resident

SUM_KINDS = ("gradient", "loss")
EACH_PART = "advance"  # each micro-batch draws random numbers of its own
SHARED = "adam_factors"  # what it makes hangs on no sample


def waiting_nodes(graph: Graph) -> list[Node]:
    """Those that run once a batch, in its last micro-batch: they change a parameter or a state, or commit."""
    lasting = _tensors(graph, TRAINED_KINDS)
    changing = [node for node in graph.nodes if node.operation and lasting.intersection(node.operation.results)]
    return [*(one for one in changing if one.operation and one.operation.op != EACH_PART), *commits(graph)]


def _tensors(graph: Graph, kinds: tuple[str, ...]) -> set[str]:
    """Ids of what is in RAM for good or on the card."""
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    return {one.id for one in tensors if one.kind in kinds}


def check_micro_batches(graph: Graph) -> None:
    """Whether a step in micro-batches adds up its gradients and losses, and changes nothing by one part alone."""
    if graph.micro_batches < 1:
        raise FaultError(f'"micro_batches" is {graph.micro_batches}; it must be a whole number, at least 1')
    if graph.micro_batches == 1:
        return
    if graph.allocates:
        raise FaultError(f'"micro_batches" is {graph.micro_batches}; a graph with "allocates" has 1: leave it out')
    waiting = waiting_nodes(graph)
    sums = [resident.id for resident in graph.residents if resident.kind in SUM_KINDS]
    if any(node.operation for node in graph.nodes):
        after = {node.id for node in waiting}
        for id in sums:
            _check_sum(id, [node for node in graph.nodes if node.id not in after and _names(node, id)])
    lasting = _tensors(graph, (*TRAINED_KINDS, CONSTANT))
    shared = {
        value.id
        for node in graph.nodes
        if node.operation and (node.operation.op == SHARED or _is_fetch(node.operation, lasting))
        for value in node.values
    }
    known = shared.union(lasting, sums, (constant.id for constant in graph.constants))
    for node in waiting:
        for operand in node.operation.operands if node.operation else ():
            if operand not in known:
                raise FaultError(
                    f"node {node.id} reads {operand}, which is of one micro-batch; "
                    "what changes a parameter or a state reads sums over all of them"
                )


def _check_sum(id: str, nodes: list[Node]) -> None:
    """``nodes`` are those that run in each micro-batch and name it."""
    if _add_all_columns(id, nodes):
        return
    if len(nodes) != 1:
        raise FaultError(f"{len(nodes)} nodes of each micro-batch name the sum {id}; one must, which adds to it")
    operation = nodes[0].operation
    assert operation is not None
    place = None
    if operation.op == POINTWISE and operation.params.endswith(f" steps={ADDITION}"):
        place = 1
    elif operation.op == MATMUL + ACCUMULATE and parse_params(operation.params).get("k") == 1:
        place = SUM_SO_FAR
    is_sum = place is not None and operation.operands[place:] == operation.results == (id,)
    if not is_sum or id in operation.operands[:place] or nodes[0].recomputable:
        raise FaultError(
            f"node {nodes[0].id} must add a value to the sum {id}, not recomputable: "
            f"{POINTWISE} {ADDITION} of [value, {id}] in {id}, or {MATMUL}{ACCUMULATE} with k=1"
        )


def _add_all_columns(id: str, nodes: list[Node]) -> bool:
    """Whether they add to each column of the sum once, as bands do."""
    end = of = 0
    for node in nodes:
        if node.operation is None or node.operation.op != MATMUL + ACCUMULATE + ROWS or node.recomputable:
            return False
        p = parse_params(node.operation.params)
        if node.operation.operands[SUM_SO_FAR:] != (id,) or node.operation.results != (id,) or p["at"] != end:
            return False
        end, of = end + p["size"], p["of"]
    return bool(nodes) and end == of


def _is_fetch(operation: Operation, lasting: set[str]) -> bool:
    return operation.op == FETCH and lasting.issuperset(operation.operands)


def _names(node: Node, id: str) -> bool:
    return node.operation is not None and id in (*node.operation.operands, *node.operation.results)
