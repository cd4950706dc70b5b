# SPDX-License-Identifier: Apache-2.0
"""The serial line between host and board, with its bit rate and with faults on request."""

from __future__ import annotations

import ctypes
from typing import Protocol


class Faults(Protocol):
    """What may happen to a byte on its way."""

    def host_to_board(self, byte: int) -> bytes:
        """What arrives at the board for one byte sent: usually that byte."""
        ...

    def board_to_host(self, byte: int) -> bytes:
        """What arrives at the host for one byte sent."""
        ...


class LineState(ctypes.Structure):
    """``struct serial_line`` of native/byte_uart.h."""

    SENT = 1024
    _fields_ = [
        ("bytes", ctypes.c_char_p),
        ("taken", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("sent_count", ctypes.c_uint32),
        ("sent", ctypes.c_uint8 * SENT),
    ]


class SerialLine:
    """Bytes under way in both directions.

    The board's UART takes bytes from `state`, and puts them there (native/byte_uart.c); the host side is `push` and
    `take`. Bytes towards the board arrive one character time apart.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults
        self.state = LineState()
        self._to_board = b""  # the state has its address
        self._to_host = bytearray()

    def push(self, data: bytes) -> None:
        """The host sends."""
        if self.faults:
            data = b"".join(map(self.faults.host_to_board, data))
        state = self.state
        self._to_board = self._to_board[state.taken :] + data
        state.bytes, state.taken, state.count = self._to_board, 0, len(self._to_board)

    def collect(self) -> None:
        """Fetch what the board's UART has sent."""
        state = self.state
        sent, state.sent_count = bytes(state.sent[: state.sent_count]), 0
        self._to_host += b"".join(map(self.faults.board_to_host, sent)) if self.faults else sent

    @property
    def whole_line(self) -> bool:
        """Whether a line feed, or very much, waits for the host."""
        self.collect()
        return b"\n" in self._to_host or len(self._to_host) > 1024

    def take(self, count: int) -> bytes:
        """The host reads at most `count` bytes."""
        self.collect()
        data = bytes(self._to_host[:count])
        del self._to_host[:count]
        return data

    @property
    def available(self) -> int:
        """Bytes that wait for the host."""
        self.collect()
        return len(self._to_host)

    def drop_to_host(self) -> None:
        """Forget what the host has not read."""
        self.collect()
        self._to_host.clear()
