# SPDX-License-Identifier: Apache-2.0
"""Frames: whatever happens to a line on its way, it is either the line that was sent or dropped."""

from __future__ import annotations

import binascii
import ctypes as c

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.firmware.core import E_CORRUPT, OK, Line, Request

bodies = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=480).map(str.encode)


def frame(sequence: int, body: bytes) -> bytes:
    text = b">%04x %s" % (sequence, body)
    return text + b"*%04x\n" % binascii.crc_hqx(text, 0xFFFF)


def receive(core: c.CDLL, stream: bytes) -> list[tuple[int, bytes]]:
    """What the device takes for requests in a stream of bytes."""
    core.poet_line_push.restype = c.c_bool
    line = Line()
    request = Request()
    found = []
    for byte in stream:
        if core.poet_line_push(c.byref(line), c.c_char(byte)):
            assert line.length <= 512
            if core.poet_frame_open(c.byref(line), line.length, c.byref(request)) == OK:
                found.append((request.sequence, request.body))
    return found


@given(data=st.binary(max_size=200))
def test_crc16_is_ccitt_false(core: c.CDLL, data: bytes) -> None:
    core.poet_crc16.restype = c.c_uint16
    assert core.poet_crc16(data, len(data)) == binascii.crc_hqx(data, 0xFFFF)


@given(sequence=st.integers(0, 0xFFFF), body=bodies, end=st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\r", b"\r\r"]))
def test_a_whole_frame_is_understood(core: c.CDLL, sequence: int, body: bytes, end: bytes) -> None:
    """Whatever a terminal sends for Enter; two lines in a row are two requests."""
    typed = frame(sequence, body)[:-1] + end
    assert receive(core, typed + typed) == 2 * [(sequence, body)]


@pytest.mark.parametrize("rubbed_out", [b"\x7f", b"\x08", b"\x1b[D"])
def test_a_line_that_was_corrected_by_hand_is_dropped_whole(core: c.CDLL, rubbed_out: bytes) -> None:
    typed = frame(1, b"hello").replace(b"lo*", b"x" + rubbed_out + b"lo*")[:-1]
    assert receive(core, typed + b"\r" + frame(2, b"hello")) == [(2, b"hello")]


@given(sequence=st.integers(0, 0xFFFF), body=bodies, place=st.floats(0, 1), flip=st.integers(1, 255))
def test_a_changed_byte_is_never_accepted(core: c.CDLL, sequence: int, body: bytes, place: float, flip: int) -> None:
    stream = bytearray(frame(sequence, body))
    stream[int(place * (len(stream) - 1))] ^= flip
    assert receive(core, bytes(stream) + b"\n") in ([], [(sequence, body)])  # the end of the line may become \r\n
    if stream[-1:] == b"\n":
        accepted = receive(core, bytes(stream))
        assert not accepted or bytes(stream) == frame(sequence, body)


@settings(derandomize=True)  # a CRC of 16 bits lets one in 65,536 such lines pass: the examples must not vary
@given(
    frames=st.lists(st.tuples(st.integers(0, 0xFFFF), bodies), min_size=1, max_size=4),
    faults=st.lists(st.tuples(st.sampled_from(["drop", "double"]), st.floats(0, 1)), min_size=1, max_size=3),
)
def test_dropped_and_doubled_bytes(
    core: c.CDLL, frames: list[tuple[int, bytes]], faults: list[tuple[str, float]]
) -> None:
    stream = bytearray(b"".join(frame(*one) for one in frames))
    for kind, place in faults:
        index = int(place * (len(stream) - 1))
        stream[index : index + 1] = b"" if kind == "drop" else stream[index : index + 1] * 2
    assert all(found in frames for found in receive(core, bytes(stream)))


@given(noise=st.binary(max_size=3000), body=bodies)
def test_noise_never_hides_the_next_line(core: c.CDLL, noise: bytes, body: bytes) -> None:
    assert receive(core, noise + b"\n" + frame(7, body))[-1] == (7, body)


@pytest.mark.parametrize(
    "line", [b"", b"*", b"*1d0f", b">0000*0000", b"# a remark", b">000A hello*", b"<0001 ok", b"x" * 513]
)
def test_what_is_not_a_frame(core: c.CDLL, line: bytes) -> None:
    checked = line + b"*%04x" % binascii.crc_hqx(line, 0xFFFF)
    assert receive(core, line + b"\n" + checked + b"\n") == []


def test_a_line_that_is_too_long_is_dropped_whole(core: c.CDLL) -> None:
    assert receive(core, frame(1, b"x" * 502)[:-1] + b"\n") == []
    assert receive(core, frame(1, b"x" * 501)) == [(1, b"x" * 501)]


def test_a_valid_crc_does_not_make_control_characters_valid(core: c.CDLL) -> None:
    buffer = c.create_string_buffer(frame(1, b"he\x07llo")[:-1])
    assert core.poet_frame_open(buffer, len(buffer) - 1, c.byref(Request())) == E_CORRUPT
