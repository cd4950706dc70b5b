# SPDX-License-Identifier: Apache-2.0
"""The two graphs that a cut makes of a step: what makes features, and the head's step, which reads them.

Features lie among the residents of both, behind those of the step, in the same places. The raw batch keeps its place,
so that it is given to a board as before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from poet_profiles.graph import Graph, Node, Resident
from poet_profiles.graph.kept import FEATURE

from poet_planner.features.cut import Cut
from poet_planner.lowering.operators.draft import added, behind_one_another, region_bytes


def head_of(graph: Graph, cut: Cut) -> Graph:
    """The step on features; what computes in place still does.

    Its constants are those of the whole step, whether it reads them or not: what makes features, and an inference, find
    them in the same places, and with other frozen weights the head's graph is another one. ``graph`` is lowered for the
    firmware, with all constants in flash.
    """
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    samples, names = _samples(graph), _names(graph, cut)
    made = (Resident(name, FEATURE, sizes[id], 0, (samples, sizes[id] // 4 // samples)) for id, name in names.items())
    first = graph.resident_bytes
    residents = (*graph.residents, *(replace(one, offset=first + one.offset) for one in behind_one_another(made)))
    nodes = [node for node in graph.nodes if node.id not in cut.once]
    there = {value.id for node in nodes for value in node.values}
    nodes = [_reading(node, there, names) for node in nodes]
    return replace(graph, nodes=tuple(nodes), residents=residents, resident_bytes=region_bytes(residents))


def features_of(graph: Graph, cut: Cut, head: Graph) -> Graph:
    """What makes the features of a batch, beside the head's step as it has been laid out.

    ``graph`` is as in `head_of`; the head has all constants in flash, too.
    """
    nodes = [_filling(node, cut) for node in graph.nodes if node.id in cut.once]
    there, names = {value.id for node in nodes for value in node.values}, _names(graph, cut)
    return replace(head, nodes=tuple(_reading(node, there, names) for node in nodes), micro_batches=1)


def inference_on_features(inference: Graph, cut: Cut, head: Graph) -> Graph | None:
    """What an inference makes of features, which it has of one sample; None if it needs more of the sample.

    The inference is that beside the head's step.
    """
    names = {id: f"inference.{name}" for id, name in _names(inference, cut).items()}
    makers = {id: node for node in inference.nodes if node.operation for id in node.operation.results}
    needed, ids = set(), [one.id for one in inference.residents if one.kind == "output"]
    while ids:
        node = makers.get(ids.pop())
        if node is not None and node.id not in needed and node.operation is not None:
            needed.add(node.id)
            ids += [id for id in node.operation.operands if id not in names]
    nodes = [node for node in inference.nodes if node.id in needed]
    read = {id for node in nodes if node.operation for id in node.operation.operands}
    own = inference.residents[len(head.residents) :]
    if not read & {*names} or read & {one.id for one in own if one.kind == "input"}:
        return None
    sizes = {value.id: value.bytes for node in inference.nodes for value in node.values}
    made = [Resident(name, FEATURE, sizes[id], 0, (1, sizes[id] // 4)) for id, name in names.items()]
    first = inference.resident_bytes
    residents = (*own, *(replace(one, offset=first + one.offset) for one in behind_one_another(made)))
    there = {value.id for node in nodes for value in node.values}
    return replace(
        inference,
        nodes=tuple(_reading(node, there, names) for node in nodes),
        residents=(*head.residents, *residents),
        resident_bytes=region_bytes(residents),
    )


def makes_alike(inference: Graph, whole: Graph, cut: Cut, contents: Callable[[str], object]) -> bool:
    """Whether an inference computes what is kept as the step does, of one sample: by the same operators on the same.

    Both graphs have all constants in flash; ``contents`` tells constants apart, by id.
    """
    inputs = [one.id for one in whole.residents if one.kind == "input"]
    own = [one.id for one in inference.residents[len(whole.residents) :] if one.kind == "input"]
    names = dict(zip(own, inputs, strict=False))

    def renamed(id: str) -> str:
        base, *rest = id.split("..")  # what is made of an input has its name
        return "..".join([names.get(base, base), *rest])

    made = {tuple(map(renamed, node.operation.results)): node for node in inference.nodes if node.operation}
    for node in whole.nodes:
        if node.id not in cut.once or node.operation is None:
            continue
        same = made.get(node.operation.results)
        if same is None or same.operation is None or same.operation.op != node.operation.op:
            return False
        read = [contents(renamed(id)) for id in same.operation.operands]
        sizes = [value.bytes * _samples(whole) for value in same.values]
        if read != [contents(id) for id in node.operation.operands] or sizes != [one.bytes for one in node.values]:
            return False
    return True


def _names(graph: Graph, cut: Cut) -> dict[str, str]:
    """Of residents, by the values that they keep: an inference beside the head has the value, too."""
    return {value.id: added(value.id, FEATURE) for node in graph.nodes for value in node.values if value.id in cut.kept}


def _filling(node: Node, cut: Cut) -> Node:
    """The node with what is kept of its values in the residents."""
    values = tuple(replace(one, bytes=0, page=None) if one.id in cut.kept else one for one in node.values)
    taken = {result: operand for result, operand in node.takes_over.items() if not {result, operand} & {*cut.kept}}
    return replace(node, values=values, takes_over=taken)


def _reading(node: Node, there: set[str], names: dict[str, str]) -> Node:
    """The node with inputs that are still there, and with what is kept by its name."""
    taken = {result: operand for result, operand in node.takes_over.items() if operand in there}
    inputs = tuple(id for id in node.inputs if id in there)
    operation = node.operation
    if operation is not None:
        operands, results = (tuple(names.get(id, id) for id in ids) for ids in (operation.operands, operation.results))
        operation = replace(operation, operands=operands, results=results)
    return replace(node, inputs=inputs, operation=operation, takes_over=taken)


def _samples(graph: Graph) -> int:
    """In a batch: the first axis of the first input."""
    shapes = [one.shape for one in graph.residents if one.kind == "input" and one.shape]
    return shapes[0][0] if shapes else 1
