# SPDX-License-Identifier: Apache-2.0
"""The card's bus while the firmware moves its pins itself."""

from __future__ import annotations

from ..clock import Clock
from ..spi_bus import SpiBus


class BitBangedSpi:
    """Mode 0, bit by bit.

    The card is asked byte by byte: what it sends in return comes out with the next byte's bits, one byte late. A card
    may be as late as that by itself.
    """

    HZ = 200e3

    def __init__(self, bus: SpiBus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self.restart()

    def restart(self) -> None:
        """Chip select has moved: the next bit is a byte's first."""
        self._bits, self._sent, self._received = 0, 0, 0xFF

    def rise(self, data_out: bool) -> None:
        """The clock rises: the card takes a bit."""
        self._bits, self._sent = self._bits + 1, self._sent << 1 | data_out
        if self._bits == 9:
            self._bits, self._sent = 1, int(data_out)

    def fall(self) -> None:
        """The clock falls: after the last bit, the card has the byte."""
        if self._bits == 8:
            self._received = self._bus.move(bytes([self._sent & 0xFF]), self._clock.now, self.HZ)[0]

    @property
    def data_in(self) -> bool:
        """The bit that the card shows."""
        return bool(self._received >> (8 - self._bits if self._bits else 7) & 1)
