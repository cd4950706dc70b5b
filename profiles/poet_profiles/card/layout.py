# SPDX-License-Identifier: Apache-2.0
"""Which blocks of the card belong to which tensor of a graph that has kept tensors (docs/SPEC.md, section 7)."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS, commit_each

BLOCK_BYTES = 512
LABEL = b"POET CARD 1\n"
LABEL_BLOCK = 0
# Begins a record's place that holds none. Not zeros: a copy that leaves those out would keep the record that was there.
NO_RECORD = b"POET EMPTY\n".ljust(BLOCK_BYTES, b"\0")
CHECK_BYTES = 4
RECORD_BLOCKS = (16, 1032)
FIRST_BLOCK = 2048
# A card's size is a multiple of that, as the register that tells it has it.
CARD_UNIT_BYTES = 1024 * BLOCK_BYTES


class Tensor(Protocol):
    """What the layout asks of a kept tensor; bytes of one batch."""

    @property
    def id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...


@dataclass(frozen=True)
class CardPlace:
    """Where a tensor lies.

    Attributes
    ----------
    id : str
        The kept tensor's; empty for the unit of the resident tensors.
    bytes : int
        Without the padding.
    block : int
        Its first, in the first home of a unit and in batch 0.
    rows : int
        Each begins a block; 1 for a tensor that lies as a whole.
    check_bytes : int
        Of the check that follows a batch's tensor; the record has those of all others.
    """

    id: str
    bytes: int
    block: int
    rows: int = 1
    check_bytes: int = 0

    @property
    def row_bytes(self) -> int:
        return self.bytes // self.rows

    @property
    def row_blocks(self) -> int:
        return blocks_of(self.row_bytes + self.check_bytes)

    @property
    def blocks(self) -> int:
        return self.rows * self.row_blocks

    def row_block(self, row: int) -> int:
        """First block of a row, where that of the tensor is ``block``."""
        return self.block + row * self.row_blocks


@dataclass(frozen=True)
class CardLayout:
    """All that lies on the card besides label and records.

    Attributes
    ----------
    units, constants, batch : tuple of CardPlace
        In the order of SPEC's section 7, which numbers the units and the checks of a record.
    home_blocks : int
        Of all first homes together: how far after its first home a unit's second one lies, and its third after that.
    batch_blocks : int
        Of one batch: how far after a batch the next one lies.
    batches_block : int
        Where batch 0 begins.
    commit_each : int
        So many steps are made to count together; of more than 1 a unit has three homes.
    """

    units: tuple[CardPlace, ...]
    constants: tuple[CardPlace, ...]
    batch: tuple[CardPlace, ...]
    home_blocks: int
    batch_blocks: int
    batches_block: int
    commit_each: int = 1

    @property
    def checks(self) -> int:
        """How many of them a record holds."""
        return len(self.units) + len(self.constants)

    @property
    def bits(self) -> int:
        """How many a record holds: one for each row of each unit; of three homes as many again behind these."""
        return sum(place.rows for place in self.units) * (2 if self.commit_each > 1 else 1)

    @property
    def first_bits(self) -> tuple[int, ...]:
        """For each unit, the first of its bits in a record."""
        return tuple(accumulate((place.rows for place in self.units[:-1]), initial=0)) if self.units else ()

    def page_block(self, batches: int) -> int:
        """The first block of the page area on a card with so many batches."""
        return self.batches_block + batches * self.batch_blocks

    def home_block(self, place: CardPlace, row: int, home: int) -> int:
        """The first block of one of the homes of a unit's row, which are numbered from 0."""
        return place.row_block(row) + home * self.home_blocks

    def batch_block(self, place: CardPlace, number: int) -> int:
        """The first block of a batch of one tensor."""
        return place.block + number * self.batch_blocks


def blocks_of(size: int) -> int:
    """Blocks that so many bytes take."""
    return -(-size // BLOCK_BYTES)


def padded(place: CardPlace, content: bytes) -> bytes:
    """A tensor's bytes as they lie on the card."""
    return b"".join(row.ljust(place.row_blocks * BLOCK_BYTES, b"\0") for row in _rows(place, content))


def check_of(place: CardPlace, content: bytes) -> int:
    """What a record has of a tensor's bytes: the sum of the CRC-32 of all rows, each begun with the row's number."""
    return sum(zlib.crc32(row, number) for number, row in enumerate(_rows(place, content))) % 2**32


def checked_batch(content: bytes, number: int) -> bytes:
    """A batch's tensor and its check, as they lie on the card, without the padding."""
    return content + ((zlib.crc32(content) + number) % 2**32).to_bytes(CHECK_BYTES, "little")


def _rows(place: CardPlace, content: bytes) -> list[bytes]:
    return [content[begin : begin + place.row_bytes] for begin in range(0, place.bytes, place.row_bytes)]


def lay_out(kept: Sequence[Tensor], written: Iterable[str], resident_bytes: int, each: int = 1) -> CardLayout:
    """Give every tensor its blocks.

    Parameters
    ----------
    kept : sequence
        The graph's kept tensors, in its order.
    written : iterable of str
        Ids of those that a step changes, in the order of the nodes that write them.
    resident_bytes : int
        Of the parameters and states among the residents, which are one unit; 0 if there are none.
    each : int
        So many steps are made to count together.
    """
    tensors = {tensor.id: (tensor.id, tensor.bytes, tensor.rows) for tensor in kept}
    units = [tensors[id] for id in dict.fromkeys(written)]
    changing = {id for id, _, _ in units}
    still = [tensor for tensor in kept if tensor.id not in changing]
    if resident_bytes:
        units.append(("", resident_bytes, 1))
    first = tuple(_placed(units, FIRST_BLOCK))
    home_blocks = sum(place.blocks for place in first)
    constants_block = FIRST_BLOCK + (3 if each > 1 else 2) * home_blocks
    constants = tuple(_placed([tensors[t.id] for t in still if t.kind not in BATCH_KINDS], constants_block))
    batches_block = constants_block + sum(place.blocks for place in constants)
    batch = tuple(_placed([tensors[t.id] for t in still if t.kind in BATCH_KINDS], batches_block, CHECK_BYTES))
    return CardLayout(first, constants, batch, home_blocks, sum(place.blocks for place in batch), batches_block, each)


def card_layout(graph: Graph) -> CardLayout | None:
    """The layout for a graph, or None for one that keeps nothing on the card."""
    if not graph.kept:
        return None
    kept = {tensor.id for tensor in graph.kept}
    operations = (node.operation for node in graph.nodes if node.operation)
    written = (result for operation in operations for result in operation.results if result in kept)
    resident_bytes = sum(r.bytes for r in graph.residents if r.kind in ("parameter", "state"))
    return lay_out(graph.kept, written, resident_bytes, commit_each(graph))


def _placed(tensors: Iterable[tuple[str, int, int]], block: int, check_bytes: int = 0) -> Iterator[CardPlace]:
    for id, size, rows in tensors:
        place = CardPlace(id, size, block, rows, check_bytes)
        yield place
        block += place.blocks
