# SPDX-License-Identifier: Apache-2.0
"""Profiles on the emulated nRF52840: how long DS-CNN's operators take, and what a bad line and resets change.

    python -m benchmarks.harness.emulated

The goals: DS-CNN's operators in under two minutes; with 1 % of the protocol's bytes flipped, dropped or doubled in both
directions and three resets, the same rows as a clean run. Needs arm-none-eabi-gcc and the emulator and planner extras.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from poet_harness.emulation import open_emulated_board
from poet_harness.emulation.meter import EmulatedMeter
from poet_harness.firmware import build
from poet_harness.measuring.measure import Effort
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration, from_model
from poet_harness.profiling.outcome import Outcome
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_profiles.boards import load_board
from poet_profiles.profile import ProfileWriter, read_profile

from tests.support.harness.simulated_device import Noise

BOARD = load_board("nrf52840")
MODEL = "mlperf_ds_cnn"
EAGER = Patience(acknowledge_s=0.05, answer_s=0.5, attempts=10)
RESETS = 3
GOAL_S = 120.0
COMPARED = ("time_s", "energy_j", "idle_power_w")


@dataclass
class BadLine:
    """One percent of the bytes damaged, in both directions."""

    to_board: Noise = field(default_factory=lambda: Noise(0.01, seed=1))
    to_host: Noise = field(default_factory=lambda: Noise(0.01, seed=2))

    def host_to_board(self, byte: int) -> bytes:
        return self.to_board(bytes((byte,)))

    def board_to_host(self, byte: int) -> bytes:
        return self.to_host(bytes((byte,)))


def profile(
    image: Path, folder: Path, wanted: list[Configuration], line: BadLine | None, resets: int
) -> tuple[pd.DataFrame, Outcome, float]:
    """Rows, outcome, and seconds taken. The board is reset before evenly spread configurations."""
    folder.mkdir()
    moments = {len(wanted) * (number + 1) // (resets + 1) for number in range(resets)}
    start_s = time.perf_counter()
    with (
        open_emulated_board(BOARD, image, folder / "card.img", line) as opened,
        ProfileWriter(folder / "p.csv") as rows,
    ):
        device = Device(Link(opened.serial, "emulated", EAGER))
        device.format()

        def began(item: Configuration) -> None:
            if wanted.index(item) in moments:
                opened.reset()

        outcome = BoardProfiler(device, EmulatedMeter(opened, BOARD.voltage_v), BOARD, Effort()).run(
            wanted, rows, began
        )
    return read_profile(folder / "p.csv"), outcome, time.perf_counter() - start_s


def main() -> None:
    image, wanted = build(BOARD), from_model(MODEL, BOARD.name)
    with tempfile.TemporaryDirectory() as root:
        clean, _, clean_s = profile(image, Path(root) / "clean", wanted, None, 0)
        verdict = f"goal {GOAL_S:.0f} s: {'met' if clean_s < GOAL_S else 'MISSED'}"
        print(f"{MODEL} on the emulated {BOARD.name}: {len(clean)} rows in {clean_s:.1f} s ({verdict})")
        line = BadLine()
        rough, outcome, rough_s = profile(image, Path(root) / "rough", wanted, line, RESETS)
    same = list(clean["params"]) == list(rough["params"]) and list(clean["op"]) == list(rough["op"])
    clean, rough = (rows[rows["op"] != "idle"] for rows in (clean, rough))  # its energy is zero by definition
    largest = max(float(np.max(np.abs(rough[column].to_numpy() / clean[column].to_numpy() - 1))) for column in COMPARED)
    print(
        f"with {line.to_board.damaged} bytes damaged to the board, {line.to_host.damaged} to the host, and "
        f"{outcome.resets} resets: {rough_s:.1f} s, rows {'the same' if same else 'DIFFER'}, "
        f"largest difference of a time or energy {largest:.1e}"
    )


if __name__ == "__main__":
    main()
