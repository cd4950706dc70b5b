# SPDX-License-Identifier: Apache-2.0
"""ST X-NUCLEO-LPM01A: supplies the board and measures its current; commands and samples are lines of text.

The board's window line goes to D7, whose falling edge the instrument reports in the stream. A window ends there and
is as long as the board says. A sample is a mantissa of four digits and a decimal exponent (``6409-07`` is 640.9 uA);
time stamps in the stream say how many samples there should have been.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools.list_ports_common import ListPortInfo

from ..ports import described, ports
from .intervals import cut
from .meter import Mark, MeterError, Window
from .recorded import Recording
from .streaming import StreamingMeter, open_instrument

USB_ID = (0x0483, 0x5740)
BAUD = 3_686_400
# The most that the text format carries with room to spare; the instrument sums up finer than that.
SAMPLE_HZ = 10_000
# All that the last program may have left otherwise. The supply is forced on: with "auto" it is there during a recording
# alone, and the board would start anew at each.
SETTINGS = (
    "acqmode dyn",
    "funcmode optim",
    "trigsrc sw",
    "trigdelay 0",
    f"freq {SAMPLE_HZ // 1000}k",
    "acqtime inf",
    "output current",
    "format ascii_dec",
    "eventsrc d7 fal",
    "pwr on",
)
# Of the dynamic mode; above 59 mA the instrument ends it (ST UM2243).
MOST_A = 0.05
LOWEST_V, HIGHEST_V = 1.8, 3.3

STAMP_S = 1e-3  # resolution of a time stamp

SAMPLE = re.compile(rb"(\d{4})([+-]\d\d)")
STAMP = re.compile(rb"TimeStamp: *(\d+)s (\d+)ms, buff (\d+)%")
EVENT = re.compile(rb"event +\d+ +(ris|fal)")
# "error: Overcurrent >59mA, dynamic acquisition stopped" has been seen; answers to commands stand after a prompt.
TROUBLE = re.compile(rb"(?:PowerShield *> *)?(err\w*\b.*|.*over[- ]?current.*)", re.IGNORECASE)
WORD = re.compile(rb"[A-Za-z]{3}")  # no piece of a sample


class Transcript:
    """What the instrument has sent since the start: samples with their times, and events.

    Attributes
    ----------
    times_s, current_a : list of float
        Samples that arrived; time counts from the first. A stamp that is further than the samples before it moves the
        samples after it: what is missing stays a gap.
    events_s : list of float
        Times of the window line's falling edges.
    losses : list of (float, float, int)
        Between two stamps, how many samples never arrived: somewhere in there.
    stamped_s : float
        Up to here it is known what was lost.
    trouble : str
        What the instrument said was wrong; empty if nothing.
    said : str
        The last of its words that are none of these.
    went_back : bool
        A stamp was before an earlier one: the instrument's counter has wrapped, or begun anew.
    """

    def __init__(self, sample_hz: float) -> None:
        self.times_s: list[float] = []
        self.current_a: list[float] = []
        self.events_s: list[float] = []
        self.losses: list[tuple[float, float, int]] = []
        self.stamped_s = 0.0
        self.went_back = False
        self.trouble = self.said = ""
        self._period_s = 1 / sample_hz
        self._next_s = 0.0
        self._first_stamp: tuple[float, float] | None = None

    def line(self, line: bytes) -> None:
        """Take one line."""
        if found := SAMPLE.fullmatch(line):
            self.times_s.append(self._next_s)
            self.current_a.append(int(found[1]) * 10.0 ** int(found[2]))
            self._next_s += self._period_s
        elif EVENT.search(line):
            self.events_s.append(self._next_s)
        elif found := STAMP.search(line):
            self._stamp(int(found[1]) + int(found[2]) / 1000)
        elif found := TROUBLE.fullmatch(line):
            self.trouble = self.trouble or found[1].decode(errors="replace")
        elif WORD.search(line) and b" ack " not in line:
            self.said = line.decode(errors="replace")

    def lost(self, start_s: float, end_s: float) -> int:
        """How many samples may be missing between two instants."""
        return sum(count for since_s, until_s, count in self.losses if since_s < end_s and until_s > start_s)

    def _stamp(self, stamp_s: float) -> None:
        if self._first_stamp is None:
            self._first_stamp = (stamp_s, self._next_s)
        first_s, then_s = self._first_stamp
        due_s = then_s + stamp_s - first_s
        self.went_back |= due_s < self.stamped_s - STAMP_S
        # Stamps are whole milliseconds: a smaller difference is rounding, not loss.
        if due_s - self._next_s > max(STAMP_S, self._period_s):
            self.losses.append((self.stamped_s, due_s, round((due_s - self._next_s) / self._period_s)))
            self._next_s = due_s
        self.stamped_s = self._next_s


class Lpm01aMeter(StreamingMeter):
    """An LPM01A on a serial port, set to the board's voltage.

    Raises
    ------
    UserError
        With exit code 4, if nothing that speaks its shell answers.
    """

    # The millisecond by which its time stamps are rounded is a thousandth of it.
    shortest_window_s = 1.0
    most_a = MOST_A

    def __init__(self, port: str, board: Board) -> None:
        if not LOWEST_V <= board.voltage_v <= HIGHEST_V:
            raise UserError(
                f"LPM01A: supplies {LOWEST_V:g} to {HIGHEST_V:g} V, and {board.name} takes {board.voltage_v:g} V"
            )
        self.voltage_v = board.voltage_v
        self.identity = f"LPM01A at {port}"
        self._pending = b""
        super().__init__(open_instrument(port, BAUD))
        try:
            self._port.reset_input_buffer()
            self._command("htc")
            self._stop()
            self._command(f"volt {round(board.voltage_v * 1000)}m")
            for setting in SETTINGS:
                self._command(setting)
        except (OSError, ValueError) as error:
            raise UserError(f"{port}: no LPM01A answers there ({error})", NO_DEVICE) from None

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        transcript = self._transcript
        # Only the next stamp says whether samples before the last event are missing.
        self._finish(
            lambda: (
                bool(transcript.trouble)
                or (
                    len(transcript.events_s) >= len(marks)
                    and transcript.stamped_s > transcript.events_s[len(marks) - 1]
                )
            )
        )
        if transcript.trouble:
            raise MeterError(f"the instrument says: {transcript.trouble}")
        events_s = transcript.events_s
        if len(events_s) != len(marks):
            said = f"; it said {transcript.said!r}" if transcript.said else ""
            raise MeterError(
                f"{len(events_s)} windows seen, {len(marks)} expected{said}; is the window line on D7, and 3.3 V high?"
            )
        if transcript.went_back:
            raise MeterError("its time stamps went back: it is not known what was lost")
        if transcript.stamped_s <= events_s[-1]:
            raise MeterError("no time stamp after the window: it is not known what was lost")
        power_w = np.array(transcript.current_a) * self.voltage_v
        recording = Recording.of_power(np.array(transcript.times_s), power_w)
        windows = []
        for end_s, mark in zip(events_s, marks, strict=True):
            window = cut(recording, end_s - mark.device_s, end_s, 1 / SAMPLE_HZ, math.inf)
            lost = transcript.lost(end_s - mark.device_s, end_s)
            windows.append(replace(window, samples=window.samples + lost, lost=lost))
        return windows

    def close(self) -> None:
        self._halt()
        try:
            self._port.write(b"hrc\n")
        except OSError:
            return
        self._port.close()

    def _start(self) -> None:
        self._transcript = Transcript(SAMPLE_HZ)
        self._command("start")

    def _take(self, data: bytes) -> bool:
        for line in self._lines(data):
            self._transcript.line(line)
        return self._transcript.stamped_s > 0 or bool(self._transcript.trouble)

    def _stop(self) -> None:
        self._port.write(b"stop\n")
        self._quiet()

    def _lines(self, data: bytes) -> list[bytes]:
        *lines, self._pending = (self._pending + data).split(b"\n")
        return [line.strip(b"\r\0 ") for line in lines]

    def _quiet(self) -> None:
        """Read what is still under way, until nothing comes for a moment."""
        while self._port.read(max(1, self._port.in_waiting)):
            pass
        self._pending = b""

    def _command(self, text: str) -> None:
        self._port.write(text.encode() + b"\n")
        deadline_s = time.monotonic() + 2.0
        while time.monotonic() < deadline_s:
            for line in self._lines(self._port.read(max(1, self._port.in_waiting))):
                if found := TROUBLE.fullmatch(line):
                    raise ValueError(f"{text!r} refused: {found[1].decode(errors='replace')}")
                if b"ack" in line:
                    return
        raise ValueError(f"no answer to {text!r}")


def find() -> list[str]:
    """Ports of the connected instruments (ST's virtual port: other ST boards have the same USB id)."""
    return [str(port.device) for port in _ports()]


def open_lpm01a(address: str, board: Board) -> Lpm01aMeter:
    """Open the instrument at a port, or the only one."""
    found = _ports()
    if not address and len(found) != 1:
        seen = ", ".join(described(port) for port in found) or "no port"
        raise UserError(f"LPM01A: found at {seen}; name its port as --meter lpm01a:PORT", NO_DEVICE)
    return Lpm01aMeter(address or str(found[0].device), board)


def _ports() -> list[ListPortInfo]:
    return [
        port
        for port in ports()
        if (port.vid, port.pid) == USB_ID and "powershield" in f"{port.description} {port.product}".lower()
    ]
