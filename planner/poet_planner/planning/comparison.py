# SPDX-License-Identifier: Apache-2.0
"""Every method on one problem: the same graph, RAM budget, deadline and costs, each answer verified."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from io import BytesIO, StringIO
from pathlib import Path

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule
from poet_profiles.whole_file import write_whole

from poet_planner.baselines.method import Method
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.planning.methods import METHODS, OPTIMAL, method_named
from poet_planner.report.summary import summarise
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions


@dataclass(frozen=True)
class Compared:
    """What one method made: a row of the table.

    Attributes
    ----------
    method : str
    status : str
        ``"none"`` where it has no schedule within the limits; ``note`` says why.
    energy_j, overhead : float or None
        Overhead is energy above the store-all schedule's, relative.
    recompute_j, page_in_j, page_out_j : float or None
        What the overhead consists of; fetching a tensor again counts as recomputing.
    bound_j, gap : float or None
        The lower bound, which only the optimiser proves, and what is open.
    time_s, time_of_plain : float or None
        Time, and that relative to the store-all schedule's.
    peak_bytes, arena_bytes : int or None
        The most RAM at once, resident tensors included; what the offsets take, without them.
    recomputes, page_ins, page_outs : int or None
    seconds : float
        What the method took.
    note : str
    """

    method: str
    status: str
    energy_j: float | None = None
    overhead: float | None = None
    recompute_j: float | None = None
    page_in_j: float | None = None
    page_out_j: float | None = None
    bound_j: float | None = None
    gap: float | None = None
    time_s: float | None = None
    time_of_plain: float | None = None
    peak_bytes: int | None = None
    arena_bytes: int | None = None
    recomputes: int | None = None
    page_ins: int | None = None
    page_outs: int | None = None
    seconds: float = 0.0
    note: str = ""


def chosen(names: str) -> list[Method]:
    """The methods of a list of names, ``all`` of them, in the order of the registry; the optimiser always.

    Raises
    ------
    UserError
        If there is no such method.
    """
    if names.strip() == "all":
        return list(METHODS)
    wanted = {method_named(name.strip()).name for name in names.split(",") if name.strip()}
    return [method for method in METHODS if method is OPTIMAL or method.name in wanted]


def compare(
    graph: Graph, ram_bytes: int, deadline_s: float | None, methods: Sequence[Method], options: OptimiseOptions
) -> Iterator[Compared]:
    """What each method makes, as it comes.

    The optimiser comes last, and is given all the other schedules to start from: so it is never above any of them.

    Parameters
    ----------
    ram_bytes : int
        All of the RAM, resident tensors included.
    options : OptimiseOptions
        The time limit is that of each method.

    Raises
    ------
    RuntimeError
        If a schedule breaks the contract: a fault of poet's.
    """
    store_all = store_all_schedule(graph)
    made: list[Schedule] = []
    for method in sorted(methods, key=lambda method: method is OPTIMAL):
        started_s = time.perf_counter()
        given = replace(options, starts=tuple(made)) if method is OPTIMAL else options
        try:
            schedule = method.schedule(graph, ram_bytes, deadline_s, given)
        except UserError as lack:
            seconds = time.perf_counter() - started_s
            # Its cure is for a plan by this method alone.
            why = " ".join(str(lack).split(";")[0].split())
            yield Compared(method.name, "none", seconds=seconds, note=why)
            continue
        made.append(schedule)
        yield _row(graph, method, schedule, store_all, time.perf_counter() - started_s)


def in_order(rows: Iterable[Compared]) -> list[Compared]:
    """The optimiser's row, then the cheapest first, then those without a schedule."""

    def place(row: Compared) -> tuple[bool, float]:
        return row.method != OPTIMAL.name, math.inf if row.energy_j is None else row.energy_j

    return sorted(rows, key=place)


def write_rows(rows: Iterable[Compared], path: Path) -> None:
    """Write the rows as CSV, whole."""
    text = StringIO()
    table = csv.DictWriter(text, [field.name for field in fields(Compared)], lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(row) for row in rows)
    write_whole(path, text.getvalue())


def write_picture(graph: Graph, ram_bytes: int, deadline_s: float | None, rows: list[Compared], path: Path) -> None:
    """Bars of what each method adds to the store-all schedule's energy: SVG or PNG, by the path's ending."""
    from poet_planner.report.figures import COLOURS, INK, LABELS, new_figure
    from poet_planner.report.quantities import bytes_text, share_text, time_text
    from poet_planner.schedule.timeline import Kind

    store_all_j = sum(node.energy_j for node in graph.nodes)
    figure, (axis,) = new_figure(7.5, 1.3 + 0.24 * len(rows))
    parts = (
        (Kind.RECOMPUTE, "", [row.recompute_j for row in rows]),
        (Kind.PAGE_IN, "////", [row.page_in_j for row in rows]),
        (Kind.PAGE_OUT, "....", [row.page_out_j for row in rows]),
    )
    places = range(len(rows))
    ends = [0.0] * len(rows)
    for kind, hatch, joules in parts:
        widths = [100 * (j or 0.0) / store_all_j if store_all_j else 0.0 for j in joules]
        axis.barh(
            places, widths, left=ends, height=0.7, color=COLOURS[kind], hatch=hatch, edgecolor="white", linewidth=0,
            label=LABELS[kind],
        )  # fmt: skip
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    most = max(*ends, 1e-9)
    for place, (row, end) in enumerate(zip(rows, ends, strict=True)):
        text = "no schedule" if row.overhead is None else f"+{share_text(row.overhead)}"
        if row.time_of_plain is not None:
            text += f", {row.time_of_plain:.3g}x time"
        axis.text(end + 0.01 * most, place, text, va="center", fontsize=7, color=INK)
    axis.set_yticks(places, [row.method for row in rows], fontsize=8)
    for label, row in zip(axis.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.method == OPTIMAL.name else "normal")
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_xlim(0, 1.25 * most)
    axis.set_xlabel("energy above the store-all schedule, %", color=INK)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    limits = f"within {bytes_text(ram_bytes)}" + ("" if deadline_s is None else f" and {time_text(deadline_s)}")
    figure.suptitle(f"{graph.name}: {limits}", fontsize=10, color=INK, parse_math=False)
    buffer = BytesIO()
    figure.savefig(buffer, format=path.suffix.removeprefix("."))
    write_whole(path, buffer.getvalue())


def _row(graph: Graph, method: Method, schedule: Schedule, store_all: Schedule, seconds: float) -> Compared:
    report = verify(graph, schedule)
    if not report.sound:
        raise RuntimeError(f"the schedule of {method.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    figures = summarise(graph, schedule, store_all)
    proves = method is OPTIMAL
    return Compared(
        method=method.name,
        status=figures.status,
        energy_j=figures.energy_j,
        overhead=figures.overhead,
        recompute_j=figures.energy_recompute_j + figures.energy_refetch_j,
        page_in_j=figures.energy_page_in_j,
        page_out_j=figures.energy_page_out_j,
        bound_j=figures.bound_j if proves else None,
        gap=figures.gap if proves else None,
        time_s=figures.time_s,
        time_of_plain=figures.time_s / store_all.time_s if store_all.time_s else None,
        peak_bytes=figures.peak_bytes,
        arena_bytes=figures.arena_bytes,
        recomputes=figures.recomputes + figures.refetches,
        page_ins=figures.page_ins,
        page_outs=figures.page_outs,
        seconds=seconds,
    )
