# SPDX-License-Identifier: Apache-2.0
"""POET with one technique alone (Patil et al. 2022, section 6), and poet without what other methods found.

Paging, or rematerialization, is planned by the optimiser, on the same graph with the other technique switched off.
"""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.graph import Graph, Uses
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Schedule, Status

from poet_planner.comparison.methods.limits import refuse_time
from poet_planner.graph.batch import once_j
from poet_planner.planning.method import OPTIMAL, Aware, Method, Option
from poet_planner.solve import OptimiseOptions, optimise


def schedule_paging(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """No node is computed again, but for what fetches a tensor from the card, which is paging; raises as `optimise`."""
    refuse_time(options)
    nodes = (replace(node, recomputable=node.recomputable and node.uses is Uses.BUS) for node in graph.nodes)
    made = optimise(replace(graph, nodes=tuple(nodes)), ram_bytes, deadline_s, options)
    return _of_all(graph, made)


def schedule_rematerialization(
    graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions
) -> Schedule:
    """No value is paged; raises as `optimise`."""
    refuse_time(options)
    return _of_all(graph, optimise(graph, ram_bytes, deadline_s, replace(options, paging=False)))


def schedule_alone(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
    """As `optimise`, from no schedule that is known."""
    return optimise(graph, ram_bytes, deadline_s, replace(options, starts=()))


def _of_all(graph: Graph, made: Schedule) -> Schedule:
    """The schedule, for the whole graph. What was proven says nothing about schedules that use both techniques."""
    bound_j = min(made.energy_j, once_j(graph))
    gap = (made.energy_j - bound_j) / made.energy_j if made.energy_j else 0.0
    status = made.status if gap == 0 else Status.FEASIBLE
    return replace(made, graph_hash=graph_hash(graph), bound_j=bound_j, gap=gap, status=status)


PAGING = Method(
    name="paging_only",
    source="Patil et al. 2022, POET, section 6, by poet's optimiser",
    decides="what to page, and when",
    schedule=schedule_paging,
    pages=True,
    keeps_deadline=True,
    takes=(Option.SEED, Option.SOLVER, Option.TIME_LIMIT),
    general=Aware.YES,
    compute_aware=Aware.PARTLY,  # only with a deadline, where transfers run beside computes
    memory_aware=Aware.YES,
    power_aware=Aware.YES,
)
REMATERIALIZATION = replace(
    PAGING,
    name="rematerialization_only",
    decides="what to recompute, and when",
    compute_aware=Aware.YES,
    schedule=schedule_rematerialization,
    recomputes=True,
    pages=False,
)
ALONE = replace(
    OPTIMAL,
    name="optimal_alone",
    decides="as optimal, without the schedules of other methods to start from",
    schedule=schedule_alone,
)
