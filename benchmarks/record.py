# SPDX-License-Identifier: Apache-2.0
"""What a refactoring may not change: plans, headers, losses and cycle counts, as hashes and numbers in `record.json`.

    .venv/bin/python -m benchmarks.record            # exit code 1, and a line each, where something differs
    .venv/bin/python -m benchmarks.record --write    # this is how it is from now on

It goes by public names and command lines alone, so that it survives what it watches. Limits are of work, so the plans
do not depend on how fast the computer is. Times on the boards are those of the emulated ones. Takes some 5 minutes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import poet_planner as poet

KEPT = Path(__file__).with_name("record.json")
BIN = Path(sys.executable).parent
WORK_S = 1.0
FILES = ("graph.json", "schedule.json", "poet_model.h", "poet_schedule.h", "program.json")
# One word is too little for every network: the refusal names the least.
RAMS = (None, "100%", "60%", "45%", 4)
STEPS = 2
TIME_TOLERANCE = 2e-5


@dataclass(frozen=True)
class Network:
    """A built-in model, what it is planned with, and on which budgets."""

    model: str
    profile: str
    given: dict[str, Any] = field(default_factory=dict)
    rams: tuple[int | str | None, ...] = RAMS
    seeds: tuple[int, ...] = (0,)
    objectives: tuple[str, ...] = ("energy",)


NETWORKS = (
    Network("digits_cnn", "nrf52840", seeds=(0, 1), objectives=("energy", "time")),
    Network("digits_cnn", "nrf52840", {"gradients": "resident", "deadline": "2x"}, rams=("100%", "60%")),
    Network("digits_cnn", "m4", {"parameters": "excluded", "paging": False}, rams=("100%", "80%")),
    Network("cnn_40k", "nrf52840", {"optimizer": poet.Optimizer(momentum=0.9, clip_value=0.2)}, rams=(None,)),
    Network("poet_resnet18", "nrf52840", rams=(None, 4)),
    Network("resnet18_cifar", "a72"),
    Network("bert_2x128", "nrf52840", rams=(None,)),
    Network("bert_2x128", "a72", seeds=(0, 1)),
    Network("finetune_cnn_small", "mkr1000", rams=(None,)),
    Network("mobilenet_v2", "a72", rams=("100%", "60%")),
)
# A plan, and the boards that run two steps of it.
RUNS = {
    "digits_cnn_small": (
        ["--profile", "m0", "--board", "mkr1000", "--ram", "60%", "--gradients", "resident"],
        ("mkr1000", "nrf52840", "nucleo-f411re", "native"),
    ),
    "digits_cnn": (["--profile", "nrf52840", "--ram", "216KB", "--gradients", "resident"], ("nrf52840", "native")),
    "cnn_40k": (["--profile", "nrf52840"], ("nrf52840", "native")),
}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def plans() -> Iterator[tuple[str, Any]]:
    """Of every plan: the hashes of its files, or the RAM that its refusal names."""
    for network in NETWORKS:
        given = network.given.items()
        for ram, seed, objective in product(network.rams, network.seeds, network.objectives):
            words = [network.model, network.profile, str(ram), f"seed {seed}", objective]
            words += [name if isinstance(value, poet.Optimizer) else f"{name} {value}" for name, value in given]
            yield " ".join(words), planned(network, ram, seed, objective)


def planned(network: Network, ram: int | str | None, seed: int, objective: str) -> Any:
    options = poet.OptimiseOptions(time_limit_s=WORK_S, seed=seed, capped=False)
    try:
        made = poet.plan(
            network.model,
            profile=network.profile,
            ram=ram,
            objective=objective,
            features="whole",
            options=options,
            **network.given,
        )
    except poet.NoScheduleError as error:
        return {"smallest_ram_bytes": error.possible_bytes}
    with tempfile.TemporaryDirectory() as folder:
        made.write_files(folder)
        files = {name: Path(folder, name) for name in FILES}
        return {name: digest(file.read_bytes()) for name, file in files.items() if file.exists()}


def runs() -> Iterator[tuple[str, Any]]:
    """Of every run: its losses, the emulated board's times, and a hash of the trained tensors."""
    with tempfile.TemporaryDirectory() as scratch:
        for model, (options, boards) in RUNS.items():
            plan, data = Path(scratch, model), Path(scratch, f"{model}.npz")
            command("poet-plan", "--model", model, *options, "--time-limit", "20", "--out", plan)
            command("poet-plan", "data", "--model", model, "--steps", STEPS, "--out", data)
            for board in boards:
                yield f"{model} on {board}", trained(board, plan, data, Path(scratch))


def trained(board: str, plan: Path, data: Path, scratch: Path) -> Any:
    """On a real clock times are nobody's: those of the program on this computer are left out."""
    where = ("--board", board) if board == "native" else ("--board", board, "--emulate")
    rows, tensors = scratch / "rows.csv", scratch / "tensors.npz"
    command("poet-harness", "flash", *where, "--plan", plan)
    command(
        *("poet-harness", "run", *where, "--plan", plan, "--data", data, "--steps", STEPS),
        *("--out", rows, "--save", tensors),
    )
    with rows.open(newline="") as file:
        steps = [row for row in csv.DictReader(file) if row["do"] == "step"]
    with np.load(tensors) as saved:
        content = b"".join(name.encode() + saved[name].tobytes() for name in sorted(saved.files))
    result = {"losses": [row["loss"] for row in steps], "tensors": digest(content)}
    return result if board == "native" else {**result, "time_s": [float(row["observed_time_s"]) for row in steps]}


def alike(one: Any, other: Any) -> bool:
    """Equal, but for the phase in which a command reaches an emulated board: some microseconds of a step."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=TIME_TOLERANCE)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(alike(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def command(*words: object) -> None:
    first, *others = map(str, words)
    subprocess.run([BIN / first, *others], check=True, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="keep what is found")
    write = parser.parse_args().write
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    found: dict[str, Any] = {}
    differs = False
    for part in (plans(), runs()):
        for name, value in part:
            found[name] = value
            same = alike(kept.get(name), value)
            differs |= not same
            print(f"{'same' if same else 'DIFFERS'}  {name}", flush=True)
    if write:
        KEPT.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    missing = kept.keys() - found.keys()
    for name in sorted(missing):
        print(f"MISSING  {name}")
    return int(differs or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
