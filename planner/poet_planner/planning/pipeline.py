# SPDX-License-Identifier: Apache-2.0
"""From what is asked for to a verified plan.

`plan` is the whole way. It has three stages, which a caller that shows what goes on may call one by one: `prepare`
traces, costs and sets the limits; `schedule_of` optimises; `verified` replays and sums up.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Objective, Schedule

from poet_planner.graph.layout import Parameters
from poet_planner.graph.optimizer import PLAIN, Optimizer
from poet_planner.planning.budget import frozen_too_large, plan_ram_bytes, refuse_too_large
from poet_planner.planning.budgeted_step import BudgetedStep
from poet_planner.planning.choose import choose_layout, lost_card
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.extraction import plan_extraction
from poet_planner.planning.features import where_to_cut
from poet_planner.planning.forms_in_ram import least_fitting_parts
from poet_planner.planning.inference import plan_inference, with_inference
from poet_planner.planning.plan import Plan
from poet_planner.planning.request import WHOLE, Profiles, Request, named
from poet_planner.report.int8 import Int8Report, int8_report
from poet_planner.report.quantities import deadline_s, energy_text
from poet_planner.report.summary import BatchForm, MoreRam, summarise, with_forms, with_whole
from poet_planner.schedule.c_headers import operators_lacking, why_no_headers
from poet_planner.schedule.extraction import Extraction, stored_bytes
from poet_planner.schedule.flash import refuse_beyond_flash
from poet_planner.schedule.verify import verify
from poet_planner.solve.options import NoScheduleError

if TYPE_CHECKING:
    from poet_planner.models import Model
    from poet_planner.planning.method import Method
    from poet_planner.solve import OptimiseOptions, Progress, Statistics

NO_ROOM = "features are not kept: what makes them has no room beside the head's step"
NOTHING_TO_KEEP = "a step has no frozen part that takes a tenth of its energy"
RIVALS_SHARE = 0.4  # of the time, for all other forms of the step together
RIVALS_GAP = 1e-3  # what is no more open than this need not be closed


def plan(
    network: Model | Graph | str | Path,
    *,
    profile: Profiles | None = None,
    board: str | None = None,
    batch: int | None = None,
    ram: int | str | None = None,
    deadline: float | str | None = None,
    parameters: str = "auto",
    gradients: str = "auto",
    micro_batches: int | str = "auto",
    features: int | str = "auto",
    card_above: int | str | None = None,
    stream_above: int | str | None = None,
    optimizer: Optimizer = PLAIN,
    weights: str | Path | None = None,
    frozen: str | None = None,
    calibrate: str | Path | None = None,
    validate: str | Path | None = None,
    paging: bool = True,
    objective: str | None = None,
    method: str | Method = "optimal",
    options: OptimiseOptions | None = None,
) -> Plan:
    """Plan a training step of least energy, or time, within a RAM budget and a deadline, and verify the plan.

    A `KeyboardInterrupt` while it optimises makes the best schedule so far the plan, if there is one.

    Parameters
    ----------
    network : Model, str, Graph or Path
        A model of your own (`poet_planner.Model`: a module, its loss and an example batch), which stays as it is; the
        name of a built-in one, or ``module:callable``; or a graph with its costs, or its file (poet-graph/1).
    profile : str or Path, or a sequence of these, optional
        What a model's operators cost: a CSV file or a shipped name. Of several each adds what those before it lack.
    board : str, optional
        Default is the profile's.
    batch : int, optional
        Samples in a step of a model given by name; default is the model's own.
    ram : int or str, optional
        RAM budget, resident tensors included: bytes; ``"256KB"`` (of 1024 bytes), or ``"50%"`` of the store-all
        schedule's peak. Default is the board's.
    deadline : float or str, optional
        Most time for a step: seconds; ``"800ms"``, or ``"1.5x"`` the store-all schedule's time. Default is none.
    parameters : str
        ``"resident"``: they, gradients and state count in RAM. ``"card"``: larger ones lie on the card, and the batch
        where RAM has no room. ``"auto"``: in RAM if they fit. ``"excluded"``: not counted, as in the POET paper.
    gradients : str
        ``"resident"``: gradients have places of their own in RAM. ``"paged"``: they are values like activations, on a
        Linux board until the step ends. ``"early"``: a parameter changes as soon as its gradient is done, on a
        microcontroller. ``"auto"``: values on Linux; elsewhere places, unless these do not fit or cost more.
    micro_batches : int or str
        In how many equal parts a batch goes through a microcontroller; gradients are added up. ``"auto"``: in one,
        unless that does not fit and parts are cheaper, or all that fits.
    features : int or str
        ``"auto"``: where what a frozen part makes of a sample is the same in every epoch, and takes a tenth of a step's
        energy at least, it is kept: the plan is of the head's step, with one beside it that makes features. A number:
        likewise, with room in RAM for so many samples' features. ``"whole"``: one step does all.
    card_above : int or str, optional
        Up to this size parameters stay in RAM where others lie on the card; default: 2 KB or 256 bytes.
    stream_above : int or str, optional
        Up to this size parameters on the card are fetched whole, and not tile by tile; default: the cheapest.
    optimizer : Optimizer
        What ends a step on a microcontroller: `poet_planner.Optimizer(momentum=0.9)`; default is gradient descent.
    weights : str or Path, optional
        Those of a model given by name; default are its own.
    frozen : str, optional
        ``"int8"``: a microcontroller computes frozen layers in whole numbers of 8 bits.
    calibrate, validate : str or Path, optional
        An .npz with samples for their ranges (default: the model's own), and to compare their answers with f32's.
    paging : bool
        False: as on a board without storage.
    objective : str, optional
        ``"energy"``, or ``"time"``: the seconds of all computes and transfers together. Default is that of ``options``.
    method : str or Method
        ``"optimal"``, a baseline (`poet_planner.comparison.registry`), or a `poet_planner.planning.method.Method`.
    options : OptimiseOptions, optional
        Time limit, seed, solver, progress. Default is seed 0, HiGHS, and work that takes one core some 7 s.

    Returns
    -------
    Plan
        Verified; `Plan.write` writes its folder.

    Raises
    ------
    NoScheduleError
        If no schedule keeps the limits, or none was found in time: it has what would do. A baseline may raise a plain
        `UserError` with the exit code ``NO_SCHEDULE``.
    UserError
        If something does not exist or go together: one line that names ``poet-plan``'s option, and the cure.
    KeyboardInterrupt
        If it comes before there is any schedule.
    """
    from poet_planner.planning.method import method_named, plans_without_pages
    from poet_planner.solve import OptimiseOptions

    planner = method_named(method) if isinstance(method, str) else method
    request = Request(
        network,
        profile=profile,
        board=board,
        batch=batch,
        ram=ram,
        deadline=deadline,
        parameters=parameters,
        gradients=gradients,
        micro_batches=micro_batches,
        features=features,
        card_above=card_above,
        stream_above=stream_above,
        optimizer=optimizer,
        weights=weights,
        frozen=frozen,
        calibrate=calibrate,
        paging=paging,
        early_updates=plans_without_pages(planner),
    )
    options = options or OptimiseOptions(capped=False)
    return _planned_and_verified(request, planner, options, objective, None if validate is None else Path(validate))


def _planned_and_verified(
    request: Request, method: Method, options: OptimiseOptions, objective: str | None, validate: Path | None
) -> Plan:
    from poet_planner.solve import Statistics

    if objective is not None:
        options = replace(options, objective=named(Objective, objective, "--objective"))
    request, prepared = prepare_divided(request, method)
    if options.statistics is None:
        options = replace(options, statistics=Statistics())
    made, schedule = planned(request, prepared, method, options)
    return verified(made, schedule, options.statistics, validate=validate)


def refuse_before_tracing(request: Request) -> None:
    """Refuse what needs no trace to be refused: raises a `UserError`."""
    request.refuse_without_costs()
    if request.ram is None:
        refuse_too_large(request)


def refuse_unrunnable(request: Request) -> None:
    """Refuse a step for a microcontroller whose firmware lacks one of its operators, before minutes are spent on it.

    With its parameters excluded no board is to run it.

    Raises
    ------
    UserError
        Where each is, and what to do.
    """
    board = request.target_board
    if board is None or board.kind != "microcontroller" or request.parameters == Parameters.EXCLUDED:
        return
    graph = request.costed_graph
    if request.training_step is not None:
        graph = request.training_step.graph(board, optimizer=request.optimizer)
    if graph is not None and (lacking := operators_lacking(graph)):
        raise UserError(f"{lacking} (--parameters excluded plans without headers)")


def prepare(request: Request, in_parts: bool = False) -> BudgetedStep:
    """Trace, cost, choose what lies where, and set the limits; ``in_parts`` as the method's.

    Raises
    ------
    UserError
        As `plan`.
    """
    refuse_before_tracing(request)
    chosen = choose_layout(request, in_parts)
    refuse_beyond_flash(chosen.graph, chosen.store_all, chosen.step.board)
    if request.deadline is None:
        return chosen
    return replace(chosen, deadline_s=deadline_s(request.deadline, chosen.plain_store_all.time_s))


def prepare_divided(request: Request, method: Method) -> tuple[Request, BudgetedStep]:
    """As `prepare`; what is asked for becomes the head's step where features may be kept, and have room beside it.

    A method that makes micro-batches of its own has the whole step.

    Raises
    ------
    UserError
        As `prepare`; and if there is to be room for the features of some samples, and is none.
    """
    if request.features == WHOLE or method.in_parts:
        return request, prepare(request, method.in_parts)
    refuse_before_tracing(request)
    division = where_to_cut(request)
    if division.cut is not None:
        head = request.on_features(division.cut)
        with suppress(UserError):  # what is wrong with the whole step is said of that
            prepared = _beside_extraction(head, prepare(head))
            if prepared.filled <= 1:
                return head, prepared
    note = division.note or ("" if division.cut is None else NO_ROOM)
    if request.kept_samples is not None:
        raise UserError(f"--features {request.features}: {note or NOTHING_TO_KEEP}; take auto or whole")
    whole = prepare(request)
    return request, replace(whole, note="; ".join(filter(None, (note, whole.note))))


def _beside_extraction(request: Request, head: BudgetedStep) -> BudgetedStep:
    """The head's step with the RAM that features and the tables of both plans leave; a `UserError` if that is none."""
    head = _leaving(head, stored_bytes(head.graph) * (request.kept_samples or 0))
    extraction = plan_extraction(head.step, head.budget_bytes)
    refuse_beyond_flash(head.graph, head.store_all, head.step.board, extraction=extraction)
    if request.ram is not None or head.step.board is None:
        return head
    board = head.step.board
    head = _leaving(head, max(0, plan_ram_bytes(board, head.graph) - plan_ram_bytes(board, extraction.graph)))
    plan_extraction(head.step, head.budget_bytes)
    return head


def _leaving(head: BudgetedStep, free_bytes: int) -> BudgetedStep:
    """The step, and its rivals, with less RAM."""
    rivals = (replace(one, budget_bytes=one.budget_bytes - free_bytes) for one in head.rivals)
    return replace(head, budget_bytes=head.budget_bytes - free_bytes, rivals=tuple(rivals))


def schedule_of(prepared: BudgetedStep, method: Method, options: OptimiseOptions) -> Schedule:
    """A schedule within the limits, not verified yet: see `plan`."""
    return method.schedule(prepared.graph, prepared.budget_bytes, prepared.deadline_s, options)


def planned(
    request: Request,
    prepared: BudgetedStep,
    method: Method,
    options: OptimiseOptions,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[BudgetedStep, Schedule]:
    """The form of the step that turns out to be the cheapest, with its schedule: see `schedule_of`.

    The optimiser plans the rivals, too, in a part of the time, unless it was ``stopped``; their bounds are part of the
    answer.
    """
    from poet_planner.planning.every_form import in_any_form
    from poet_planner.planning.method import OPTIMAL

    lack: NoScheduleError | None = None
    options = replace(options, least_ram_s=options.for_least_ram_s)  # for every form, whatever its time
    try:
        if method is not OPTIMAL:
            return prepared, schedule_of(prepared, method, options)
        if prepared.filled <= 1:
            try:
                if not prepared.rivals or options.objective is not Objective.ENERGY:
                    return prepared, schedule_of(prepared, method, options)
                return _cheapest_form(prepared, options, stopped)
            except NoScheduleError as error:
                lack = error
        return in_any_form(request, prepared, lack, options)
    except NoScheduleError as error:
        if (count := least_fitting_parts(request, prepared.budget_bytes)) is not None:
            raise error.adding(f"; --micro-batches {count} fits") from None
        if (large := frozen_too_large(prepared.graph, prepared.budget_bytes)) is not None:
            raise error.adding(f"; {large}: take a smaller layer, or a board with more RAM") from None
        if (lost := lost_card(request)) is not None:
            raise error.adding(f"; {lost}") from None
        raise


def _cheapest_form(
    prepared: BudgetedStep, options: OptimiseOptions, stopped: Callable[[], bool]
) -> tuple[BudgetedStep, Schedule]:
    """The chosen form takes most of the time; what cannot be cheaper than a schedule that is known takes none."""
    from poet_planner.planning.method import OPTIMAL

    rivals_s = RIVALS_SHARE * options.time_limit_s / len(prepared.rivals)
    best = prepared
    schedule = schedule_of(prepared, OPTIMAL, replace(options, time_limit_s=(1 - RIVALS_SHARE) * options.time_limit_s))
    forms = [_form(prepared, schedule)]
    for rival in prepared.rivals:
        found: Schedule | None = None
        if rival.least_cost_j < schedule.energy_j + best.runner_j and not stopped():
            show = _shown_as(options.progress, rival.step.layout.words)
            quick = replace(options, time_limit_s=rivals_s, statistics=None, gap=RIVALS_GAP, progress=show)
            with suppress(NoScheduleError):  # the bound of its computes remains
                found = schedule_of(replace(rival, deadline_s=prepared.deadline_s), OPTIMAL, quick)
        forms.append(_form(rival, found))
        if found is not None and found.energy_j + rival.runner_j < schedule.energy_j + best.runner_j:
            note = f"{rival.step.layout.words} turned out to cost less: {energy_text(found.energy_j)}"
            best, schedule = replace(rival, deadline_s=prepared.deadline_s, note=note), found
    forms.sort(key=lambda form: form != _form(best, schedule))
    return replace(best, forms=tuple(forms)), schedule


def _shown_as(show: Callable[[Progress], None] | None, form: str) -> Callable[[Progress], None] | None:
    """The same for another form of the step, by its name: its energy is not the plan's."""
    return show and (lambda state: show(replace(state, note=f"{form}, planned beside  {state.note}".rstrip())))


def _form(form: BudgetedStep, schedule: Schedule | None) -> BatchForm:
    layout = form.step.layout
    if schedule is None:
        return BatchForm(layout.micro_batches, layout.gradients, None, form.once_j, form.runner_j)
    return BatchForm(layout.micro_batches, layout.gradients, schedule.energy_j, schedule.bound_j, form.runner_j)


def verified(
    prepared: BudgetedStep,
    schedule: Schedule,
    statistics: Statistics | None = None,
    endurance_bytes: int | None = None,
    more_ram: MoreRam | None = None,
    validate: Path | None = None,
) -> Plan:
    """The plan, once the schedule has been replayed by the contract alone.

    Parameters
    ----------
    statistics : Statistics, optional
        Those that the optimiser was given in its options: they go into the summary.
    endurance_bytes : int, optional
        What may be written to the card in all, for its life in the summary; default is the board file's.
    more_ram : MoreRam, optional
        What a little more RAM would save, for the summary.
    validate : Path, optional
        Samples on which answers of frozen layers on int8 are compared with those of f32.

    Raises
    ------
    RuntimeError
        If it breaks the contract: a fault of poet's.
    """
    graph, step = prepared.graph, prepared.step
    report = verify(graph, schedule)
    if not report.sound:
        raise RuntimeError(f"the plan of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")
    extraction = plan_extraction(step, schedule.ram_budget_bytes) if step.is_on_features else None
    refuse_beyond_flash(graph, schedule, step.board, extraction=extraction)
    inference = plan_inference(step, schedule, extraction)
    made, why_no_inference = (None, inference) if isinstance(inference, str) else (inference, None)
    if made is not None and extraction is not None:
        extraction = with_inference(step, extraction, made, schedule)
    summary = summarise(
        graph,
        schedule,
        prepared.plain_store_all,
        costed=step.costed,
        excluded_bytes=step.excluded_bytes,
        statistics=statistics,
        board=step.board,
        endurance_bytes=endurance_bytes,
        inference=made,
        extraction=extraction,
    )
    summary = replace(summary, more_ram=more_ram, int8=_int8(step, extraction, validate))
    if prepared.whole is not None and prepared.whole.step.costed is not None:
        summary = with_whole(summary, prepared.plain_store_all, prepared.whole.step.costed)
    return Plan(
        graph=graph,
        schedule=schedule,
        store_all=prepared.store_all,
        summary=with_forms(summary, prepared.forms),
        residency=prepared,
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
    if report is None:
        raise UserError(f"--validate {validate}: nothing of {step.graph.name} is on int8; give --frozen int8, too")
    return replace(report, validation=made.validation(validate))
