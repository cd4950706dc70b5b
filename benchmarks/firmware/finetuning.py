# SPDX-License-Identifier: Apache-2.0
"""Fine-tuning on both emulated boards: frozen weights in flash, a trained head or last block.

    .venv/bin/python -m benchmarks.firmware.finetuning [--seconds 7] [--out DIR] [MODEL ...]

Each network is planned from the shipped profile and trained in place for a profile of its own. Planned again with that,
it trains some steps on the emulated board. What the board did is compared:

- loss, gradients and trained weights with the same kernels on this computer: every bit;
- loss and gradients of each step with PyTorch's from the same weights: within 1e-5 of the largest element. Where
  trained weights lie on the card no gradient is ever whole: then the losses, and the weights in the end, are compared
  with those of PyTorch's own training;
- energy and time of each step but the traced one with the prediction: within 2 %; peak RAM: to the byte.

RAM and flash in all are what the linker placed, and of RAM the resident tensors and the arena up to its highest
address. Exits 1 if anything is off, or larger than the board, or than the limits of a step with frozen layers on int8.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray
from poet_profiles.boards import load_board
from poet_profiles.graph.file import read_graph
from poet_profiles.graph.sizes import constant_bytes
from poet_profiles.schedule.file import read_schedule
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

from benchmarks.firmware.training import RAM_BEGIN, end_of_firmware


@dataclass(frozen=True)
class Case:
    """``on_int8``: the frozen layers; ``most`` are seconds, joules and bytes of RAM of the schedule."""

    board: str
    model: str
    batch: int
    steps: int
    on_int8: bool = False
    most: tuple[float, float, int] = (inf, inf, 1 << 32)

    @property
    def frozen(self) -> list[str]:
        return ["--frozen", "int8"] if self.on_int8 else []

    @property
    def name(self) -> str:
        return f"{self.board}, {self.model}, batch {self.batch}{', int8' if self.on_int8 else ''}"


CASES = (
    Case("nrf52840", "finetune_cnn", 8, 10),
    Case("mkr1000", "finetune_cnn_small", 2, 10),
    Case("nrf52840", "mobilenet_v1_last_block", 1, 4),
    Case("mkr1000", "finetune_cnn_small", 2, 10, on_int8=True, most=(0.13, 1.6e-3, 14 * 1024)),
    Case("mkr1000", "finetune_cnn", 2, 10, on_int8=True),
    Case("nrf52840", "finetune_cnn", 8, 10, on_int8=True),
)
RATE = "0.02"
PYTORCH_TOLERANCE = 1e-5
PREDICTION_TOLERANCE = 0.02


def call(folder: Path, program: str, *arguments: str) -> None:
    """One command line in a folder; ends the benchmark if it fails."""
    command = [str(Path(sys.executable).parent / program), *arguments]
    environment = {**os.environ, "PLATFORMIO_BUILD_DIR": str(folder / "build")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"finetuning: {' '.join(command)}\n{done.stderr}")


def train(folder: Path, case: Case, seconds: int) -> None:
    """Both plans, and the same training on the emulated board, on this computer and by PyTorch."""
    board, model = case.board, ["--model", case.model, "--batch", str(case.batch)]
    training = ["--data", "data.npz", "--lr", RATE, "--steps", str(case.steps)]
    emulated = ["--board", board, "--emulate", *training]
    host = ["--board", "native", "--plan", "plan", *training]
    planning = [*model, *case.frozen, "--features", "whole", "--time-limit", str(seconds)]
    call(folder, "poet-plan", "data", *model, "--steps", str(case.steps), "--out", "data.npz")
    shipped = ["--profile", board]
    call(folder, "poet-plan", *planning, *shipped, "--out", "first")
    call(folder, "poet-harness", "flash", "--board", board, "--emulate", "--plan", "first")
    call(folder, "poet-harness", "profile", *emulated, "--plan", "first", "--out", "own.csv")
    call(folder, "poet-plan", *planning, "--profile", "own.csv", *shipped, "--out", "plan")
    call(folder, "poet-harness", "flash", "--board", board, "--emulate", "--plan", "plan")
    results = ["--save", "board.npz", "--trained", "board.safetensors", "--out", "board.csv"]
    call(folder, "poet-harness", "run", *emulated, "--plan", "plan", *results)
    call(folder, "poet-harness", "flash", "--board", "native", "--plan", "plan")
    call(folder, "poet-harness", "run", *host, "--save", "host.npz", "--trained", "host.safetensors")
    follow = [] if read_graph(folder / "plan/graph.json").kept else ["--follow", "board.npz"]
    reference = ["--data", "data.npz", "--lr", RATE, "--out", "pytorch.npz", *follow]
    call(folder, "poet-plan", "reference", "--model", case.model, *case.frozen, *reference)


def differing(folder: Path) -> list[str]:
    """Tensors of which a bit is not the host's."""
    board, host = (results(folder, who) for who in ("board", "host"))
    return sorted(name for name in {**board, **host} if board[name].tobytes() != host[name].tobytes())


def results(folder: Path, who: str) -> dict[str, NDArray[Any]]:
    """Loss and gradients of every step, and the weights in the end."""
    weights = load_file(folder / f"{who}.safetensors")
    return {**dict(np.load(folder / f"{who}.npz")), **{f"trained {name}": one for name, one in weights.items()}}


def off_pytorch(folder: Path) -> float:
    """How far loss and gradients, or weights in the end, are off at most, relative to the largest element of each."""
    board, exact = (dict(np.load(folder / f"{who}.npz")) for who in ("board", "pytorch"))
    if set(board) == {"loss"}:
        start, trained = np.load(folder / "data.npz"), load_file(folder / "board.safetensors")
        for name in [name for name in exact if name != "loss"]:
            weight = name.removesuffix(".grad")
            board[weight] = trained[weight][None]
            exact[weight] = (start[weight] - np.float32(RATE) * exact.pop(name).sum(0))[None]
    return max(
        float(np.abs(found - wanted).max() / np.abs(wanted).max())
        for name in exact
        for found, wanted in zip(board[name], exact[name], strict=True)
    )


def off_prediction(folder: Path) -> float:
    """How far energy and time of a step are off at most."""
    with (folder / "board.csv").open() as file:
        rows = list(csv.DictReader(file))
    steps = [row for row in rows if row["do"] == "step" and row["training_step"] != "0"]
    ratios = [
        float(row[f"observed_{what}"]) / float(row[f"predicted_{what}"])
        for row in steps
        for what in ("time_s", "energy_j")
    ]
    return max(abs(ratio - 1) for ratio in ratios)


def flash_bytes(image: Path) -> int:
    """What the image takes of the flash, the constants included."""
    with image.open("rb") as file:
        segments = [one for one in ELFFile(file).iter_segments() if one["p_type"] == "PT_LOAD"]
        return sum(one["p_filesz"] for one in segments)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="built-in; default are all")
    parser.add_argument("--seconds", type=int, default=7, help="to plan for, each")
    parser.add_argument("--out", type=Path, help="where to keep plans, profiles and results")
    options = parser.parse_args()
    table = Table(
        *("board, model", "frozen, in flash", "flash in all", "resident", "RAM in all", "energy", "time"),
        *("off prediction", "bits of the host", "off PyTorch"),
        title="fine-tuning (emulated)",
    )
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for case in (case for case in CASES if not options.models or case.model in options.models):
            board, folder = load_board(case.board), (options.out or Path(scratch)) / case.name.replace(", ", "-")
            folder.mkdir(parents=True)
            train(folder, case, options.seconds)
            graph, schedule = read_graph(folder / "plan/graph.json"), read_schedule(folder / "plan/schedule.json")
            image = folder / "plan" / f"{case.board}.elf"
            ram = end_of_firmware(image) - RAM_BEGIN + graph.resident_bytes + schedule.arena_bytes
            flash, bits, pytorch = flash_bytes(image), differing(folder), off_pytorch(folder)
            prediction = off_prediction(folder)
            good = good and not bits and ram <= board.ram_bytes and flash <= board.flash_bytes
            good = good and pytorch <= PYTORCH_TOLERANCE and prediction <= PREDICTION_TOLERANCE
            needs = (schedule.time_s, schedule.energy_j, schedule.peak_bytes)
            good = good and all(found <= most for found, most in zip(needs, case.most, strict=True))
            sizes = (f"{size:,}" for size in (constant_bytes(graph), flash, graph.resident_bytes, ram))
            costs = (f"{schedule.energy_j * 1e3:.3f} mJ", f"{schedule.time_s:.3f} s", f"{prediction:.2%}")
            agreement = (bits[0] if bits else "all", f"{pytorch:.1e}")
            table.add_row(case.name, *sizes, *costs, *agreement)
    Console(width=200).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
