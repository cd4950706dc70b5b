# SPDX-License-Identifier: Apache-2.0
"""The whole loop on the emulated nRF52840: profile, plan, flash, train a step, compare with PyTorch.

Runs the toolkit's own command lines, one after the other, and prints each before it runs. Everything it writes is
under ``out/demo``. Needs no hardware: what it reports of time and energy is `emulated`.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
OUT = Path("out") / "demo"

BOARD = "nrf52840"
MODEL = "digits_cnn"
RAM = "216KB"
STEPS = 40
LEARNING_RATE = 0.1
BAD_INPUT = 2
NO_SCHEDULE = 3
TOLERANCE = 1e-5

Array = NDArray[np.float32]

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def run(*command: str, expect: int = 0, allow: int = 0) -> None:
    """Print a command, run it, and stop the demo if its exit code is neither the one expected nor the one allowed."""
    console.print(f"[cyan]$ {shlex.join(command)}[/cyan]")
    sys.stdout.flush()
    finished = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False)
    if finished.returncode not in (expect, allow or expect):
        sys.exit(f"demo: {command[0]} ended with {finished.returncode}, expected {expect}")


def train(board: str, plan: Path, data: Path, *options: str) -> Path:
    """Flash a plan, run the training steps, and return the file with losses and gradients."""
    saved = plan / f"{board}.npz"
    run("poet-harness", "flash", "--board", board, "--plan", str(plan), *options)
    run(
        *("poet-harness", "run", "--board", board, "--plan", str(plan), "--data", str(data)),
        *("--steps", str(STEPS), "--lr", str(LEARNING_RATE)),
        *("--out", str(plan / f"{board}.csv"), "--save", str(saved), *options),
    )
    return saved


def relative_difference(observed: Array, expected: Array) -> Array:
    """Largest difference of each step, relative to the largest entry of the expected tensor; shape (steps,)."""
    steps = len(expected)
    difference = np.abs(observed - expected).reshape(steps, -1).max(axis=1)
    return difference / np.abs(expected).reshape(steps, -1).max(axis=1)


def compare(board: Path, unlimited: Path, pytorch: Path) -> None:
    """Hold losses and gradients of the scheduled run against the unlimited run and against PyTorch."""
    observed, expected, reference = (dict(np.load(ROOT / path)) for path in (board, unlimited, pytorch))
    names = ["loss", *sorted(name for name in reference if name.endswith(".grad"))]
    differences = {name: relative_difference(observed[name], reference[name]) for name in names}
    equal = {name: np.array_equal(observed[name].view(np.uint32), expected[name].view(np.uint32)) for name in names}
    table = Table()
    table.add_column("")
    table.add_column("from PyTorch, relative\nfirst step", justify="right")
    table.add_column("\nmedian of steps", justify="right")
    table.add_column("bits of the\nunlimited run")
    for name in names:
        first, median = differences[name][0], np.median(differences[name])
        table.add_row(name, f"{first:.1e}", f"{median:.1e}", "equal" if equal[name] else "DIFFERENT")
    console.print(table)
    worst = np.max([differences[name] for name in names], axis=0)
    within = int((worst < TOLERANCE).sum())
    console.print(f"{within} of {worst.size} steps have every gradient within {TOLERANCE:.0e} of PyTorch's")
    if within < worst.size:
        # At a ReLU input or between two pooled values that differ by less than rounding, the derivative jumps, and
        # two correct implementations may stand on different sides of the jump.
        console.print("in the others a ReLU or a pooling stands within rounding of its kink")
    losses = observed["loss"].ravel()
    start, end = losses[:5].mean(), losses[-5:].mean()
    console.print(f"loss on the emulated board (mean of five steps): {start:.3f}, after {losses.size} steps {end:.3f}")
    if not all(equal.values()):
        sys.exit("demo: the scheduled run differs from the unlimited run")
    if max(worst[0], np.median(worst), differences["loss"].max()) > TOLERANCE:
        sys.exit(f"demo: differs from PyTorch by more than {TOLERANCE:.0e}")
    if not end < start:
        sys.exit("demo: the loss did not fall")


def main() -> None:
    start = time.monotonic()
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    graph, data, profile = OUT / "graph.json", OUT / "data.npz", OUT / f"{BOARD}.csv"
    plan, algorithm1, store_all = OUT / "plan", OUT / "algorithm1", OUT / "store_all"
    # Gradients with places of their own can be read back and compared; a step is cheaper without.
    common = ("poet-plan", "--profile", str(profile), "--model", MODEL, "--gradients", "resident")

    say("1. Build the firmware for the board")
    run("pio", "run", "--silent", "-e", BOARD)

    say("2. Profile the network's operators and the card's pages on the emulated board")
    run("poet-plan", "graph", "--model", MODEL, "--board", BOARD, "--out", str(graph))
    profile.unlink(missing_ok=True)
    run("poet-harness", "profile", "--board", BOARD, "--emulate", "--graph", str(graph), "--out", str(profile))

    say(f"3. Plan a training step within {RAM}")
    run(*common, "--ram", RAM, "--out", str(plan))
    say("   The same, by Algorithm 1 of the paper as it is printed")
    # On a slow machine it may have found no schedule by then: that is an answer, too.
    paper = ("--formulation", "paper", "--time-limit", "20", "--out", str(algorithm1))
    run(*common, "--ram", RAM, *paper, allow=NO_SCHEDULE)
    say("   The store-all schedule, every tensor kept until its last use, does not fit")
    run(*common, "--ram", RAM, "--strategy", "store-all", "--out", str(store_all), expect=NO_SCHEDULE)

    say("4. Flash the schedule and train on the emulated board")
    run("poet-plan", "data", "--model", MODEL, "--steps", str(STEPS), "--out", str(data))
    board_run = train(BOARD, plan, data, "--emulate")

    say("5. The same kernels with unlimited memory (on this computer), and PyTorch's autograd from the same weights")
    run(*common, "--ram", "16MB", "--strategy", "store-all", "--out", str(store_all))
    unlimited_run = train("native", store_all, data)
    console.print("the board itself has no room for the store-all schedule:")
    run("poet-harness", "flash", "--board", BOARD, "--plan", str(store_all), "--emulate", expect=BAD_INPUT)
    reference = OUT / "pytorch.npz"
    run(
        *("poet-plan", "reference", "--model", MODEL, "--data", str(data), "--lr", str(LEARNING_RATE)),
        *("--follow", str(board_run), "--out", str(reference)),
    )
    compare(board_run, unlimited_run, reference)
    console.print(f"\ndone in {time.monotonic() - start:.0f} s; pictures: {plan / 'schedule.png'}, {plan / 'ram.png'}")


if __name__ == "__main__":
    main()
