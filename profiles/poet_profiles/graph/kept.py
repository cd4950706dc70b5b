# SPDX-License-Identifier: Apache-2.0
"""What a graph with kept tensors obeys (docs/SPEC.md, section 3): who reads and writes the card, and when it counts."""

from __future__ import annotations

from poet_profiles.errors import FaultError
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph.model import Graph, Kept, Node, Operation, Uses
from poet_profiles.graph.once import once_a_graph
from poet_profiles.graph.sizes import aligned

FETCH = "fetch"
STORE = "store"
COMMIT = "commit"
TRAINED_KINDS = ("parameter", "state")
CONSTANT = "constant"
BATCH_KINDS = ("input", "target")
OUTPUT = "output"
FEATURE = "feature"


def kept_constants(graph: Graph) -> list[Kept]:
    """The tensors on the card that no step changes, batches left out."""
    return [kept for kept in graph.kept if kept.kind == CONSTANT]


def commits_each_step(graph: Graph) -> bool:
    """Whether a step ends with a commit: something on the card is no constant, and it is no inference."""
    return any(kept.kind != CONSTANT for kept in graph.kept) and not infers(graph)


@once_a_graph
def infers(graph: Graph) -> bool:
    """Whether it is an inference, which has an output, or makes features: either changes nothing."""
    if any(resident.kind == OUTPUT for resident in graph.residents):
        return True
    features = {resident.id for resident in graph.residents if resident.kind == FEATURE}
    return any(not features.isdisjoint(node.operation.results) for node in graph.nodes if node.operation)


def is_written(kept: Kept, graph: Graph) -> bool:
    """Whether each run makes the next version of a tensor on the card."""
    return kept.kind in TRAINED_KINDS and not infers(graph)


def commits(graph: Graph) -> list[Node]:
    """The nodes that make the next versions count: at most one in a sound graph."""
    return [node for node in graph.nodes if node.operation and node.operation.op == COMMIT]


def commit_each(graph: Graph) -> int:
    """So many steps are made to count together."""
    return max((parse_params(node.operation.params)["steps"] for node in commits(graph) if node.operation), default=1)


def check_kept(graph: Graph) -> None:
    """Whether each node says what it uses, each trained kept tensor has one writer, and the commit comes last."""
    for kept in graph.kept:
        if not kept.bytes:
            raise FaultError(f"kept tensor {kept.id} has no bytes")
    sizes = {kept.id: kept.bytes for kept in graph.kept}
    for node in graph.nodes:
        if node.operation is not None:
            _check_uses(node, node.operation, sizes)
    _check_writers(graph)
    _check_commit(graph)
    if graph.kept:
        _check_residents(graph)


def _check_uses(node: Node, operation: Operation, kept: dict[str, int]) -> None:
    if operation.op == FETCH:
        _check_fetch(node, operation, kept)
        uses = Uses.BUS
    elif operation.op == STORE:
        _check_store(node, operation, kept)
        uses = Uses.BUS
    elif operation.op == COMMIT or not kept.keys().isdisjoint((*operation.operands, *operation.results)):
        uses = Uses.BOTH
    else:
        uses = Uses.CPU
    if node.uses is not uses:
        raise FaultError(f'node {node.id}: "uses" is {node.uses.value!r}, but {operation.op} here needs {uses.value!r}')


def _check_fetch(node: Node, operation: Operation, kept: dict[str, int]) -> None:
    sizes = [kept.get(operand) for operand in operation.operands]
    if len(sizes) != 1 or sizes[0] is None:
        raise FaultError(f"node {node.id}: a fetch has one operand, a kept tensor")
    if [(value.id, value.bytes) for value in node.values if value.bytes] != [(*operation.results, *sizes)]:
        raise FaultError(f"node {node.id}: a fetch has one result, a value with the bytes of the kept tensor")
    if node.inputs or node.workspace_bytes:
        raise FaultError(f"node {node.id}: a fetch needs nothing in RAM, neither an input nor workspace")


def _check_store(node: Node, operation: Operation, kept: dict[str, int]) -> None:
    if len(operation.operands) != 1 or not kept.keys().isdisjoint(operation.operands):
        raise FaultError(f"node {node.id}: a store has one operand, a value")
    if len(operation.results) != 1 or kept.keys().isdisjoint(operation.results):
        raise FaultError(f"node {node.id}: a store has one result, a kept tensor")
    if node.workspace_bytes or any(value.bytes for value in node.values):
        raise FaultError(f"node {node.id}: a store makes nothing in RAM, neither a value nor workspace")


def _check_writers(graph: Graph) -> None:
    writers: dict[str, list[Node]] = {kept.id: [] for kept in graph.kept}
    for node in graph.nodes:
        for result in node.operation.results if node.operation else ():
            if result in writers:
                writers[result].append(node)
    for kept in graph.kept:
        written = len(writers[kept.id])
        if written != is_written(kept, graph):
            expected = "one node must write" if is_written(kept, graph) else "no node may write"
            of = f"a {kept.kind} of an inference" if infers(graph) else f"a {kept.kind}"
            raise FaultError(f"kept tensor {kept.id}: {expected} {of}, but {written} do")
        for node in writers[kept.id]:
            if node.recomputable:
                raise FaultError(f'node {node.id} writes the next version of {kept.id}; say "recomputable": false')


def _check_commit(graph: Graph) -> None:
    """Only a graph of costs alone, whose nodes name no operators, may do without."""
    found = commits(graph)
    wanted = commits_each_step(graph) and any(node.operation for node in graph.nodes)
    if len(found) != wanted:
        raise FaultError(
            f"{len(found)} nodes commit; a graph with kept tensors that are no constants has one that does, others "
            "have none"
        )
    for commit in found:
        if commit.recomputable:
            raise FaultError(f'node {commit.id} commits; say "recomputable": false')
        before = _ancestors(graph, commit)
        for node in graph.nodes:
            if node is not commit and node.id not in before:
                raise FaultError(f"node {node.id} must stand before {commit.id}, which commits; add an edge")


def _check_residents(graph: Graph) -> None:
    """What outlives a step stands first, as one piece: so a commit writes it."""
    end = 0
    other = ""
    for resident in graph.residents:
        if resident.kind not in TRAINED_KINDS:
            other = resident.id
        elif other or resident.offset != end:
            raise FaultError(
                f"resident {resident.id} stands after {other or 'a gap'}; beside kept tensors, parameters and states "
                "stand first, without gaps"
            )
        else:
            end = aligned(end + resident.bytes)


def _ancestors(graph: Graph, last: Node) -> set[str]:
    """Ids of the nodes that ``last`` cannot do without."""
    producer = {value.id: node for node in graph.nodes for value in node.values}
    found: set[str] = set()
    waiting = [last]
    while waiting:
        for value in waiting.pop().inputs:
            node = producer[value]
            if node.id not in found:
                found.add(node.id)
                waiting.append(node)
    return found
