# SPDX-License-Identifier: Apache-2.0
"""Plans the inference beside a training step, within the same RAM."""

from __future__ import annotations

from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.planning.costed_step import CostedStep, without_paging
from poet_planner.schedule.beside import PlanBeside
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.extraction import Extraction
from poet_planner.schedule.flash import refuse_beyond_flash
from poet_planner.schedule.inference import Inference
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify

SECONDS = 5.0


def plan_inference(step: CostedStep, training: Schedule, extraction: Extraction | None = None) -> Inference | str:
    """The inference beside a training step's schedule, or why there is none.

    Where everything fits at once nothing is cheaper. Otherwise the optimiser has a few seconds.
    """
    reason = _why_none(step)
    if reason is not None:
        return reason
    try:
        lowered = step.inference()
        if lowered is None:
            return "a costed graph has no model to make it of"
        reason = why_no_headers(lowered.graph, {**step.constants, **lowered.data})
        if reason is not None:
            return reason
        graph = lowered.graph if _pages(step.graph) else without_paging(lowered.graph)
        schedule = _schedule(graph, training.ram_budget_bytes)
        inference = Inference(graph, schedule, lowered.data, lowered.loss, lowered.classes)
        refuse_beyond_flash(step.graph, training, step.board, inference, extraction)
    except UserError as refusal:
        return str(refusal).removeprefix(f"{step.graph.name}: ")
    report = verify(inference.graph, inference.schedule)
    if not report.sound:
        raise RuntimeError(f"the inference of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    return inference


def with_inference(step: CostedStep, extraction: Extraction, inference: Inference, training: Schedule) -> Extraction:
    """What makes features, with the inference from those of one sample, where there is one and flash has room for it.

    It spares a validation the frozen part, which is the same after each epoch.
    """
    graph = step.inference_on_features(inference.graph)
    if graph is None:
        return extraction
    graph = graph if _pages(step.graph) else without_paging(graph)
    schedule = _schedule(graph, training.ram_budget_bytes)
    report = verify(graph, schedule)
    if not report.sound:
        raise RuntimeError(f"the inference of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    both = replace(extraction, inference=PlanBeside(graph, schedule))
    try:
        refuse_beyond_flash(step.graph, training, step.board, inference, both)
    except UserError:
        return extraction
    return both


def _why_none(step: CostedStep) -> str | None:
    return why_no_headers(step.graph, step.constants)


def _pages(graph: Graph) -> bool:
    return any(value.page for node in graph.nodes for value in node.values)


def _schedule(graph: Graph, budget_bytes: int) -> Schedule:
    from poet_planner.solve import OptimiseOptions, optimise

    store_all = store_all_schedule(graph)
    if store_all.ram_budget_bytes <= budget_bytes:
        return replace(store_all, ram_budget_bytes=budget_bytes)
    return optimise(graph, budget_bytes, None, OptimiseOptions(time_limit_s=SECONDS, capped=False))
