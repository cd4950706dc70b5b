# SPDX-License-Identifier: Apache-2.0
"""Where parameters and gradients lie: in RAM for good, or on the card and in RAM while they are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Kept, Node, Resident
from poet_profiles.graph.kept import BATCH_KINDS, kept_constants
from poet_profiles.graph.sizes import aligned, smallest_ram_bytes

from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.planning.card_form import ALL_CARD_FORMS, CardForm, CardForms, cheapest_on_card
from poet_planner.planning.flash import has_room_in_flash
from poet_planner.planning.short_search import found_j, once_j
from poet_planner.report.quantities import bytes_text

if TYPE_CHECKING:
    from poet_planner.planning.task import Task

_COUNTED_KINDS = ("input", "target", "loss", "constant")  # without parameters, as in the POET paper


class Parameters(StrEnum):
    """Where parameters lie; excluded: nowhere that counts, nor gradients and optimiser state, as in the POET paper."""

    AUTO = "auto"
    RESIDENT = "resident"
    CARD = "card"
    EXCLUDED = "excluded"


class Gradients(StrEnum):
    """Whether gradients have places of their own, or are values that come, are paged and go."""

    AUTO = "auto"
    RESIDENT = "resident"
    PAGED = "paged"


@dataclass(frozen=True)
class Forms:
    """The tasks that there are to choose from, each built when it is wanted.

    Attributes
    ----------
    in_ram : callable
        With parameters resident, and gradients resident or not.
    on_card : callable or None
        With larger parameters, and the batch, on the card, in a form; None where there is none.
    card_forms : CardForms
        What to choose from for that.
    refuse_too_large : callable
        Raises a `UserError` if the board's RAM is known not to do, whatever the form.
    why_not_on_card : str
        Why there is no form with parameters on the card, for a user who asks for it.
    """

    in_ram: Callable[[bool], Task]
    on_card: Callable[[CardForm], Task] | None = None
    card_forms: CardForms = ALL_CARD_FORMS
    refuse_too_large: Callable[[], None] = lambda: None
    why_not_on_card: str = "--parameters card is for models on microcontrollers that have a card: leave it out"


@dataclass(frozen=True)
class Residency:
    """What was chosen to be resident.

    Attributes
    ----------
    task : Task
        With what is resident counted in its graph.
    budget_bytes : int
        RAM budget, resident tensors included.
    excluded_bytes : int
        Parameters, gradients and state that are left out of the RAM.
    note : str
        What the user should hear about the choice; empty where there was none.
    """

    task: Task
    budget_bytes: int
    excluded_bytes: int = 0
    note: str = ""


def choose_residents(
    forms: Forms,
    parameters: Parameters,
    gradients: Gradients,
    budget_bytes: Callable[[Task], int],
) -> Residency:
    """Choose where parameters and gradients lie.

    Where gradients leave no room for the largest node, they become values; also where they leave too little for the
    store-all schedule, and a short search finds a cheaper one with gradients as values. Where that is not enough, or
    flash has no room for what is frozen, larger parameters go to the card. What still does not fit is left in the form
    that needs the least RAM.

    Parameters
    ----------
    budget_bytes : callable
        RAM budget of a task. Where another form is taken because the first does not fit, the budget stays that by which
        it does not; without parameters it is that of what is left.

    Raises
    ------
    UserError
        If gradients are to become values in a graph that has no such form, or are asked for where they do not count; or
        parameters are to lie on a card that is not there.
    """
    if parameters in (Parameters.EXCLUDED, Parameters.CARD) and gradients is not Gradients.AUTO:
        why = "they are not in RAM" if parameters is Parameters.EXCLUDED else "most are part of an update"
        raise UserError(f"--gradients {gradients}: with --parameters {parameters} {why}; leave it out")
    if parameters is Parameters.EXCLUDED:
        return _excluded(forms.in_ram(True), budget_bytes)
    if parameters is Parameters.CARD:
        if forms.on_card is None:
            raise UserError(forms.why_not_on_card)
        task = cheapest_on_card(forms.card_forms, forms.on_card, budget_bytes)
        return Residency(task, budget_bytes(task), note=_slices_note(task.graph))
    return _fitting(forms, parameters, gradients, budget_bytes)


def usual_form(forms: Forms) -> Task:
    """With gradients resident; as values where the board allocates all of them one by one."""
    task = forms.in_ram(True)
    return forms.in_ram(False) if task.graph.allocates else task


def _fitting(
    forms: Forms, parameters: Parameters, gradients: Gradients, budget_bytes: Callable[[Task], int]
) -> Residency:
    """The first form that fits, with gradients as values if a step is cheaper so; or what needs the least RAM."""
    task = forms.in_ram(True) if gradients is not Gradients.AUTO else usual_form(forms)
    if gradients is Gradients.PAGED:
        resident, task = task, forms.in_ram(False)
        if task.graph == resident.graph:
            raise UserError("--gradients paged: this graph says already where gradients are; leave it out")
    budget = budget_bytes(task)
    in_ram = least = smallest_ram_bytes(task.graph)
    in_flash = has_room_in_flash(task.graph, task.board)
    enough = store_all_schedule(task.graph).peak_bytes if gradients is Gradients.AUTO else in_ram
    if enough <= budget and in_flash:
        return Residency(task, budget)
    if gradients is Gradients.AUTO and in_flash:
        paged = forms.in_ram(False)
        least = smallest_ram_bytes(paged.graph)
        smaller = least <= budget and paged.graph.resident_bytes < task.graph.resident_bytes
        if smaller and _is_cheaper(paged.graph, task.graph, budget):
            note = "gradients have no places of their own in RAM (--gradients resident gives them)"
            return Residency(paged, budget, note=note)
    if in_ram <= budget and in_flash:
        return Residency(task, budget)
    if parameters is Parameters.AUTO and gradients is Gradients.AUTO and forms.on_card is not None:
        on_card = cheapest_on_card(forms.card_forms, forms.on_card, budget_bytes)
        if not in_flash:
            return Residency(on_card, budget, note=_joined(_flash_note(on_card.graph), _slices_note(on_card.graph)))
        if smallest_ram_bytes(on_card.graph) < min(in_ram, least):
            note = _card_note(on_card.graph, min(in_ram, least), budget)
            return Residency(on_card, budget, note=_joined(note, _slices_note(on_card.graph)))
    return Residency(task, budget)


def _is_cheaper(one: Graph, other: Graph, budget_bytes: int) -> bool:
    """Whether short searches find it so; without a search where it cannot be, or the other one does not fit."""
    if smallest_ram_bytes(other) > budget_bytes:
        return True
    known_j = found_j(other, budget_bytes)
    return once_j(one) < known_j and found_j(one, budget_bytes) < known_j


def _card_note(graph: Graph, in_ram_bytes: int, budget_bytes: int) -> str:
    kept = sum(tensor.bytes for tensor in graph.kept if tensor.kind not in BATCH_KINDS)
    return (
        f"{bytes_text(kept)} of parameters, and the batch, lie on the card: with all of them in RAM a step needs "
        f"{bytes_text(in_ram_bytes)} at least, and the budget is {bytes_text(budget_bytes)} (--parameters resident "
        "keeps them in RAM, --parameters excluded does not count them, as in the paper)"
    )


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _slices_note(graph: Graph) -> str:
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    names = {tensor.part.of for tensor in tensors if tensor.part}
    if not names:
        return ""
    return (
        f"large activations are in slices, {len(names)} parameters and statistics in parts: whole, the hungriest "
        "operator would leave too little room"
    )


def _flash_note(graph: Graph) -> str:
    kept = sum(tensor.bytes for tensor in kept_constants(graph))
    return (
        f"{bytes_text(kept)} of frozen weights for which the flash has no room lie on the card, and with them the "
        "batch and larger trained parameters"
    )


def _excluded(task: Task, budget_bytes: Callable[[Task], int]) -> Residency:
    graph = without_parameters(task.graph)
    excluded_bytes = task.graph.resident_bytes - graph.resident_bytes
    note = (
        f"parameters, gradients and state ({excluded_bytes} B) are NOT counted in RAM, as in the paper: the plan shows "
        "what activations cost, and gets no C headers (--parameters resident counts them)"
    )
    without = replace(task, graph=graph, constants={})
    return Residency(without, budget_bytes(without), excluded_bytes, note)


def without_parameters(graph: Graph) -> Graph:
    """The same graph with parameters, gradients and state in a region of their own, as the POET paper counts RAM.

    It has no residents, so that no firmware takes it for something it could run.
    """
    batch = sum(aligned(r.bytes) for r in graph.residents if r.kind in _COUNTED_KINDS)
    name, nodes = f"{graph.name}, parameters excluded", _statistics_at_once(graph)
    return replace(graph, name=name, nodes=nodes, resident_bytes=batch, residents=(), constants=())


def _statistics_at_once(graph: Graph) -> tuple[Node, ...]:
    """Nodes with every update of running statistics right behind what it reads.

    Only a board that runs the step has to keep what they read until its end.
    """
    empty = {value.id for node in graph.nodes for value in node.values if value.bytes == 0}
    updates = [node for node in graph.nodes if node.operation and node.operation.op == "batch_norm_update"]
    if not updates:
        return graph.nodes
    at_once = {node.id: replace(node, inputs=tuple(id for id in node.inputs if id not in empty)) for node in updates}
    nodes = []
    for node in graph.nodes:
        if node.id in at_once:
            continue
        if node.operation is None:
            node = replace(node, inputs=tuple(id for id in node.inputs if id in empty))
        nodes.append(node)
        made = {value.id for value in node.values}
        nodes += [update for update in at_once.values() if made.intersection(update.inputs)]
    return tuple(nodes)
