# SPDX-License-Identifier: Apache-2.0
"""Choose the memory layout of a step: the first that fits, or that in which a short search finds a cheaper schedule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph, Kept, Resident
from poet_profiles.graph.kept import BATCH_KINDS, TRAINED_KINDS, kept_constants
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.graph.batch import once_j
from poet_planner.graph.layout import GRADIENTS_RESIDENT, PARAMETERS_EXCLUDED, Gradients, MemoryLayout, Parameters
from poet_planner.graph.optimizer import PLAIN
from poet_planner.planning.budget import ram_budget_bytes
from poet_planner.planning.budgeted_step import BudgetedStep, on_its_own
from poet_planner.planning.costed_step import CostedStep, costed_step
from poet_planner.planning.forms_in_ram import cheapest_in_ram, in_fewest_parts
from poet_planner.planning.layouts import (
    constants_on_card,
    fewer_on_card,
    finely_sliced,
    in_larger_tiles,
    layouts_on_card,
    usual_layout,
    why_not_on_card,
)
from poet_planner.planning.request import Request
from poet_planner.report.quantities import bytes_text
from poet_planner.schedule.flash import has_room_in_flash
from poet_planner.schedule.lacks import CURE, lost_words

COMFORT = 0.9  # of the budget: with a node that fills more of it, a schedule is expensive or cannot be found
ROOMY = 0.75  # likewise, for larger tiles: where nodes are fuller, a schedule that fits may find no offsets


def choose_layout(request: Request, in_parts: bool = False) -> BudgetedStep:
    """Choose where parameters and gradients lie; with ``in_parts`` only in how many micro-batches a batch is, in RAM.

    Where gradients leave too little room for the store-all schedule, that form of the step is taken in which a short
    search finds the cheapest schedule: gradients as values, early updates, or a batch in micro-batches. Where none
    fits, or flash has no room for what is frozen, larger parameters go to the card. What still does not fit is left in
    the layout that needs the least RAM.

    Raises
    ------
    UserError
        If gradients are to become values in a graph that has no such layout, or parameters are to lie on a card that is
        not there; and as `costed_step`.
    """
    if request.parameters == Parameters.EXCLUDED:
        excluded = in_layout(request, PARAMETERS_EXCLUDED)
        return replace(excluded, note=_excluded_note(excluded.step.excluded_bytes))
    if request.parameters == Parameters.CARD:
        if why_not := why_not_on_card(request):
            raise UserError(why_not)
        on_card = _cheapest_on_card(request)
        return replace(on_card, note=_joined(lost_words(on_card.graph), _slices_note(on_card.graph)))
    return in_fewest_parts(request, on_its_own(request, usual_step(request))) if in_parts else _fitting(request)


def usual_step(request: Request) -> CostedStep:
    """The step in the layout that is tried first; raises a `UserError` as `choose_layout`."""
    step = costed_step(request, usual_layout(request))
    if request.gradients == Gradients.PAGED and costed_step(request, GRADIENTS_RESIDENT).graph == step.graph:
        raise UserError("--gradients paged: this graph says already where gradients are; leave it out")
    return step


def in_layout(request: Request, layout: MemoryLayout, known: Sequence[BudgetedStep] = ()) -> BudgetedStep:
    """The step in a layout, with the budget that is reckoned on it.

    Two layouts may cut it alike: what is computed of the graph of one that is ``known`` is not computed again.
    """
    step = costed_step(request, layout)
    alike = next((one.graph for one in known if one.graph == step.graph), step.graph)
    return on_its_own(request, replace(step, graph=alike))


def with_room_on_card(request: Request) -> list[BudgetedStep]:
    """The step in the layouts that fit, with no more slices than leave room around the largest node.

    What streams least comes last. Where none fits: the one that lacks least.
    """
    tried: list[BudgetedStep] = []
    for layouts in layouts_on_card(request):
        level: list[BudgetedStep] = []
        for layout in layouts:
            made = in_layout(request, layout, [*tried, *level])
            level.append(made)
            if level[0].filled > 1 or any(made.graph is other.graph for other in tried):
                break  # the others need even more, or are as they were with fewer slices
        tried += level
        if any(one.filled <= COMFORT for one in level):
            break
    return [one for one in tried if one.filled <= 1] or [min(tried, key=lambda one: one.filled)]


def _cheapest_on_card(request: Request) -> BudgetedStep:
    """The step in the layout in which a short search finds the cheapest schedule."""
    known = with_room_on_card(request)
    best = _cheapest(known[-1], known[:-1])
    best = _cheapest(best, _each(request, fewer_on_card(request, best.step.layout), known))
    fine = finely_sliced(request, best.step.layout, len(best.graph.nodes))
    best = _cheapest(best, _each(request, fine, known))
    tiled = _each(request, in_larger_tiles(best.step.layout), known)
    best = _cheapest(best, [one for one in tiled if one.filled <= max(best.filled, ROOMY)])
    # Where it has room, the batch is in RAM: so a board can be given any, and train over epochs.
    if not any(kept.kind in TRAINED_KINDS for kept in best.graph.kept):
        return best
    fed = in_layout(request, replace(best.step.layout, batch_on_card=False), known)
    return fed if fed.filled <= COMFORT else best


def _each(request: Request, layouts: Iterable[MemoryLayout], known: list[BudgetedStep]) -> list[BudgetedStep]:
    """The step in each layout, which then is known, too."""
    made = []
    for layout in layouts:
        made.append(in_layout(request, layout, known))
        known.append(made[-1])
    return made


def _cheapest(best: BudgetedStep, others: Iterable[BudgetedStep]) -> BudgetedStep:
    """The cheapest; the first of equals. What cannot be cheaper is not searched."""
    for other in sorted(others, key=lambda one: once_j(one.graph)):
        if other.filled <= 1 and once_j(other.graph) < best.found_j and other.found_j < best.found_j:
            best = other
    return best


def lost_card(request: Request) -> str | None:
    """Which optimiser keeps a step in RAM that could else take the card; None if none does."""
    is_free = request.parameters == Parameters.AUTO and request.gradients == Gradients.AUTO and request.parts is None
    plain = replace(request, optimizer=PLAIN)
    if (
        not request.optimizer.has_state
        or request.training_step is None
        or not is_free
        or why_not_on_card(plain) is not None
    ):
        return None
    return f"the card has no {request.optimizer.words}: leave it out, so that parameters can lie there"


def _fitting(request: Request) -> BudgetedStep:
    """The usual layout if it fits, else the cheapest form in RAM, else one on the card; or what needs the least RAM."""
    usual = on_its_own(request, usual_step(request))
    graph, budget_bytes = usual.graph, usual.budget_bytes
    automatic = request.gradients == Gradients.AUTO
    in_ram = smallest_ram_bytes(graph)
    in_flash = has_room_in_flash(graph, usual.step.board)
    asked = not automatic or usual.step.layout.micro_batches > 1
    if usual.step.layout.micro_batches > 1:
        usual = replace(usual, whole=on_its_own(request, costed_step(request)))
    if in_flash and (in_ram if asked else usual.store_all.peak_bytes) <= budget_bytes:
        return usual
    if in_flash and not asked and (cheapest := cheapest_in_ram(request, usual)) is not None:
        return cheapest
    frozen = [] if in_flash else _with_constants_on_card(request)
    if fitting := [one for one in frozen if one.filled <= 1]:
        return _cheapest_with_constants_on_card(request, usual, fitting)
    if not asked and request.parameters == Parameters.AUTO and why_not_on_card(request) is None:
        on_card = _cheapest_on_card(request).step
        if not in_flash:
            notes = (_flash_note(on_card.graph), _lost(on_card.graph), _slices_note(on_card.graph))
            return _instead(request, usual, on_card, *notes)
        if smallest_ram_bytes(on_card.graph) < in_ram:
            note = _card_note(on_card.graph, in_ram, budget_bytes)
            return _instead(request, usual, on_card, note, _lost(on_card.graph), _slices_note(on_card.graph))
    return min(frozen, key=lambda one: one.filled, default=usual)


def _with_constants_on_card(request: Request) -> list[BudgetedStep]:
    """The step with what flash has no room for on the card; with gradients as values where it fits no other way."""
    tried: list[BudgetedStep] = []
    for layouts in constants_on_card(request):
        tried += _each(request, layouts, [])
        if any(one.filled <= 1 for one in tried):
            break
    return tried


def _cheapest_with_constants_on_card(
    request: Request, usual: BudgetedStep, fitting: list[BudgetedStep]
) -> BudgetedStep:
    best = _cheapest(fitting[0], fitting[1:])
    tiled = _each(request, in_larger_tiles(best.step.layout), fitting)
    best = _cheapest(best, [one for one in tiled if one.filled <= max(best.filled, ROOMY)])
    return _instead(request, usual, best.step, _constants_note(best.graph))


def _instead(request: Request, usual: BudgetedStep, chosen: CostedStep, *notes: str) -> BudgetedStep:
    """What is chosen in the place of the usual layout, and why."""
    return BudgetedStep(chosen, ram_budget_bytes(request, usual.step, chosen), _joined(*notes))


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))


def _lost(graph: Graph) -> str:
    return f"{lost_words(graph)} ({CURE})"


def _batch_words(graph: Graph) -> str:
    return ", and the batch," if any(tensor.kind in BATCH_KINDS for tensor in graph.kept) else ""


def _card_note(graph: Graph, in_ram_bytes: int, budget_bytes: int) -> str:
    kept = sum(tensor.bytes for tensor in graph.kept if tensor.kind not in BATCH_KINDS)
    return (
        f"{bytes_text(kept)} of parameters{_batch_words(graph)} lie on the card: with all of them in RAM a step needs "
        f"{bytes_text(in_ram_bytes)} at least, and the budget is {bytes_text(budget_bytes)} (--parameters excluded "
        "does not count them, as in the paper)"
    )


def _slices_note(graph: Graph) -> str:
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    names = {tensor.part.of for tensor in tensors if tensor.part}
    if not names:
        return ""
    return (
        f"large activations are in slices, {len(names)} parameters and statistics in parts: whole, the largest "
        "operator would leave too little room"
    )


def _constants_note(graph: Graph) -> str:
    kept = sum(tensor.bytes for tensor in graph.kept)
    return f"{bytes_text(kept)} of frozen weights for which the flash has no room lie on the card"


def _flash_note(graph: Graph) -> str:
    kept = sum(tensor.bytes for tensor in kept_constants(graph))
    return (
        f"{bytes_text(kept)} of frozen weights for which the flash has no room lie on the card, and with them "
        f"larger trained parameters{' and the batch' if _batch_words(graph) else ''}"
    )


def _excluded_note(excluded_bytes: int) -> str:
    return (
        f"parameters, gradients and state ({excluded_bytes} B) are NOT counted in RAM, as in the paper: the plan "
        "shows what activations cost, and gets no C headers (--parameters resident counts them)"
    )
