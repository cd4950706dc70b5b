# SPDX-License-Identifier: Apache-2.0
"""A training step planned into less RAM than it needs, and run on the emulated nRF52840, with the same bits.

Runs the toolkit's own command lines, one after the other, and prints each before it runs. Everything it writes is
under ``out/demo``. Needs no hardware: what it reports of time and energy is `emulated`. With ``--full`` it goes on with
the profile that the plan rests on, the paper's own method, and what is refused. With ``--board=riscv`` an Arduino
sketch on a RISC-V core in QEMU is profiled, planned for and trained.
"""

from __future__ import annotations

import argparse
import csv
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from poet_planner.report.pictures import NAMES as PICTURES
from poet_planner.report.quantities import energy_text
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.summary import read_summary
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
OUT = Path("out") / "demo"
PLAN, STORE_ALL, DATA = OUT / "plan", OUT / "store_all", OUT / "data.npz"
TECHNIQUES = OUT / "techniques"

BOARD, SKETCH = "nrf52840", "riscv"
MODEL = "digits_cnn"
# The model's training graph, of the whole batch and of one sample, with costs from the shipped profile of the board:
# `make profiles` writes both.
BATCH, MICRO_BATCH = Path("demo") / "graph.json", Path("demo") / "micro_batch.json"
RAM = "48KB"
UNLIMITED = "16MB"
STEPS = 20
LEARNING_RATE = 0.1
BAD_INPUT = 2
NO_SCHEDULE, NOT_FOUND = 3, 5
TOLERANCE = 1e-5

Array = NDArray[np.float32]
Row = dict[str, str]

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)


def say(text: str) -> None:
    console.print(f"\n[bold]{text}[/bold]")


def run(*command: str, expect: int = 0, allow: tuple[int, ...] = ()) -> None:
    """Print a command, run it, and stop the demo if its exit code is neither the one expected nor one allowed."""
    console.print(f"[cyan]$ {shlex.join(command)}[/cyan]", soft_wrap=True)
    sys.stdout.flush()
    finished = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=ROOT, check=False)
    if finished.returncode not in (expect, *allow):
        sys.exit(f"demo: {command[0]} ended with {finished.returncode}, expected {expect}")


def plan_graph(graph: Path, ram: str, out: Path, *options: str, expect: int = 0, allow: tuple[int, ...] = ()) -> None:
    of_board = ("--graph", str(graph), "--board", BOARD)
    run("poet-plan", *of_board, "--ram", ram, *options, "--out", str(out), expect=expect, allow=allow)


def by_method(graph: Path) -> dict[str, Row]:
    """What each technique makes of a graph, by the method's name: rows of compare.csv."""
    out = TECHNIQUES / graph.stem
    names = "store_all,rematerialization_only,paging_only"
    run(
        *("poet-plan", "compare", "--graph", str(graph), "--board", BOARD, "--ram", RAM),
        *("--methods", names, "--time-limit", "3", "--out", str(out)),
    )
    with (ROOT / out / "compare.csv").open(encoding="utf-8", newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file)}


def train(board: str, plan: Path, *options: str) -> Path:
    """Flash a plan, run the training steps, and return the file with losses and gradients."""
    saved = plan / f"{board}.npz"
    run("poet-harness", "flash", "--board", board, "--plan", str(plan), *options)
    run(
        *("poet-harness", "run", "--board", board, "--plan", str(plan), "--data", str(DATA)),
        *("--steps", str(STEPS), "--lr", str(LEARNING_RATE)),
        *("--out", str(plan / f"{board}.csv"), "--save", str(saved), *options),
    )
    return saved


def relative_difference(observed: Array, expected: Array) -> Array:
    """Largest difference of each step, relative to the largest entry of the expected tensor; shape (steps,)."""
    steps = len(expected)
    difference = np.abs(observed - expected).reshape(steps, -1).max(axis=1)
    return difference / np.abs(expected).reshape(steps, -1).max(axis=1)


def fall_of_loss(run: Path) -> tuple[float, float]:
    """Means of the first and of the last five steps; stops the demo unless the loss fell."""
    losses = np.load(ROOT / run)["loss"].ravel()
    start, end = losses[:5].mean(), losses[-5:].mean()
    if not end < start:
        sys.exit("demo: the loss did not fall")
    return float(start), float(end)


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
    if not all(equal.values()):
        sys.exit("demo: the scheduled run differs from the unlimited run")
    if max(worst[0], np.median(worst), differences["loss"].max()) > TOLERANCE:
        sys.exit(f"demo: differs from PyTorch by more than {TOLERANCE:.0e}")


def plan() -> None:
    say(f"1. Plan a training step within {RAM}: a graph with its costs is enough, no board and no PyTorch")
    plan_graph(MICRO_BATCH, RAM, PLAN)


def show_techniques() -> Row:
    """What one technique alone would cost in the same RAM; returns the store-all schedule's row."""
    say(f"2. What each technique alone would cost within {RAM}")
    whole, parts = by_method(BATCH), by_method(MICRO_BATCH)
    store_all, count = whole["store_all"], read_summary(ROOT / PLAN / "summary.json").micro_batches
    table = Table("", "energy", "", title=f"{MODEL} on the {BOARD} within {RAM}", title_justify="left")
    unlimited = f"in {kilobytes(store_all['plain_peak_bytes'])} of RAM"
    table.add_row("store-all, unlimited RAM", energy_text(float(store_all["plain_energy_j"])), unlimited)
    for name, row in (
        ("recomputation alone", whole["rematerialization_only"]),
        ("paging alone", whole["paging_only"]),
        ("recomputation and paging", whole["optimal"]),
        (f"store-all in {count} micro-batches", parts["store_all"]),
        (f"{count} micro-batches and paging", parts["paging_only"]),
        (f"{count} micro-batches and recomputation", parts["rematerialization_only"]),
        ("all three", parts["optimal"]),
    ):
        table.add_row(name, *technique(row))
    console.print(table)
    if parts["optimal"]["page_outs"] == "0" and (paged_j := parts["paging_only"]["energy_j"]):
        console.print(f"no page is needed: in place of the recomputations, pages make it {energy_text(float(paged_j))}")
    return store_all


def technique(row: Row) -> tuple[str, str]:
    """Energy of a schedule and what it does, or that there is none and why."""
    if not row["energy_j"]:
        return "none exists", row["note"]
    counts = (f"{row['recomputes']} recomputations", f"{row['page_outs']} page-outs", f"{row['page_ins']} page-ins")
    a_part = " in each" if row["method"] != "store_all" else ""
    return energy_text(float(row["energy_j"])), ", ".join(counts) + a_part


def kilobytes(size: str | int) -> str:
    return f"{int(size) / 1024:.0f} KB"


def train_on_the_board() -> Path:
    say("3. Flash the schedule and train on the emulated board")
    run("poet-plan", "data", "--model", MODEL, "--steps", str(STEPS), "--out", str(DATA))
    board_run = train(BOARD, PLAN, "--emulate")
    start, end = fall_of_loss(board_run)
    console.print(f"loss on the emulated board (mean of five steps): {start:.3f}, after {STEPS} steps {end:.3f}")
    return board_run


def train_with_unlimited_memory(board_run: Path) -> None:
    say("4. The same kernels with unlimited memory (on this computer), and PyTorch's autograd on whole batches")
    plan_graph(MICRO_BATCH, UNLIMITED, STORE_ALL, "--method", "store_all")
    unlimited_run = train("native", STORE_ALL)
    reference = OUT / "pytorch.npz"
    run(
        *("poet-plan", "reference", "--model", MODEL, "--data", str(DATA), "--lr", str(LEARNING_RATE)),
        *("--follow", str(board_run), "--out", str(reference)),
    )
    compare(board_run, unlimited_run, reference)


def show_the_rest() -> None:
    profile, own = OUT / f"{BOARD}.csv", OUT / "own"
    say("5. Profile the network's own operators and the card's pages on the emulated board, and plan from that")
    profile.unlink(missing_ok=True)
    run("poet-harness", "profile", "--board", BOARD, "--emulate", "--graph", str(MICRO_BATCH), "--out", str(profile))
    parts = str(read_summary(ROOT / PLAN / "summary.json").micro_batches)
    costed = ("--profile", str(profile), "--model", MODEL, "--micro-batches", parts)
    run("poet-plan", *costed, "--ram", RAM, "--out", str(own))
    say("   The same step by Algorithm 1 of the paper as it is printed")
    # On a slow machine it may have found no schedule by then: that is an answer, too.
    lacking = (NO_SCHEDULE, NOT_FOUND)
    plan_graph(MICRO_BATCH, RAM, OUT / "algorithm1", "--method", "poet_ilp", "--time-limit", "20", allow=lacking)
    say("   Refused by the board: the store-all schedule of the whole batch")
    plan_graph(BATCH, UNLIMITED, OUT / "refused", "--method", "store_all")
    run("poet-harness", "flash", "--board", BOARD, "--plan", str(OUT / "refused"), "--emulate", expect=BAD_INPUT)


def conclude(board_run: Path, store_all: Row) -> None:
    """Three lines: what was shown, where the pictures are, what to type for a network of one's own."""
    (start, end), summary = fall_of_loss(board_run), read_summary(ROOT / PLAN / "summary.json")
    needed, taken = kilobytes(store_all["plain_peak_bytes"]), kilobytes(summary.ram_budget_bytes)
    ram = kilobytes(load_board(BOARD).ram_bytes)
    pictures = ", ".join(str(PLAN / f"{name}.png") for name in PICTURES)
    program = os.path.relpath(BIN / "poet-plan", ROOT)
    for line in (
        f"shown: training that needs {needed} of RAM, in {taken} of the {BOARD}'s {ram} (emulated): its loss, the mean "
        f"of five steps, falls from {start:.2f} to {end:.2f}, and every result has the bits that it has with unlimited "
        "memory, in the same micro-batches",
        f"pictures: {pictures}",
        f"your own network: {program} --profile {BOARD} --model my_module:make (how to write make: docs/tracing.md)",
    ):
        console.print(line, soft_wrap=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="show part 5 as well")
    parser.add_argument("--board", choices=(BOARD, SKETCH), default=BOARD, help="which board is shown")
    asked = parser.parse_args()
    start = time.monotonic()
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    if asked.board == SKETCH:
        import sketch

        before, after = fall_of_loss(sketch.show(run, say, OUT))
        say(f"Done in {time.monotonic() - start:.0f} s")
        console.print(f"shown: training of an Arduino sketch; its loss falls from {before:.2f} to {after:.2f}")
        return
    plan()
    store_all = show_techniques()
    board_run = train_on_the_board()
    train_with_unlimited_memory(board_run)
    if asked.full:
        show_the_rest()
    say(f"Done in {time.monotonic() - start:.0f} s")
    conclude(board_run, store_all)


if __name__ == "__main__":
    main()
