# SPDX-License-Identifier: Apache-2.0
"""The record on the card: its bytes are those of SPEC's section 7, and damage never passes for one."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.card.layout import BLOCK_BYTES
from poet_profiles.card.record import Record, decode_record, encode_record, newest, record_bytes

WORD = st.integers(0, 2**32 - 1)
RECORDS = st.builds(
    Record,
    sequence=WORD,
    graph_hash=st.integers(0, 2**64 - 1).map(lambda number: f"{number:016x}"),
    step=WORD,
    batches=WORD,
    second=st.lists(st.booleans(), max_size=70).map(tuple),
    checks=st.lists(WORD, max_size=150).map(tuple),
)
EXAMPLE = Record(7, "0123456789abcdef", 12, 5, (False, True) + 31 * (False,) + (True,), (1, 2, 0xFFFFFFFF))


@given(RECORDS)
def test_what_is_written_is_read(record: Record) -> None:
    content = encode_record(record)
    assert len(content) % BLOCK_BYTES == 0
    assert decode_record(content) == record
    assert decode_record(content + b"\xff" * BLOCK_BYTES) == record, "what lies after it does not matter"


def test_every_byte_is_where_the_specification_has_it() -> None:
    head = b"POET RECORD 2\n\0\0" + struct.pack("<IIQIIII", 7, 52 + 4 * (2 + 3), 0x0123456789ABCDEF, 12, 5, 34, 3)
    body = head + struct.pack("<II", 0b10, 0b10) + struct.pack("<III", 1, 2, 0xFFFFFFFF)
    expected = body + struct.pack("<I", zlib.crc32(body))
    assert encode_record(EXAMPLE) == expected.ljust(BLOCK_BYTES, b"\0")
    assert record_bytes(34, 3) == len(expected)


@given(record=RECORDS, data=st.data())
def test_a_damaged_record_is_none(record: Record, data: st.DataObject) -> None:
    content = bytearray(encode_record(record))
    size = record_bytes(len(record.second), len(record.checks))
    place = data.draw(st.integers(0, size - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    assert decode_record(bytes(content)) is None


@given(old=RECORDS, record=RECORDS)
def test_a_record_torn_between_two_blocks_is_none(old: Record, record: Record) -> None:
    before, after = encode_record(old), encode_record(record)
    for block in range(BLOCK_BYTES, len(after), BLOCK_BYTES):
        torn = after[:block] + before[block:].ljust(len(after) - block, b"\0")
        assert decode_record(torn) in (None, record)
        assert decode_record(torn) is None or torn[: len(after)] == after


@pytest.mark.parametrize("content", [b"", b"POET RECORD 2\n", bytes(BLOCK_BYTES), b"\xff" * BLOCK_BYTES])
def test_what_is_no_record_is_none(content: bytes) -> None:
    assert decode_record(content) is None


def test_the_higher_sequence_number_counts() -> None:
    later = replace(EXAMPLE, sequence=8)
    assert newest([EXAMPLE, later]) == newest([later, EXAMPLE, None]) == later
    assert newest([None, EXAMPLE]) == EXAMPLE
    assert newest([None, None]) is None
