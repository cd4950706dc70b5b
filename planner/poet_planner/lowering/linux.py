# SPDX-License-Identifier: Apache-2.0
"""The training step that PyTorch runs on a Linux board."""

from __future__ import annotations

from poet_profiles.graph import Graph
from poet_profiles.operators import params_key
from poet_runtime.traced_graph import TracedGraph, TracedOperator

from poet_planner.lowering.aten import aten_operation
from poet_planner.lowering.draft import Draft, arena_value, nodes_of, placed, region_bytes
from poet_planner.lowering.rules import firmware_operator


def lower_for_linux(traced: TracedGraph, dma: bool) -> Graph:
    """The graph of a training step, its costs zero: one node for each traced operator, sizes and ids PyTorch's.

    Parameters
    ----------
    dma : bool
        Whether page transfers overlap compute on the board.
    """
    drafts = [torch_draft(operator, traced, *_operation(operator, traced)) for operator in traced.operators]
    residents = placed((resident, resident.bytes) for resident in traced.residents)
    return Graph(traced.name, tuple(nodes_of(traced, drafts)), region_bytes(residents), dma, residents)


def torch_draft(operator: TracedOperator, traced: TracedGraph, op: str, params: str) -> Draft:
    """PyTorch's own operator as a node."""
    return Draft(
        id=operator.id,
        traced=operator,
        op=op,
        params=params,
        operands=tuple(dict.fromkeys(ref.source for ref in operator.refs)),
        results=operator.values,
        values=tuple(arena_value(traced, id, traced.values[id].bytes) for id in operator.values),
        workspace_bytes=operator.workspace_bytes,
        recomputable=operator.recomputable,
    )


def _operation(operator: TracedOperator, traced: TracedGraph) -> tuple[str, str]:
    """The vocabulary's name where it has one, so that boards can be compared."""
    lowered = firmware_operator(operator)
    return (lowered.op, params_key(lowered.op, lowered.params)) if lowered else aten_operation(operator, traced)
