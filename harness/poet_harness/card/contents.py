# SPDX-License-Identifier: Apache-2.0
"""What a prepared card holds: the initial weights, the batches, and the first record (docs/SPEC.md, section 7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.card.layout import NO_RECORD, RECORD_BLOCKS, CardLayout, check_of, checked_batch, padded
from poet_profiles.card.record import Record, encode_record
from poet_profiles.errors import UserError
from poet_profiles.graph.kept import BATCH_KINDS, CONSTANT, TRAINED_KINDS

from ..data.batches import TrainingData, read_training_data
from ..data.weights import StateTable
from ..plan_folder.plan import Plan


@dataclass(frozen=True)
class Piece:
    """Bytes that begin at a block; ``name`` is for messages."""

    name: str
    block: int
    content: bytes


@dataclass(frozen=True)
class CardContents:
    """Everything but the label.

    Attributes
    ----------
    pieces : tuple of Piece
        Tensors, going up through the card; after them the record.
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


def card_contents(path: Path, plan: Plan, batches: int | None = None, weights: Path | None = None) -> CardContents:
    """Take from a training data file what a plan keeps on the card.

    Parameters
    ----------
    path : Path
        .npz that `poet-plan data` has written.
    batches : int, optional
        How many batches; all that the file has if not given.
    weights : Path, optional
        A file of weights to begin with, in the place of those of the data.

    Raises
    ------
    UserError
        If the plan keeps nothing on the card, or an array is missing or not what the plan reads.
    """
    if plan.card is None:
        raise UserError(f"{path}: the plan keeps no tensors on the card; poet-harness run sends them over the line")
    return laid_out(plan, plan.card, read_training_data(path, plan, batches, weights))


def laid_out(plan: Plan, layout: CardLayout, data: TrainingData) -> CardContents:
    """The same from data that have been read, with all their batches."""
    ids = [tensor.id for tensor in plan.tensors]
    batches = data.batches if layout.batch else []
    weights = {ids[index]: content for index, content in data.weights.items()}
    # Under the empty id, the residents that a commit keeps, as they lie in RAM.
    weights[""] = b"".join(weights[resident.id] for resident in plan.resident_unit)
    places = (*layout.units, *layout.constants)
    record = Record(
        sequence=1,
        graph_hash=plan.graph_hash,
        step=0,
        batches=len(batches),
        second=(False,) * layout.bits,
        checks=tuple(check_of(place, weights[place.id]) for place in places),
    )
    index_of = {id: index for index, id in enumerate(ids)}
    pieces = (
        *(Piece(place.id or "the resident weights", place.block, padded(place, weights[place.id])) for place in places),
        *(
            Piece(
                f"batch {number} of {place.id}",
                layout.batch_block(place, number),
                checked_batch(batch[index_of[place.id]], number),
            )
            for number, batch in enumerate(batches)
            for place in layout.batch
        ),
        Piece("the place of the next record", RECORD_BLOCKS[1], NO_RECORD),
        Piece("the record", RECORD_BLOCKS[0], encode_record(record)),
    )
    return CardContents(pieces, record, layout.page_block(len(batches)) + plan.page_blocks)


def for_inferences(plan: Plan, weights: Mapping[int, bytes]) -> TrainingData:
    """What a card needs for inferences alone: constants and weights; zeros in place of the rest.

    Where a plan keeps its batches there, one of zeros is, since a card without any begins no training.
    """
    index_of = {tensor.id: index for index, tensor in enumerate(plan.tensors)}
    zeros = {index_of[tensor.id]: bytes(tensor.bytes) for tensor in plan.tensors if tensor.kind in TRAINED_KINDS}
    batch = {index_of[kept.id]: bytes(kept.bytes) for kept in plan.kept if kept.kind in BATCH_KINDS}
    frozen = {index_of[kept.id]: plan.constants[kept.id].tobytes() for kept in plan.kept if kept.kind == CONSTANT}
    given = {index: weights[index] for index in zeros.keys() & weights.keys()}
    return TrainingData({}, {**zeros, **given, **frozen}, [batch] if batch else [], StateTable({}, {}, {}))
