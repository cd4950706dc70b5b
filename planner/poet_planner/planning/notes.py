# SPDX-License-Identifier: Apache-2.0
"""All that users read about the choice of a form, and about forms that are not to be had."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poet_profiles.graph import Graph, Kept, Resident
from poet_profiles.graph.kept import BATCH_KINDS, kept_constants
from poet_profiles.schedule import Schedule

from poet_planner.graph.layout import GRADIENTS_EARLY, GRADIENTS_PAGED, Tiles
from poet_planner.planning.form import Form
from poet_planner.report.quantities import bytes_text, energy_text
from poet_planner.report.tiles import tiled_values
from poet_planner.schedule.flash import has_room_in_flash
from poet_planner.solve.options import NoScheduleError

# What is said of a form that is chosen: with the usual one, the one that was the best before, and those in RAM.
Note = Callable[[Form, Form | None, Form | None, Sequence[Form]], str]

GRADIENTS_NOTES = {
    GRADIENTS_PAGED: "gradients have no places of their own in RAM (--gradients resident gives them)",
    GRADIENTS_EARLY: (
        "a parameter changes as soon as its gradient is done, so gradients need no RAM to the end; a step can be "
        "stopped only until its first change (--gradients resident or paged changes all at the end)"
    ),
}
NO_FEATURES = "features are not kept: {} takes the whole step"
NOTHING_KEPT = (
    "--keep-each {0}: no step keeps anything on the card; leave it out, and give --commit-every {0} to poet-harness run"
)
KEPT_TOGETHER = "{} steps are kept on the card together: a reset loses at most {} more; energies and times are the mean"
NO_ROOM = "features are not kept: what makes them has no room beside the head's step"
NOTHING_TO_KEEP = "a step has no frozen part that takes a tenth of its energy"
EXCLUDED = (
    "parameters, gradients and state ({} B) are NOT counted in RAM, as in the paper: the plan shows what activations "
    "cost, and gets no C headers (--parameters resident counts them)"
)
# Of a form by its name: a rival that is planned beside the chosen one, or in its place, and why.
PLANNED_BESIDE = "{}, planned beside  {}"
TURNED_OUT = "{} turned out to cost less: {}"
FOUND_TO_DO = "{}: the form of the step that was found to do"
# Why a smaller batch is not the plan, and why the whole one is in no parts.
ANOTHER_BATCH = "another batch: no micro-batches, since {}"
# What a refusal adds if it knows a cure.
PARTS_FIT = "; --micro-batches {} fits"
FITS = "; {} fits"
TOO_LARGE = "; {}: take a smaller layer, or a board with more RAM"
NORM_UPDATE = "batch_norm_update"


def nothing(*_: object) -> str:
    """Say nothing."""
    return ""


def joined(*notes: str) -> str:
    """Those that say something, in one line."""
    return "; ".join(filter(None, notes))


def of_gradients(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """What gradients are."""
    return GRADIENTS_NOTES.get(form.layout, "")


def of_parts(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """What micro-batches save, and how to forbid them."""
    gain = _gain(form, before, others, "the whole batch")
    assert form.step.training_step is not None
    return (
        f"{form.layout.micro_batches} micro-batches of {form.step.training_step.samples}: {gain}; gradients are those "
        "of the batch but for rounding; --micro-batches 1 forbids it"
    )


def of_segments(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """What is done in segments."""
    return f"{form.layout.words}: what a segment keeps for the way back is stored or computed again on its own"


def of_tiles(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """What exists a tile at a time, and what that saves, or why it is needed."""
    values = () if usual is None else tiled_values(form.graph, usual.graph)
    names = ", ".join([*(one.value for one in values[:3]), *["…"] * (len(values) > 3)])
    gain = _gain(form, before, others, "without tiles a step")
    return f"{form.layout.words}: {gain}; never in RAM as a whole: {names}; --tiles {Tiles.OFF} forbids it"


def _gain(form: Form, before: Form | None, others: Sequence[Form], without: str) -> str:
    """What a form costs in the place of another, or what ``without`` it is needed at least."""
    if before is not None and before.found_j < float("inf"):
        return f"{energy_text(form.found_j)} instead of {energy_text(before.found_j)}"
    least = min(one.needs_bytes for one in others)
    return f"{energy_text(form.found_j)}, and {without} needs {bytes_text(least)} at least"


def of_constants(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """How much of what is frozen lies on the card."""
    kept = sum(tensor.bytes for tensor in form.graph.kept)
    parts = f", in {form.layout.words}" if form.layout.micro_batches > 1 else ""
    return f"{bytes_text(kept)} of frozen weights for which the flash has no room lie on the card{parts}"


def of_card(form: Form, usual: Form | None, before: Form | None, others: Sequence[Form]) -> str:
    """What lies on the card and why, and what is in slices."""
    graph, sliced, each = form.graph, _of_slices(form.graph), form.layout.commit_each
    sliced = joined(sliced, KEPT_TOGETHER.format(each, each - 1) if each > 1 else "")
    if usual is None:
        return sliced
    in_flash = has_room_in_flash(usual.graph, usual.step.board)
    why = _of_parameters(graph, (usual, *others)) if in_flash else _of_flash(graph)
    return joined(why, sliced)


def why_out(form: Form, best: Form, schedule: Schedule, planned: Schedule | NoScheduleError | None) -> str:
    """Why a form is not the plan's, once that is known; empty: it is."""
    if form.layout == best.layout:
        return ""
    if not form.fits:
        return f"does not fit {bytes_text(form.budget_bytes)}"
    if isinstance(planned, NoScheduleError):
        return "no schedule was found"
    if planned is None and form.least_cost_j >= schedule.energy_j + best.runner_j:
        return "cannot cost less"
    return "costs more" if planned is not None or form.known_j is not None else "not searched: another one fits"


def given_up(options: Sequence[str], free: Form, chosen: Form) -> str:
    """What options cost that keep from RAM what has room there."""
    on = " on features" if free.step.is_on_features and not chosen.step.is_on_features else ""
    free_text, chosen_text = energy_text(free.found_j), energy_text(chosen.found_j)
    return f"without {' and '.join(options)} a step{on} takes about {free_text} in the same RAM, and {chosen_text} so"


def mixing(graph: Graph | None, mixing: frozenset[str]) -> str:
    """Why features are not kept: the first node that mixes samples.

    A frozen batch norm in training mode is the usual one.
    """
    node = next((one for one in graph.nodes if one.id in mixing), None) if graph else None
    if graph is None or node is None or node.operation is None:
        return ""
    updated = {one.operation.operands[0] for one in graph.nodes if one.operation and one.operation.op == NORM_UPDATE}
    if updated & {*node.operation.results}:
        return f"features are not kept: {node.id} is frozen, but in training mode; call eval() on it"
    return f"features are not kept: {node.id} mixes the samples of a batch"


def _of_parameters(graph: Graph, in_ram: Sequence[Form]) -> str:
    """How many, and the least that one of the tried forms ``in_ram`` needs, the usual one first."""
    kept = sum(tensor.bytes for tensor in graph.kept if tensor.kind not in BATCH_KINDS)
    batch = ", and the batch," if _has_batch(graph) else ""
    what = "the optimizer's state" if all(tensor.kind == "state" for tensor in graph.kept) else "parameters"
    return (
        f"{bytes_text(kept)} of {what}{batch} lie on the card: with all of them in RAM no form of the step that was"
        f" tried needs less than {bytes_text(min(form.needs_bytes for form in in_ram))}, and the budget is "
        f"{bytes_text(in_ram[0].budget_bytes)} (--parameters excluded does not count them, as in the paper)"
    )


def _of_flash(graph: Graph) -> str:
    kept = sum(tensor.bytes for tensor in kept_constants(graph))
    return (
        f"{bytes_text(kept)} of frozen weights for which the flash has no room lie on the card, and with them "
        f"larger trained parameters{' and the batch' if _has_batch(graph) else ''}"
    )


def _has_batch(graph: Graph) -> bool:
    return any(tensor.kind in BATCH_KINDS for tensor in graph.kept)


def _of_slices(graph: Graph) -> str:
    tensors: tuple[Resident | Kept, ...] = (*graph.residents, *graph.kept)
    names = {tensor.part.of for tensor in tensors if tensor.part}
    if not names:
        return ""
    return (
        f"large activations are in slices, {len(names)} parameters and statistics in parts: whole, the largest "
        "operator would leave too little room"
    )
