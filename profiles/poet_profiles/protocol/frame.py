# SPDX-License-Identifier: Apache-2.0
"""One line of the protocol: a sequence number, words and a checksum, as printable ASCII.

>>> encode(">", 7, "hello")
b'>0007 hello*8b0c\\n'
"""

from __future__ import annotations

from binascii import crc_hqx
from dataclasses import dataclass

MAX_LINE = 512
SHORT_LINE = 240  # some boards' USB serial loses the rest of a longer one
# Of a Linux board: the checksum finds any three wrong bits in as many.
LONG_LINE = 4092
SEQUENCE_MODULUS = 0x10000


@dataclass(frozen=True)
class Frame:
    """A line whose checksum is right: ``direction`` is ``>`` (host to device) or ``<`` (device to host)."""

    direction: str
    sequence: int
    text: str


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE: polynomial 0x1021, start 0xFFFF, not reflected, no final exclusive or."""
    return crc_hqx(data, 0xFFFF)


def encode(direction: str, sequence: int, text: str, longest: int = MAX_LINE) -> bytes:
    """Line with checksum and line feed.

    Raises
    ------
    ValueError
        If the line would be longer than so many characters, or holds something that is not printable ASCII.
    """
    if not (text.isascii() and text.isprintable()):
        raise ValueError(f"not printable: {text!r}")
    body = f"{direction}{sequence:04x} {text}".encode("ascii")
    line = body + b"*%04x\n" % crc16(body)
    if len(line) - 1 > longest:
        raise ValueError(f"line of {len(line) - 1} characters, at most {longest} are allowed")
    return line


def bytes_in_line(line: int) -> int:
    """Bytes of a tensor that a line of so many characters carries in hexadecimal, with what else is in it."""
    return (line - 64) // 2


def decode(line: bytes) -> Frame | None:
    """Frame of a line without its end; None for anything that the protocol drops."""
    if len(line) > LONG_LINE or len(line) < 11 or line[-5:-4] != b"*":
        return None
    body, checksum = line[:-5], line[-4:]
    if checksum != b"%04x" % crc16(body):
        return None
    direction, digits, space, text = body[:1], body[1:5], body[5:6], body[6:]
    if direction not in (b"<", b">") or space != b" ":
        return None
    try:
        return Frame(direction.decode(), int(digits, 16), text.decode("ascii"))
    except ValueError:
        return None


class LineSplitter:
    """Cuts a byte stream at each ``\\n`` and ``\\r``. A line that grows beyond the limit is dropped up to its end."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._overlong = False

    def feed(self, data: bytes) -> list[bytes]:
        """Lines that ``data`` completed, without their ends; between ``\\r`` and ``\\n`` is an empty one."""
        lines = []
        *ended, rest = data.replace(b"\r", b"\n").split(b"\n")
        for part in ended:
            self._pending += part
            if not self._overlong and len(self._pending) <= LONG_LINE:
                lines.append(bytes(self._pending))
            self._pending.clear()
            self._overlong = False
        self._pending += rest
        if len(self._pending) > LONG_LINE:
            self._pending.clear()
            self._overlong = True
        return lines
