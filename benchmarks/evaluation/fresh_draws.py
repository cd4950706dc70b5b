# SPDX-License-Identifier: Apache-2.0
"""An advice by draws and samples that it has not seen.

`python -m benchmarks.evaluation fresh-draws` makes `fresh_draws.csv`. What `poet_planner.advice` says is trained in six
other orders, and asked of test samples after each epoch. Beside it stands the habit: all layers, batches of 8,
momentum, a rate of 0.01. Energies are fitted to the emulated nRF52840's profile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from poet_planner.advice.advice import Search, raced, request_for
from poet_planner.advice.candidates import BATCHES, STATEFUL, Steps
from poet_planner.advice.race import Candidate
from poet_planner.advice.report import optimizer_text

from benchmarks.evaluation import accuracy
from benchmarks.evaluation.records import write_rows
from benchmarks.evaluation.results import HERE

if TYPE_CHECKING:
    from poet_planner.advice.curves import Data, Sets

PATH = HERE / "fresh_draws.csv"
LIMIT_S = 0.0  # seconds a plan: the planner has its own
FRESH = range(100, 106)
# The task, its goal, and what of it is learned, validated and tested with.
Case = tuple[accuracy.Task, float, "Sets", "Data"]


@dataclass(frozen=True)
class Row:
    """A way to train a task, in so many fresh draws; joules are of those that reach the goal.

    ``right`` is the mean share of test samples after the epochs that the advice names.
    """

    task: str
    goal: float
    who: str
    trained: str
    batch: int
    optimizer: str
    rate: float
    draws: int
    reached: int
    mean_j: float
    least_j: float
    most_j: float
    right: float


def watch() -> Case:
    """A new wearer: validated with the third quarter of each recording, tested with the last."""
    from benchmarks.firmware.watch import load_example

    example = load_example()
    held, asked = (
        accuracy.samples(example.numbers(x), y)
        for x, y in (
            example.windows_of(lambda each: (each.user, each.side) == (9, example.LEFT), *part)
            for part in ((0.5, 0.75), (0.75, 1.0))
        )
    )
    return accuracy.WATCH, 0.85, replace(accuracy.WATCH.data(9), validation=held), asked


def speech() -> Case:
    """Three strangers: validated with what is left of the same occasions, tested with others."""
    from poet_planner.advice.curves import Sets

    train, held, asked = accuracy.strangers(0)
    return accuracy.SPEECH, 0.95, Sets(train, held), asked


def rows(case: Case, search: Search | None = None) -> Iterator[Row]:
    """The advice, and the habit."""
    from poet_planner.advice.curves import Curves, Sets

    task, share, sets, test = case
    search, goal, model = search or Search(), accuracy.goal_of_share(share), accuracy.model(task)
    search = replace(search, clip_value=task.clip)
    steps = Steps(model, request_for(model, accuracy.PROFILE, None), search.clip_value)
    advice = raced(steps, tuple(steps.all(search.batches)), search, (sets, goal))
    everything = max(steps.sets, key=lambda one: len(one.learns))
    habit = Candidate(steps.step(everything, BATCHES[1], STATEFUL[0]), 0.01)
    habit.step.settle()
    curves = Curves(model, Sets(sets.train, test), goal.measure)
    for who, one in (("advice", advice.winner), ("habit", habit)):
        if one is None or one.step.cost is None:
            continue
        keys = [one.key(draw) for draw in FRESH]
        for _ in range(search.epochs):
            curves.extend(keys)
        firsts = [goal.least_epoch(curves.values[key]) for key in keys]
        cost, count = one.step.cost, len(sets.train)
        reached = [cost.epochs_j(epoch, count, one.step.batch) for epoch, sure in firsts if sure]
        named = one.step.trained.name, one.step.batch, optimizer_text(one.step.optimizer), one.rate
        joules = (np.mean(reached), min(reached), max(reached)) if reached else [nan] * 3
        right = nan if advice.winner is None else np.mean([curves.values[key][advice.epochs] for key in keys])
        yield Row(task.name, share, who, *named, len(FRESH), len(reached), *map(float, joules), float(right))


def run_fresh_draws(limit_s: float = LIMIT_S, path: Path = PATH) -> None:
    """Advise and train everything anew, and write the table."""
    import torch

    torch.set_num_threads(1)  # sums in one order, whatever the computer
    write_rows([row for case in (watch, speech) for row in rows(case())], Row, path)
