# SPDX-License-Identifier: Apache-2.0
"""The form of a step with parameters on the card: what lies there, what is read tile by tile, and what is in slices.

A form decides what the optimiser may choose from. A short search in each form that fits tells which is the cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Generic, TypeVar

from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes

from poet_planner.graph.streaming import Streaming
from poet_planner.planning.short_search import found_j, once_j

if TYPE_CHECKING:
    from poet_planner.planning.task import Task

ABOVE_BYTES = (2048, 256)  # smaller parameters are not worth transfers of their own
STREAMED = (Streaming(), Streaming(65536), Streaming(16384), Streaming(4096, 4096))
LARGER_TILES_BYTES = (16384, 32768)  # fewer commands to the card, more RAM
SLICED_ABOVE_BYTES = (None, 65536, 32768, 16384)
FINE_SLICES_BYTES = 4096  # of a weight that is too large for the RAM, some parts may stay there
FEW_NODES = 100  # so many nodes are still few once they are in fine slices
COMFORT = 0.9  # of the budget: with a node that fills more of it, a schedule is dear or cannot be found
ROOMY = 0.75  # likewise, for larger tiles: where nodes are fuller, a schedule that fits may find no offsets

Made = TypeVar("Made")


@dataclass(frozen=True)
class CardForm:
    """A form; ``above_bytes`` is the size of the largest parameter that stays in RAM."""

    above_bytes: int
    streaming: Streaming


@dataclass(frozen=True)
class CardForms:
    """What there is to choose from, each from the least that is on the card, in tiles or in slices to the most.

    Attributes
    ----------
    above_bytes : sequence of int
        Sizes of the largest parameter that stays in RAM.
    streamed : sequence of Streaming
        What is read tile by tile.
    """

    above_bytes: Sequence[int] = ABOVE_BYTES
    streamed: Sequence[Streaming] = STREAMED

    def sliced(self, above_bytes: int | None) -> Iterator[CardForm]:
        """Those with slices of values above a size, if any; what needs the least RAM comes first."""
        for streaming in reversed(self.streamed):
            yield CardForm(self.above_bytes[-1], replace(streaming, slices_above_bytes=above_bytes))


ALL_CARD_FORMS = CardForms()


@dataclass(frozen=True)
class Tried(Generic[Made]):
    """A form, what was made in it, and which part of its RAM budget the hungriest node fills."""

    form: CardForm
    made: Made
    filled: float


def forms_with_room(
    forms: CardForms, make: Callable[[CardForm], Made], filled: Callable[[Made], float]
) -> list[Tried[Made]]:
    """The forms that fit, with no more slices than leave room around the hungriest node; what streams least comes last.

    Where none fits: the one that lacks least.
    """
    tried: list[Tried[Made]] = []
    for above_bytes in SLICED_ABOVE_BYTES:
        level: list[Tried[Made]] = []
        for form in forms.sliced(above_bytes):
            made = make(form)
            level.append(Tried(form, made, filled(made)))
            if level[0].filled > 1 or any(made == other.made for other in tried):
                break  # the others need even more, or are as they were with fewer slices
        tried += level
        if any(one.filled <= COMFORT for one in level):
            break
    return [one for one in tried if one.filled <= 1] or [min(tried, key=lambda one: one.filled)]


def cheapest_on_card(forms: CardForms, make: Callable[[CardForm], Task], budget_bytes: Callable[[Task], int]) -> Task:
    """The task in the form of which a short search finds the cheapest schedule."""

    def candidate(form: CardForm) -> _Candidate:
        task = make(form)
        return _Candidate(task.graph, form, task, budget_bytes(task))

    found = [one.made for one in forms_with_room(forms, candidate, lambda one: one.filled)]
    best = _cheapest(found[-1], found[:-1])
    best = _cheapest(best, [candidate(replace(best.form, above_bytes=above)) for above in forms.above_bytes[:-1]])
    if len(best.graph.nodes) <= FEW_NODES and forms.streamed[0].above_bytes is None:
        fine = replace(forms.streamed[0], slices_above_bytes=FINE_SLICES_BYTES)
        best = _cheapest(best, [candidate(replace(best.form, streaming=fine))])
    larger = (replace(best.form.streaming, tile_bytes=size) for size in LARGER_TILES_BYTES)
    tiled = [candidate(replace(best.form, streaming=streaming)) for streaming in larger]
    return _cheapest(best, [one for one in tiled if one.filled <= max(best.filled, ROOMY)]).task


@dataclass(frozen=True)
class _Candidate:
    """A task in a form; equal if the graphs are."""

    graph: Graph
    form: CardForm = field(compare=False)
    task: Task = field(compare=False)
    budget_bytes: int = field(compare=False)

    @property
    def filled(self) -> float:
        return smallest_ram_bytes(self.graph) / max(1, self.budget_bytes)

    @property
    def once_j(self) -> float:
        return once_j(self.graph)

    @cached_property
    def found_j(self) -> float:
        return found_j(self.graph, self.budget_bytes)


def _cheapest(best: _Candidate, others: Iterable[_Candidate]) -> _Candidate:
    """The cheapest; the first of equals. What cannot be cheaper is not searched."""
    for other in sorted(others, key=lambda one: one.once_j):
        if other.filled <= 1 and other.once_j < best.found_j and other.found_j < best.found_j:
            best = other
    return best
