# SPDX-License-Identifier: Apache-2.0
"""A PPK2 on a pseudo-terminal: its commands, its metadata, and words at 100,000 a second, with faults on request."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SAMPLE_HZ = 100_000
RESISTANCES = (1031.64, 101.65, 10.15, 0.94, 0.043)
OFFSETS = (12.0, 9.0, 7.0, 5.0, 3.0)
METADATA = (
    "Calibrated: 1\n"
    + "".join(f"R{i}: {value}\nO{i}: {OFFSETS[i]}\nGS{i}: 0.0\nGI{i}: 1.0\n" for i, value in enumerate(RESISTANCES))
    + "".join(f"S{i}: -nan\nI{i}: 0.0\nUG{i}: 1.0\n" for i in range(5))
    + "VDD: 3000\nHW: 9173\nmode: 1\nIA: 56\nEND\n"
)
BLOCK = 1000
ARGUMENTS = {0x11: 1, 0x0C: 1, 0x0D: 2}


def words(current_a: NDArray[np.float64], line: NDArray[np.bool_], first: int) -> NDArray[np.uint32]:
    """Words as the instrument sends them: the finest range that can carry each current, and the counter."""
    volts = 1.8 / 163840
    adc = np.stack([(current_a * r / volts + o) / 4 for r, o in zip(RESISTANCES, OFFSETS, strict=True)])
    ranges = np.argmax(adc < (1 << 14) - 1, axis=0)
    value = np.round(adc[ranges, np.arange(len(current_a))]).astype(np.uint32)
    counter = ((first + np.arange(len(current_a))) % 64).astype(np.uint32)
    return value | ranges.astype(np.uint32) << 14 | counter << 18 | line.astype(np.uint32) << 24


@dataclass
class SimulatedPpk2:
    """The supply current and the window line as functions of the time since ``start``; ``damage`` changes a block."""

    current_a: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    line: Callable[[NDArray[np.float64]], NDArray[np.bool_]]
    damage: Callable[[int, bytes], bytes | None] = lambda _block, data: data
    commands: list[int] = field(default_factory=list)
    silent: bool = False
    metadata: str = METADATA


@contextlib.contextmanager
def plugged_in(instrument: SimulatedPpk2) -> Iterator[str]:
    """Name of the port at which it answers."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    stop = threading.Event()
    thread = threading.Thread(target=_serve, args=(instrument, ours, stop), daemon=True)
    thread.start()
    yield os.ttyname(theirs)
    stop.set()
    thread.join(timeout=2)
    os.close(theirs)


def _serve(instrument: SimulatedPpk2, port: int, stop: threading.Event) -> None:
    streaming_since: float | None = None
    sent = 0
    with contextlib.suppress(OSError):
        while True:
            last = stop.is_set()
            # The kernel hands what the meter said last over a little later than its write returns.
            readable, _, _ = select.select([port], [], [], 0.1 if last else 0.001)
            if last and not readable:
                break
            if readable:
                received = os.read(port, 64)
                instrument.commands += received
                for command in _without_arguments(received):
                    if command == 0x19 and not instrument.silent:
                        os.write(port, instrument.metadata.encode())
                    if command == 0x06 and not instrument.silent:
                        streaming_since, sent = time.monotonic(), 0
                    if command == 0x07:
                        streaming_since = None
            while streaming_since is not None and (time.monotonic() - streaming_since) * SAMPLE_HZ >= sent + BLOCK:
                times_s = (sent + np.arange(BLOCK)) / SAMPLE_HZ
                data = words(instrument.current_a(times_s), instrument.line(times_s), sent).tobytes()
                damaged = instrument.damage(sent // BLOCK, data)
                if damaged is None:
                    os.close(port)
                    return
                _write(port, damaged, stop)
                sent += BLOCK
                if select.select([port], [], [], 0)[0]:
                    break
    with contextlib.suppress(OSError):
        os.close(port)


def _without_arguments(received: bytes) -> Iterator[int]:
    left = iter(received)
    for command in left:
        yield command
        for _ in range(ARGUMENTS.get(command, 0)):
            next(left)


def _write(port: int, data: bytes, stop: threading.Event) -> None:
    """Write with an eye on ``stop``: a pseudo-terminal that nobody reads would block for good."""
    os.set_blocking(port, False)
    while data and not stop.is_set():
        select.select([], [port], [], 0.05)
        with contextlib.suppress(BlockingIOError):
            data = data[os.write(port, data) :]
