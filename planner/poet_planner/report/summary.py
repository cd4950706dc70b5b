# SPDX-License-Identifier: Apache-2.0
"""Adds up a verified plan: what it costs, and what that rests on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS, commit_each
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.plan_folder.beside import Extraction, Inference, PlanBeside
from poet_profiles.plan_folder.summary import ContestRow, FeaturesReport, FitReport, InferenceReport, Summary
from poet_profiles.schedule import Action, Objective, Schedule

from poet_planner.graph.batch import nodes_of_batch, once_s
from poet_planner.report.card_wear import wear
from poet_planner.report.optimiser import optimiser_report
from poet_planner.report.placement import placement_report
from poet_planner.schedule.flash import room_for_features
from poet_planner.schedule.timeline import CostTerm, Moment, energy_by_term, longest_pause_s, timeline

if TYPE_CHECKING:
    from poet_planner.costs.cost_model import CostedGraph
    from poet_planner.solve.statistics import Statistics

# Sums of the same energies in another order differ by less.
ROUNDING = 1e-12


def summarise(
    graph: Graph,
    schedule: Schedule,
    store_all: Schedule,
    costed: CostedGraph | None = None,
    excluded_bytes: int = 0,
    statistics: Statistics | None = None,
    board: Board | None = None,
    inference: Inference | None = None,
    extraction: Extraction | None = None,
) -> Summary:
    """Add up a verified plan.

    Parameters
    ----------
    store_all : Schedule
        The store-all schedule to compare with: the graph's, or of a micro-batch that of the whole batch.
    excluded_bytes : int
        Parameters, gradients and state that were left out of RAM.
    costed : CostedGraph, optional
        Where the graph was costed from a profile; says what the energy rests on.
    statistics : Statistics, optional
        Of the run that made the plan.
    board : Board, optional
        Whose card it writes to.
    inference : Inference, optional
        Beside the training step.
    extraction : Extraction, optional
        Likewise, of features.
    """
    room = None
    if board is not None and extraction is not None:
        room = room_for_features(graph, schedule, board, inference, extraction)
    moments = timeline(graph, schedule)
    busy_s = sum(m.end_s - m.start_s for m in moments if m.kind is not CostTerm.FREE)
    plain_busy_s = once_s(graph)
    energy = energy_by_term(moments)
    count = {kind: sum(1 for m in moments if m.kind is kind) for kind in CostTerm}
    overhead_j = schedule.energy_j - store_all.energy_j
    if abs(overhead_j) <= ROUNDING * store_all.energy_j:
        overhead_j = 0.0
    return Summary(
        graph=graph.name,
        graph_hash=schedule.graph_hash,
        nodes=len(graph.nodes),
        status=schedule.status.value,
        energy_j=schedule.energy_j,
        energy_compute_j=energy[CostTerm.COMPUTE],
        energy_card_j=energy[CostTerm.CARD],
        energy_recompute_j=energy[CostTerm.RECOMPUTE],
        energy_refetch_j=energy[CostTerm.REFETCH],
        energy_page_in_j=energy[CostTerm.PAGE_IN],
        energy_page_out_j=energy[CostTerm.PAGE_OUT],
        recomputes=count[CostTerm.RECOMPUTE],
        refetches=count[CostTerm.REFETCH],
        page_ins=count[CostTerm.PAGE_IN],
        page_outs=count[CostTerm.PAGE_OUT],
        plain_energy_j=store_all.energy_j,
        plain_card_j=sum(node.card_energy_j for node in nodes_of_batch(graph)),
        overhead=overhead_j / store_all.energy_j if store_all.energy_j else 0.0,
        bound_j=schedule.bound_j,
        gap=schedule.gap,
        overhead_gap=_overhead_gap(schedule, busy_s, store_all, plain_busy_s),
        micro_batches=graph.micro_batches,
        contest=(),
        forms_gap=schedule.gap,
        time_s=schedule.time_s,
        deadline_s=schedule.deadline_s,
        plain_time_s=store_all.time_s,
        peak_bytes=schedule.peak_bytes,
        ram_budget_bytes=schedule.ram_budget_bytes,
        resident_bytes=graph.resident_bytes,
        constant_bytes=constant_bytes(graph),
        excluded_bytes=excluded_bytes,
        kept_bytes=sum(kept.bytes for kept in graph.kept if kept.kind not in BATCH_KINDS),
        resident_gradients=any(r.kind == "gradient" for r in graph.residents) if graph.residents else None,
        allocates=graph.allocates,
        arena_bytes=schedule.arena_bytes,
        plain_peak_bytes=store_all.peak_bytes,
        wear=wear(graph, schedule, board),
        objective=schedule.objective.value,
        busy_s=busy_s,
        plain_busy_s=plain_busy_s,
        bound_s=schedule.bound_s,
        source="" if costed else graph.source,
        energy_share=_energy_share(graph, schedule, costed) if costed else {},
        plain_fitted=None,
        commit_each=commit_each(graph),
        energy_sensed=costed is None or costed.senses,
        fits=_fit_reports(costed, moments, schedule.energy_j) if costed else (),
        firmware=costed.firmware if costed else (),
        idle_power_w=costed.idle_power_w if costed else None,
        optimiser=optimiser_report(statistics, overhead_j) if statistics and statistics.seconds else None,
        longest_pause_s=None if graph.allocates else longest_pause_s(graph, schedule),
        inference=None if inference is None else inference_report(inference),
        features=None
        if extraction is None
        else FeaturesReport(
            **_beside(extraction),
            sample_bytes=extraction.sample_bytes,
            at_once=extraction.at_once,
            room=room,
            read_time_s=extraction.read_time_s,
            read_energy_j=extraction.read_energy_j,
        ),
        placement=placement_report(
            statistics.unplaced if statistics else None,
            busy_s if schedule.objective is Objective.TIME else schedule.energy_j,
        ),
    )


def inference_report(inference: Inference) -> InferenceReport:
    """What an inference costs, and what its output is."""
    return InferenceReport(**_beside(inference), loss=inference.loss, classes=inference.classes)


def _beside(plan: PlanBeside) -> dict[str, Any]:
    schedule = plan.schedule
    page_ins = sum(step.do is Action.PAGE_IN for step in schedule.steps)
    costs = {"energy_j": schedule.energy_j, "time_s": schedule.time_s, "ram_bytes": plan.ram_bytes}
    return {"graph_hash": schedule.graph_hash, **costs, "page_ins": page_ins}


def with_whole(summary: Summary, store_all: Schedule, whole: CostedGraph) -> Summary:
    """The summary of a plan in micro-batches, with what the costs of the whole batch's store-all schedule rest on."""
    fitted = _energy_share(whole.graph, store_all, whole)["fitted"]
    return replace(summary, plain_fitted=fitted, plain_card_j=sum(node.card_energy_j for node in whole.graph.nodes))


def with_contest(summary: Summary, contest: tuple[ContestRow, ...]) -> Summary:
    """The summary of a plan with the contest that its form has won."""
    costs_j = [row.bound_j + row.runner_j for row in contest if row.bound_j is not None]
    cost_j = summary.energy_j + contest[0].runner_j if contest else 0.0
    gap = max(0.0, 1 - min(costs_j) / cost_j) if len(costs_j) > 1 and cost_j else summary.forms_gap
    return replace(summary, contest=contest, forms_gap=gap)


def _overhead_gap(schedule: Schedule, busy_s: float, store_all: Schedule, plain_busy_s: float) -> float:
    if schedule.objective is Objective.TIME:
        return overhead_gap(busy_s, schedule.bound_s or 0.0, plain_busy_s)
    return overhead_gap(schedule.energy_j, schedule.bound_j, store_all.energy_j)


def overhead_gap(energy_j: float, bound_j: float, plain_energy_j: float) -> float:
    """Share of the overhead that is not proven to be needed: 0 all is proven, 1 nothing is."""
    overhead_j = energy_j - plain_energy_j
    return min(1.0, max(0.0, (energy_j - bound_j) / overhead_j)) if overhead_j > ROUNDING * plain_energy_j else 0.0


def _energy_share(graph: Graph, schedule: Schedule, costed: CostedGraph) -> dict[str, float]:
    """Share of the plan's energy by what it rests on; page costs are always a fitted model's."""
    from poet_planner.costs.cost_model import Basis

    shares = {basis.value: 0.0 for basis in Basis}
    for moment in timeline(graph, schedule):
        basis = Basis.FITTED if moment.kind in (CostTerm.PAGE_IN, CostTerm.PAGE_OUT) else costed.basis[moment.node]
        shares[basis.value] += moment.energy_j
    total = sum(shares.values())
    return {basis: joules / total if total else 0.0 for basis, joules in shares.items()}


def _fit_reports(costed: CostedGraph, moments: list[Moment], energy_j: float) -> tuple[FitReport, ...]:
    predicted_j = dict.fromkeys(costed.fits, 0.0)
    own_j = {node.id: node.energy_j for node in costed.graph.nodes}
    for moment in moments:
        if moment.kind in (CostTerm.PAGE_IN, CostTerm.PAGE_OUT):
            predicted_j[moment.kind.value] += moment.energy_j
        elif moment.energy_j:
            for name, joules in costed.predicted_j[moment.node].items():
                predicted_j[name] += joules * moment.energy_j / own_j[moment.node]
    return tuple(
        FitReport(
            fit.name,
            fit.rows,
            fit.sources,
            fit.time_error,
            fit.energy_error,
            predicted_j[fit.name] / energy_j if energy_j else 0.0,
        )
        for fit in costed.fits.values()
    )
