# SPDX-License-Identifier: Apache-2.0
"""The training step that PyTorch runs on a Linux board."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.firmware.operators import params_key
from poet_profiles.firmware.steps import POINTWISE
from poet_profiles.graph import Graph, Node, Value
from poet_runtime.agent.vocabulary import OF_STEPS
from poet_runtime.traced_graph import Kind, TracedGraph, TracedOperator, poets_own

from poet_planner.lowering.operators.aten import aten_operation
from poet_planner.lowering.operators.draft import Draft, arena_value, nodes_of, placed, region_bytes
from poet_planner.lowering.operators.steps import lowered_alone

STEP_NODE = poets_own("step")


def lower_for_linux(traced: TracedGraph, dma: bool, resident_gradients: bool = True) -> Graph:
    """The graph of a training step, its costs zero: one node for each traced operator, sizes and ids PyTorch's.

    ``dma`` says whether page transfers overlap compute on the board. With ``resident_gradients`` gradients and the loss
    have RAM for the whole step. Otherwise they are values, as in a PyTorch process: each is made once and lives until
    the step ends, which a last node, `STEP_NODE`, stands for.
    """
    if not resident_gradients:
        traced = _with_results_as_values(traced)
    drafts = [torch_draft(operator, traced, *_operation(operator, traced)) for operator in traced.operators]
    residents = placed((resident, resident.bytes) for resident in traced.residents)
    nodes = nodes_of(traced, drafts)
    if not resident_gradients:
        nodes.append(_end(_results(traced)))
    return Graph(traced.name, tuple(nodes), region_bytes(residents), dma, residents, allocates=True)


def _results(traced: TracedGraph) -> tuple[str, ...]:
    """Ids of the values that are there when the step ends: gradients, the loss, and what is kept."""
    results = (*traced.gradients.values(), *traced.results)
    return tuple(dict.fromkeys(ref.source for ref in results if ref.source in traced.values))


def _with_results_as_values(traced: TracedGraph) -> TracedGraph:
    results = frozenset(_results(traced))
    values = {id: replace(value, resident=None) for id, value in traced.values.items()}
    operators = (
        replace(operator, recomputable=operator.recomputable and results.isdisjoint(operator.values))
        for operator in traced.operators
    )
    residents = tuple(one for one in traced.residents if one.kind not in (Kind.GRADIENT, Kind.LOSS, Kind.OUTPUT))
    return replace(traced, operators=tuple(operators), values=values, residents=residents)


def _end(results: tuple[str, ...]) -> Node:
    """The end of the step, which all its results live to see."""
    return Node(STEP_NODE, 0.0, 0.0, (Value(STEP_NODE, 0),), results, recomputable=False, backward=True)


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
    lowered = lowered_alone(operator, traced.values)
    if lowered and lowered.op == POINTWISE and lowered.kind not in OF_STEPS:
        lowered = None
    return (lowered.op, params_key(lowered.op, lowered.params)) if lowered else aten_operation(operator, traced)
