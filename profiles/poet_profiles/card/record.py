# SPDX-License-Identifier: Apache-2.0
"""What says which version of the kept tensors counts, and, for graphs without any, the header of a slot: bytes on the
card to data and back (docs/SPEC.md, section 7)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from .layout import BLOCK_BYTES, CardLayout, blocks_of

RECORD_MAGIC = b"POET RECORD 2\n\0\0"
OLDER_MAGIC = b"POET RECORD 1\n\0\0"  # its batches have no checks
_HEAD = struct.Struct("<16sIIQIIII")
_CRC_BYTES = 4
_BITS = 32

SLOT_MAGIC = b"POET SLOT 1\n"
_SLOT = struct.Struct("<12sIQIII")


@dataclass(frozen=True)
class Record:
    """One record.

    Attributes
    ----------
    sequence : int
        The higher of two counts.
    graph_hash : str
        16 hex digits.
    step : int
        Training steps done.
    batches : int
        How many lie on the card.
    second : tuple of bool
        For each unit, or for each row of one that lies by rows, whether its second home counts; where it has three,
        behind these whether that is the third.
    checks : tuple of int
        Of each unit, then of each constant.
    """

    sequence: int
    graph_hash: str
    step: int
    batches: int
    second: tuple[bool, ...]
    checks: tuple[int, ...]

    def belongs_to(self, graph_hash: str, layout: CardLayout) -> bool:
        """Whether it says anything about a graph."""
        counts = (len(self.second), len(self.checks))
        return self.graph_hash == graph_hash and counts == (layout.bits, layout.checks)


def record_bytes(bits: int, checks: int) -> int:
    """Size of a record, without the padding of its last block."""
    return _HEAD.size + 4 * (-(-bits // _BITS) + checks) + _CRC_BYTES


def encode_record(record: Record) -> bytes:
    """Whole blocks, as they lie on the card."""
    bits = len(record.second)
    size = record_bytes(bits, len(record.checks))
    words = [0] * -(-bits // _BITS)
    for bit, second in enumerate(record.second):
        words[bit // _BITS] |= second << bit % _BITS
    head = _HEAD.pack(
        RECORD_MAGIC,
        record.sequence,
        size,
        int(record.graph_hash, 16),
        record.step,
        record.batches,
        bits,
        len(record.checks),
    )
    body = head + struct.pack(f"<{len(words) + len(record.checks)}I", *words, *record.checks)
    content = body + struct.pack("<I", zlib.crc32(body))
    return content.ljust(blocks_of(size) * BLOCK_BYTES, b"\0")


def decode_record(content: bytes) -> Record | None:
    """The record at the beginning of some blocks, or None if there is no whole one."""
    if len(content) < _HEAD.size or not content.startswith(RECORD_MAGIC):
        return None
    _, sequence, size, graph_hash, step, batches, bits, checks = _HEAD.unpack_from(content)
    if size != record_bytes(bits, checks) or size > len(content):
        return None
    body, crc = content[: size - _CRC_BYTES], content[size - _CRC_BYTES : size]
    if struct.unpack("<I", crc)[0] != zlib.crc32(body):
        return None
    word_count = -(-bits // _BITS)
    numbers = struct.unpack_from(f"<{word_count + checks}I", body, _HEAD.size)
    second = tuple(bool(numbers[bit // _BITS] >> bit % _BITS & 1) for bit in range(bits))
    return Record(sequence, f"{graph_hash:016x}", step, batches, second, numbers[word_count:])


def newest(records: Iterable[Record | None]) -> Record | None:
    """The record that counts."""
    return max((record for record in records if record is not None), key=lambda record: record.sequence, default=None)


@dataclass(frozen=True)
class SlotHeader:
    """What stands before the weights that a graph without kept tensors has committed.

    ``bytes`` and ``crc`` are those of all tensors, one after the other.
    """

    sequence: int
    graph_hash: str
    step: int
    bytes: int
    crc: int


def decode_slot(content: bytes) -> SlotHeader | None:
    """The header at the beginning of a block, or None if there is no whole one."""
    if len(content) < _SLOT.size + _CRC_BYTES or not content.startswith(SLOT_MAGIC):
        return None
    if struct.unpack_from("<I", content, _SLOT.size)[0] != zlib.crc32(content[: _SLOT.size]):
        return None
    _, sequence, graph_hash, step, size, crc = _SLOT.unpack_from(content)
    return SlotHeader(sequence, f"{graph_hash:016x}", step, size, crc)
