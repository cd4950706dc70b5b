# SPDX-License-Identifier: Apache-2.0
"""What a costed graph obeys beyond its form (docs/SPEC.md, section 3)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from poet_profiles.errors import FaultError, UserError
from poet_profiles.firmware.operators import OF_BANDS, OPERATORS, names_in_key, params_key, parse_params, taken_over
from poet_profiles.graph import Constant, Graph, Kept, Node, Operation, Resident, Uses, Value
from poet_profiles.graph.bands import check_bands
from poet_profiles.graph.kept import BATCH_KINDS, FEATURE, TRAINED_KINDS, check_kept, commits
from poet_profiles.graph.micro_batches import check_micro_batches
from poet_profiles.graph.model import number_bytes
from poet_profiles.graph.parts import check_parts
from poet_profiles.graph.rows import check_rows
from poet_profiles.graph.sizes import aligned
from poet_profiles.graph.tiles import check_tiles, has_tiles

MOST_BYTES = 2**40


def refuse_unsound(graph: Graph) -> None:
    """The same checks for a graph that came from no file."""
    try:
        check_graph(graph)
    except FaultError as fault:
        raise UserError(f"{graph.name}: {fault}") from None


def check_graph(graph: Graph) -> None:
    """Whether ids are unique, nodes in order, tensors and operands in their places, and changes after all else."""
    if not graph.nodes:
        raise FaultError('"nodes" is empty: there is nothing to plan')
    _check_numbers(graph)
    _check_ids(graph)
    _check_order(graph)
    end = _end("resident", _apart(graph))
    if end > graph.resident_bytes:
        raise FaultError(f'"resident_bytes" is {graph.resident_bytes}, but the residents end at {end}')
    _end("constant", graph.constants)
    _check_operands(graph)
    _check_taking_over(graph)
    check_parts(graph)
    check_kept(graph)
    check_rows(graph)
    _check_shapes(graph)
    _check_changes(graph)
    check_micro_batches(graph)
    _check_operand_bytes(graph)
    check_bands(graph)
    check_tiles(graph)


def _check_numbers(graph: Graph) -> None:
    """Costs that can be added up, and sizes that 64 bits hold with room for their sums."""
    sizes = [("the graph", graph.resident_bytes)]
    sizes += [(f"resident {resident.id}", resident.bytes) for resident in graph.residents]
    sizes += [(f"constant {constant.id}", constant.bytes) for constant in graph.constants]
    sizes += [(f"kept tensor {kept.id}", kept.bytes) for kept in graph.kept]
    for node in graph.nodes:
        where = f"node {node.id}"
        pages = [value.page for value in node.values if value.page]
        own = [node.time_s, node.energy_j, node.card_time_s, node.card_energy_j]
        costs = [*own, *(cost for page in pages for cost in vars(page).values())]
        for cost in costs:
            if not (math.isfinite(cost) and cost >= 0):
                raise FaultError(f"{where}: {cost} is no cost; a cost is finite and not negative")
        if node.card_time_s > node.time_s or node.card_energy_j > node.energy_j:
            raise FaultError(f"{where}: the card takes more than the node does; its costs are a part of the node's")
        sizes += [(where, node.workspace_bytes), *((f"value {value.id}", value.bytes) for value in node.values)]
    for where, size in sizes:
        if not 0 <= size <= MOST_BYTES:
            raise FaultError(f"{where}: {size} bytes; give a whole number from 0 to 2^40")


def _check_shapes(graph: Graph) -> None:
    """Whether a tensor has the bytes of its numbers; PyTorch has types of other sizes, and storages of any."""
    if graph.allocates:
        return
    tensors: list[tuple[str, Resident | Constant | Kept]] = [("resident", resident) for resident in graph.residents]
    tensors += [("constant", constant) for constant in graph.constants]
    tensors += [("kept tensor", kept) for kept in graph.kept]
    for what, tensor in tensors:
        needed = number_bytes(tensor.dtype) * math.prod(tensor.shape)
        if tensor.shape and tensor.bytes != needed:
            raise FaultError(
                f'{what} {tensor.id}: "bytes" is {tensor.bytes}, but "shape" is {list(tensor.shape)}: {needed} bytes'
            )


def _check_ids(graph: Graph) -> None:
    for what, ids in (
        ("node", [node.id for node in graph.nodes]),
        ("value", [value.id for node in graph.nodes for value in node.values]),
        ("resident", [resident.id for resident in graph.residents]),
        ("constant", [constant.id for constant in graph.constants]),
        ("kept tensor", [kept.id for kept in graph.kept]),
    ):
        seen: set[str] = set()
        for id in ids:
            if id in seen:
                raise FaultError(f"{what} id {id} is there twice; ids must be unique")
            seen.add(id)
    tensors = [(value.id, "value") for node in graph.nodes for value in node.values]
    tensors += [(resident.id, "resident") for resident in graph.residents]
    tensors += [(constant.id, "constant") for constant in graph.constants]
    tensors += [(kept.id, "kept tensor") for kept in graph.kept]
    known: dict[str, str] = {}
    for id, what in tensors:
        if id in known:
            raise FaultError(f"id {id} is a {known[id]}'s and a {what}'s; rename one of them")
        known[id] = what


def _check_order(graph: Graph) -> None:
    producer = _producers(graph)
    for node in graph.nodes:
        for value in node.inputs:
            if value not in producer:
                raise FaultError(f"edge {value} -> {node.id}: no node yields a value {value}; correct the id")
    place = {node.id: index for index, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        for value in node.inputs:
            if place[producer[value]] >= place[node.id]:
                cycle = _cycle(graph, producer)
                if cycle:
                    raise FaultError(f"the edges form a cycle: {' -> '.join(cycle)}; remove one of them")
                raise FaultError(
                    f"node {node.id} stands before its input {value}; put the nodes in a topological order"
                )


def _cycle(graph: Graph, producer: dict[str, str]) -> list[str]:
    """Some cycle of node ids, in the direction of the edges, or nothing."""
    predecessors = {node.id: {producer[value] for value in node.inputs} for node in graph.nodes}
    remaining = dict(predecessors)
    while ready := [id for id, before in remaining.items() if not before & remaining.keys()]:
        for id in ready:
            del remaining[id]
    if not remaining:
        return []
    walk = [next(iter(remaining))]
    while walk[-1] not in walk[:-1]:
        walk.append(min(predecessors[walk[-1]] & remaining.keys()))
    return walk[walk.index(walk[-1]) :][::-1]


def _apart(graph: Graph) -> Iterator[Resident]:
    """Residents, but an inference's inputs in the place of those of the batch, and gradients in whose place it runs."""
    batch = {one.offset: one for one in reversed(graph.residents) if one.kind == "input"}
    beside = any(one.kind == "output" for one in graph.residents)
    for one in graph.residents:
        if beside and one.kind == "gradient":
            continue
        first = batch.get(one.offset, one) if beside and one.kind == "input" else one
        if first is one or one.bytes > first.bytes:
            yield one


def _end(what: str, tensors: Iterable[Resident | Constant]) -> int:
    """Where the last of them ends, provided that none lies in another's place."""
    end = 0
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset % 4:
            raise FaultError(f"{what} {tensor.id}: offset {tensor.offset} is not a multiple of 4")
        if tensor.offset < end:
            raise FaultError(f"{what} {tensor.id}: offset {tensor.offset} overlaps the one before it")
        end = tensor.offset + tensor.bytes
    return end


def _check_operands(graph: Graph) -> None:
    lasting = {*(resident.id for resident in graph.residents), *(kept.id for kept in graph.kept)}
    given = lasting.union(constant.id for constant in graph.constants)
    empty = {value.id for node in graph.nodes for value in node.values if value.bytes == 0}
    for node in graph.nodes:
        if node.operation is None or not lasting:
            continue
        own = {value.id for value in node.values}
        for operand in node.operation.operands:
            if operand not in given and operand not in node.inputs:
                raise FaultError(
                    f"node {node.id}: operand {operand} is no resident and no constant, and has no edge to the node"
                )
        for result in node.operation.results:
            if result not in lasting and result not in own:
                raise FaultError(f"node {node.id}: result {result} is no resident and no value of the node")
        if node.operation.op in OPERATORS:
            _check_firmware_operation(node, node.operation, empty - lasting)


def _check_firmware_operation(node: Node, operation: Operation, nowhere: set[str]) -> None:
    """What the firmware's tables are made from."""
    try:
        sound = params_key(operation.op, parse_params(operation.params)) == operation.params
    except (KeyError, ValueError):
        sound = False
    if not sound:
        key = " ".join(f"{name}=…" for name in names_in_key(operation.op))
        raise FaultError(f'node {node.id}: "params" is {operation.params!r}; those of {operation.op} are {key!r}')
    for tensor in (*operation.operands, *operation.results):
        if tensor in nowhere:
            raise FaultError(f"node {node.id}: {tensor} has no bytes and is no resident, so it lies nowhere")


def _check_operand_bytes(graph: Graph) -> None:
    """Whether tensors of a step in bands are as large as the parameters of its operators say.

    Such a step is the firmware's; PyTorch has indices of other sizes under the same names. What makes features reads
    fewer samples than the batch has places for.
    """
    if not has_tiles(graph) and not any(node.operation and node.operation.op in OF_BANDS for node in graph.nodes):
        return
    kinds = (*BATCH_KINDS, FEATURE)
    batch = {one.id: one.bytes // one.shape[0] for one in graph.residents if one.kind in kinds and one.shape}
    tensors: list[Value | Resident | Constant] = [value for node in graph.nodes for value in node.values]
    bytes_of = {one.id: one.bytes for one in (*tensors, *graph.residents, *graph.constants)}
    for node in graph.nodes:
        operation = node.operation
        if operation is None or operation.op not in OPERATORS:
            continue
        where = f"node {node.id}: {operation.op} {operation.params}"
        try:
            sizes = OPERATORS[operation.op].sizes(parse_params(operation.params))
        except ValueError as error:
            raise FaultError(f"{where}: {error}") from None
        for ids, needed in ((operation.operands, sizes.inputs), (operation.results, sizes.outputs)):
            if len(ids) != len(needed):
                raise FaultError(f"{where}: it has {len(needed)} tensors there, not {len(ids)}")
            for id, size in zip(ids, needed, strict=True):
                there, needs = aligned(bytes_of.get(id, size)), aligned(size)
                if there < needs or (there > needs and (id not in batch or size % batch[id])):
                    raise FaultError(f"{where}: {id} must have {size} bytes, it has {bytes_of[id]}")


def _check_taking_over(graph: Graph) -> None:
    """A value that takes over the place of another has its size, and nothing else needs the other one."""
    if not any(node.takes_over for node in graph.nodes):
        return
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    uses = Counter(value for node in graph.nodes for value in node.inputs)
    for node in graph.nodes:
        own = {value.id for value in node.values}
        if len(set(node.takes_over.values())) < len(node.takes_over):
            raise FaultError(f'node {node.id}: "takes_over" names an input twice; its place is for one value')
        for value, place in node.takes_over.items():
            if value not in own or place not in node.inputs:
                raise FaultError(f"node {node.id}: {value} takes over {place}; it must be a value, and that an input")
            if uses[place] > 1:
                raise FaultError(f"node {node.id}: {value} takes over {place}, which other nodes need; leave it out")
            if sizes[value] != sizes[place] or sizes[value] == 0:
                raise FaultError(f"node {node.id}: {value} takes over {place}; both must have the same bytes, above 0")
        _check_place_taken(node)


def _check_place_taken(node: Node) -> None:
    """Whether the firmware's operator may write a result where it reads an operand."""
    if node.takes_over and node.operation and node.operation.op in OPERATORS:
        try:
            places = taken_over(node.operation.op, node.operation.params)
        except (KeyError, ValueError):
            places = ()
        allowed = {id for place, id in enumerate(node.operation.operands) if place in places}
        if [*node.takes_over] != [*node.operation.results[:1]] or not allowed.issuperset(node.takes_over.values()):
            raise FaultError(f'node {node.id}: {node.operation.op} has no such result in place; leave out "takes_over"')


def _check_changes(graph: Graph) -> None:
    """What changes a resident parameter or state stands after all else but the commit, with all in RAM that it reads.

    Otherwise a plan might recompute from what has changed, or page after it. Where values are allocated one by one, or
    nothing is paged, it may stand after no more than all that may read what it changes.
    """
    lasting = {resident.id for resident in graph.residents if resident.kind in TRAINED_KINDS}
    changing = [node for node in graph.nodes if node.operation and lasting.intersection(node.operation.results)]
    if not changing:
        return
    before = _ancestors(graph)
    if graph.allocates or (_has_no_page(graph) and _are_apart(graph, changing, before)):
        for node in changing:
            _check_change_after_readers(graph, node, before[node.id])
        return
    common = set.intersection(*(before[node.id] for node in changing))
    bare = [node for node in graph.nodes if node.id in common and _is_bare(node)]
    if not bare:
        raise FaultError(
            f"node {changing[0].id} changes a parameter or a state;"
            " all that do must stand after one node without op, bytes and cost"
        )
    ordering = bare[-1]
    after = {ordering.id, *(node.id for node in changing), *(node.id for node in commits(graph))}
    for node in graph.nodes:
        if node.id not in after | before[ordering.id]:
            raise FaultError(
                f"node {node.id} must stand before {ordering.id}, after which parameters or states change; add an edge"
            )
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    for node in changing:
        _check_change(node, ordering, {value for value in node.inputs if sizes[value]})


def _has_no_page(graph: Graph) -> bool:
    pages = (value.page for node in graph.nodes for value in node.values)
    return graph.micro_batches == 1 and not any(pages)


def _are_apart(graph: Graph, changing: list[Node], before: dict[str, set[str]]) -> bool:
    """Whether something that changes nothing, and does not commit, stands after something that does."""
    ids = {node.id for node in changing}
    others = (node for node in graph.nodes if node.id not in ids and node not in commits(graph))
    return any(not ids.isdisjoint(before[node.id]) for node in others)


def _check_change_after_readers(graph: Graph, node: Node, before: set[str]) -> None:
    """``before`` are ids of the nodes that come before the one that changes something."""
    _check_once_and_without_values(node)
    reading: set[str] = set()
    changed = set(node.operation.results if node.operation else ())
    for reader in graph.nodes:
        operands = reader.operation.operands if reader.operation else ()
        if reader.id == node.id or (changed.isdisjoint(operands) and reading.isdisjoint(reader.inputs)):
            continue
        if reader.id not in before:
            raise FaultError(f"node {reader.id} must stand before {node.id}, which changes {min(changed)}; add an edge")
        if reader.recomputable:
            reading.update(value.id for value in reader.values if value.bytes)


def _check_once_and_without_values(node: Node) -> None:
    if node.recomputable:
        raise FaultError(f'node {node.id} changes a parameter or a state; say "recomputable": false')
    if any(value.bytes for value in node.values):
        raise FaultError(f"node {node.id} changes a parameter or a state; such a node makes no value")


def _check_change(node: Node, ordering: Node, needed: set[str]) -> None:
    """``needed`` are its inputs that have bytes."""
    _check_once_and_without_values(node)
    if node.workspace_bytes and node.uses is Uses.CPU:  # else a page in its way does no harm: a record has all
        raise FaultError(f"node {node.id} changes a parameter or a state; such a node takes no RAM of its own")
    for value in sorted(needed.difference(ordering.inputs)):
        raise FaultError(f"node {node.id} reads {value} after {ordering.id}; add an edge {value} -> {ordering.id}")


def _is_bare(node: Node) -> bool:
    ram = node.workspace_bytes + sum(value.bytes for value in node.values)
    return node.operation is None and ram == 0 and node.time_s == node.energy_j == 0


def _ancestors(graph: Graph) -> dict[str, set[str]]:
    """Of each node, those that it cannot do without: ids."""
    producer = _producers(graph)
    before: dict[str, set[str]] = {}
    for node in graph.nodes:
        parents = {producer[value] for value in node.inputs}
        before[node.id] = parents.union(*(before[parent] for parent in parents))
    return before


def _producers(graph: Graph) -> dict[str, str]:
    """Each value's node: ids."""
    return {value.id: node.id for node in graph.nodes for value in node.values}
