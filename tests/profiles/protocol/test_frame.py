# SPDX-License-Identifier: Apache-2.0
"""Lines of the protocol, against the definition of the checksum and against damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_profiles.protocol.frame import LONG_LINE, MAX_LINE, Frame, LineSplitter, crc16, decode, encode

from tests.support.harness.simulated_device import crc

printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=300)


def test_checksum_is_the_catalogued_one() -> None:
    assert crc16(b"123456789") == 0x29B1


@given(st.binary(max_size=100))
def test_checksum_follows_its_bitwise_definition(data: bytes) -> None:
    assert crc16(data) == crc(data)


@given(st.integers(0, 0xFFFF), printable)
def test_a_line_comes_back_as_it_was_sent(sequence: int, text: str) -> None:
    line = encode(">", sequence, text)
    assert decode(line.removesuffix(b"\n")) == Frame(">", sequence, text)


@given(st.integers(0, 0xFFFF), printable, st.data())
def test_one_damaged_byte_is_always_noticed(sequence: int, text: str, data: st.DataObject) -> None:
    line = bytearray(encode(">", sequence, text).removesuffix(b"\n"))
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    assert decode(bytes(line)) is None


@given(
    st.lists(st.binary(min_size=1, max_size=40).filter(lambda line: not set(line) & set(b"\r\n")), max_size=8),
    st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\r"]),
    st.integers(1, 7),
)
def test_splitting_does_not_depend_on_how_bytes_arrive(lines: list[bytes], end: bytes, chunk: int) -> None:
    stream = b"".join(line + end for line in lines)
    splitter = LineSplitter()
    seen = [line for start in range(0, len(stream), chunk) for line in splitter.feed(stream[start : start + chunk])]
    assert [line for line in seen if line] == lines


def test_an_endless_line_is_dropped_and_the_next_one_read() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"x" * 100_000) == []
    assert splitter.feed(b"y\nnext\n") == [b"next"]
    assert splitter.feed(b"x" * 100_000 + b"\rnext\r") == [b"next"]


@pytest.mark.parametrize("line", [b"", b"*", b"# remark", b"<0001*", b"?0001 ack*0000", b"x" * 600, b"x" * 9000])
def test_other_lines_are_dropped(line: bytes) -> None:
    assert decode(line) is None


def test_a_line_that_is_too_long_or_not_printable_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 512"):
        encode(">", 1, "x" * MAX_LINE)
    text = "x" * (LONG_LINE - len(">0001 *0000"))
    assert decode(encode(">", 1, text, LONG_LINE)[:-1]) == Frame(">", 1, text)
    with pytest.raises(ValueError, match="at most 4092"):
        encode(">", 1, text + "x", LONG_LINE)
    for text in ("a\nb", "\x7f", "größe"):
        with pytest.raises(ValueError, match="not printable"):
            encode(">", 1, text)
