# SPDX-License-Identifier: Apache-2.0
"""Every method on one problem: the same graph, RAM budget, deadline and costs, each answer verified."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Uses
from poet_profiles.graph.file import graph_hash
from poet_profiles.schedule import Action, Schedule, Status

from poet_planner.comparison.code_version import code_version
from poet_planner.comparison.methods.ablations import PAGING, REMATERIALIZATION
from poet_planner.comparison.registry import BY_NAME_ALONE, METHODS, method_named
from poet_planner.comparison.sharing import SAME_ENERGY
from poet_planner.comparison.sweep_table import (
    COLUMNS,
    FAILED,
    LACKS,
    NONE,
    NOT_RUN,
    TIME,
    Point,
    PointKey,
    deadline_text,
)
from poet_planner.comparison.warm_up import warm_up
from poet_planner.planning.bench import Bench
from poet_planner.planning.contest import fewest_parts
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.method import OPTIMAL, Method
from poet_planner.report.summary import summarise
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.optimise import PROVEN_GAP
from poet_planner.solve.options import NoScheduleError, Refused
from poet_planner.solve.starts import with_bound

STATUSES = {
    Refused.IMPOSSIBLE: NONE,
    Refused.NOT_FOUND: TIME,
    Refused.NO_OFFSETS: TIME,
    Refused.NOT_RUN: NOT_RUN,
}
MOST_LONGER = 20.0  # than half of the bars; longer ones are cut


@dataclass(frozen=True)
class Subject:
    """What is planned, and what the table calls it; see `Point`."""

    graph: Graph
    model: str
    board: str = ""
    profile_source: str = ""
    batch: int | None = None

    @property
    def store_all(self) -> Schedule:
        return store_all_schedule(self.graph)

    @property
    def graph_hash(self) -> str:
        return graph_hash(self.graph)

    @cached_property
    def costs_hash(self) -> str:
        """Of all that a graph's hash leaves out and a plan depends on."""
        nodes = [
            [node.time_s, node.energy_j, node.recomputable, [value.page and vars(value.page) for value in node.values]]
            for node in self.graph.nodes
        ]
        return hashlib.sha256(json.dumps([self.graph.dma, nodes]).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Setting:
    """A problem: a subject, all of its RAM in bytes, and a deadline in seconds; None: no deadline.

    ``in_parts`` is what methods plan that plan parts of a batch (see `with_parts`): the graph of one of them, or why
    there is none; None: the whole batch.
    """

    subject: Subject
    ram_bytes: int
    deadline_s: float | None
    in_parts: Graph | str | None = None

    def subject_of(self, method: Method) -> Subject:
        """The subject with the graph that the method plans."""
        in_parts = self.in_parts if method.in_parts else None
        return replace(self.subject, graph=in_parts) if isinstance(in_parts, Graph) else self.subject


@dataclass(frozen=True)
class MethodResult:
    """What a method made of a problem: a verified schedule, or None; ``status`` and ``note`` then say why."""

    method: Method
    schedule: Schedule | None
    status: str
    seconds: float = 0.0
    note: str = ""


def subject_of(step: CostedStep, model: str | None, batch: int | None) -> Subject:
    """A step as the table calls it; ``model`` is the name that it was given by, if it was."""
    board = step.board.name if step.board else ""
    return Subject(step.graph, model or step.graph.name, board, step.graph.source, batch)


def with_parts(setting: Setting, bench: Bench, whole: CostedStep) -> Setting:
    """The same problem for methods that plan parts of a batch, too; ``whole`` is the subject's step."""
    try:
        fewest = fewest_parts(bench, whole, setting.ram_bytes)
    except UserError as lack:
        return replace(setting, in_parts=str(lack))
    return replace(setting, in_parts=fewest.graph)


def chosen(names: str) -> list[Method]:
    """The methods of a list of names, or ``all`` that one compares, in the order of the registry; the optimiser always.

    Raises
    ------
    UserError
        If there is no such method.
    """
    if names.strip() == "all":
        return list(METHODS)
    wanted = {method_named(name.strip()).name for name in names.split(",") if name.strip()}
    return [method for method in (*METHODS, *BY_NAME_ALONE) if method is OPTIMAL or method.name in wanted]


def compare(setting: Setting, methods: Sequence[Method], options: OptimiseOptions) -> Iterator[Point]:
    """What each method makes, as it comes, the optimiser last: see `answers`."""
    return (point_of(setting, answer, options) for answer in answers(setting, methods, options))


def answers(
    setting: Setting,
    methods: Sequence[Method],
    options: OptimiseOptions,
) -> Iterator[MethodResult]:
    """What each method makes, as it comes.

    The optimiser is given the schedules of the baselines to start from, and its plans with one technique alone those
    that do with that. Its own answer comes last, and is the cheapest of all. Where its plan is proven, and does with
    one technique, it is also the one with that technique alone. What plans parts of the batch is held beside it: its
    schedules are of another graph. The time limit of ``options`` is that of each method.
    """
    warm_up()
    made: dict[str, MethodResult] = {}
    for method in sorted(methods, key=_turn):
        best = made.get(OPTIMAL.name)
        if best and method in (PAGING, REMATERIALIZATION) and _is_proven_with(method, setting.subject.graph, best):
            note = "the optimiser's plan, which is proven and does with this"
            made[method.name] = replace(best, method=method, seconds=0.0, note=note)
        else:
            starts = (*options.starts, *_schedules(made))
            made[method.name] = _answer(setting, method, replace(options, starts=starts))
        if method is not OPTIMAL:
            yield made[method.name]
    if OPTIMAL.name in made:
        yield _cheapest(made)


def point_of(setting: Setting, answer: MethodResult, options: OptimiseOptions) -> Point:
    """The row of an answer."""
    subject, store_all = setting.subject_of(answer.method), setting.subject.store_all
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    if answer.schedule is not None:
        row |= _figures(subject.graph, answer.schedule, store_all, answer.method is OPTIMAL)
    row |= {
        "model": subject.model,
        "board": subject.board,
        "profile_source": subject.profile_source,
        "graph_hash": subject.graph_hash,
        "costs_hash": subject.costs_hash,
        "batch": subject.batch,
        "nodes": len(subject.graph.nodes),
        "ram_budget_bytes": setting.ram_bytes,
        "ram_of_plain": _share(setting.ram_bytes, store_all.peak_bytes),
        "deadline_s": setting.deadline_s,
        "deadline_of_plain": _share(setting.deadline_s, store_all.time_s),
        "method": answer.method.name,
        "status": answer.status,
        "plain_energy_j": store_all.energy_j,
        "plain_time_s": store_all.time_s,
        "plain_peak_bytes": store_all.peak_bytes,
        "seconds": answer.seconds,
        "seed": options.seed,
        "time_limit_s": options.time_limit_s,
        "code_version": code_version(),
        "note": answer.note,
    }
    return Point(**row)


def place_of(setting: Setting, method: Method, options: OptimiseOptions) -> PointKey:
    """Where the point of the method stands in the table."""
    subject = setting.subject_of(method)
    return PointKey(
        *(subject.model, subject.board, subject.graph_hash, subject.costs_hash),
        *(setting.ram_bytes, deadline_text(setting.deadline_s), method.name, options.seed),
    )


def by_energy(points: Iterable[Point]) -> list[Point]:
    """The optimiser's, then the cheapest first, then those without a schedule."""

    def place(point: Point) -> tuple[bool, float]:
        return point.method != OPTIMAL.name, math.inf if point.energy_j is None else point.energy_j

    return sorted(points, key=place)


def write_picture(setting: Setting, points: list[Point], path: Path) -> None:
    """Bars of what each method adds to the store-all schedule's energy: SVG or PNG, by the path's ending."""
    from poet_planner.comparison.pictures.headings import write_heading
    from poet_planner.comparison.pictures.method_styles import style_of
    from poet_planner.report.figures import COLOURS, INK, LABELS, new_figure, save
    from poet_planner.report.quantities import bytes_text, more_text, time_text
    from poet_planner.schedule.timeline import CostTerm

    figure, (axis,) = new_figure(7.5, 1.3 + 0.24 * len(points))
    parts = (
        (CostTerm.COMPUTE, "", [_more_computed_j(point) for point in points]),
        (CostTerm.RECOMPUTE, "", [point.recompute_j for point in points]),
        (CostTerm.PAGE_IN, "////", [point.page_in_j for point in points]),
        (CostTerm.PAGE_OUT, "....", [point.page_out_j for point in points]),
    )
    places = range(len(points))
    ends = [0.0] * len(points)
    for kind, hatch, joules in parts:
        if kind is CostTerm.COMPUTE and not any(joules):
            continue
        widths = [
            100 * (j or 0.0) / point.plain_energy_j if point.plain_energy_j else 0.0
            for j, point in zip(joules, points, strict=True)
        ]
        axis.barh(
            places, widths, left=ends, height=0.7, color=COLOURS[kind], hatch=hatch, edgecolor="white", linewidth=0,
            label="computed in parts" if kind is CostTerm.COMPUTE else LABELS[kind],
        )  # fmt: skip
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    most = _reach(ends)
    for place, (point, end) in enumerate(zip(points, ends, strict=True)):
        text = LACKS[point.status] if point.overhead is None else more_text(point.overhead)
        if point.time_of_plain is not None:
            text += f", {point.time_of_plain:.3g}x time"
        cut = {"bbox": {"facecolor": "white", "linewidth": 0, "pad": 1}} if end > most else {}
        text = f"→ {text}" if cut else text
        axis.text(min(end, most) + 0.01 * most, place, text, va="center", fontsize=7, color=INK, **cut)
    for place, style in enumerate(style_of(point.method) for point in points):
        axis.plot([-0.015], [place], transform=axis.get_yaxis_transform(), clip_on=False, **style.mark(4.5))
    axis.tick_params(axis="y", length=0, pad=12)
    axis.set_yticks(places, [point.method for point in points], fontsize=8)
    for label, point in zip(axis.get_yticklabels(), points, strict=True):
        label.set_fontweight("bold" if point.method == OPTIMAL.name else "normal")
    axis.set_ylim(len(points) - 0.4, -0.6)
    axis.set_xlim(0, 1.25 * most)
    axis.set_xlabel("energy above the store-all schedule, %", color=INK)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    limits = f"within {bytes_text(setting.ram_bytes)}"
    if setting.deadline_s is not None:
        limits += f" and {time_text(setting.deadline_s)}"
    write_heading(figure, [f"{setting.subject.graph.name}: {limits}"], points, size=10)
    save(figure, path)


def _reach(ends: list[float]) -> float:
    """End of the axis. Bars far longer than most are cut, with their figures beside them."""
    drawn = [end for end in ends if end > 0]
    return max((end for end in drawn if end <= MOST_LONGER * median(drawn)), default=1e-9)


def _turn(method: Method) -> int:
    """The baselines first, then the optimiser, then what it makes with one technique alone."""
    return 1 if method is OPTIMAL else 2 if method in (PAGING, REMATERIALIZATION) else 0


def _answer(setting: Setting, method: Method, options: OptimiseOptions) -> MethodResult:
    graph = setting.subject_of(method).graph
    started_s = time.perf_counter()
    try:
        if method.in_parts and isinstance(setting.in_parts, str):
            raise NoScheduleError(setting.in_parts, Refused.NOT_RUN)
        schedule = method.schedule(graph, setting.ram_bytes, setting.deadline_s, options)
    except UserError as lack:
        # Its cure is for a plan by this method alone.
        note = " ".join(str(lack).split(";")[0].split())
        status = STATUSES[lack.status] if isinstance(lack, NoScheduleError) else FAILED
        return MethodResult(method, None, status, time.perf_counter() - started_s, note)
    seconds = time.perf_counter() - started_s
    report = verify(graph, schedule)
    if not report.sound:
        note = f"its schedule breaks the contract, a fault of poet's: {report.faults[0]}"
        return MethodResult(method, None, FAILED, seconds, note)
    if graph is not setting.subject.graph:
        # A proof is one of its graph.
        return MethodResult(method, schedule, Status.FEASIBLE.value, seconds, f"{graph.micro_batches} micro-batches")
    return MethodResult(method, schedule, schedule.status.value, seconds)


def _schedules(made: Mapping[str, MethodResult]) -> Iterator[Schedule]:
    """Those of the subject's own graph."""
    return (a.schedule for a in made.values() if a.schedule is not None and not a.method.in_parts)


def _is_proven_with(method: Method, graph: Graph, best: MethodResult) -> bool:
    """Whether the optimiser's plan is proven, and recomputes nothing, or pages nothing, as the method's must."""
    if best.schedule is None or best.schedule.status is not Status.OPTIMAL:
        return False
    steps = best.schedule.steps
    if method is REMATERIALIZATION:
        return all(step.do not in (Action.PAGE_IN, Action.PAGE_OUT) for step in steps)
    on_cpu = {node.id for node in graph.nodes if node.uses is not Uses.BUS}
    return sum(step.do is Action.COMPUTE and step.target in on_cpu for step in steps) == len(on_cpu)


def _cheapest(made: Mapping[str, MethodResult]) -> MethodResult:
    """The optimiser's answer: with a cheaper schedule that another method has found, and its own bound."""
    own = made[OPTIMAL.name]
    best = min((answer for answer in made.values() if not answer.method.in_parts), key=_energy_j)
    if best.schedule is None or _energy_j(own) <= _energy_j(best):
        return own
    bound_j = best.schedule.bound_j if own.schedule is None else own.schedule.bound_j
    schedule = with_bound(best.schedule, bound_j, PROVEN_GAP)
    return replace(own, schedule=schedule, status=schedule.status.value, note=f"the schedule of {best.method.name}")


def _energy_j(answer: MethodResult) -> float:
    return math.inf if answer.schedule is None else answer.schedule.energy_j


def _share(part: float | None, whole: float) -> float | None:
    return part / whole if part is not None and whole else None


def _more_computed_j(point: Point) -> float:
    """What computing a batch in parts adds to its first computes, which in one part are the store-all schedule's."""
    again_j = (point.recompute_j or 0.0) + (point.page_in_j or 0.0) + (point.page_out_j or 0.0)
    more_j = (point.overhead or 0.0) * point.plain_energy_j - again_j
    return more_j if more_j > SAME_ENERGY * point.plain_energy_j else 0.0


def _figures(graph: Graph, schedule: Schedule, store_all: Schedule, proves: bool) -> dict[str, Any]:
    figures = summarise(graph, schedule, store_all)
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    paged = (step.target for step in schedule.steps if step.do in (Action.PAGE_IN, Action.PAGE_OUT))
    return {
        "energy_j": figures.energy_j,
        "overhead": figures.overhead,
        "recompute_j": figures.energy_recompute_j + figures.energy_refetch_j,
        "page_in_j": figures.energy_page_in_j,
        "page_out_j": figures.energy_page_out_j,
        "bound_j": figures.bound_j if proves else None,
        "gap": figures.gap if proves else None,
        "time_s": figures.time_s,
        "peak_bytes": figures.peak_bytes,
        "arena_bytes": figures.arena_bytes,
        "recomputes": figures.recomputes + figures.refetches,
        "page_ins": figures.page_ins,
        "page_outs": figures.page_outs,
        "bytes_paged": sum(sizes[id] for id in paged),
    }
