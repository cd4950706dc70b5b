# SPDX-License-Identifier: Apache-2.0
"""The planned graph and the traced step with the optimiser's updates inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_runtime.traced_graph import OptimizerUpdate, TracedGraph
from torch import Tensor

from poet_planner.lowering import with_updates
from poet_planner.lowering.operators.draft import added
from poet_planner.torch_step.inner_optimizer import InnerOptimizer
from poet_planner.torch_step.slices import Sums


def updating_inside(
    graph: Graph, traced: TracedGraph, tensors: Mapping[str, Tensor], optimizer: InnerOptimizer | Sums
) -> tuple[Graph, TracedGraph]:
    """Both with an update of every parameter that has a gradient and is the optimiser's.

    ``graph`` is costed, with gradients as values; ``tensors`` are the parameters, by resident id.

    Raises
    ------
    UserError
        If the optimiser has nothing to update, or the step changes a parameter that it is to update.
    """
    trained = [id for id in traced.gradients if optimizer.holds(tensors[id])]
    if not trained:
        raise UserError(f"optimizer: it holds none of the parameters that {traced.name} trains")
    written = {id for operator in (*traced.operators, *traced.bookkeeping) for id in operator.updates}
    for id in trained:
        if id in written:
            raise UserError(
                f"optimizer: the forward pass of {traced.name} itself changes {id}, as max_norm does; leave optimizer= "
                "out, and call its step() after poet's"
            )
    costs = {id: optimizer.cost(tensors[id]) for id in trained}
    by_node = {added(id, "update"): costs[id] for id in trained}
    updated = with_updates(graph, {id: traced.gradients[id].source for id in trained}, f"optim.{optimizer.name}")
    nodes = (
        replace(
            node,
            time_s=by_node[node.id].time_s,
            energy_j=by_node[node.id].time_s,
            workspace_bytes=by_node[node.id].workspace_bytes,
        )
        if node.id in by_node
        else node
        for node in updated.nodes
    )
    updates = [OptimizerUpdate(added(id, "update"), id, costs[id].workspace_bytes) for id in trained]
    return replace(updated, nodes=tuple(nodes)), traced.updating(updates)
