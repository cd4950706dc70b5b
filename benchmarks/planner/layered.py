# SPDX-License-Identifier: Apache-2.0
"""Layered training graphs of any size, from a seed.

A forward pass of layers of ``width`` operators, each fed by one to three of the layer before and now and then by one
further back, and its mirror image: the gradient of an operator needs the gradients of all its users, and either the
operator's inputs or its output. Costs are such that recomputing and paging compete: an operator's time is drawn
log-normally around 2 MB/s of output, a page moves at 4 MB/s.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from poet_profiles.graph import Graph, Node, PageCost, Value

LATENCY_S = 1e-3
BYTES_PER_S = 4e6
CPU_W = 0.02
CARD_W = 0.1
SKIP_SHARE = 0.1
FARTHEST_SKIP = 5


@dataclass(frozen=True)
class _Operator:
    """A forward operator; ``inputs`` are numbers of earlier ones."""

    inputs: tuple[int, ...]
    time_s: float
    bytes: int
    saves_inputs: bool


def layered_graph(nodes: int, width: int, seed: int) -> Graph:
    """A training graph of exactly ``nodes`` nodes, half of them gradients, in a topological order.

    Parameters
    ----------
    nodes : int
        An even number.
    width : int
        Operators in a forward layer.
    """
    if nodes < 2 or nodes % 2 or width < 1:
        raise ValueError(f"an even number of nodes and a width of at least 1, not {nodes} and {width}")
    draw = random.Random(f"{nodes} {width} {seed}")
    operators = [_operator(number, width, draw) for number in range(nodes // 2)]
    users: list[list[int]] = [[] for _ in operators]
    for number, operator in enumerate(operators):
        for used in operator.inputs:
            users[used].append(number)
    forward = [_forward_node(number, operator) for number, operator in enumerate(operators)]
    backward = [_backward_node(number, operators[number], users[number]) for number in reversed(range(len(operators)))]
    return Graph(f"layered {nodes} nodes, width {width}, seed {seed}", (*forward, *backward))


def _operator(number: int, width: int, draw: random.Random) -> _Operator:
    layer, place = divmod(number, width)
    size = 4 * round(math.exp(draw.gauss(math.log(8192), 0.8)))
    time_s = size / 2e6 * math.exp(draw.gauss(0, 0.8))
    inputs: set[int] = set()
    if layer > 0:
        before = range((layer - 1) * width, layer * width)
        inputs = {before[place], *draw.sample(before, min(width, draw.randint(0, 2)))}
    if layer > 1 and draw.random() < SKIP_SHARE:
        inputs.add(draw.randrange(max(0, layer - FARTHEST_SKIP) * width, (layer - 1) * width))
    return _Operator(tuple(sorted(inputs)), time_s, size, saves_inputs=draw.random() < 0.5)


def _forward_node(number: int, operator: _Operator) -> Node:
    inputs = tuple(f"f{used}" for used in operator.inputs)
    return Node(f"f{number}", operator.time_s, operator.time_s * CPU_W, (_value(f"f{number}", operator.bytes),), inputs)


def _backward_node(number: int, operator: _Operator, users: list[int]) -> Node:
    """As large as the output it is the gradient of; twice the forward work."""
    saved = [f"f{used}" for used in operator.inputs] if operator.saves_inputs else [f"f{number}"]
    inputs = (*(f"b{user}" for user in users), *saved)
    time_s = 2 * operator.time_s
    values = (_value(f"b{number}", operator.bytes),)
    return Node(f"b{number}", time_s, time_s * CPU_W, values, inputs, backward=True)


def _value(name: str, size: int) -> Value:
    blocks_bytes = -(-size // 512) * 512
    time_s = LATENCY_S + blocks_bytes / BYTES_PER_S
    return Value(name, size, PageCost(time_s, time_s * CARD_W, time_s, time_s * CARD_W))
