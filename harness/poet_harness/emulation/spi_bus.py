# SPDX-License-Identifier: Apache-2.0
"""The SPI bus between a microcontroller and its card: bytes, and the time they take."""

from __future__ import annotations

import ctypes

from .clock import Clock
from .counter import Counter
from .sdcard import CardState, SdCard


class SpiBusState(ctypes.Structure):
    """``struct spi_bus`` of native/card.h."""

    _fields_ = [
        ("card", ctypes.POINTER(CardState)),
        ("counter", ctypes.POINTER(Counter)),
        ("polls", ctypes.c_uint32),
    ]


class SpiBus:
    """Clocks bytes through the card at the rate the controller is set to.

    A controller that polls the card byte by byte for something that takes long would cost the host far more time than
    the board. After a few fruitless polls the clock skips to where the card has news; the polling CPU stays active
    all the while, as on the board.

    Parameters
    ----------
    state : SpiBusState, optional
        What it shares with the compiled half, if there is one for the controller.
    """

    POLLS = 8

    def __init__(self, card: SdCard, clock: Clock, state: SpiBusState | None = None) -> None:
        self._card = card
        self._clock = clock
        self._state = state or SpiBusState()
        self._state.card = ctypes.pointer(card.state)
        self._state.counter = ctypes.pointer(clock.counter)

    def poll(self, sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        """Move bytes while the CPU does nothing but wait for them.

        Parameters
        ----------
        sent : bytes
            What goes to the card.
        begin : int
            When the bus is free for them, in cycles.
        hz : float
            Rate of the bus.

        Returns
        -------
        bytes, int
            What the card sent, and when the last bit has moved, in cycles.
        """
        if sent == b"\xff":
            begin = self._skip_waiting(begin)
        else:
            self._state.polls = 0
        return self.move(sent, begin, hz), begin + self.duration(len(sent), hz)

    def move(self, sent: bytes, begin: int, hz: float) -> bytes:
        """What the card sends for bytes that began to move at some time."""
        return self._card.exchange(sent, begin, self.duration(1, hz))

    def duration(self, count: int, hz: float) -> int:
        """Cycles that bytes take on the bus."""
        return count * self._clock.cycles(8 / hz)

    def _skip_waiting(self, begin: int) -> int:
        pending = self._card.pending_until(begin)
        self._state.polls = self._state.polls + 1 if pending is not None else 0
        if pending is None or self._state.polls <= self.POLLS:
            return begin
        self._state.polls = 0
        self._clock.advance_to(pending)
        return pending
