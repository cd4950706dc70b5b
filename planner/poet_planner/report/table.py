# SPDX-License-Identifier: Apache-2.0
"""A plan's summary as people read it: names, figures and remarks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from poet_profiles.plan_folder.summary import ContestRow, FitReport, MoreRam, PlacementReport, Summary
from poet_profiles.schedule import Objective

from poet_planner.report.quantities import bytes_text, energy_text, more_text, share_text, time_text
from poet_planner.report.tiles import tiles_text

if TYPE_CHECKING:
    from rich.table import Table

PAUSE = "of a program that gets control back between two steps of the schedule"
IN_F32 = "whose input is a part of a tensor or permuted, or whose weights are"
UNEQUAL_BASIS = 0.1  # of the shares of two energies that are fitted


def fits_error(fits: Iterable[FitReport]) -> float | None:
    """Mean error of the fits, weighted by energy; None where no error is known."""
    known = [(fit.energy_share, fit.energy_error) for fit in fits if fit.energy_error is not None]
    predicted = sum(share for share, _ in known)
    return sum(share * error for share, error in known) / predicted if predicted else None


UNKNOWN_ORIGIN = "costs: those of the graph, which does not say where they come from"


def origin_text(summary: Summary) -> str:
    """Where the costs of a plan come from, in a line."""
    if not summary.energy_share:
        return f"costs: those of the graph, {figures_text(summary.source)}" if summary.source else UNKNOWN_ORIGIN
    shares = sorted(summary.energy_share.items(), key=lambda item: -item[1])
    return "costs: " + ", ".join(f"{share_text(share)} {basis}" for basis, share in shares if share)


def figures_text(source: str) -> str:
    """What a graph says that its costs are."""
    return f"{' and '.join(source.split('+'))} figures" if source else "figures of unknown origin"


def more_ram_text(price: MoreRam) -> str:
    """What a little more RAM would save, in a line."""
    ram = price.ram_budget_bytes
    budget = f"{ram // 1024}KB" if ram % 1024 == 0 else str(ram)
    beyond = f" (more than {price.beyond_board} has)" if price.beyond_board else ""
    return (
        f"{bytes_text(price.more_bytes)} more RAM would save {share_text(price.saved)} of the energy: "
        f"{energy_text(price.energy_j)} with --ram {budget}{beyond}"
    )


def smaller_batch_text(summary: Summary) -> str:
    """What a sample costs in smaller batches, and why there are no micro-batches; empty: nobody asked."""
    rows = [(row, row.found_j, row.samples) for row in summary.contest if row.samples and row.found_j is not None]
    if len(rows) < 2:
        return ""
    costs = [f"{energy_text(joules / samples)} with {row.form}" for row, joules, samples in rows[1:]]
    row, joules, _ = rows[-1]
    plain = ", the largest with nothing paged or recomputed" if joules <= row.least_j else ""
    why = row.why_out.partition(": ")[2]
    return f"a sample costs {energy_text(rows[0][1] / rows[0][2])}; {', '.join(costs)}{plain}; {why}"


def placement_text(placement: PlacementReport) -> str:
    """Why static offsets cost something, in a line."""
    proven = "proven" if placement.proven else "not proven"
    return f"the cheapest schedule found has no addresses in this RAM ({proven})"


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
    on, against = s.int8, s.int8.validation
    ranges = "as PyTorch quantised them" if on.samples is None else f"ranges from {on.samples} samples"
    weights = f"weights {bytes_text(on.weight_bytes)} (f32 {bytes_text(on.f32_weight_bytes)})"
    rows = [("frozen, int8", f"{on.layers} of {on.frozen_layers} layers", f"{weights}, {ranges}")]
    if left := on.frozen_layers - on.layers:
        rows.append(("  left in f32", f"{left} layers", IN_F32))
    if against is not None:
        same = "" if against.same_answers is None else f": same answers for {against.same_answers:.2%}"
        right = "" if against.right is None else f", right {against.right:.2%} (f32 {against.right_f32:.2%})"
        remark = f"scores of {against.samples} samples{same}{right}"
        rows.append(("  against f32", f"{against.score_error:.2%} off", remark))
    return rows


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
    if one.read_time_s:
        room += f", the card others: {energy_text(one.read_energy_j)} and {time_text(one.read_time_s)} to read one"
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
    return [("placement costs", share_text(s.placement.cost), f"{s.objective}: {placement_text(s.placement)}")]


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
        *([("  in tiles", f"{len(s.tiles)} values", f"never whole: {tiles_text(s.tiles)}")] if s.tiles else []),
        *([frozen] if s.constant_bytes else []),
        *_card_rows(s),
    ]


def _card_rows(s: Summary) -> list[tuple[str, str, str]]:
    committed, paged = s.wear.committed_bytes, s.wear.paged_bytes
    what = "parameters and their states" if committed else "frozen weights"
    rows = [("card, kept", bytes_text(s.kept_bytes), what)] if s.kept_bytes else []
    if committed + paged:
        parts = f"{bytes_text(committed)} of new versions, {bytes_text(paged)} of pages"
        rows.append(("card, written", bytes_text(committed + paged), f"a step: {parts}"))
    if s.commit_each > 1:
        loses = f"a reset loses at most {s.commit_each - 1} more; energy and time are the mean"
        rows.append(("  kept together", f"{s.commit_each} steps", loses))
    if s.wear.life_steps is not None:
        endurance = f"if {bytes_text(s.wear.endurance_bytes)} can be written to it"
        rows.append(("  its life", f"{float(f'{s.wear.life_steps:.2g}'):,.0f} steps", endurance))
    return rows


def _residents_remark(s: Summary) -> str:
    if s.excluded_bytes:
        return f"batch; {bytes_text(s.excluded_bytes)} of parameters, gradients, state NOT counted"
    if s.wear.committed_bytes:
        return "small parameters, state" + (", sums of gradients" if s.micro_batches > 1 else "")
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
    if s.source:
        rows = [("energy rests on", "", f"costs of the graph, {figures_text(s.source)}")]
    elif rows:
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
    """Error of the predictions, weighted by energy, and the fit with the most of it."""
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


def contest_table(rows: Iterable[ContestRow]) -> Table:
    """The forms that were looked at, the plan's first."""
    from rich.table import Table

    table = Table("form", "needs", "at least", "found", "bound", "why it is not the plan's", title="forms of the step")
    for row in rows:
        found, bound = ("" if joules is None else energy_text(joules) for joules in (row.found_j, row.bound_j))
        table.add_row(row.form, bytes_text(row.needs_bytes), energy_text(row.least_j), found, bound, row.why_out)
    return table
