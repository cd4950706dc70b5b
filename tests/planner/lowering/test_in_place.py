# SPDX-License-Identifier: Apache-2.0
"""Which operators of a lowered step compute in place."""

from __future__ import annotations

import pytest
from poet_planner.lowering import with_taking_over, without_taking_over
from poet_planner.planning.training_graph import training_graph
from poet_profiles.boards import load_board
from poet_profiles.firmware import operators
from poet_profiles.graph import Graph, Node, Operation, Resident, Value
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.graph.validation import check_graph

from tests.support.graphs.one_step import named


def node(id: str, op: str, inputs: tuple[str, ...], size: int = 4) -> Node:
    operation = Operation(*named(op, size), inputs, (id,))
    return Node(id, 1.0, 1.0, (Value(id, 4 * size),), tuple(id for id in inputs if id != "x"), operation=operation)


def taken_over(*nodes: Node) -> dict[str, str]:
    residents = (Resident("x", "input", 16, 0, (4,)),)
    graph = with_taking_over(Graph("g", nodes, 16, residents=residents))
    check_graph(graph)
    return {value: taken for node in graph.nodes for value, taken in node.takes_over.items()}


def test_what_nothing_else_needs_is_taken_over() -> None:
    """Residents stay, and so does what is read again: c by d alone, a by c and d, b by nothing after c."""
    chain = (node("a", "relu", ("x",)), node("b", "relu", ("x",)), node("c", "mul", ("a", "b")))
    assert taken_over(*chain) == {"c": "a"}
    assert taken_over(*chain, node("d", "add", ("a", "c"))) == {"c": "b", "d": "c"}
    assert taken_over(node("a", "relu", ("x",)), node("b", "add", ("a", "a"))) == {}
    assert taken_over(node("a", "relu", ("x",)), node("b", "aten.neg", ("a",))) == {}


@pytest.mark.parametrize("model", ["digits_cnn", "mlperf_ds_cnn"])
def test_no_mark_is_missing_in_a_models_step(model: str) -> None:
    """Every first result that may lie in the place of an input of its size, needed by nothing else, does."""
    graph = training_graph(model, None, load_board("nrf52840"))
    readers = [id for node in graph.nodes for id in node.inputs]
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    for one in graph.nodes:
        if one.operation is None or one.operation.op not in operators.OPERATORS:
            continue
        places = (
            one.operation.operands[place] for place in operators.taken_over(one.operation.op, one.operation.params)
        )
        free = [id for id in places if readers.count(id) == 1 and sizes[id] == sizes.get(one.operation.results[0])]
        assert bool(one.takes_over) == bool(free)
    assert smallest_ram_bytes(graph) <= smallest_ram_bytes(without_taking_over(graph))
