# SPDX-License-Identifier: Apache-2.0
"""The serial line between host and board, with its bit rate and with faults on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Faults(Protocol):
    """What may happen to a byte on its way."""

    def host_to_board(self, byte: int) -> bytes:
        """What arrives at the board for one byte sent: usually that byte."""
        ...

    def board_to_host(self, byte: int) -> bytes:
        """What arrives at the host for one byte sent."""
        ...


class SerialLine:
    """Bytes under way in both directions.

    The board's UART model takes bytes with `receive` and gives them with `send`; the host side is `push` and
    `take`. Bytes towards the board arrive one character time apart.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults
        self._to_board: deque[int] = deque()
        self._to_host = bytearray()

    def push(self, data: bytes) -> None:
        """The host sends."""
        for byte in data:
            self._to_board.extend(self.faults.host_to_board(byte) if self.faults else (byte,))

    @property
    def waiting(self) -> bool:
        """Whether a byte is on its way to the board."""
        return bool(self._to_board)

    def receive(self) -> int:
        """The board's UART takes the next byte."""
        return self._to_board.popleft()

    def send(self, byte: int) -> None:
        """The board's UART sends a byte."""
        self._to_host.extend(self.faults.board_to_host(byte) if self.faults else (byte,))

    @property
    def whole_line(self) -> bool:
        """Whether a line feed, or very much, waits for the host."""
        return b"\n" in self._to_host or len(self._to_host) > 1024

    def take(self, count: int) -> bytes:
        """The host reads at most `count` bytes."""
        data = bytes(self._to_host[:count])
        del self._to_host[:count]
        return data

    @property
    def available(self) -> int:
        """Bytes that wait for the host."""
        return len(self._to_host)

    def drop_to_host(self) -> None:
        """Forget what the host has not read."""
        self._to_host.clear()


class Starvation:
    """Notices that the firmware does nothing but ask an empty UART for the next byte.

    Nothing can happen then until the host sends: the emulation may stop and give its processor back.
    """

    POLLS = 16
    WITHIN_CYCLES = 4096

    def __init__(self, starved: Callable[[], None]) -> None:
        self._starved = starved
        self._polls = 0
        self._first = 0

    def empty_poll(self, now: int) -> None:
        """The firmware asked, and there was nothing."""
        if self._polls == 0 or now - self._first > self.WITHIN_CYCLES:
            self._polls, self._first = 0, now
        self._polls += 1
        if self._polls >= self.POLLS:
            self._polls = 0
            self._starved()

    def busy(self) -> None:
        """The firmware sent or received."""
        self._polls = 0
