# SPDX-License-Identifier: Apache-2.0
"""The forms of a step with its parameters in RAM: gradients as values, early updates, a batch in micro-batches.

All are one problem: the answer is the cheapest schedule of any form, and its bound is the least of theirs. A form whose
computes alone cost more than a schedule that is known needs no plan. For the others a short search tells which to plan;
the rest are its rivals, which are planned beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned, smallest_ram_bytes

from poet_planner.graph.batch import nodes_of_batch
from poet_planner.graph.layout import (
    GRADIENTS_EARLY,
    GRADIENTS_PAGED,
    GRADIENTS_RESIDENT,
    Gradients,
    MemoryLayout,
    Parameters,
)
from poet_planner.planning.budget import ram_budget_bytes
from poet_planner.planning.budgeted_step import BudgetedStep
from poet_planner.planning.costed_step import CostedStep, costed_step
from poet_planner.planning.request import Request
from poet_planner.report.quantities import bytes_text, energy_text

VALUES_NOTE = "gradients have no places of their own in RAM (--gradients resident gives them)"
EARLY_NOTE = (
    "a parameter changes as soon as its gradient is done, so gradients need no RAM to the end; a step can be stopped "
    "only until its first change (--gradients resident or paged changes all at the end)"
)


def cheapest_in_ram(request: Request, usual: BudgetedStep) -> BudgetedStep | None:
    """The form in which a short search finds the cheapest schedule, with its rivals; None if none fits.

    Micro-batches are taken only if they save more than what the fits are off.
    """
    wholes = _wholes(request, usual)
    whole = _cheapest([one for one in wholes if one.filled <= 1])
    parts = _parts(request, usual) if lasting_bytes(usual.graph) < usual.budget_bytes else []
    part = _cheapest([one for one in parts if one.filled <= 1])
    if part is not None and (whole is None or part.found_cost_j + _fit_error_j(part.step) < whole.found_cost_j):
        chosen = replace(part, note=_parts_note(request, part, whole, wholes))
    elif whole is None:
        return None
    else:
        chosen, parts = replace(whole, note=_note(whole)), []
    # Gradients as values need no more than those with places of their own, at the same costs.
    relaxed = GRADIENTS_RESIDENT if any(one.step.layout == GRADIENTS_PAGED for one in wholes) else None
    out = (chosen.step.layout, relaxed)
    fitting = [one for one in (*wholes, *parts) if one.filled <= 1 and one.step.layout not in out]
    rivals = [one for one in fitting if one.least_cost_j < chosen.found_cost_j]
    return replace(chosen, rivals=tuple(sorted(rivals, key=lambda one: one.least_cost_j)))


def forms_in_ram(request: Request, usual: BudgetedStep) -> list[BudgetedStep]:
    """All of them, whether they fit or not."""
    return [*_wholes(request, usual), *_parts(request, usual)]


def in_fewest_parts(request: Request, usual: BudgetedStep) -> BudgetedStep:
    """The step on the fewest equal parts of its batch whose store-all schedule fits; the smallest ones if none does.

    Raises
    ------
    UserError
        If parts are needed, and it has none: a graph says how many it is of, gradients are no sums in RAM, the board
        runs Linux, or something couples the samples.
    """
    form, finer = usual, _finer(request, usual.graph.micro_batches)
    while form.store_all.ram_budget_bytes > form.budget_bytes and (count := next(finer, None)):
        form = _in_form(request, usual, MemoryLayout(micro_batches=count))
    return form


def least_fitting_parts(request: Request, budget_bytes: int) -> int | None:
    """The least number of micro-batches, above those asked for, of which a schedule may fit; None if there is none."""
    if request.parts is None:
        return None
    try:
        freed = replace(request, micro_batches="auto", gradients=Gradients.AUTO)
        for count in counts_of_parts(freed):
            step = costed_step(freed, MemoryLayout(micro_batches=count))
            if count > request.parts and smallest_ram_bytes(step.graph) <= budget_bytes:
                return count
    except UserError:
        return None
    return None


def _wholes(request: Request, usual: BudgetedStep) -> list[BudgetedStep]:
    return [usual, *(_in_form(request, usual, layout) for layout in _whole_layouts(request, usual))]


def _parts(request: Request, usual: BudgetedStep) -> list[BudgetedStep]:
    return [_in_form(request, usual, MemoryLayout(micro_batches=count)) for count in counts_of_parts(request)]


def counts_of_parts(request: Request) -> list[int]:
    """Numbers of micro-batches that a batch may go through the network in, above 1."""
    step, board = request.training_step, request.target_board
    free = request.parts is None and request.gradients == Gradients.AUTO and request.cut is None
    if not free or step is None or board is None or board.kind != "microcontroller":
        return []
    if request.parameters not in (Parameters.AUTO, Parameters.RESIDENT):
        return []
    counts = [*_finer(request, 1)]
    try:
        step.in_micro_batches(counts[0] if counts else 1)
    except UserError:
        return []  # something couples the samples
    return counts


def _finer(request: Request, than: int) -> Iterator[int]:
    """Numbers of equal parts above ``than``; raises a `UserError` at the first if there cannot be any."""
    step = request.training_step
    if step is None:
        raise UserError("a graph says in how many parts a batch goes through it: name a model in its place")
    if request.parameters in (Parameters.CARD, Parameters.EXCLUDED):
        raise UserError(f"--parameters {request.parameters}: micro-batches need sums of gradients in RAM")
    yield from (count for count in range(than + 1, step.samples + 1) if step.samples % count == 0)


def _whole_layouts(request: Request, usual: BudgetedStep) -> Iterator[MemoryLayout]:
    """Beside the usual one. Without pages gradients as values are never cheaper than early updates."""
    board = request.target_board
    if request.gradients != Gradients.AUTO or board is None or board.kind != "microcontroller":
        return
    if usual.step.layout.micro_batches == 1:
        if request.paging and board.has_card:
            yield GRADIENTS_PAGED
        if request.early_updates:
            yield GRADIENTS_EARLY


def lasting_bytes(graph: Graph) -> int:
    """What is as large in any number of parts: parameters, state and the sums of gradients."""
    kinds = ("parameter", "state", "gradient")
    return sum(aligned(resident.bytes) for resident in graph.residents if resident.kind in kinds)


def _in_form(request: Request, usual: BudgetedStep, layout: MemoryLayout) -> BudgetedStep:
    step = costed_step(request, layout)
    whole = usual if layout.micro_batches > 1 else None
    return BudgetedStep(step, ram_budget_bytes(request, usual.step, step), whole=whole)


def _cheapest(forms: list[BudgetedStep]) -> BudgetedStep | None:
    """By short searches; what cannot be cheaper than a schedule that is known is not searched."""
    best: BudgetedStep | None = None
    for one in sorted(forms, key=lambda form: (form.is_short_of_ram, form.once_j)):
        if best is None or (one.least_cost_j < best.found_cost_j and one.found_cost_j < best.found_cost_j):
            best = one
    return best


def _fit_error_j(step: CostedStep) -> float:
    """By how much the energies of fitted nodes are off, by the errors that their fits report."""
    if step.costed is None:
        return 0.0
    errors = {name: fit.energy_error or 0.0 for name, fit in step.costed.fits.items()}
    predicted = (step.costed.predicted_j[node.id] for node in nodes_of_batch(step.graph))
    return sum(joules * errors[name] for of_node in predicted for name, joules in of_node.items())


def _note(form: BudgetedStep) -> str:
    return {GRADIENTS_PAGED: VALUES_NOTE, GRADIENTS_EARLY: EARLY_NOTE}.get(form.step.layout, "")


def _parts_note(request: Request, part: BudgetedStep, whole: BudgetedStep | None, wholes: list[BudgetedStep]) -> str:
    count = part.step.layout.micro_batches
    assert request.training_step is not None
    if whole is not None and whole.found_j < float("inf"):
        gain = f"{energy_text(part.found_j)} instead of {energy_text(whole.found_j)}"
    else:
        least = min(smallest_ram_bytes(one.graph) for one in wholes)
        gain = f"{energy_text(part.found_j)}, and the whole batch needs {bytes_text(least)} at least"
    return (
        f"{count} micro-batches of {request.training_step.samples // count}: {gain}; gradients are those of the batch "
        "but for rounding; --micro-batches 1 forbids it"
    )
