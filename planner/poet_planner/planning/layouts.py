# SPDX-License-Identifier: Apache-2.0
"""How a step may lie in memory, as data: what there is to choose from, in the order in which it is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.planning.request import Gradients, Parameters, Request
from poet_planner.report.quantities import size_bytes

ABOVE_BYTES = (2048, 256)  # smaller parameters are not worth transfers of their own
STREAMED = (Streaming(), Streaming(65536), Streaming(16384), Streaming(4096, 4096))
LARGER_TILES_BYTES = (16384, 32768)  # fewer commands to the card, more RAM
SLICED_ABOVE_BYTES = (None, 65536, 32768, 16384)
FINE_SLICES_BYTES = 4096  # of a weight that is too large for the RAM, some parts may stay there
FEW_NODES = 100  # so many nodes are still few once they are in fine slices


@dataclass(frozen=True)
class MemoryLayout:
    """Where things lie, and how the step is cut.

    Attributes
    ----------
    resident_gradients : bool
        Whether gradients have places of their own in RAM, or are values like others. With parameters on the card it
        says nothing.
    card_above_bytes : int or None
        Size of the largest parameter that stays in RAM; larger ones lie on the card. None: all stay.
    streaming : Streaming
        Which of them are read tile by tile, and which activations are in slices.
    counts_parameters : bool
        Whether parameters, gradients and optimiser state count in RAM.
    early_updates : bool
        Whether a parameter changes as soon as its gradient is done and nothing reads it any more. Nothing is paged.
    constants_on_card : bool
        Whether constants for which flash has no room lie on the card, and nothing else.
    batch_on_card : bool
        Whether the batch lies on the card where parameters do.
    micro_batches : int
        In how many parts, one after the other, a batch goes through the network. Above 1 gradients are sums in RAM.
    """

    resident_gradients: bool = True
    card_above_bytes: int | None = None
    streaming: Streaming = FETCHED_WHOLE
    counts_parameters: bool = True
    early_updates: bool = False
    micro_batches: int = 1
    constants_on_card: bool = False
    batch_on_card: bool = True

    @property
    def gradients(self) -> str:
        """What gradients are, in a word."""
        if self.micro_batches > 1:
            return "sums"
        if self.early_updates:
            return Gradients.EARLY.value
        return (Gradients.RESIDENT if self.resident_gradients else Gradients.PAGED).value

    @property
    def words(self) -> str:
        """Which form of the step it is."""
        if self.card_above_bytes is not None:
            return "--parameters card"
        return f"{self.micro_batches} micro-batches" if self.micro_batches > 1 else f"--gradients {self.gradients}"


GRADIENTS_RESIDENT = MemoryLayout()
GRADIENTS_PAGED = MemoryLayout(resident_gradients=False)
GRADIENTS_EARLY = MemoryLayout(resident_gradients=False, early_updates=True)
PARAMETERS_EXCLUDED = MemoryLayout(counts_parameters=False)


def usual_layout(request: Request) -> MemoryLayout:
    """With gradients as asked for; else resident, but where a board's PyTorch allocates all of them one by one."""
    if request.parts is not None and request.parts > 1:
        return MemoryLayout(micro_batches=request.parts)
    if request.gradients == Gradients.EARLY:
        return GRADIENTS_EARLY
    if request.gradients == Gradients.AUTO and request.training_step is not None:
        board = request.target_board
        return GRADIENTS_PAGED if board is not None and board.kind == "linux" else GRADIENTS_RESIDENT
    return GRADIENTS_PAGED if request.gradients == Gradients.PAGED else GRADIENTS_RESIDENT


def why_not_on_card(request: Request) -> str | None:
    """Why there is no layout with parameters on the card; None where there are some."""
    board = request.target_board
    if request.cut is not None:
        return "--parameters card: a step on features has them in RAM; plan with --features whole"
    if request.training_step is not None and board is not None and board.has_card:
        if request.optimizer.has_state:
            return f"{request.optimizer.words}: the firmware has none for parameters on the card; leave it out"
        if request.paging:
            return None
    return "--parameters card is for models on microcontrollers that have a card: leave it out"


def constants_on_card(request: Request) -> list[list[MemoryLayout]]:
    """With gradients as asked for, else with places of their own, then without; of each what needs the least first."""
    board, asked = request.target_board, request.gradients
    usable = request.paging and board is not None and board.has_card and request.training_step is not None
    if not usable or request.parts not in (None, 1) or request.parameters not in (Parameters.AUTO, Parameters.RESIDENT):
        return []
    return [
        [
            MemoryLayout(resident_gradients=resident, constants_on_card=True, streaming=streaming)
            for streaming in reversed(_streamed(request))
        ]
        for resident, option in ((True, Gradients.RESIDENT), (False, Gradients.PAGED))
        if asked in (Gradients.AUTO, option)
    ]


def layouts_on_card(request: Request) -> Iterator[list[MemoryLayout]]:
    """From no slices to the most; of each level, what needs the least RAM comes first."""
    above_bytes = _above_bytes(request)[-1]
    for sliced in SLICED_ABOVE_BYTES:
        yield [
            MemoryLayout(card_above_bytes=above_bytes, streaming=replace(streaming, slices_above_bytes=sliced))
            for streaming in reversed(_streamed(request))
        ]


def fewer_on_card(request: Request, layout: MemoryLayout) -> list[MemoryLayout]:
    """The same layout, with larger parameters in RAM."""
    return [replace(layout, card_above_bytes=above) for above in _above_bytes(request)[:-1]]


def finely_sliced(request: Request, layout: MemoryLayout, nodes: int) -> list[MemoryLayout]:
    """The same layout, fetched whole and in fine slices, where the step has so few nodes that this may be worth it."""
    whole = _streamed(request)[0]
    if nodes > FEW_NODES or whole.above_bytes is not None:
        return []
    return [replace(layout, streaming=replace(whole, slices_above_bytes=FINE_SLICES_BYTES))]


def in_larger_tiles(layout: MemoryLayout) -> list[MemoryLayout]:
    """The same layout, with larger tiles."""
    return [replace(layout, streaming=replace(layout.streaming, tile_bytes=size)) for size in LARGER_TILES_BYTES]


def _above_bytes(request: Request) -> Sequence[int]:
    return ABOVE_BYTES if request.card_above is None else [size_bytes(request.card_above, "--card-above", "2KB")]


def _streamed(request: Request) -> Sequence[Streaming]:
    """From what is read whole to what is read in tiles."""
    if request.stream_above is None:
        return STREAMED
    return [Streaming(size_bytes(request.stream_above, "--stream-above", "64KB"))]
