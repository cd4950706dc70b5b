# SPDX-License-Identifier: Apache-2.0
"""What an emulated board costs: processor time for each second that the board computes.

    poet-plan --profile nrf52840 --model wake:all_layers --batch 2 --gradients early --out plan
    python -m benchmarks.harness.emulated_work plan [--board nrf52840] [--runs 16]

Training steps and inferences side by side, with the batch or the sample that each is given over the serial line.
Goal: at most 1.0 of both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.files import read_plan


def cost(device: Device, given: dict[int, int], runs: int, work: Callable[[Device], float]) -> float:
    """Of giving noise to these tensors (bytes, by number), and of the work on it.

    ``work`` returns its seconds.
    """
    draw, begin_s, work_s = np.random.default_rng(0), time.process_time(), 0.0
    for _ in range(runs):
        for number, size in given.items():
            device.put(number, draw.standard_normal(size // 4).astype(np.float32).tobytes())
        work_s += work(device)
    return (time.process_time() - begin_s) / work_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path, help="a folder that poet-plan wrote, with an inference")
    parser.add_argument("--board", default="nrf52840")
    parser.add_argument("--runs", type=int, default=16)
    given = parser.parse_args()
    board, plan = load_board(given.board), read_plan(given.plan)
    residents, runs = plan.graph.residents, given.runs
    assert plan.inference is not None, "a plan without an inference"
    with (
        tempfile.TemporaryDirectory() as folder,
        open_emulated_board(board, build(board, given.plan), Path(folder) / "c.img") as emulated,
    ):
        device = Device(Link(emulated.serial, given.board, Patience(5.0, 600.0, 1)))
        for number, one in enumerate(residents):
            device.put(number, bytes(one.bytes))  # of zeros: labels stay, and are in range
        batch = {i: one.bytes for i, one in enumerate(residents) if one.kind == "input"}
        sample = {len(residents) + i: one.bytes for i, one in enumerate(plan.inference.own(plan.graph)[:-1])}
        steps = cost(device, batch, runs, lambda device: device.step(0.0, trace=False).work_s)
        inferences = cost(device, sample, runs, lambda device: device.infer().work_s)
    print(f"{given.board}: training {steps:.2f}, inference {inferences:.2f} seconds of processor time a second")


if __name__ == "__main__":
    main()
