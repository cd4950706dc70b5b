"""The SPI bus between a microcontroller and its card: bytes, and the time they take."""

from __future__ import annotations

from .clock import Clock
from .sdcard import SdCard


class SpiBus:
    """Clocks bytes through the card at the rate the controller is set to.

    A controller that polls the card byte by byte for something that takes long would cost the host far more time than
    the board. After a few fruitless polls the clock skips to where the card has news; the polling CPU stays active
    all the while, as on the board.
    """

    POLLS = 8

    def __init__(self, card: SdCard, clock: Clock) -> None:
        self._card = card
        self._clock = clock
        self._polls = 0

    def transfer(self, sent: bytes, hz: float) -> tuple[bytes, int]:
        """Move bytes both ways.

        Returns
        -------
        bytes, int
            What the card sent, and when the last bit has moved, in cycles.
        """
        if sent == b"\xff":
            self._skip_waiting()
        else:
            self._polls = 0
        begin = self._clock.now
        byte_cycles = self._clock.cycles(8 / hz)
        received = self._card.exchange(sent, begin, byte_cycles)
        return received, begin + len(sent) * byte_cycles

    def _skip_waiting(self) -> None:
        pending = self._card.pending_until(self._clock.now)
        self._polls = self._polls + 1 if pending is not None else 0
        if pending is not None and self._polls > self.POLLS:
            self._clock.advance_to(pending)
            self._polls = 0
