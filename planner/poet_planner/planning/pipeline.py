# SPDX-License-Identifier: Apache-2.0
"""From what is asked for to a verified plan: `plan` is the whole way, for the library and the command line alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from poet_profiles.errors import UserError
from poet_profiles.graph.kept import commits
from poet_profiles.plan_folder.beside import Extraction, stored_bytes
from poet_profiles.plan_folder.summary import ContestRow, Int8Report, MoreRam
from poet_profiles.schedule import Objective, Schedule

from poet_planner.graph.layout import GRADIENTS_RESIDENT
from poet_planner.planning import families, notes
from poet_planner.planning.bench import Bench
from poet_planner.planning.beside import plan_extraction, plan_inference, with_inference
from poet_planner.planning.budget import beside_a_program, plan_ram_bytes, refuse_too_large
from poet_planner.planning.contest import Contest
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.features import Division
from poet_planner.planning.form import Form
from poet_planner.planning.method import OPTIMAL, Method, plans_without_pages
from poet_planner.planning.more_ram import KB, more_ram, seconds_for
from poet_planner.planning.plan import Plan
from poet_planner.planning.request import WHOLE, Request
from poet_planner.planning.smaller_batch import SmallerBatches
from poet_planner.report.int8 import int8_report
from poet_planner.report.quantities import deadline_s
from poet_planner.report.summary import summarise, with_contest, with_whole
from poet_planner.report.tiles import tiled_values
from poet_planner.schedule.c_headers import operators_lacking, why_no_headers
from poet_planner.schedule.c_library import why_no_library
from poet_planner.schedule.flash import loaded_bytes, refuse_beyond_flash, refuse_beyond_room
from poet_planner.schedule.verify import verify
from poet_planner.solve import NoScheduleError, OptimiseOptions, Statistics

if TYPE_CHECKING:
    from poet_planner.solve import Progress

Answer = TypeVar("Answer")
Search = tuple["Callable[[Progress], None] | None", Callable[[], bool]]


@dataclass(frozen=True)
class Hooks:
    """What somebody who waits for a plan sees of it, and may end."""

    say: Callable[[str], None] = lambda note: None  # takes what is to be heard of the form that is chosen
    # What a search runs in: it gives what shows progress (None: nothing), and what tells whether somebody has ended it.
    searching: Callable[[], AbstractContextManager[Search]] = lambda: nullcontext((None, lambda: False))
    found: Callable[[], None] = lambda: None  # called once there is a schedule: what follows should not be ended


def plan(
    request: Request,
    method: Method = OPTIMAL,
    options: OptimiseOptions | None = None,
    hooks: Hooks | None = None,
    *,
    library: str | None = None,
    validate: Path | None = None,
) -> Plan:
    """Plan what is asked for, and verify the plan: see `poet_planner.plan`, and `verified`.

    What the price of the last bytes takes is within a time limit that is capped, and beside one that is not.
    """
    hooks, options = hooks or Hooks(), options or OptimiseOptions(capped=False)
    bench = Bench(replace(request, early_updates=plans_without_pages(method)))
    if library is not None:
        bench.request = beside_a_program(bench.request, bench.board)
    _refuse_untraced(bench)
    _refuse_unrunnable(bench)
    if bench.training_step is not None:
        _ = bench.training_step.streamed  # refuses, before minutes are spent
    contest = chosen_contest(bench, method)
    chosen = contest.chosen
    if request.keep_each > 1 and not commits(chosen.graph):
        raise UserError(notes.NOTHING_KEPT.format(request.keep_each))
    hooks.say(chosen.note)
    if library is not None and (reason := why_no_library(chosen.graph)):
        raise UserError(f"--library {library}: {chosen.graph.name}: {reason}")
    asking_s = seconds_for(options.time_limit_s) if method is OPTIMAL and chosen.is_short_of_ram else 0.0
    within_s = asking_s if options.capped else 0.0
    statistics = options.statistics or Statistics()
    options = replace(options, time_limit_s=options.time_limit_s - within_s, statistics=statistics)
    smaller = SmallerBatches(contest)
    with hooks.searching() as (progress, stopped):
        try:
            outcome = contest.plan(method, replace(options, progress=progress or options.progress), stopped)
        except NoScheduleError as refusal:
            raise refusal.adding(smaller.cure()) from None
        ended = stopped()
    form, schedule, table = outcome.form, outcome.schedule, outcome.table
    if form.note != chosen.note:
        hooks.say(form.note)
    if method is OPTIMAL and not ended and options.objective is Objective.ENERGY:
        table = _answer(lambda: smaller.with_rows(outcome.table, schedule), table, hooks)
    saving = None
    if asking_s and not ended:
        asking, is_advised = replace(options, time_limit_s=asking_s), len(table) > len(outcome.table)
        saving = _answer(lambda: _more_ram(form, schedule, asking, is_advised), None, hooks)
    hooks.found()
    made = verified(form, schedule, statistics, saving, validate, table)
    if not form.layout.is_tiled:
        return made
    whole = contest.bench.lowered(replace(form.layout, bands=None, tiles=1))
    return replace(made, summary=replace(made.summary, tiles=tiled_values(form.graph, whole)))


def prepare(request: Request, method: Method = OPTIMAL) -> Form:
    """The form that is planned first, with its limits; raises as `plan`."""
    return chosen_contest(Bench(request), method).chosen


def chosen_contest(bench: Bench, method: Method = OPTIMAL, searches: bool = True) -> Contest:
    """A contest that has chosen: of the head's step where features are kept and have room beside it, else of the whole.

    A method that makes micro-batches of its own has the whole step. ``searches`` is as for `Contest`.
    """
    _refuse_untraced(bench)
    request = bench.request
    division = Division() if method.in_parts else families.head(bench)
    for cut in () if division.cut is None else families.cuts(bench, division.cut):
        head = Contest(bench.head(cut), searches=searches)
        with suppress(UserError):  # what is wrong with the whole step is said of that
            _choose(head)
            if head.chosen.fits:
                _spare_extraction(head)
            if head.chosen.fits:
                return head
    note = notes.mixing(division.graph, division.mixing) or ("" if division.cut is None else notes.NO_ROOM)
    frozen = bench.training_step is not None and bench.training_step.traced.frozen
    if frozen and request.features != WHOLE and (options := families.wholes(request)):
        note = notes.NO_FEATURES.format(" and ".join(options))
    if families.kept_samples(request) is not None and not method.in_parts:
        raise UserError(f"--features {request.features}: {note or notes.NOTHING_TO_KEEP}; take auto or whole")
    whole = Contest(bench, searches=searches)
    _choose(whole, method.in_parts)
    given_up = "" if method.in_parts else _given_up(bench, whole.chosen, method)
    whole.chosen = replace(whole.chosen, note=notes.joined(note, whole.chosen.note, given_up))
    return whole


def _given_up(bench: Bench, chosen: Form, method: Method) -> str:
    """What a step costs with what is asked for of parameters and parts, where it costs less without."""
    freed = families.freed(bench)
    with suppress(UserError):
        if freed is not None and chosen.fits:
            free = chosen_contest(freed, method).chosen
            if free.fits and free.found_j < chosen.found_j:
                return notes.given_up(families.keeping_away(bench.request), free, chosen)
    return ""


def _choose(contest: Contest, in_parts: bool = False) -> None:
    """Choose a form, and set its deadline."""
    chosen, deadline = contest.choose(in_parts), contest.bench.request.deadline
    refuse_beyond_flash(chosen.graph, chosen.store_all, chosen.step.board)
    contest.chosen = replace(chosen, deadline_s=deadline_s(deadline, chosen.plain_store_all.time_s))


def _spare_extraction(contest: Contest) -> None:
    """Leave a head's step the RAM that features and the tables of both plans leave; a `UserError` if that is none."""
    head, request = contest.chosen, contest.bench.request
    board = head.step.board
    in_ram = 0 if head.step.read_cost()[0] else families.kept_samples(request) or 0
    contest.spare(stored_bytes(head.graph) * in_ram)
    extraction = plan_extraction(head.step, contest.chosen.budget_bytes)
    refuse_beyond_flash(head.graph, head.store_all, board, extraction=extraction)
    if request.ram is None and board is not None:
        more = plan_ram_bytes(board, head.graph) - plan_ram_bytes(board, extraction.graph)
        contest.spare(max(0, more + (loaded_bytes(head.graph) if board.sketch else 0)))
        plan_extraction(head.step, contest.chosen.budget_bytes)


def _refuse_untraced(bench: Bench) -> None:
    """Refuse what needs no trace to be refused: raises a `UserError`."""
    bench.request.refuse_without_costs()
    if bench.request.ram is None:
        refuse_too_large(bench, families.may_be_in_parts(bench.request))


def _refuse_unrunnable(bench: Bench) -> None:
    """Refuse a step of which a microcontroller's firmware lacks an operator, before minutes are spent on it.

    With its parameters excluded no board is to run it.
    """
    board = bench.board
    if board is None or board.kind != "microcontroller" or families.is_excluded(bench.request):
        return
    if lacking := operators_lacking(bench.given or bench.lowered(GRADIENTS_RESIDENT)):
        raise UserError(f"{lacking} (--parameters excluded plans without headers)")


def _answer(ask: Callable[[], Answer], none: Answer, hooks: Hooks) -> Answer:
    """The answer to a question about a plan; who ends the question does not end the plan."""
    with hooks.searching():
        try:
            return ask()
        except KeyboardInterrupt:
            return none


def _more_ram(form: Form, schedule: Schedule, options: OptimiseOptions, is_advised: bool) -> MoreRam | None:
    """What a little more RAM would save.

    RAM that the board lacks is named only where it has no more, and nothing else ``is_advised``.
    """
    board, budget_bytes = form.step.board, schedule.ram_budget_bytes
    has_bytes = budget_bytes if board is None else plan_ram_bytes(board, form.graph)
    has_more = has_bytes - budget_bytes >= KB
    if is_advised and not has_more:
        return None
    found = more_ram(form.graph, schedule, form.store_all, options, has_bytes if has_more else None)
    return found and replace(found, beyond_board=None if board is None or has_more else board.name)


def verified(
    form: Form,
    schedule: Schedule,
    statistics: Statistics | None = None,
    more_ram: MoreRam | None = None,
    validate: Path | None = None,
    contest: tuple[ContestRow, ...] = (),
) -> Plan:
    """The plan, once the schedule has been replayed by the contract alone.

    Parameters
    ----------
    statistics : Statistics, optional
        Those that the optimiser was given in its options: they go into the summary.
    more_ram : MoreRam, optional
        What a little more RAM would save, for the summary.
    validate : Path, optional
        Samples on which answers of frozen layers on int8 are compared with those of f32.
    contest : tuple of ContestRow
        What became of each form.

    Raises
    ------
    RuntimeError
        If it breaks the contract: a fault of poet's.
    """
    graph, step = form.graph, form.step
    report = verify(graph, schedule)
    if not report.sound:
        raise RuntimeError(f"the plan of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    extraction = plan_extraction(step, schedule.ram_budget_bytes) if step.is_on_features else None
    refuse_beyond_room(graph, schedule, step.board, extraction=extraction)
    inference = plan_inference(step, schedule, extraction)
    made, why_no_inference = (None, inference) if isinstance(inference, str) else (inference, None)
    if step.training_step is not None and step.training_step.streamed is not None and why_no_inference:
        raise UserError(f"--stream: there is no inference: {why_no_inference}; leave it out")
    if made is not None and extraction is not None:
        extraction = with_inference(step, extraction, made, schedule)
    summary = summarise(
        graph,
        schedule,
        form.plain_store_all,
        costed=step.costed,
        excluded_bytes=step.excluded_bytes,
        statistics=statistics,
        board=step.board,
        inference=made,
        extraction=extraction,
    )
    summary = replace(summary, more_ram=more_ram, int8=_int8(step, extraction, validate))
    if form.whole is not None and form.whole.step.costed is not None:
        summary = with_whole(summary, form.plain_store_all, form.whole.step.costed)
    return Plan(
        graph=graph,
        schedule=schedule,
        store_all=form.store_all,
        summary=with_contest(summary, contest),
        form=form,
        why_no_headers=why_no_headers(graph, step.constants),
        constants=step.constants,
        program=step.program,
        why_no_program=None if step.program is None else step.program.why_unwritable(),
        names=step.names,
        inference=made,
        extraction=extraction,
        why_no_inference=why_no_inference,
    )


def _int8(step: CostedStep, extraction: Extraction | None, validate: Path | None) -> Int8Report | None:
    """What is on int8 of a step, or of what makes its features, with its answers beside f32's on samples, if given."""
    made = step.training_step
    frozen = step.graph if extraction is None else extraction.graph
    report = int8_report(frozen, None if made is None else made.int8_samples)
    if validate is None:
        return report
    if made is None:
        raise UserError(f"--validate {validate}: a costed graph has no model to run; leave it out")
    if report is None or report.layers == 0:
        raise UserError(f"--validate {validate}: nothing of {step.graph.name} is on int8; give --frozen int8, too")
    from poet_planner.planning.validation import validated

    return replace(report, validation=validated(made, validate))
