# SPDX-License-Identifier: Apache-2.0
"""The card's end of the bus in Python, byte by byte: what native/card.c is compared with."""

from __future__ import annotations

from poet_harness.emulation.sdcard import DATA_BYTES, FRAME_BYTES, START_BLOCK, SdCard
from poet_harness.emulation.spi_bus import SpiBus

START_MULTIPLE, STOP_MULTIPLE = 0xFC, 0xFD


class PythonCard(SdCard):
    """A card that calls no C."""

    def pending_until(self, now: int) -> int | None:
        """When the card will have something new to say to one who polls, or None."""
        if not self._selected or self.faults.removed:
            return None
        if now < self.state.busy_until:
            return int(self.state.busy_until)
        if self._out and self._out[0][0] > now:
            return self._out[0][0]
        return None

    def exchange(self, sent: bytes, begin: int, byte_cycles: int) -> bytes:
        if self.faults.removed:
            self._supply()
            return self._undriven(len(sent))
        if self._supplied_at is None:
            self._supplied_at = begin
        if not self._selected:
            return self._undriven(len(sent))
        received = bytearray()
        silent = sent.count(0xFF) == len(sent)
        while len(received) < len(sent):
            place = len(received)
            now = begin + place * byte_cycles
            if self.state.missing:
                received += self._take_data(sent[place:], now, byte_cycles)
            elif silent and self._speaks(now):
                received += self._give(len(sent) - place, now, byte_cycles)
            else:
                received += self._byte(sent[place], now)
        return bytes(received)

    def _speaks(self, now: int) -> bool:
        """Whether the next byte is simply the next one of an answer or of a block."""
        state = self.state
        return bool(self._out) and self._out[0][0] <= now and now >= state.busy_until and not state.response_bytes

    def _byte(self, sent: int, now: int) -> bytes:
        state = self.state
        if not self._spi_mode:
            answer = self._undriven(1)
        elif state.response_bytes:
            response = bytes(state.response[: state.response_bytes])
            answer = response[:1]
            self._respond(response[1:])
        elif now < state.busy_until:
            answer = b"\x00"
        elif self._out and self._out[0][0] <= now:
            answer = self._give(1, now, 0)
        else:
            answer = b"\xff"
        if state.frame_bytes or (self._writing_to is None and sent & 0xC0 == 0x40):
            self._take_frame_byte(sent, now)
        elif self._writing_to is not None:
            self._write_token(sent, now)
        return answer

    def _take_frame_byte(self, sent: int, now: int) -> None:
        state = self.state
        state.frame[state.frame_bytes] = sent
        state.frame_bytes += 1
        if state.frame_bytes == FRAME_BYTES:
            state.frame_bytes = 0
            self._command(bytes(state.frame[:FRAME_BYTES]), now)

    def _give(self, count: int, now: int, byte_cycles: int) -> bytes:
        state = self.state
        _, chunk = self._out[0]
        given = chunk[len(chunk) - state.out_left :][:count]
        state.out_left -= len(given)
        state.out += len(given)
        if not state.out_left:
            self._given(now + len(given) * byte_cycles)
        return given

    def _write_token(self, token: int, now: int) -> None:
        if token == (START_MULTIPLE if self.state.multiple else START_BLOCK):
            self.state.missing = DATA_BYTES
        elif token == STOP_MULTIPLE and self.state.multiple:
            self._end_write(now, self.timing.write_stop_s)
        elif token & 0xC0 == 0x40:
            self._take_frame_byte(token, now)

    def _take_data(self, sent: bytes, now: int, byte_cycles: int) -> bytes:
        taken = sent[: self.state.missing]
        begin = DATA_BYTES - self.state.missing
        self.state.data[begin : begin + len(taken)] = taken
        self.state.missing -= len(taken)
        if not self.state.missing:
            self._programme(now + len(taken) * byte_cycles)
        return b"\xff" * len(taken)


class PythonSpiBus(SpiBus):
    """A bus to such a card."""

    POLLS = 8
    _card: PythonCard

    def poll(self, sent: bytes, begin: int, hz: float) -> tuple[bytes, int]:
        if sent == b"\xff":
            begin = self._skip_waiting(begin)
        else:
            self._state.polls = 0
        return self.move(sent, begin, hz), begin + self.duration(len(sent), hz)

    def _skip_waiting(self, begin: int) -> int:
        pending = self._card.pending_until(begin)
        self._state.polls = self._state.polls + 1 if pending is not None else 0
        if pending is None or self._state.polls <= self.POLLS:
            return begin
        self._state.polls = 0
        self._clock.advance_to(pending)
        return pending
