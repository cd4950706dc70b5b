# SPDX-License-Identifier: Apache-2.0
"""Every form that a step may take, where the chosen one does not keep the budget: another may, or all are refused.

What a refusal says of RAM is the least of what is known of the forms. A form that needs more by itself than one that is
known to do is not searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.schedule import Schedule

from poet_planner.graph.layout import Gradients, Parameters
from poet_planner.planning.budgeted_step import BudgetedStep
from poet_planner.planning.choose import in_layout, usual_step
from poet_planner.planning.forms_in_ram import forms_in_ram
from poet_planner.planning.layouts import finely_sliced, layouts_on_card, why_not_on_card
from poet_planner.planning.request import Request
from poet_planner.schedule.flash import has_room_in_flash
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.feasibility.refusal import known_of, no_schedule
from poet_planner.solve.instance import build_problem, busy_s
from poet_planner.solve.options import Refused

MOST_SEARCHED = 8  # forms
FITTING_SHARE = 0.4  # of the time limit, for all forms together that may fit


def every_form(request: Request, chosen: BudgetedStep) -> list[BudgetedStep]:
    """The forms that `choose.choose_layout` may take in any RAM, what needs the least first."""
    forms = [chosen]
    for form in _others(request):
        if all(form.graph != other.graph for other in forms):
            forms.append(form)
    return sorted(forms, key=lambda form: (smallest_ram_bytes(form.graph), form.step.layout.early_updates))


def _others(request: Request) -> Iterator[BudgetedStep]:
    board = request.target_board
    is_asked = request.gradients != Gradients.AUTO or (request.parts or 1) > 1
    is_free = not is_asked and request.parameters != Parameters.EXCLUDED
    if not is_free or request.training_step is None or board is None or board.kind != "microcontroller":
        return
    if request.parameters != Parameters.CARD:
        usual = in_layout(request, usual_step(request).layout)
        if has_room_in_flash(usual.graph, board):
            yield from forms_in_ram(request, usual)
    if request.parameters != Parameters.RESIDENT and why_not_on_card(request) is None:
        for layout, *_ in layouts_on_card(request):  # of each level what needs the least
            made = in_layout(request, layout)
            yield made
            for fine in finely_sliced(request, layout, len(made.graph.nodes)):
                yield in_layout(request, fine)


def in_any_form(
    request: Request, chosen: BudgetedStep, lack: NoScheduleError | None, options: OptimiseOptions
) -> tuple[BudgetedStep, Schedule]:
    """Another form with a schedule within the limits.

    Parameters
    ----------
    lack : NoScheduleError or None
        What is known of the chosen form; None: it has not been tried.
    options : OptimiseOptions
        With the work for the least RAM of each form.

    Raises
    ------
    NoScheduleError
        If none has: with what is known of all.
    """
    forms = [replace(form, deadline_s=chosen.deadline_s) for form in every_form(request, chosen)]
    lacks: dict[int, NoScheduleError] = {}
    fitting = sum(form.filled <= 1 for form in forms)
    quick = replace(options, time_limit_s=FITTING_SHARE * options.time_limit_s / max(1, fitting))
    for number, form in enumerate(forms):
        known_bytes = [one.possible_bytes for one in lacks.values() if one.possible_bytes is not None]
        if len(lacks) == MOST_SEARCHED or (known_bytes and min(known_bytes) <= smallest_ram_bytes(form.graph)):
            break
        if lack is not None and form.step.layout == chosen.step.layout:
            lacks[number] = lack
            continue
        try:
            schedule = optimise(form.graph, form.budget_bytes, form.deadline_s, quick)
        except NoScheduleError as one:
            lacks[number] = one
        else:
            return replace(form, note=f"{form.step.layout.words}: the form of the step that was found to do"), schedule
    raise _of_all(forms, lacks)


def _of_all(forms: list[BudgetedStep], lacks: dict[int, NoScheduleError]) -> NoScheduleError:
    """The refusal that covers all forms, of which some were searched."""
    problems = [build_problem(form.graph, form.budget_bytes, form.deadline_s) for form in forms]
    below = [
        lacks[number].impossible_below_bytes if number in lacks else smallest_ram_bytes(form.graph)
        for number, form in enumerate(forms)
    ]
    possible = {number: one.possible_bytes for number, one in lacks.items() if one.possible_bytes is not None}
    found_s = [one.possible_s for one in lacks.values() if one.possible_s is not None]
    best = min(possible, key=lambda number: possible[number], default=None)
    words = [form.step.layout.words for form in forms]
    known = replace(
        known_of(forms[0].graph, problems[0]),
        asked_bytes=max(form.budget_bytes for form in forms),
        computing_s=min(map(busy_s, problems)),
        impossible_below_bytes=min(below),
        possible_bytes=None if best is None else possible[best],
        possible_s=min(found_s, default=None),
        form="" if len(forms) == 1 else f"with {words[0]}, the form that needs least",
    )
    lacks_offsets = any(one.status is Refused.NO_OFFSETS for one in lacks.values())
    another = best is not None and words[best] != words[0]
    return no_schedule(known, lacks_offsets, f"with {words[best or 0]}" if another else "")
