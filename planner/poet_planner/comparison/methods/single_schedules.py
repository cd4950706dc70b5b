# SPDX-License-Identifier: Apache-2.0
"""Store-all and page-all as methods, with the one schedule that each has for a graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.limits import refuse_time, within_limits
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions


def single_schedule(
    make: Callable[[Graph], Schedule], name: str
) -> Callable[[Graph, int, float | None, OptimiseOptions], Schedule]:
    """Make the ``schedule`` of a method that has one schedule for a graph, made by ``make``.

    A schedule beyond the limits is refused, and so is the objective time; options leave nothing to choose.
    """

    def schedule(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
        refuse_time(options)
        parts = f" ({graph.micro_batches} micro-batches)" if graph.micro_batches > 1 else ""
        return within_limits(make(graph), f"{name}{parts}", ram_bytes, deadline_s)

    return schedule


STORE_ALL = Method(
    name="store_all",
    source="what a framework does that neither recomputes nor pages",
    decides="nothing: every value is kept until its last use",
    schedule=single_schedule(store_all_schedule, "store-all"),
    general=Aware.YES,
)
STORE_ALL_IN_MICRO_BATCHES = replace(
    STORE_ALL,
    name="store_all_micro_batches",
    source="gradient accumulation, as people do it by hand",
    decides="in how many equal parts a batch goes through the network: as few as fit",
    memory_aware=Aware.YES,
    in_parts=True,
)
PAGE_ALL = Method(
    name="page_all",
    source="the simplest policy that trains beyond the RAM",
    decides="nothing: every value is paged out once, and in for each use",
    schedule=single_schedule(page_all_schedule, "page-all"),
    pages=True,
    general=Aware.YES,
)
