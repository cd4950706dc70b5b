# SPDX-License-Identifier: Apache-2.0
"""How a step may lie in memory, as data: what there is to choose from, in the order in which it is tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from poet_planner.graph.layout import (
    GRADIENTS_EARLY,
    GRADIENTS_PAGED,
    GRADIENTS_RESIDENT,
    Gradients,
    MemoryLayout,
    Parameters,
)
from poet_planner.graph.streaming import Streaming
from poet_planner.planning.request import Request
from poet_planner.report.quantities import size_bytes

ABOVE_BYTES = (2048, 256)  # smaller parameters are not worth transfers of their own
STREAMED = (Streaming(), Streaming(65536), Streaming(16384), Streaming(4096, 4096))
LARGER_TILES_BYTES = (16384, 32768)  # fewer commands to the card, more RAM
SLICED_ABOVE_BYTES = (None, 65536, 32768, 16384)
FINE_SLICES_BYTES = 4096  # of a weight that is too large for the RAM, some parts may stay there
FEW_NODES = 100  # so many nodes are still few once they are in fine slices


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
