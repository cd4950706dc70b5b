# SPDX-License-Identifier: Apache-2.0
"""Families of forms that a training step may take, in the order in which they are tried.

This is the only place that reads what is asked for of gradients, parameters, micro-batches, sizes on the card and
features. Layouts come from generators: what nobody asks for is not lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import RECURRENT
from poet_profiles.graph import Graph
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.graph.sizes import aligned

from poet_planner.features.cut import Cut
from poet_planner.graph.batch import nodes_of_batch, once_j
from poet_planner.graph.layout import (
    GRADIENTS_EARLY,
    GRADIENTS_PAGED,
    GRADIENTS_RESIDENT,
    PARAMETERS_EXCLUDED,
    Bands,
    Gradients,
    MemoryLayout,
    Parameters,
    Tiles,
)
from poet_planner.graph.streaming import Streaming
from poet_planner.planning import notes
from poet_planner.planning.bench import Bench
from poet_planner.planning.budget import ram_budget_bytes
from poet_planner.planning.features import Division, where_to_cut
from poet_planner.planning.form import Form
from poet_planner.planning.request import AUTO_PARTS, WHOLE, Request
from poet_planner.report.quantities import size_bytes
from poet_planner.schedule.flash import has_room_in_flash
from poet_planner.schedule.store_all import store_all_schedule

ABOVE_BYTES = (2048, 256)  # smaller parameters are not worth transfers of their own
STREAMED = (Streaming(), Streaming(65536), Streaming(16384), Streaming(4096, 4096))
STATE_TILES_BYTES = (16384, 8192, 4096)
LARGER_TILES_BYTES = (16384, 32768)  # fewer commands to the card, more RAM
SLICED_ABOVE_BYTES = (None, 65536, 32768, 16384)
FINE_SLICES_BYTES = 4096  # of a weight that is too large for the RAM, some parts may stay there
FEW_NODES = 100  # so many nodes are still few once they are in fine slices
SEGMENTS = (4, 8, 16, 32)  # of the steps of recurrent layers
BANDS = (2, 4, 8, 16)  # of rows
# Above which parts of the largest value something is in bands, and computed again on the way back.
BANDED = ((2, 2), (4, 4), (8, 4))
TILES = (2, 4, 8, 16, 32)  # of the largest value
COMFORT = 0.9  # of the budget: with a node that fills more of it, a schedule is expensive or cannot be found
ROOMY = 0.75  # likewise, for larger tiles: where nodes are fuller, a schedule that fits may find no offsets

NO_CARD = "--parameters card is for models on microcontrollers that have a card: leave it out"
NO_FLASH = "the flash has no room for what is frozen"


@dataclass(frozen=True)
class Refinement:
    """Layouts near the best form of a family, tried after it."""

    layouts: Callable[[Bench, Form], Iterable[MemoryLayout]]
    room: float = 1.0  # a form takes part whose largest node fills no more of the budget, or no more than the best's
    instead: bool = False  # whether a form that has the room is taken whatever it costs
    needs_less: bool = False  # whether it may fit where the best does not


@dataclass(frozen=True)
class Family:
    """Forms of one kind.

    The usual form is None where parameters are to lie on the card, whatever that costs.
    """

    name: str
    levels: Callable[[Bench], Iterable[list[MemoryLayout]]]
    # Why there are none beside the usual form; None: there are.
    why_not: Callable[[Bench, Form | None], str | None] = lambda bench, usual: None
    # Whether of each level what needs the least RAM comes first: another is opened only where none before it fits, and
    # fills no more of the budget than is comfortable.
    least_first: bool = False
    least_last: bool = False  # whether none fits where the last does not
    comfort: float = 1.0
    start: int = 0  # which of those that fit is taken where no short search finds a schedule
    refinements: tuple[Refinement, ...] = ()
    may_fit: Callable[[Form], bool] = lambda usual: True  # whether any may fit, from the usual form alone
    # By how much a form has to be cheaper than the families before; None: it is opened only where nothing there fits.
    handicap_j: Callable[[Form], float] | None = None
    note: notes.Note = notes.nothing  # what is said of a form that is chosen


def usual_layout(bench: Bench) -> MemoryLayout | None:
    """What is tried first.

    Gradients are as asked for, or resident where no PyTorch allocates them one by one. None: larger parameters are to
    lie on the card.

    Raises
    ------
    UserError
        If gradients are to become values in a graph that has no such layout.
    """
    request = bench.request
    if request.parameters == Parameters.CARD:
        return None
    if request.parameters == Parameters.EXCLUDED:
        return PARAMETERS_EXCLUDED
    if (parts := parts_asked_for(request) or 1) > 1:
        return MemoryLayout(micro_batches=parts)
    if request.gradients == Gradients.EARLY:
        return GRADIENTS_EARLY
    if request.gradients == Gradients.AUTO:
        on_linux = request.is_model and bench.board is not None and bench.board.kind == "linux"
        return GRADIENTS_PAGED if on_linux else GRADIENTS_RESIDENT
    if request.gradients == Gradients.PAGED:
        if bench.step(GRADIENTS_RESIDENT).graph == bench.step(GRADIENTS_PAGED).graph:
            raise UserError("--gradients paged: this graph says already where gradients are; leave it out")
        return GRADIENTS_PAGED
    return GRADIENTS_RESIDENT


def stated_layout(bench: Bench) -> MemoryLayout:
    """What the options say of parameters and parts, with gradients in places of their own."""
    on_card = _above_bytes(bench)[0] if bench.request.parameters == Parameters.CARD else None
    return MemoryLayout(card_above_bytes=on_card, micro_batches=parts_asked_for(bench.request) or 1)


def is_stated(request: Request) -> bool:
    """Whether the options say which form in RAM it is."""
    in_parts = (parts_asked_for(request) or 1) > 1
    return in_parts or request.gradients != Gradients.AUTO or request.parameters == Parameters.EXCLUDED


def is_excluded(request: Request) -> bool:
    """Whether parameters are not counted: no board is to run such a step."""
    return request.parameters == Parameters.EXCLUDED


def may_be_in_parts(request: Request) -> bool:
    """Whether a batch may go through the network in parts."""
    return parts_asked_for(request) != 1


def may_be_smaller(bench: Bench) -> bool:
    """Whether a smaller batch may be advised: of a microcontroller's step that nobody wants in parts."""
    return bench.is_for_a_microcontroller and parts_asked_for(bench.request) in (None, 1)


def parts_asked_for(request: Request) -> int | None:
    """The number of micro-batches; None: as many as are best."""
    return None if request.micro_batches == AUTO_PARTS else int(request.micro_batches)


def kept_samples(request: Request) -> int | None:
    """For how many samples' features there is to be room in RAM; None: nobody has asked."""
    return int(request.features) if str(request.features).isdecimal() else None


def cuts(bench: Bench, cut: Cut) -> tuple[Cut, ...]:
    """The cut with features in RAM, and with those on the card that it has no room for, if that may be."""
    on_card = kept_samples(bench.request) and _why_no_card(bench) is None
    return (cut, replace(cut, on_card=True)) if on_card else (cut,)


def head(bench: Bench) -> Division:
    """Where the step is divided, if features are to be kept; raises as `where_to_cut`."""
    return where_to_cut(bench) if bench.request.features != WHOLE and not wholes(bench.request) else Division()


def wholes(request: Request) -> list[str]:
    """Options with which no features are kept."""
    return [one for one in keeping_away(request) if one != f"--parameters {Parameters.CARD}"]


def keeping_away(request: Request) -> list[str]:
    """Options that keep from RAM what may have room there."""
    parts = parts_asked_for(request)
    in_parts = [] if parts in (None, 1) else [f"--micro-batches {parts}"]
    in_ram = request.parameters in (Parameters.AUTO, Parameters.RESIDENT)
    return in_parts if in_ram else [f"--parameters {request.parameters}", *in_parts]


def freed(bench: Bench) -> Bench | None:
    """The bench with all of that left free, if one of those options keeps from RAM what may have room there."""
    request = bench.request
    options = keeping_away(request)
    if request.parameters != Parameters.CARD and (request.features == WHOLE or not options):
        return None
    return bench.asked(replace(request, parameters=Parameters.AUTO, micro_batches=AUTO_PARTS))


def counts_of_parts(bench: Bench, anyhow: bool = False) -> list[int]:
    """Numbers of micro-batches above 1.

    With ``anyhow`` as if neither parts nor gradients had been asked for.
    """
    return [] if why_whole(bench, anyhow) is not None else [*finer(bench, 1)]


def why_whole(bench: Bench, anyhow: bool = False) -> str | None:
    """Why a batch goes through the network as a whole; None: it need not. ``anyhow`` is as for `counts_of_parts`."""
    request = bench.request
    if not anyhow and parts_asked_for(request) is not None:
        return f"--micro-batches {request.micro_batches}"
    if not anyhow and request.gradients != Gradients.AUTO:
        return f"--gradients {request.gradients}"
    if bench.cut is not None or not bench.is_for_a_microcontroller:
        return "a step on features" if bench.cut is not None else "no microcontroller runs it"
    try:
        count = next(finer(bench, 1), 1)
        assert bench.training_step is not None
        bench.training_step.in_micro_batches(count)
    except UserError as refusal:
        return str(refusal).partition(": ")[2]
    return None


def more_parts(bench: Bench) -> list[int]:
    """Numbers of micro-batches above the one that is asked for; none if none is."""
    asked = parts_asked_for(bench.request)
    return (
        []
        if asked is None or bench.request.parameters == Parameters.CARD
        else [count for count in counts_of_parts(bench, anyhow=True) if count > asked]
    )


def finer(bench: Bench, than: int) -> Iterator[int]:
    """Numbers of equal parts above ``than``.

    Raises a `UserError` at the first if there cannot be any.
    """
    step, parameters = bench.training_step, bench.request.parameters
    if step is None:
        raise UserError("a graph says in how many parts a batch goes through it: name a model in its place")
    if parameters == Parameters.EXCLUDED:
        raise UserError(f"--parameters {parameters}: micro-batches need sums of gradients in RAM")
    yield from (count for count in range(than + 1, step.samples + 1) if step.samples % count == 0)


def lasting_bytes(graph: Graph) -> int:
    """What is as large in any number of parts: parameters, state and the sums of gradients."""
    kinds = ("parameter", "state", "gradient")
    return sum(aligned(resident.bytes) for resident in graph.residents if resident.kind in kinds)


def _why_no_card(bench: Bench) -> str | None:
    """Why no parameters can lie on the card."""
    if not (bench.request.is_model and bench.board is not None and bench.board.has_card):
        return NO_CARD
    return None if bench.request.paging else NO_CARD


def _why_not_in_ram(bench: Bench, usual: Form | None) -> str | None:
    if usual is None:
        return "--parameters card"
    return None if has_room_in_flash(usual.graph, bench.board) else NO_FLASH


def _in_ram(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """The usual one, then others. Without pages gradients as values are never cheaper than early updates."""
    usual = usual_layout(bench)
    assert usual is not None
    level = [usual]
    if bench.is_for_a_microcontroller and not is_stated(bench.request):
        assert bench.board is not None
        if bench.request.paging and bench.board.has_card:
            level.append(GRADIENTS_PAGED)
        if bench.request.early_updates:
            level.append(GRADIENTS_EARLY)
    yield level


def _in_parts(bench: Bench) -> Iterator[list[MemoryLayout]]:
    yield [MemoryLayout(micro_batches=count) for count in counts_of_parts(bench)]


def _why_not_cut(bench: Bench, usual: Form | None) -> str | None:
    """Why no operator of a step in RAM is computed part by part."""
    why_not = _why_not_in_ram(bench, usual)
    if why_not is None and (bench.cut is not None or not bench.is_for_a_microcontroller or not bench.training_step):
        why_not = "no microcontroller runs it, or a step on features"
    return why_not


def _why_no_segments(bench: Bench, usual: Form | None) -> str | None:
    why_not = _why_not_cut(bench, usual)
    if usual is None or why_not is not None:
        return why_not
    if bench.request.gradients not in (Gradients.AUTO, Gradients.RESIDENT):
        return f"--gradients {bench.request.gradients}"
    operations = (node.operation for node in usual.graph.nodes if node.operation)
    return None if any(one.op in RECURRENT for one in operations) else "no recurrent layers"


def _in_segments(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """Of the finest parts of a batch: they are cheaper than segments."""
    parts = parts_asked_for(bench.request) or max(counts_of_parts(bench), default=1)
    yield [MemoryLayout(micro_batches=parts, segments=count) for count in SEGMENTS]


def _why_no_bands(bench: Bench, usual: Form | None) -> str | None:
    """As for segments, but for what there is to cut."""
    why_not = _why_not_cut(bench, usual)
    if usual is None or why_not is not None:
        return why_not
    if bench.request.tiles == Tiles.OFF:
        return "--tiles off"
    if bench.request.gradients not in (Gradients.AUTO, Gradients.RESIDENT):
        return f"--gradients {bench.request.gradients}"
    operations = (node.operation for node in usual.graph.nodes if node.operation)
    return None if any(one.op.startswith("conv2d") for one in operations) else "no convolution"


def bands_of(graph: Graph) -> list[Bands]:
    """Ways to compute in bands what takes much of the RAM."""
    most = max(value.bytes for node in graph.nodes for value in node.values)
    return [Bands(count, most // banded, most // again) for banded, again in BANDED for count in BANDS]


def _in_bands(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """Of single samples: the cheapest in which nothing is to be computed again, or all where there is none."""
    parts = parts_asked_for(bench.request) or max(counts_of_parts(bench), default=1)
    step = bench.step(MemoryLayout(micro_batches=parts))
    budget_bytes = ram_budget_bytes(bench.request.ram, step, step)
    layouts: list[MemoryLayout] = []
    for bands in bands_of(step.graph):
        layout = MemoryLayout(micro_batches=parts, bands=bands)
        if all(bench.step(layout).graph != bench.step(one).graph for one in (step.layout, *layouts)):
            layouts.append(layout)
    roomy = [one for one in layouts if store_all_schedule(bench.step(one).graph).peak_bytes <= budget_bytes]
    yield sorted(roomy, key=lambda layout: once_j(bench.step(layout).graph))[:1] or layouts


def _why_no_tiles(bench: Bench, usual: Form | None) -> str | None:
    """As for segments, whatever there is to cut."""
    return _why_not_cut(bench, usual) or ("--tiles off" if bench.request.tiles == Tiles.OFF else None)


def _in_tiles(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """Of the whole batch, and of its finest parts."""
    layouts = [MemoryLayout(micro_batches=count) for count in counts_of_parts(bench)[-1:]]
    layouts += next(_in_ram(bench))[-2:]  # gradients with places of their own need no less than as values
    yield [replace(layout, tiles=count) for layout in layouts for count in TILES]


def _fits_in_tiles(usual: Form) -> bool:
    gradients = sum(aligned(resident.bytes) for resident in usual.graph.residents if resident.kind == "gradient")
    return lasting_bytes(usual.graph) - gradients < usual.budget_bytes


def _fits_in_parts(usual: Form) -> bool:
    return lasting_bytes(usual.graph) < usual.budget_bytes


def fit_error_j(form: Form) -> float:
    """By how much the energies of fitted nodes are off, by the errors that their fits report."""
    costed = form.step.costed
    if costed is None:
        return 0.0
    errors = {name: fit.energy_error or 0.0 for name, fit in costed.fits.items()}
    predicted = (costed.predicted_j[node.id] for node in nodes_of_batch(form.graph))
    return sum(joules * errors[name] for of_node in predicted for name, joules in of_node.items())


def _why_no_constants_on_card(bench: Bench, usual: Form | None) -> str | None:
    request, board = bench.request, bench.board
    if usual is None or has_room_in_flash(usual.graph, board):
        return "the flash has room for all constants"
    usable = request.paging and board is not None and board.has_card and request.is_model
    in_ram = request.parameters in (Parameters.AUTO, Parameters.RESIDENT)
    return None if usable and in_ram else "constants cannot lie on a card"


def _constants_on_card(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """With gradients as asked for, else with places of their own, then without, then early, then in parts."""
    parts, gradients = parts_asked_for(bench.request) or 1, bench.request.gradients
    whole = (GRADIENTS_RESIDENT, GRADIENTS_PAGED, *((GRADIENTS_EARLY,) if bench.request.early_updates else ()))
    layouts = [one for one in whole if parts == 1 and gradients in (Gradients.AUTO, one.gradients)]
    layouts += [MemoryLayout(micro_batches=count) for count in ([parts] if parts > 1 else counts_of_parts(bench))]
    for layout in layouts:
        ways = reversed(streamed(bench))
        yield [replace(layout, constants_on_card=True, streaming=streaming) for streaming in ways]


def _why_not_on_card(bench: Bench, usual: Form | None) -> str | None:
    """Raises a `UserError` if parameters are to lie on a card that is not there."""
    request = bench.request
    why_not = _why_no_card(bench)
    if request.parameters == Parameters.CARD:
        if why_not is not None:
            raise UserError(why_not)
        return None
    return "--parameters or --gradients" if is_stated(request) or request.parameters != Parameters.AUTO else why_not


def _on_card(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """From no slices to the most; of a batch in parts none is in slices, and parts and features are put into RAM."""
    yield from _homes(bench, parts_asked_for(bench.request) or 1)


def _homes(bench: Bench, parts: int) -> Iterator[list[MemoryLayout]]:
    whole = parts == 1 and bench.cut is None
    layout = MemoryLayout(card_above_bytes=_above_bytes(bench)[-1], micro_batches=parts, batch_on_card=whole)
    layout = replace(layout, commit_each=bench.request.keep_each)
    for sliced in SLICED_ABOVE_BYTES if whole else (None,):
        ways = (replace(streaming, slices_above_bytes=sliced) for streaming in reversed(streamed(bench)))
        yield [replace(layout, streaming=streaming) for streaming in ways]


def _on_card_in_parts(bench: Bench) -> Iterator[list[MemoryLayout]]:
    for count in counts_of_parts(bench):
        yield from _homes(bench, count)


def _fewer_on_card(bench: Bench, form: Form) -> list[MemoryLayout]:
    """The same layout, with larger parameters in RAM."""
    return [replace(form.layout, card_above_bytes=above) for above in _above_bytes(bench)[:-1]]


def _states_alone(bench: Bench, form: Form) -> list[MemoryLayout]:
    """The states on the card, and all else in RAM: of the finest parts, in bands or not, the cheapest with room."""
    request = bench.request
    if request.parameters != Parameters.AUTO or bench.cut is not None:
        return []
    parts = parts_asked_for(request) or max(counts_of_parts(bench), default=1)
    step = bench.step(MemoryLayout(micro_batches=parts))
    away = MemoryLayout(micro_batches=parts, states_above_bytes=_above_bytes(bench)[0], commit_each=request.keep_each)
    if not bench.step(away).graph.kept:
        return []
    budget_bytes = ram_budget_bytes(request.ram, step, step)
    bands = (None,) if _why_no_bands(bench, Form(step, 0)) else (None, *bands_of(step.graph))
    ways = [Streaming(tile_bytes=size) for size in STATE_TILES_BYTES]
    layouts = [replace(away, bands=one, streaming=streaming) for one in bands for streaming in ways]
    roomy = [one for one in layouts if store_all_schedule(bench.step(one).graph).peak_bytes <= budget_bytes]
    return sorted(roomy, key=lambda layout: once_j(bench.step(layout).graph))[:2] or layouts[-2:]


def _finely_sliced(bench: Bench, form: Form) -> list[MemoryLayout]:
    """The same layout, fetched whole and in fine slices, where the step has so few nodes that this may be worth it."""
    whole = streamed(bench)[0]
    is_cut = form.layout.micro_batches > 1 or bench.cut is not None
    if is_cut or len(form.graph.nodes) > FEW_NODES or whole.above_bytes is not None:
        return []
    return [replace(form.layout, streaming=replace(whole, slices_above_bytes=FINE_SLICES_BYTES))]


def _in_larger_tiles(bench: Bench, form: Form) -> list[MemoryLayout]:
    """The same layout, with larger tiles."""
    streaming = form.layout.streaming
    return [replace(form.layout, streaming=replace(streaming, tile_bytes=size)) for size in LARGER_TILES_BYTES]


def _batch_in_ram(bench: Bench, form: Form) -> list[MemoryLayout]:
    """The same layout with the batch in RAM, so that a board can be given any, and train over epochs."""
    trained = any(kept.kind in TRAINED_KINDS for kept in form.graph.kept)
    return [replace(form.layout, batch_on_card=False)] if trained and form.layout.batch_on_card else []


def _above_bytes(bench: Bench) -> tuple[int, ...]:
    above = bench.request.card_above
    return ABOVE_BYTES if above is None else (size_bytes(above, "--card-above", "2KB"),)


def streamed(bench: Bench) -> tuple[Streaming, ...]:
    """From what is read whole to what is read in tiles."""
    above = bench.request.stream_above
    return STREAMED if above is None else (Streaming(size_bytes(above, "--stream-above", "64KB")),)


def _leanest(bench: Bench) -> Iterator[list[MemoryLayout]]:
    """Of each family what needs the least."""
    if bench.request.parameters != Parameters.CARD:
        finest = MemoryLayout(micro_batches=max(counts_of_parts(bench), default=1))
        yield [*next(_in_ram(bench))[-2:], finest]
        whole = Form(bench.step(finest), 0)
        if _why_no_bands(bench, whole) is None:
            yield [replace(finest, bands=bands) for bands in bands_of(whole.graph)[-2:]]
        if _why_no_tiles(bench, whole) is None:
            yield next(_in_tiles(bench))[:-3:-1]
    if _why_not_on_card(bench, None) is None:
        yield from (level[:1] for levels in (_on_card, _on_card_in_parts) for level in [*levels(bench)][-1:])


LARGER_TILES = Refinement(_in_larger_tiles, room=ROOMY)
STATES_ALONE = Refinement(_states_alone, needs_less=True)

LEANEST = Family("what needs the least RAM", _leanest, may_fit=_fits_in_tiles)
FAMILIES = (
    Family("whole batch in RAM", _in_ram, _why_not_in_ram, note=notes.of_gradients),
    Family(
        "micro-batches",
        _in_parts,
        _why_not_in_ram,
        least_last=True,
        may_fit=_fits_in_parts,
        handicap_j=fit_error_j,
        note=notes.of_parts,
    ),
    Family(
        "bands",
        _in_bands,
        _why_no_bands,
        may_fit=_fits_in_parts,
        handicap_j=fit_error_j,
        note=notes.of_tiles,
    ),
    Family(
        "recurrent layers in segments",
        _in_segments,
        _why_no_segments,
        may_fit=_fits_in_parts,
        note=notes.of_segments,
    ),
    Family("largest values in tiles", _in_tiles, _why_no_tiles, may_fit=_fits_in_tiles, note=notes.of_tiles),
    Family(
        "constants on the card",
        _constants_on_card,
        _why_no_constants_on_card,
        least_first=True,
        refinements=(LARGER_TILES,),
        note=notes.of_constants,
    ),
    Family(
        "parameters on the card",
        _on_card,
        _why_not_on_card,
        least_first=True,
        comfort=COMFORT,
        start=-1,
        refinements=(
            Refinement(_fewer_on_card),
            Refinement(_finely_sliced, needs_less=True),
            LARGER_TILES,
            Refinement(_batch_in_ram, room=COMFORT, instead=True),
            STATES_ALONE,
        ),
        note=notes.of_card,
    ),
    Family(
        "parameters on the card, in micro-batches",
        _on_card_in_parts,
        _why_not_on_card,
        least_first=True,
        comfort=COMFORT,
        start=-1,
        refinements=(Refinement(_fewer_on_card), LARGER_TILES, STATES_ALONE),
        note=notes.of_card,
    ),
)
