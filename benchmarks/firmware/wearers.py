# SPDX-License-Identifier: Apache-2.0
"""The watch's network is fine-tuned for each of ten wearers on the emulated nRF52840, and asked before and after.

    .venv/bin/python -m benchmarks.firmware.wearers

Each wearer begins with the same pretrained weights, shows 56 windows of his left arm, and is tested with windows of
later: 30 epochs by `poet-harness train`, in shuffled batches of eight. The network was pretrained with the right arms
of eight of them. Exits 1 if fewer than 92 % are right after, in the mean of the ten. It needs the package seglearn, and
takes three minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.watch import EPOCHS, EXAMPLE, load_example

WEARERS = range(1, 11)
LEAST_RIGHT = 0.92
BIN = Path(sys.executable).parent


def call(command: str) -> str:
    """What a command of poet prints, run where it finds `watch:network`."""
    program, *arguments = command.split()
    done = subprocess.run([str(BIN / program), *arguments], cwd=EXAMPLE, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"wearers: {command}\n{done.stderr}")
    return done.stdout


def evaluated(board: str, later: Path, weights: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(
        call(f"poet-harness eval {board} --samples {later} --scale 1/1024 --weights {weights} --json")
    )
    return answer


def main() -> int:
    watch = load_example()
    table = Table("wearer", "windows", "right before", "right after", title=f"{EPOCHS} epochs each (emulated)")
    shares: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        plan, shown, later, begin = (folder / name for name in ("plan", "shown.npz", "later.npz", "begin.npz"))
        network = "--model watch:network --batch 8"
        optimizer = "--optimizer sgd --momentum 0.9 --clip-value 0.2"
        call(f"poet-plan {network} --profile nrf52840 {optimizer} --out {plan}")
        call(f"poet-plan data {network} --steps 1 --out {begin}")
        board = f"--board nrf52840 --emulate --plan {plan}"
        call(f"poet-harness flash {board}")
        for wearer in WEARERS:
            for path, (windows, labels) in ((shown, watch.labelled_by(wearer)), (later, watch.tested_with(wearer))):
                np.savez(path, x=windows, y=labels)
            before = evaluated(board, later, watch.PRETRAINED)
            trained = folder / f"{wearer}.safetensors"
            call(
                f"poet-harness train {board} --data {begin} --weights {watch.PRETRAINED} --samples {shown}"
                f" --scale 1/1024 --to-card --epochs {EPOCHS} --shuffle 1 --lr 0.01 --trained {trained}"
            )
            after = evaluated(board, later, trained)
            shares.append((before["accuracy"], after["accuracy"]))
            right = (f"{one['correct']}, {one['accuracy']:.1%}" for one in (before, after))
            table.add_row(str(wearer), str(after["labels"]), *right)
    means = np.mean(shares, axis=0)
    table.add_section()
    table.add_row("mean", "", *(f"{mean:.1%}" for mean in means))
    Console().print(table)
    return int(means[1] < LEAST_RIGHT)


if __name__ == "__main__":
    sys.exit(main())
