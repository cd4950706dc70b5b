# SPDX-License-Identifier: Apache-2.0
"""Reading a card: blocks past the computer's cache, what it holds, and the weights on it."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from poet_profiles.card.layout import (
    BLOCK_BYTES,
    CHECK_BYTES,
    FIRST_BLOCK,
    LABEL,
    LABEL_BLOCK,
    RECORD_BLOCKS,
    blocks_of,
    check_of,
    checked_batch,
)
from poet_profiles.card.record import OLDER_MAGIC, Record, SlotHeader, decode_record, decode_slot, newest
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.program.closing import Closing

from ..data.batches import Array
from ..plan_folder.plan import Plan

CHUNK_BYTES = 1024 * 1024
O_DIRECT = getattr(os, "O_DIRECT", None)
RECORD_AREA_BLOCKS = RECORD_BLOCKS[1] - RECORD_BLOCKS[0]
assert RECORD_BLOCKS[1] + RECORD_AREA_BLOCKS == FIRST_BLOCK


def padded_bytes(size: int) -> int:
    """Bytes of the blocks that so many bytes take."""
    return blocks_of(size) * BLOCK_BYTES


class CardReader(Closing):
    """Reads whole blocks of a device or an image file.

    Attributes
    ----------
    past_cache : bool
        Whether what was read so far came from the medium (O_DIRECT), and not perhaps from the computer's memory.

    Parameters
    ----------
    past_cache : bool
        Whether to try that. A file that somebody else writes just now is up to date in memory alone.

    Raises
    ------
    UserError
        If it cannot be opened.
    """

    def __init__(self, path: Path, past_cache: bool = True) -> None:
        self._path = path
        self._buffer = mmap.mmap(-1, CHUNK_BYTES)  # begins at a page, as O_DIRECT asks for
        self.past_cache = past_cache and O_DIRECT is not None
        if not self.past_cache:
            self._read_through_cache()
            return
        try:
            self._handle = os.open(path, os.O_RDONLY | (O_DIRECT or 0) | os.O_CLOEXEC)
        except OSError:  # a file system that knows no O_DIRECT
            self._read_through_cache()

    def _read_through_cache(self) -> None:
        self.past_cache = False
        try:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UserError(f"{self._path}: cannot be read ({error.strerror})", NO_DEVICE) from None

    def read(self, block: int, count: int) -> bytes:
        """So many bytes, whole blocks, from a block on."""
        parts = []
        place, end = block * BLOCK_BYTES, block * BLOCK_BYTES + count
        while place < end:
            part = self._read_some(place, min(CHUNK_BYTES, end - place))
            if not part:
                raise UserError(f"{self._path}: ends before block {-(-end // BLOCK_BYTES)}; it is no card of this plan")
            parts.append(part)
            place += len(part)
        return b"".join(parts)

    def _read_some(self, place: int, count: int) -> bytes:
        view = memoryview(self._buffer)[:count]
        try:
            return bytes(view[: os.preadv(self._handle, [view], place)])
        except OSError as error:
            if self.past_cache:  # blocks smaller than those of the medium
                os.close(self._handle)
                self._read_through_cache()
                return self._read_some(place, count)
            raise UserError(f"{self._path}: the card cannot be read ({error.strerror})", NO_DEVICE) from None

    def close(self) -> None:
        os.close(self._handle)


@dataclass(frozen=True)
class Held:
    """What a card holds, as far as it says itself.

    Attributes
    ----------
    labelled : bool
    records : tuple of Record or None
        One for each place.
    slots : tuple of SlotHeader or None
        The same for commits of graphs that keep nothing on the card.
    older : bool
        Whether there is a record of an older version of poet.
    """

    labelled: bool
    records: tuple[Record | None, ...]
    slots: tuple[SlotHeader | None, ...]
    older: bool


def look_at(reader: CardReader) -> Held:
    """Label, records and slots of a card."""
    labelled = reader.read(LABEL_BLOCK, BLOCK_BYTES) == LABEL.ljust(BLOCK_BYTES, b"\0")
    records, slots, older = [], [], False
    for block in RECORD_BLOCKS:
        content = reader.read(block, BLOCK_BYTES)
        slots.append(decode_slot(content))
        records.append(_record(reader, block, content))
        older = older or content.startswith(OLDER_MAGIC)
    return Held(labelled, tuple(records), tuple(slots), older)


def _record(reader: CardReader, block: int, first: bytes) -> Record | None:
    """A record may be longer than a block."""
    size = padded_bytes(int.from_bytes(first[20:24], "little"))
    if not BLOCK_BYTES <= size <= RECORD_AREA_BLOCKS * BLOCK_BYTES:
        return None
    return decode_record(first if size == BLOCK_BYTES else reader.read(block, size))


@dataclass(frozen=True)
class Weights:
    """Parameters and states, whole, by their id in the network, after so many training steps.

    ``fell_back`` says that those of the last step are damaged, and these are of the one before.
    """

    step: int
    tensors: Mapping[str, Array]
    fell_back: bool


def weights_on(reader: CardReader, path: Path, plan: Plan) -> Weights:
    """Read and check the weights of a plan's graph."""
    faults: list[str] = []
    for commit, block in sorted(commits_on(reader, path, plan).items(), key=lambda item: -item[0].sequence):
        try:
            return Weights(commit.step, plan.whole(_tensors(reader, commit, block, plan)), bool(faults))
        except _DamagedError as error:
            faults.append(f"those of step {commit.step}: {error}")
    raise UserError(f"{path}: the weights are damaged: {'; '.join(faults)}", NO_DEVICE)


def weights_in(image: Path, plan: Plan) -> Weights:
    """The same of an image that a board has as its card just now."""
    with CardReader(image, past_cache=False) as reader:
        return weights_on(reader, image, plan)


def commits_on(reader: CardReader, path: Path, plan: Plan) -> dict[Record | SlotHeader, int]:
    """What a card says of weights of a plan's graph, and at which block: records, or headers of slots; at least one."""
    held = look_at(reader)
    if not held.labelled:
        raise UserError(f"{path}: has no label of poet's: no card, or one whose preparation was interrupted")
    places = [*zip(held.records, RECORD_BLOCKS, strict=True), *zip(held.slots, RECORD_BLOCKS, strict=True)]
    commits = {commit: block for commit, block in places if commit is not None}
    mine = {commit: block for commit, block in commits.items() if _is_of(commit, plan)}
    if not mine and held.older:
        raise UserError(
            f"{path}: was prepared by an older version of poet, whose batches have no checks; read it with that one "
            "or prepare it anew with poet-harness card"
        )
    if not mine:
        others = ", ".join(sorted({commit.graph_hash for commit in commits})) or "none"
        cure = "; prepare it with poet-harness card" if plan.card is not None else ""
        raise UserError(f"{path}: holds no weights of the graph {plan.graph_hash}; it holds: {others}{cure}")
    return mine


def record_on(reader: CardReader, path: Path, plan: Plan) -> Record:
    """The record that counts, of a plan that keeps tensors on the card."""
    record = newest(commit for commit in commits_on(reader, path, plan) if isinstance(commit, Record))
    assert record is not None  # such a plan has no slots
    return record


def check_batches(reader: CardReader, path: Path, plan: Plan) -> int:
    """Read all batches of a plan that keeps them on the card, and say how many they are."""
    assert plan.card is not None
    count = record_on(reader, path, plan).batches
    for number in range(count):
        for place in plan.card.batch:
            block = plan.card.batch_block(place, number)
            content = reader.read(block, place.blocks * BLOCK_BYTES)[: place.bytes + CHECK_BYTES]
            if content != checked_batch(content[: place.bytes], number):
                raise UserError(
                    f"{path}: batch {number} of {place.id}, at block {block}, is damaged; prepare the card anew with "
                    "poet-harness card",
                    NO_DEVICE,
                )
    return count


class _DamagedError(Exception):
    """A tensor's check fails."""


def _is_of(commit: Record | SlotHeader, plan: Plan) -> bool:
    if isinstance(commit, Record):
        return plan.card is not None and commit.belongs_to(plan.graph_hash, plan.card)
    sizes = sum(resident.bytes for resident in plan.resident_unit)
    return plan.card is None and commit.graph_hash == plan.graph_hash and commit.bytes == sizes


def _tensors(reader: CardReader, commit: Record | SlotHeader, block: int, plan: Plan) -> dict[str, Array]:
    contents = (
        _kept_contents(reader, commit, plan)
        if isinstance(commit, Record)
        else _slot_contents(reader, commit, block, plan)
    )
    shapes = {tensor.id: tensor.shape for tensor in plan.tensors}
    return {
        id: np.frombuffer(content, "<i4" if id in plan.choices else "<f4").reshape(shapes[id])
        for id, content in contents.items()
    }


def _kept_contents(reader: CardReader, record: Record, plan: Plan) -> dict[str, bytes]:
    layout = plan.card
    assert layout is not None
    count = sum(place.rows for place in layout.units)
    third = record.second[count:] or (False,) * count
    numbers = (low + 2 * high for low, high in zip(record.second[:count], third, strict=True))
    homes = [
        [layout.home_block(place, row, home) for row, home in enumerate(islice(numbers, place.rows))]
        for place in layout.units
    ]
    homes += [[place.row_block(row) for row in range(place.rows)] for place in layout.constants]
    contents: dict[str, bytes] = {}
    for place, blocks, check in zip((*layout.units, *layout.constants), homes, record.checks, strict=True):
        content = b"".join(reader.read(block, padded_bytes(place.row_bytes))[: place.row_bytes] for block in blocks)
        if check_of(place, content) != check:
            raise _DamagedError(f"{place.id or 'the resident weights'}, at block {blocks[0]}")
        contents[place.id] = content
    unit = contents.pop("", b"")
    return {**contents, **_cut(unit, plan)}


def _cut(unit: bytes, plan: Plan) -> dict[str, bytes]:
    """The residents' unit, tensor by tensor."""
    contents: dict[str, bytes] = {}
    begin = 0
    for resident in plan.resident_unit:
        contents[resident.id] = unit[begin : begin + resident.bytes]
        begin += resident.bytes
    return contents


def _slot_contents(reader: CardReader, header: SlotHeader, block: int, plan: Plan) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    crc, block = 0, block + 1
    for resident in plan.resident_unit:
        content = reader.read(block, padded_bytes(resident.bytes))[: resident.bytes]
        crc = zlib.crc32(content, crc)
        contents[resident.id] = content
        block += blocks_of(resident.bytes)
    if crc != header.crc:
        raise _DamagedError("their common check")
    return contents
