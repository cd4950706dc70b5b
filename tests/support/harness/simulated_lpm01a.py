# SPDX-License-Identifier: Apache-2.0
"""An LPM01A on a pseudo-terminal: its shell, samples as text, time stamps and events, with losses on request."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

SAMPLE_HZ = 10_000
STAMP_EVERY = 1000
MOST_A = 0.059


def sample(current_a: float) -> str:
    """Four digits and an exponent, as the instrument writes a current."""
    exponent = 0
    while current_a < 1000 and exponent > -12:
        current_a *= 10
        exponent -= 1
    return f"{round(current_a):04d}{exponent:+03d}"


@dataclass
class SimulatedLpm01a:
    """The current over the time since ``start``, the falling edges of D7, and a range of samples that is never sent.

    Above 59 mA it stops, as the real one does, with its words or
    others. ``acquiring`` is what another program left running.
    """

    current_a: Callable[[float], float]
    falls_s: list[float]
    lost: range = range(0)
    commands: list[str] = field(default_factory=list)
    refuses: str = "-"
    acquiring: bool = False
    stops_with: str = "error: Overcurrent >59mA, dynamic acquisition stopped"

    def line(self, number: int) -> str:
        """What sample ``number`` brings on the wire."""
        text = "" if number in self.lost else sample(self.current_a(number / SAMPLE_HZ)) + "\r\n"
        if any(number == round(fall_s * SAMPLE_HZ) for fall_s in self.falls_s):
            text += "event 01 ris\r\n"
        if (number + 1) % STAMP_EVERY == 0:
            milliseconds = (number + 1) * 1000 // SAMPLE_HZ
            text += f"\r\nTimeStamp: {milliseconds // 1000:03d}s {milliseconds % 1000:03d}ms, buff 05%\r\n"
        return text


@contextlib.contextmanager
def plugged_in(instrument: SimulatedLpm01a) -> Iterator[str]:
    """Name of the port at which it answers."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    stop = threading.Event()
    thread = threading.Thread(target=_serve, args=(instrument, ours, stop), daemon=True)
    thread.start()
    yield os.ttyname(theirs)
    stop.set()
    thread.join(timeout=2)
    os.close(ours)
    os.close(theirs)


def _serve(instrument: SimulatedLpm01a, port: int, stop: threading.Event) -> None:
    since: float | None = time.monotonic() if instrument.acquiring else None
    sent = 0
    pending = b""
    while True:
        last = stop.is_set()
        # The kernel hands what the meter said last over a little later than its write returns.
        readable = select.select([port], [], [], 0.1 if last else 0.005)[0]
        if last and not readable:
            break
        if readable:
            *lines, pending = (pending + os.read(port, 4096)).split(b"\n")
            for command in (line.decode() for line in lines):
                instrument.commands.append(command)
                answer = "error" if command.startswith(instrument.refuses) else "ack"
                _write(port, f"PowerShield > {answer} {command}\r\n".encode(), stop)
                since, sent = (
                    (time.monotonic(), 0) if command == "start" else (None if command == "stop" else since, sent)
                )
        if since is not None:
            due = int((time.monotonic() - since) * SAMPLE_HZ)
            above = next((n for n in range(sent, due) if instrument.current_a(n / SAMPLE_HZ) > MOST_A), None)
            text = "".join(instrument.line(number) for number in range(sent, due if above is None else above))
            if above is not None:
                since, text = None, f"{text}{instrument.stops_with}\r\n"
            _write(port, text.encode(), stop)
            sent = due


def _write(port: int, data: bytes, stop: threading.Event) -> None:
    while data and not stop.is_set():
        select.select([], [port], [], 0.05)
        with contextlib.suppress(BlockingIOError):
            data = data[os.write(port, data) :]
