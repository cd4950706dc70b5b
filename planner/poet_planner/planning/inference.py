# SPDX-License-Identifier: Apache-2.0
"""Plans the inference beside a training step, within the same RAM."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.planning.flash import refuse_beyond_flash
from poet_planner.planning.task import Task, without_paging
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.inference import Inference
from poet_planner.schedule.verify import verify

SECONDS = 5.0


def plan_inference(task: Task, training: Schedule) -> Inference | str:
    """The inference beside a training step's schedule, or why there is none.

    Where everything fits at once nothing is cheaper. Otherwise the optimiser has a few seconds.
    """
    reason = _why_none(task)
    if reason is not None or task.inference is None:
        return reason or "a costed graph has no model to make it of"
    try:
        lowered = task.inference()
        reason = why_no_headers(lowered.graph, {**task.constants, **lowered.data})
        if reason is not None:
            return reason
        graph = lowered.graph if _pages(task.graph) else without_paging(lowered.graph)
        inference = Inference(graph, _schedule(graph, training.ram_budget_bytes), lowered.data)
        refuse_beyond_flash(task.graph, training, task.board, inference)
    except UserError as refusal:
        return str(refusal).removeprefix(f"{task.graph.name}: ")
    report = verify(inference.graph, inference.schedule)
    if not report.sound:
        raise RuntimeError(f"the inference of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    return inference


def _why_none(task: Task) -> str | None:
    if task.graph.kept:
        return "parameters lie on the card (--parameters resident keeps them in RAM)"
    return why_no_headers(task.graph, task.constants)


def _pages(graph: Graph) -> bool:
    return any(value.page for node in graph.nodes for value in node.values)


def _schedule(graph: Graph, budget_bytes: int) -> Schedule:
    from poet_planner.planning.methods import method_named
    from poet_planner.solve import OptimiseOptions

    store_all = store_all_schedule(graph)
    if store_all.ram_budget_bytes <= budget_bytes:
        return replace(store_all, ram_budget_bytes=budget_bytes)
    return method_named("optimal").schedule(
        graph, budget_bytes, None, OptimiseOptions(time_limit_s=SECONDS, capped=False)
    )
