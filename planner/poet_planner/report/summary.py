# SPDX-License-Identifier: Apache-2.0
"""What a plan costs and what that rests on, for people and, as JSON, for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.boards import Board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.json_file import read_json
from poet_profiles.losses import Loss
from poet_profiles.schedule import Action, Objective, Schedule

from poet_planner.graph.batch import nodes_of_batch, once_s
from poet_planner.report.card_wear import Wear, wear
from poet_planner.report.contest import ContestRow
from poet_planner.report.int8 import Int8Report
from poet_planner.report.optimiser import OptimiserReport, optimiser_report
from poet_planner.report.placement import PlacementReport, placement_report
from poet_planner.report.quantities import bytes_text, energy_text, more_text, share_text, time_text
from poet_planner.schedule.extraction import Extraction
from poet_planner.schedule.firmware_tables import room_for_features
from poet_planner.schedule.inference import Inference
from poet_planner.schedule.lacks import lacks
from poet_planner.schedule.timeline import CostTerm, Moment, energy_by_term, longest_pause_s, timeline

if TYPE_CHECKING:
    from rich.table import Table

    from poet_planner.costs.cost_model import CostedGraph
    from poet_planner.solve.statistics import Statistics


PAUSE = "of a program that gets control back between two steps of the schedule"
# Sums of the same energies in another order differ by less.
ROUNDING = 1e-12
UNEQUAL_BASIS = 0.1  # of the shares of two energies that are fitted


@dataclass(frozen=True)
class FitReport:
    """A fitted cost model that the plan rests on, and the share of the plan's energy that it predicts.

    Errors are relative, None where one row is all there is.
    """

    operator: str
    rows: int
    sources: tuple[str, ...]
    time_error: float | None
    energy_error: float | None
    energy_share: float


@dataclass(frozen=True)
class MoreRam:
    """The price of the last bytes: a larger budget, and what a step would cost within it.

    ``saved`` is the share of the plan's energy that it would save. ``beyond_board`` is the board's name if it has less.
    """

    ram_budget_bytes: int
    more_bytes: int
    energy_j: float
    saved: float
    beyond_board: str | None = None

    def __str__(self) -> str:
        ram = self.ram_budget_bytes
        budget = f"{ram // 1024}KB" if ram % 1024 == 0 else str(ram)
        beyond = f" (more than {self.beyond_board} has)" if self.beyond_board else ""
        return (
            f"{bytes_text(self.more_bytes)} more RAM would save {share_text(self.saved)} of the energy: "
            f"{energy_text(self.energy_j)} with --ram {budget}{beyond}"
        )


@dataclass(frozen=True)
class InferenceReport:
    """The inference beside the training step: of one sample, without idle power; ``ram_bytes`` residents included.

    ``loss`` is how the training's loss reads its output, None if there is no name for it; ``classes`` are names.
    """

    graph_hash: str
    energy_j: float
    time_s: float
    ram_bytes: int
    page_ins: int
    loss: Loss | None = None
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeaturesReport:
    """What is kept of a sample, and what it costs to make it: of ``at_once`` samples, without idle power.

    ``room`` is for how many samples the board's RAM has room beside the plans, None where no board is named.
    """

    graph_hash: str
    sample_bytes: int
    at_once: int
    energy_j: float
    time_s: float
    ram_bytes: int
    page_ins: int
    room: int | None


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What was planned, and what its costs rest on.

    ``firmware`` are the builds with which the costs were profiled. ``energy_sensed`` is False where no sensor was:
    energies then are times, multiplied by the powers of the board file. ``idle_power_w`` is what the sleeping board
    draws besides: 0 where the energies are all that is drawn, as published ones are, and None where it is not known.
    ``plain_fitted`` is the fitted share of the store-all schedule's energy if the plan is in micro-batches and that
    schedule of the whole batch; else None.
    """

    graph: str
    graph_hash: str
    nodes: int
    energy_share: dict[str, float]
    plain_fitted: float | None
    energy_sensed: bool
    fits: tuple[FitReport, ...]
    firmware: tuple[str, ...]
    idle_power_w: float | None


@dataclass(frozen=True, kw_only=True)
class Energy:
    """``overhead`` is energy above the store-all schedule, relative to that schedule's.

    ``energy_card_j`` is what operators move between RAM and card as they are computed for the first time; with what is
    fetched again and the pages it is all that the card takes. ``plain_card_j`` is that of the store-all schedule.
    Counts of recomputations and transfers are of one micro-batch, energies of all.
    """

    energy_j: float
    energy_compute_j: float
    energy_card_j: float
    energy_recompute_j: float
    energy_refetch_j: float
    energy_page_in_j: float
    energy_page_out_j: float
    recomputes: int
    refetches: int
    page_ins: int
    page_outs: int
    plain_energy_j: float
    plain_card_j: float
    overhead: float

    @property
    def all_of_the_card_j(self) -> float:
        return self.energy_card_j + self.energy_refetch_j + self.energy_page_in_j + self.energy_page_out_j

    @property
    def plain_by_term_j(self) -> dict[CostTerm, float]:
        """What the store-all schedule spends."""
        return {CostTerm.COMPUTE: self.plain_energy_j - self.plain_card_j, CostTerm.CARD: self.plain_card_j}


@dataclass(frozen=True, kw_only=True)
class Time:
    """``busy_s`` are the seconds of all computes and transfers.

    ``longest_pause_s`` is the longest time for which a step of the schedule keeps a microcontroller's CPU; None for a
    Linux board.
    """

    time_s: float
    deadline_s: float | None
    plain_time_s: float
    busy_s: float
    plain_busy_s: float
    longest_pause_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Ram:
    """``placement`` is None unless static offsets make the plan more expensive."""

    peak_bytes: int
    ram_budget_bytes: int
    resident_bytes: int
    excluded_bytes: int
    resident_gradients: bool | None
    allocates: bool
    arena_bytes: int
    plain_peak_bytes: int
    placement: PlacementReport | None = None


@dataclass(frozen=True, kw_only=True)
class Card:
    """``kept_bytes`` lie on the card, the batch not counted, and ``constant_bytes`` in flash.

    ``lacks`` is what a plan in RAM has, and this one does not.
    """

    constant_bytes: int
    kept_bytes: int
    wear: Wear
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How much less another plan might cost.

    ``micro_batches`` is in how many parts a batch goes through the network. ``contest`` has the forms of the step that
    were looked at, the plan's first, and ``forms_gap`` is the gap over those with a bound, with what the runner adds.
    ``objective`` is energy or time; ``gap`` and ``overhead_gap`` are of it, and where it is time, ``bound_s`` is the
    lower bound of ``busy_s``, and joules of ``optimiser`` are seconds. ``optimiser`` is None if the plan comes from
    another method.
    """

    status: str
    objective: str
    bound_j: float
    bound_s: float | None
    gap: float
    overhead_gap: float
    optimiser: OptimiserReport | None
    micro_batches: int
    contest: tuple[ContestRow, ...]
    forms_gap: float


@dataclass(frozen=True, kw_only=True)
class Summary(Proof, Card, Ram, Time, Energy, Origin):
    """A plan in figures: all records at one level, as in the file.

    Fields named ``plain_…`` are the store-all schedule's. ``more_ram`` is None where nobody asked, or a little more RAM
    was not found to save much. ``inference`` is None if there is none beside it, ``int8`` if nothing is on int8,
    ``features`` if the step is whole.
    """

    more_ram: MoreRam | None = None
    inference: InferenceReport | None = None
    int8: Int8Report | None = None
    features: FeaturesReport | None = None

    def document(self) -> dict[str, Any]:
        """The JSON form, `summary.json`."""
        return asdict(self)


def read_summary(path: Path) -> Summary:
    """Read `summary.json`.

    Raises
    ------
    UserError
        If it cannot be read, or is no summary of this version's.
    """
    from pydantic import TypeAdapter, ValidationError

    document = read_json(path)
    try:
        return TypeAdapter(Summary).validate_python(document)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise UserError(f"{path}: no summary of this version of poet (at {key!r}); plan again") from None


def summarise(
    graph: Graph,
    schedule: Schedule,
    store_all: Schedule,
    costed: CostedGraph | None = None,
    excluded_bytes: int = 0,
    statistics: Statistics | None = None,
    board: Board | None = None,
    endurance_bytes: int | None = None,
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
    endurance_bytes : int, optional
        What may be written to the card in all, instead of the board's.
    inference : Inference, optional
        Beside the training step.
    extraction : Extraction, optional
        Likewise, of features.
    """
    room = None
    if board is not None and extraction is not None:
        room = room_for_features(board.usable_ram_bytes, graph, schedule, inference, extraction)
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
        wear=wear(graph, schedule, board, endurance_bytes),
        lacks=lacks(graph),
        objective=schedule.objective.value,
        busy_s=busy_s,
        plain_busy_s=plain_busy_s,
        bound_s=schedule.bound_s,
        energy_share=_energy_share(graph, schedule, costed) if costed else {},
        plain_fitted=None,
        energy_sensed=costed is None or costed.senses,
        fits=_fit_reports(costed, moments, schedule.energy_j) if costed else (),
        firmware=costed.firmware if costed else (),
        idle_power_w=costed.idle_power_w if costed else None,
        optimiser=optimiser_report(statistics, overhead_j) if statistics and statistics.seconds else None,
        longest_pause_s=None if graph.allocates else longest_pause_s(graph, schedule),
        inference=_inference_report(inference) if inference else None,
        features=_features_report(extraction, room) if extraction else None,
        placement=placement_report(
            statistics.unplaced if statistics else None,
            busy_s if schedule.objective is Objective.TIME else schedule.energy_j,
        ),
    )


def _inference_report(inference: Inference) -> InferenceReport:
    schedule = inference.schedule
    transfers = sum(step.do is Action.PAGE_IN for step in schedule.steps)
    return InferenceReport(
        *(schedule.graph_hash, schedule.energy_j, schedule.time_s, inference.ram_bytes, transfers),
        *(inference.loss, inference.classes),
    )


def _features_report(extraction: Extraction, room: int | None) -> FeaturesReport:
    schedule = extraction.schedule
    transfers = sum(step.do is Action.PAGE_IN for step in schedule.steps)
    return FeaturesReport(
        *(schedule.graph_hash, extraction.sample_bytes, extraction.at_once, schedule.energy_j, schedule.time_s),
        *(extraction.ram_bytes, transfers, room),
    )


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


def fits_error(fits: Iterable[FitReport]) -> float | None:
    """The mean error of what is predicted, by how much each predicts; None where nothing with a known error does."""
    known = [(fit.energy_share, fit.energy_error) for fit in fits if fit.energy_error is not None]
    predicted = sum(share for share, _ in known)
    return sum(share * error for share, error in known) / predicted if predicted else None


UNKNOWN_ORIGIN = "costs: those of the graph, which does not say where they come from"


def origin_text(summary: Summary) -> str:
    """Where the costs of a plan come from, in a line."""
    if not summary.energy_share:
        return UNKNOWN_ORIGIN
    shares = sorted(summary.energy_share.items(), key=lambda item: -item[1])
    return "costs: " + ", ".join(f"{share_text(share)} {basis}" for basis, share in shares if share)


def table(summary: Summary, verbose: bool = False) -> Table:
    """The summary as a table for a terminal; ``verbose`` lists every fit that the costs rest on."""
    from rich.table import Table

    shown = Table(
        title=f"{summary.graph}, {summary.nodes} nodes: {summary.status}",
        show_header=False,
        title_justify="left",
    )
    shown.add_column(style="bold", no_wrap=True)
    shown.add_column(justify="right", no_wrap=True)
    shown.add_column()
    for row in rows(summary, verbose):
        shown.add_row(*row)
    return shown


def rows(summary: Summary, verbose: bool = False) -> list[tuple[str, str, str]]:
    """The summary as names, figures and remarks; what belongs to the row above is indented."""
    return [
        *_energy_rows(summary),
        *_limit_rows(summary),
        *_int8_rows(summary),
        *_features_rows(summary),
        *_inference_rows(summary),
        *_basis_rows(summary, verbose),
    ]


def _int8_rows(s: Summary) -> list[tuple[str, str, str]]:
    if s.int8 is None:
        return []
    against = s.int8.validation
    return [s.int8.row, *([("  against f32", f"{against.score_error:.2%} off", str(against))] if against else [])]


def _inference_rows(s: Summary) -> list[tuple[str, str, str]]:
    if s.inference is None:
        return []
    one = s.inference
    paged = f", {_counted(one.page_ins, 'page-in')}" if one.page_ins else ""
    remark = f"of one sample: {time_text(one.time_s)}, {bytes_text(one.ram_bytes)} of RAM{paged}"
    return [("inference", energy_text(one.energy_j), remark)]


def _features_rows(s: Summary) -> list[tuple[str, str, str]]:
    if s.features is None:
        return []
    one = s.features
    paged = f", {_counted(one.page_ins, 'page-in')}" if one.page_ins else ""
    room = "" if one.room is None else f"; the board's RAM keeps those of {_counted(one.room, 'sample')}"
    return [
        (
            "features",
            energy_text(one.energy_j),
            f"of {_counted(one.at_once, 'sample')}, computed once each: "
            f"{time_text(one.time_s)}, {bytes_text(one.ram_bytes)} of RAM{paged}",
        ),
        ("  kept", bytes_text(one.sample_bytes), f"of a sample, for the step above to read in every epoch{room}"),
    ]


def _energy_rows(s: Summary) -> list[tuple[str, str, str]]:
    gap = f"gap {share_text(s.gap)} of the {s.objective}, {share_text(s.overhead_gap)} of the overhead"
    written = " and write to it" if s.wear.committed_bytes else ""
    once = [("  card", energy_text(s.energy_card_j), f"what operators read from it{written}, once each")]
    again = [("  fetch again", energy_text(s.energy_refetch_j), _counted(s.refetches, "transfer"))]
    proven = "no schedule needs less: proven" if share_text(s.gap) == "0 %" else gap
    return [
        ("energy", energy_text(s.energy_j), _overhead_remark(s)),
        ("  compute", energy_text(s.energy_compute_j), ""),
        *(once if s.energy_card_j else []),
        ("  recompute", energy_text(s.energy_recompute_j), _counted(s.recomputes, "recomputation")),
        *(again if s.energy_card_j else []),
        ("  page out", energy_text(s.energy_page_out_j), _counted(s.page_outs, "transfer")),
        ("  page in", energy_text(s.energy_page_in_j), _counted(s.page_ins, "transfer")),
        *_all_card_rows(s),
        ("bound", energy_text(s.bound_j) if s.bound_s is None else time_text(s.bound_s), proven),
        *_failure_rows(s),
        *_placement_rows(s),
        *_parts_rows(s),
    ]


def _all_card_rows(s: Summary) -> list[tuple[str, str, str]]:
    """How much of the energy the card is."""
    card_j = s.all_of_the_card_j
    of = "what operators move, fetch again, and pages" if s.energy_card_j else "pages"
    return [("  card in all", energy_text(card_j), f"{share_text(card_j / s.energy_j)}: {of}")] if card_j else []


def _failure_rows(s: Summary) -> list[tuple[str, str, str]]:
    return [("  a solver", "failed", message) for message in (s.optimiser.failures if s.optimiser else ())]


def _placement_rows(s: Summary) -> list[tuple[str, str, str]]:
    if s.placement is None:
        return []
    return [("placement costs", share_text(s.placement.cost), f"{s.objective}: {s.placement}")]


def _overhead_remark(s: Summary) -> str:
    store_all = f"the store-all schedule's {energy_text(s.plain_energy_j)}"
    if s.overhead == 0:
        return f"as much as {store_all}"
    return f"{more_text(s.overhead)} {store_all}" if s.overhead >= 1 else f"{more_text(s.overhead)} on {store_all}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _parts_rows(s: Summary) -> list[tuple[str, str, str]]:
    """Counts in other rows are of one micro-batch."""
    if s.micro_batches == 1:
        return []
    return [("micro-batches", str(s.micro_batches), "one after the other, their gradients added up; counts are of one")]


def _limit_rows(s: Summary) -> list[tuple[str, str, str]]:
    deadline = "no deadline" if s.deadline_s is None else f"deadline {time_text(s.deadline_s)}"
    store_all = bytes_text(s.plain_peak_bytes)
    frozen = ("flash", bytes_text(s.constant_bytes), "frozen weights and other constants, read where they lie")
    busy = f"all computes and transfers; store-all {time_text(s.plain_busy_s)}"
    pause = [] if s.longest_pause_s is None else [("  longest pause", time_text(s.longest_pause_s), PAUSE)]
    return [
        ("time", time_text(s.time_s), f"{deadline}; store-all {time_text(s.plain_time_s)}"),
        *pause,
        *([("  minimised", time_text(s.busy_s), busy)] if s.objective == Objective.TIME else []),
        ("peak RAM", bytes_text(s.peak_bytes), f"budget {bytes_text(s.ram_budget_bytes)}; store-all {store_all}"),
        ("  resident", bytes_text(s.resident_bytes), _residents_remark(s)),
        ("  allocated", bytes_text(s.arena_bytes), "at once beside them, as PyTorch allocates: no static offsets")
        if s.allocates
        else ("  arena", bytes_text(s.arena_bytes), "with its static offsets"),
        *([frozen] if s.constant_bytes else []),
        *_card_rows(s),
    ]


def _card_rows(s: Summary) -> list[tuple[str, str, str]]:
    committed, paged = s.wear.committed_bytes, s.wear.paged_bytes
    what = "parameters; the batches are there, too" if committed else "frozen weights"
    rows = [("card, kept", bytes_text(s.kept_bytes), what)] if s.kept_bytes else []
    if committed + paged:
        parts = f"{bytes_text(committed)} of new versions, {bytes_text(paged)} of pages"
        rows.append(("card, written", bytes_text(committed + paged), f"a step: {parts}"))
    if s.wear.life_steps is not None:
        endurance = f"if {bytes_text(s.wear.endurance_bytes)} can be written to it (--endurance)"
        rows.append(("  its life", f"{float(f'{s.wear.life_steps:.2g}'):,.0f} steps", endurance))
    return rows


def _residents_remark(s: Summary) -> str:
    if s.excluded_bytes:
        return f"batch; {bytes_text(s.excluded_bytes)} of parameters, gradients, state NOT counted"
    if s.wear.committed_bytes:
        return "small parameters, state"
    if s.resident_gradients is None:
        return "as the graph has it"
    if s.resident_gradients:
        return "parameters, state, batch, gradients"
    return "parameters, state, batch; gradients are " + ("allocated" if s.allocates else "in the arena")


def _basis_rows(s: Summary, verbose: bool) -> list[tuple[str, str, str]]:
    rows = [
        (f"  {basis}", share_text(share), _fitted_remark(s) if basis == "fitted" else "")
        for basis, share in s.energy_share.items()
        if share or (basis == "fitted" and s.plain_fitted)
    ]
    if rows:
        rows.insert(
            0, ("energy rests on", "", "" if s.energy_sensed else "times, and powers of the board file: no sensor")
        )
    if verbose:
        remarks = ((fit, f"{share_text(fit.energy_share)} of the energy, {_fit_remark(fit)}") for fit in s.fits)
        return rows + [(f"  fit {fit.operator}", f"{fit.rows} rows", remark) for fit, remark in remarks]
    if s.fits:
        rows.append(_error_row(s.fits))
    return rows


def _error_row(fits: tuple[FitReport, ...]) -> tuple[str, str, str]:
    """How far what is predicted is off, each fit weighted by what it predicts, and by whose fault."""
    error = fits_error(fits)
    most = max(fits, key=lambda fit: fit.energy_share * (1.0 if fit.energy_error is None else fit.energy_error))
    off = "not known" if error is None else f"{error:.1%} off"
    remark = f"most by {most.operator}, {share_text(most.energy_share)} of the energy: {_fit_remark(most)}"
    return "  predictions", off, f"{remark}; --verbose lists all {len(fits)}"


def _fitted_remark(s: Summary) -> str:
    """Numbers of parts are compared fairly on costs of one kind."""
    if s.plain_fitted is None:
        return ""
    said, more = f"of the whole batch {share_text(s.plain_fitted)}", s.energy_share["fitted"] - s.plain_fitted
    if abs(more) <= UNEQUAL_BASIS:
        return said
    graph = "this plan's graph.json" if more > 0 else "the graph.json of --micro-batches 1"
    return f"{said}; poet-harness profile --graph, with {graph}, makes rows of them"


def _fit_remark(fit: FitReport) -> str:
    error = "error unknown, one row" if fit.energy_error is None else f"{fit.energy_error:.1%} off in energy"
    time = "" if fit.time_error is None else f", {fit.time_error:.1%} in time"
    return f"{error}{time} ({', '.join(fit.sources)})"
