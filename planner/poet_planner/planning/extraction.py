# SPDX-License-Identifier: Apache-2.0
"""Plans what makes features beside a head's step, within the same RAM."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.plan_folder.beside import Extraction
from poet_profiles.schedule import Schedule

from poet_planner.graph.batch import once_j
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.costed_step import CostedStep, without_paging
from poet_planner.planning.layouts import LARGER_TILES_BYTES, STREAMED
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify

SECONDS = 5.0


def plan_extraction(step: CostedStep, budget_bytes: int) -> Extraction:
    """Of as many samples at once as fit: these have the bits of a whole step, and read the card least.

    Where not even the fewest fit without paging, the optimiser has a few seconds for them.

    Raises
    ------
    UserError
        If there is no such plan.
    """
    assert step.training_step is not None
    samples = step.training_step.samples
    graphs, at_once = _graphs(step, 1), samples
    for fewer in (count for count in range(samples - 1, 0, -1) if samples % count == 0):
        if any(_fits(graph, budget_bytes) for graph in graphs):
            break
        if graphs_of_fewer := _graphs(step, samples // fewer):
            graphs, at_once = graphs_of_fewer, fewer
    fitting = [graph for graph in graphs if _fits(graph, budget_bytes)]
    graph = min(fitting, key=once_j) if fitting else graphs[0]
    schedule = _paged(graph, budget_bytes) if not fitting else store_all_schedule(graph)
    return _verified(Extraction(graph, replace(schedule, ram_budget_bytes=budget_bytes), samples, at_once))


def _fits(graph: Graph, budget_bytes: int) -> bool:
    """Without a page."""
    return store_all_schedule(graph).ram_budget_bytes <= budget_bytes


def _graphs(step: CostedStep, parts: int) -> list[Graph]:
    """In every way to read constants on the card, what needs the least RAM first; none if there are no such parts."""
    try:
        graphs = [step.extraction(parts, streaming) for streaming in _streamed(step)]
    except UserError:
        if parts == 1:
            raise
        return []
    return graphs if _pages(step.graph) else [without_paging(graph) for graph in graphs]


def _streamed(step: CostedStep) -> list[Streaming]:
    if not step.graph.kept:
        return [step.layout.streaming]
    tiled = (replace(one, tile_bytes=size) for one in STREAMED[1:] for size in LARGER_TILES_BYTES)
    return [*reversed(STREAMED), *tiled]


def _pages(graph: Graph) -> bool:
    return any(value.page for node in graph.nodes for value in node.values)


def _paged(graph: Graph, budget_bytes: int) -> Schedule:
    from poet_planner.solve import OptimiseOptions, optimise

    return optimise(graph, budget_bytes, None, OptimiseOptions(time_limit_s=SECONDS, capped=False))


def _verified(made: Extraction) -> Extraction:
    report = verify(made.graph, made.schedule)
    if not report.sound:
        raise RuntimeError(
            f"the features of {made.graph.name} break the contract, a fault of poet's: {report.faults[0]}"
        )
    return made
