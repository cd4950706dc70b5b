# SPDX-License-Identifier: Apache-2.0
"""The SPI bus between a microcontroller and its card: bytes, and the time they take."""

from __future__ import annotations

import ctypes

from .clock import Clock
from .counter import Counter
from .library import compiled
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

    Parameters
    ----------
    state : SpiBusState
        What it shares with the C of the controller.
    """

    def __init__(self, card: SdCard, clock: Clock, state: SpiBusState) -> None:
        self._card = card
        self._clock = clock
        self._state = state
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
        self._card.attend()
        if not self._card.state.driven:
            self._state.polls = 0
            return self.move(sent, begin, hz), begin + self.duration(len(sent), hz)
        received = ctypes.create_string_buffer(len(sent))
        end = compiled().spi_poll(
            ctypes.byref(self._state),
            sent,
            received,
            ctypes.c_uint32(len(sent)),
            ctypes.c_uint64(begin),
            ctypes.c_uint64(self.duration(1, hz)),
        )
        self._card.raise_failure()
        return received.raw, int(end)

    def move(self, sent: bytes, begin: int, hz: float) -> bytes:
        """What the card sends for bytes that began to move at some time."""
        return self._card.exchange(sent, begin, self.duration(1, hz))

    def duration(self, count: int, hz: float) -> int:
        """Cycles that bytes take on the bus."""
        return count * self._clock.cycles(8 / hz)
