# SPDX-License-Identifier: Apache-2.0
"""What a prepared card holds: the initial weights, the batches, and the first record (docs/SPEC.md, section 7)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.arrays import read_arrays
from poet_profiles.card.layout import BATCH_KINDS, RECORD_BLOCKS, CardLayout, Place
from poet_profiles.card.record import Record, encode_record
from poet_profiles.errors import UserError
from poet_profiles.graph import Kept, Resident

from ..training.batches import Array, checked_array, refuse_other_frozen
from ..training.plan import Plan


@dataclass(frozen=True)
class Piece:
    """Bytes that begin at a block; ``name`` is for messages."""

    name: str
    block: int
    content: bytes | memoryview


@dataclass(frozen=True)
class CardContents:
    """Everything but the label.

    Attributes
    ----------
    pieces : tuple of Piece
        Tensors, going up through the card; behind them the record.
    record : Record
        What the last piece says.
    blocks : int
        The fewest that the card must have, its page area included.
    """

    pieces: tuple[Piece, ...]
    record: Record
    blocks: int

    @property
    def bytes(self) -> int:
        """Of all pieces."""
        return sum(len(piece.content) for piece in self.pieces)


def card_contents(path: Path, plan: Plan, batches: int | None = None) -> CardContents:
    """Take from a training data file what a plan keeps on the card.

    Parameters
    ----------
    path : Path
        .npz that `poet-plan data` has written.
    batches : int, optional
        How many batches; all that the file has if not given.

    Raises
    ------
    UserError
        If the plan keeps nothing on the card, or an array is missing or not what the plan reads.
    """
    layout = plan.card
    if layout is None:
        raise UserError(f"{path}: the plan keeps no tensors on the card; poet-harness run sends them over the line")
    arrays = read_arrays(path, "poet-plan data")
    refuse_other_frozen(path, arrays, plan)
    weights = _initial_weights(path, plan, arrays)
    still = {place.id: weights[place.id] for place in layout.constants}
    changing = {place.id: weights[place.id] for place in layout.units}
    count, data = _batches(path, plan, arrays, batches)
    record = Record(
        sequence=1,
        graph_hash=plan.graph_hash,
        step=0,
        batches=count,
        second=(False,) * len(layout.units),
        checks=tuple(zlib.crc32(content) for content in (*changing.values(), *still.values())),
    )
    pieces = (
        *(_piece(place, changing[place.id]) for place in layout.units),
        *(_piece(place, still[place.id]) for place in layout.constants),
        *_batch_pieces(layout, count, data),
        Piece("the record", RECORD_BLOCKS[0], encode_record(record)),
    )
    return CardContents(pieces, record, layout.page_block(count) + plan.page_blocks)


def _piece(place: Place, content: bytes) -> Piece:
    return Piece(place.id or "the resident weights", place.block, content)


def _initial_weights(path: Path, plan: Plan, arrays: dict[str, Array]) -> dict[str, bytes]:
    """Of every kept tensor that is no batch, by id; under the empty id, of the residents, as they lie in RAM."""
    zeros = {*plan.velocities.values(), *plan.generators} - arrays.keys()

    def initial(tensor: Resident | Kept) -> bytes:
        if tensor.id in zeros:
            return bytes(tensor.bytes)
        return checked_array(path, tensor, plan.choices.get(tensor.id, 0), arrays).tobytes()

    weights = {tensor.id: initial(tensor) for tensor in plan.kept if tensor.kind not in BATCH_KINDS}
    weights[""] = b"".join(initial(resident) for resident in plan.resident_unit)
    return weights


def _batches(
    path: Path, plan: Plan, arrays: dict[str, Array], batches: int | None
) -> tuple[int, dict[str, memoryview]]:
    """How many batches there are, and the bytes of all of them, by id."""
    tensors = [tensor for tensor in plan.kept if tensor.kind in BATCH_KINDS]
    count = batches
    if count is None:
        count = min((len(arrays[tensor.id]) for tensor in tensors if tensor.id in arrays), default=0)
    data = {}
    for tensor in tensors:
        array = checked_array(path, tensor, plan.choices.get(tensor.id, 0), arrays, count)
        data[tensor.id] = array.data.cast("B")
    return count, data


def _batch_pieces(layout: CardLayout, count: int, data: dict[str, memoryview]) -> Iterator[Piece]:
    for number in range(count):
        for place in layout.batch:
            content = data[place.id][number * place.bytes : (number + 1) * place.bytes]
            yield Piece(f"batch {number} of {place.id}", layout.batch_block(place, number), content)
