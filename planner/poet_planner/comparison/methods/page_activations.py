# SPDX-License-Identifier: Apache-2.0
"""Rhu et al. 2016, vDNN (MICRO 2016): every activation is offloaded, whether RAM is short or not.

Each forward value that the backward pass reads is paged out once, leaves RAM after its last forward use, is paged in
before each backward use, and leaves after it. Gradients stay, unlike in `page_all`.
"""

from __future__ import annotations

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.instance import Instance
from poet_planner.planning.method import Aware, Method, Option
from poet_planner.solve import OptimiseOptions


def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """The schedule that offloads all activations, if the store-all schedule does not fit.

    Raises
    ------
    UserError
        If it needs more RAM, or more time.
    """
    instance = Instance(graph, ram_bytes, deadline_s, options)
    return instance.cheapest("paging all activations", [order(instance)])


METHOD = Method(
    name="page_activations",
    source="Rhu et al. 2016, MICRO (vDNN), all activations",
    decides="nothing: every activation is paged out once, and in for each backward use",
    schedule=schedule,
    pages=True,
    takes=(Option.TIME_LIMIT,),
    general=Aware.YES,
)


def order(instance: Instance) -> list[int]:
    """The graph's order, with page-ins before each backward use."""
    events: list[int] = []
    for node in range(instance.nodes):
        if not instance.is_forward(node):
            read = (v for v in instance.inputs[node] if instance.size[v] and instance.read_backward(v))
            events += [instance.nodes + v for v in read if instance.pageable[v]]
        events.append(node)
    return events
