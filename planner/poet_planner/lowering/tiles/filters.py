# SPDX-License-Identifier: Apache-2.0
"""A convolution whose features a dense layer sums up, some filters at a time.

The dense layer goes through the features in their order, so that its sums have the bits of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from poet_profiles.firmware.operators import ROWS, parse_params, positions
from poet_profiles.firmware.steps import POINTWISE, pointwise_params, steps_in
from poet_profiles.graph import Graph, Node

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.tiles.axes import CONV, cut_of, planes_of
from poet_planner.lowering.tiles.nodes import Maker, op_of, plain

TOGETHER = 4  # filters that a product computes at once


def with_filters(graph: Graph, above_bytes: int) -> Graph:
    """The same step, with such features above a size by as many filters as are below it."""
    planes, makers = planes_of(graph), {value.id: node for node in graph.nodes for value in node.values}
    uses = [id for node in graph.nodes for id in node.inputs]
    instead: dict[str, list[Node]] = {}
    for dense in (node for node in graph.nodes if op_of(node) == "linear"):
        chain = [dense]
        while (maker := _before(chain[0], makers)) is not None and uses.count(maker.values[0].id) == 1:
            if (axis := cut_of(maker, planes)) is None or axis.operands not in ("x..", "s" * 12):
                break
            chain.insert(0, maker)
            if op_of(maker) == CONV:
                made = [*_by_filters(chain, above_bytes, Maker(graph))]
                instead |= {node.id: [] for node in chain if made} | ({dense.id: made} if made else {})
                break
    return replace(graph, nodes=tuple(new for node in graph.nodes for new in instead.get(node.id, [node])))


def _before(node: Node, makers: Mapping[str, Node]) -> Node | None:
    """What makes the only plane that it reads."""
    if node.operation is None or op_of(node) not in ("linear", POINTWISE):
        return None
    if op_of(node) == POINTWISE and len(node.operation.operands) > 1:
        return None
    if op_of(node) == "linear" and parse_params(node.operation.params)["m"] != 1:
        return None
    maker = makers.get(node.operation.operands[0])
    return maker if maker is not None and len(maker.values) == 1 and maker.backward == node.backward else None


def _by_filters(chain: list[Node], above_bytes: int, make: Maker) -> Iterator[Node]:
    """Tile after tile; nothing if all filters are one."""
    conv, *between, dense = chain
    p, q = parse_params(plain(conv).params), parse_params(plain(dense).params)
    oh, ow = positions(p)
    most = max(1, above_bytes // (4 * oh * ow * TOGETHER)) * TOGETHER
    if most >= p["k"] or q["k"] != p["k"] * oh * ow:
        return
    so_far = added(dense.id, "begun")
    yield make.zeros(dense, so_far, 4 * q["n"])
    for first in range(0, p["k"], most):
        filters = min(most, p["k"] - first)
        last, size, name = first + filters == p["k"], filters * oh * ow, f"filters{first}"
        rows = {"top": -p["ph"], "rows": oh, "of": oh, "first": first, "filters": filters}
        value = added(conv.id, name)
        yield make.node(conv, value, CONV + ROWS, {**p, **rows}, plain(conv).operands)
        for node in between:
            params = pointwise_params(size, steps_in(parse_params(plain(node).params)))
            before, value = value, added(node.id, name)
            yield make.node(node, value, POINTWISE, params, (before,))
        bias = int(last and q["bias"])
        params = {"k": size, "n": q["n"], "of": q["k"], "at": first * oh * ow, "bias": bias}
        operands = (value, plain(dense).operands[1], so_far, *plain(dense).operands[2 : 2 + bias])
        so_far = plain(dense).results[0] if last else added(dense.id, name)
        made = dense.values if last else None  # an inference has its output resident, as no value
        yield make.node(dense, dense.id if last else so_far, f"linear{ROWS}", params, operands, (so_far,), made)
