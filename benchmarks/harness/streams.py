# SPDX-License-Identifier: Apache-2.0
"""How much faster than real time the meters' streams are decoded and cut into windows, and in how much memory.

    python -m benchmarks.harness.streams [--minutes 60]

A PPK2 sends 100,000 samples a second, a Joulescope 2,000,000. Each stream is made once, block by block, and fed
through the same code that a profile uses; only the decoding and windowing is timed, as processor time of this one
process. The goal is 20 times real time on one core, and memory that does not grow over an hour of stream.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from poet_harness.meters.joulescope import Pairing
from poet_harness.meters.ppk2 import Calibration, Decoder
from poet_harness.meters.sampled import WindowIntegrator

from tests.support.harness import simulated_ppk2

GOAL = 20.0


@dataclass(frozen=True)
class Figure:
    """What one stream gave."""

    stream: str
    stream_s: float
    spent_s: float
    windows: int
    growth_mb: float

    def row(self) -> str:
        speed = self.stream_s / self.spent_s
        verdict = "met" if speed >= GOAL else "MISSED"
        return (
            f"{self.stream:28} {self.stream_s:8.0f} s {speed:10.1f} x real time (goal {GOAL:.0f} x: {verdict}) "
            f"{self.windows:8} windows, memory grew by {self.growth_mb:.1f} MB"
        )


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(
    stream: str, seconds: float, block_s: float, feed: Callable[[int], None], windows: Callable[[], int]
) -> Figure:
    """Feed a stream of a given length; memory is compared with that after the first tenth."""
    blocks = int(seconds / block_s)
    settled = 0.0
    start_s = time.process_time()
    for number in range(blocks):
        feed(number)
        if number == blocks // 10:
            settled = peak_mb()
    return Figure(stream, blocks * block_s, time.process_time() - start_s, windows(), peak_mb() - settled)


def ppk2(seconds: float) -> Figure:
    """Blocks of 10 ms, as USB and the kernel hand them over; a window of 4 ms in each."""
    samples = 1000
    times = np.arange(64 * samples)
    line = times % samples > 600
    stream = simulated_ppk2.words(5e-3 + 4e-3 * line, line, first=0).reshape(64, samples)
    blocks = [block.tobytes() for block in stream]
    decoder = Decoder(Calibration.parse(simulated_ppk2.METADATA), 3.0)
    integrator = WindowIntegrator(1e-5)

    def feed(number: int) -> None:
        integrator.feed(*decoder.feed(blocks[number % 64]))
        if len(integrator.windows) > 1000:
            taken.append(len(integrator.windows))
            integrator.windows.clear()

    taken: list[int] = []
    figure = timed("PPK2, 100 kS/s", seconds, 0.01, feed, lambda: sum(taken) + len(integrator.windows))
    assert integrator.lost == 0
    return figure


def joulescope(seconds: float) -> Figure:
    """Blocks of 50 ms of power and of the packed input; a window of 20 ms in each."""
    rate, samples = 2_000_000, 100_000
    power = np.full(samples, 0.01, np.float32)
    bits = np.packbits((np.arange(samples) > 60_000).astype(np.uint8), bitorder="little")
    pairing = Pairing()
    taken: list[int] = []

    def feed(number: int) -> None:
        common = {"sample_id": number * samples, "sample_rate": rate, "decimate_factor": 1}
        pairing.power({**common, "data": power})
        pairing.line({**common, "data": bits})
        if pairing.integrator and len(pairing.integrator.windows) > 100:
            taken.append(len(pairing.integrator.windows))
            pairing.integrator.windows.clear()

    return timed("Joulescope, 2 MS/s", seconds, 0.05, feed, lambda: sum(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=5.0, help="length of each stream")
    seconds = 60 * parser.parse_args().minutes
    for stream in (ppk2, joulescope):
        print(stream(seconds).row(), flush=True)


if __name__ == "__main__":
    main()
