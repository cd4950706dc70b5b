# SPDX-License-Identifier: Apache-2.0
"""Plans of steps in slices against brute force: the least energy, a bound that is not above it, less RAM than whole."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from poet_planner.lowering.memory.slices import with_slices
from poet_planner.lowering.operators.draft import behind_one_another, region_bytes
from poet_profiles.firmware.operators import ACCUMULATE, OPERATORS, SUM_SO_FAR, params_key, parse_params
from poet_profiles.graph import Graph, Node, Operation, PageCost, Resident, Value
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.graph.validation import check_graph

from tests.support.graphs.brute_force import least_energy
from tests.support.graphs.least_plans import assert_planned_as_by_brute_force
from tests.support.graphs.one_step import named

WIDE, NARROW = 16, 2
RESIDENTS = ("x", "w1", "w2")


def _node(op: str, params: dict[str, int], operands: Sequence[str], id: str) -> Node:
    sizes = OPERATORS[op].sizes(params)
    return Node(
        id=id,
        time_s=0.0,
        energy_j=0.0,
        values=(Value(id, sizes.outputs[0]),),
        inputs=tuple(name for name in operands if name not in RESIDENTS),
        operation=Operation(op, params_key(op, params), tuple(operands), (id,)),
    )


def _step(name: str, operands: Sequence[str], id: str) -> Node:
    op, key = named(name, WIDE)
    return _node(op, parse_params(key), operands, id)


def _wide_part() -> Graph:
    """Two linear layers with a ReLU between them, there and back: between the two, everything is wide."""
    residents = behind_one_another(
        [
            Resident("x", "input", 4 * NARROW, 0, (1, NARROW)),
            Resident("w1", "parameter", 4 * WIDE * NARROW, 0, (WIDE, NARROW)),
            Resident("w2", "parameter", 4 * NARROW * WIDE, 0, (NARROW, WIDE)),
        ]
    )
    nodes = (
        _node("linear", {"m": 1, "k": NARROW, "n": WIDE, "bias": 0}, ("x", "w1"), "wide"),
        _step("relu", ("wide",), "relu"),
        _node("linear", {"m": 1, "k": WIDE, "n": NARROW, "bias": 0}, ("relu", "w2"), "y"),
        _node("matmul", {"b": 1, "m": 1, "k": NARROW, "n": WIDE, "ta": 0, "tb": 0}, ("y", "w2"), "g_relu"),
        _step("relu_backward", ("g_relu", "relu"), "g_wide"),
        _node("matmul", {"b": 1, "m": 1, "k": WIDE, "n": NARROW, "ta": 0, "tb": 0}, ("g_wide", "w1"), "g_x"),
    )
    graph = Graph("wide part", nodes, region_bytes(residents), residents=residents)
    check_graph(graph)
    return graph


def _priced(graph: Graph, seed: int, in_place: bool) -> Graph:
    """With costs as they come, pages for some, and sums in the place of those before."""
    draw = random.Random(seed)
    nodes = []
    for node in graph.nodes:
        pages = [PageCost(1.0, draw.randint(1, 4), 1.0, draw.randint(1, 4)) if draw.random() < 0.2 else None]
        values = tuple(replace(value, page=page) for value, page in zip(node.values, pages, strict=True))
        assert node.operation is not None
        accumulates = in_place and node.operation.op.endswith(ACCUMULATE)
        over = {node.id: node.operation.operands[SUM_SO_FAR]} if accumulates else {}
        nodes.append(replace(node, time_s=1.0, energy_j=float(draw.randint(1, 9)), values=values, takes_over=over))
    priced = replace(graph, nodes=tuple(nodes))
    check_graph(priced)
    return priced


@pytest.mark.parametrize("in_place", [False, True], ids=["apart", "in place"])
@pytest.mark.parametrize("seed", range(3))
def test_plans_of_slices_are_those_of_brute_force(seed: int, in_place: bool) -> None:
    whole = _wide_part()
    sliced = _priced(with_slices(whole, 4 * WIDE // 2), seed, in_place)
    assert len(sliced.nodes) == 2 * len(whole.nodes)
    largest = smallest_ram_bytes(sliced)
    for ram_bytes in (largest, largest + 4 * WIDE // 2):
        assert math.isinf(least_energy(_priced(whole, seed, False), ram_bytes, None))
        assert_planned_as_by_brute_force(sliced, ram_bytes, None)
