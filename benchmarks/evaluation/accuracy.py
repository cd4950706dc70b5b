# SPDX-License-Identifier: Apache-2.0
"""Joules to a share of right answers: `python -m benchmarks.evaluation accuracy` makes `accuracy.csv`.

Three tasks are fine-tuned: a watch learns its wearer's exercises, digits are held at another angle, and what knows six
speakers is to tell three others apart. For each way of training `poet_planner.advice` races four rates to each goal:
the draws of its races are here seeds, each with samples of its own. Energies of a step are those of a plan by the
nRF52840's emulated profile. Where a way is not trained by a plan of the whole batch, the batch is cut into the fewest
equal parts whose store-all schedule fits half of the RAM that full training takes; their gradients add up to those of
the whole batch, and so the curve is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import groupby
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from poet_planner.advice.advice import MOMENTUM_RATES, Advice
from poet_planner.advice.candidates import STATEFUL, Cost
from poet_planner.advice.candidates import Step as AdviceStep
from poet_planner.advice.goal import Goal, goal_of
from poet_planner.advice.race import Candidate, Race
from poet_planner.advice.report import by_interest
from poet_planner.solve import NoScheduleError
from poet_profiles.errors import NO_SCHEDULE, UserError

from benchmarks.evaluation.exact import WORDS
from benchmarks.evaluation.markdown import table
from benchmarks.evaluation.records import write_rows
from benchmarks.evaluation.results import HERE, NONE_EXISTS, NOT_RUN

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_planner import Model, Optimizer
    from poet_planner.advice.curves import Curves, Data, Key, Sets
    from poet_planner.advice.trained_sets import TrainedSet
    from poet_planner.planning.plan import Plan
    from torch import Tensor, nn

PATH = HERE / "accuracy.csv"
PROFILE = "nrf52840"
LIMIT_S = 8.0
EPOCHS = 30
SHARE = 0.5  # of the RAM that full training takes
FULL, LAST_BLOCK, BIASES, HEAD = "full", "last block", "biases and head", "head"
TRAINED = (FULL, LAST_BLOCK, BIASES, HEAD)
IN_HALF, IN_PARTS = "poet in half", "parts in half"
# What is trained, how the table calls it, and the planner's method.
WAYS = (
    (FULL, "store-all", "store_all"),
    (FULL, IN_HALF, "optimal"),
    *((trained, IN_PARTS, "store_all_micro_batches") for trained in TRAINED),
)


@dataclass(frozen=True)
class Task:
    """A network and what it is fine-tuned on; ``seeds`` are wearers, or draws."""

    name: str
    batch: int
    seeds: tuple[int, ...]
    goals: tuple[float, ...]
    clip: float | None
    last: tuple[str, str]  # layers: the last block before the head, and the head
    sample: tuple[int, ...]
    classes: int
    data: Callable[[int], Sets]
    network: Callable[[], nn.Module]


@dataclass(frozen=True)
class Row:
    """What a way of training takes to a goal, or why it does not get there.

    Joules to the goal are the seeds' mean, least and most. Without a schedule there are no parts.
    """

    task: str
    trained: str
    way: str
    goal: float
    why_not: str
    parts: int
    ram_bytes: int
    step_j: float
    mean_j: float
    least_j: float
    most_j: float


def samples(x: Tensor, labels: NDArray[np.integer] | Tensor) -> Data:
    """As the advice has them."""
    import torch
    from poet_planner.advice.curves import Data

    return Data((x,), (torch.as_tensor(labels).long(),))


def _watch_data(seed: int) -> Sets:
    from poet_planner.advice.curves import Sets

    from benchmarks.firmware.watch import load_example

    watch = load_example()
    return Sets(*(samples(watch.numbers(x), y) for x, y in (watch.labelled_by(seed), watch.tested_with(seed))))


def _watch_network() -> nn.Module:
    from benchmarks.firmware.watch import load_example

    network: nn.Module = load_example().pretrained()
    return network


@cache
def _digits() -> tuple[Tensor, Tensor, Tensor]:
    """Upright, turned by 35 degrees and shifted by a pixel, and what they are."""
    import torch
    from scipy.ndimage import rotate, shift
    from sklearn.datasets import load_digits

    digits = load_digits()
    upright = digits.images.astype(np.float32) / 16
    turned = [shift(rotate(image, 35, reshape=False, order=1), (1, -1), order=0) for image in upright]
    images = (torch.from_numpy(np.stack(one).astype(np.float32))[:, None] for one in (upright, turned))
    return (*images, torch.from_numpy(digits.target).long())  # type: ignore[return-value]


def _digits_data(seed: int) -> Sets:
    from poet_planner.advice.curves import Sets

    _, turned, labels = _digits()
    order = np.random.default_rng(seed).permutation(np.arange(1000, len(labels)))
    return Sets(*(samples(turned[at], labels[at]) for at in (order[:192], order[192:])))


@cache
def _digits_network() -> nn.Module:
    """Knows the first thousand digits, upright."""
    import torch
    from poet_planner.models.digits import digits_cnn
    from torch.nn.functional import cross_entropy

    upright, _, labels = _digits()
    torch.manual_seed(0)
    module = digits_cnn()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.03, momentum=0.9)
    for epoch in range(12):
        for at in np.random.default_rng(epoch).permutation(1000).reshape(-1, 25):
            optimizer.zero_grad()
            cross_entropy(module(upright[at]), labels[at]).backward()
            optimizer.step()
    return module


def _speech_data(seed: int) -> Sets:
    from poet_planner.advice.curves import Sets

    shown, _, later = strangers(seed)
    return Sets(shown, later)


def strangers(seed: int) -> tuple[Data, Data, Data]:
    """Eighteen of thirty utterances of each stranger, the other twelve, and those of other occasions."""
    from notebooks import voices

    first, rest, later = voices.utterances(voices.STRANGERS)
    said, speakers = (np.concatenate(parts) for parts in zip(first, rest, strict=True))
    random = np.random.default_rng(seed)
    drawn = [random.permutation(np.flatnonzero(speakers == one)) for one in np.unique(speakers)]
    shown, held = (np.concatenate([one[part] for one in drawn]) for part in np.split(np.arange(30), [voices.ENROLLED]))
    sets = (said[shown], speakers[shown]), (said[held], speakers[held]), later
    return tuple(samples(voices.numbers(x), y) for x, y in sets)  # type: ignore[return-value]


@cache
def _speech_network() -> nn.Module:
    """Told six speakers apart, with a new head; each batch norm is one with its convolution, as on a board."""
    import torch
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    from notebooks import voices

    *blocks, pool, flatten = voices.pretrained()[0]
    layers = []
    for conv, norm, relu in blocks:
        layers += [fuse_conv_bn_eval(conv, norm), relu]
    torch.manual_seed(0)
    # PyTorch has frozen the biases that it made of norms.
    return nn.Sequential(*layers, pool, flatten, nn.Linear(64, 3)).requires_grad_()


WATCH = Task(
    *("watch", 8, (8, 9, 10), (0.80, 0.85, 0.88), 0.2, ("4", "8")),
    *((6, 1, 64), 7, _watch_data, _watch_network),
)
DIGITS = Task(
    *("digits", 24, (0, 1, 2), (0.85, 0.90, 0.92), None, ("conv5", "fc")),
    *((1, 8, 8), 10, _digits_data, _digits_network),
)
SPEECH = Task(
    *("speech", 6, (0, 1, 2), (0.85, 0.90, 0.95), None, ("4", "8")),
    *((12, 32), 3, _speech_data, _speech_network),
)
TASKS = (WATCH, DIGITS, SPEECH)


def learned(task: Task, trained: str) -> TrainedSet:
    """What learns of the task's network."""
    from poet_planner.advice.trained_sets import TrainedSet
    from poet_planner.models.trained import matching

    block, head = task.last
    patterns = {FULL: ("*",), LAST_BLOCK: (block, head), BIASES: ("*bias", head), HEAD: (head,)}[trained]
    return TrainedSet(trained, patterns, matching(task.network(), patterns, task.name))


@dataclass
class Seeds:
    """Trainings of a task, for a race whose draws are its seeds."""

    task: Task
    values: dict[Key, list[float]] = field(default_factory=dict)

    @cached_property
    def _of(self) -> list[Curves]:
        from poet_planner.advice.curves import Curves

        return [Curves(model(self.task), self.task.data(seed), goal_of_share(1.0).measure) for seed in self.task.seeds]

    def begun(self, key: Key) -> list[float]:
        """The values of a training, at least that before its first epoch."""
        self.values[key] = self._of[key.draw].begun(key)
        return self.values[key]

    def extend(self, keys: Sequence[Key]) -> None:
        """Train an epoch more of each."""
        for draw, curves in enumerate(self._of):
            if here := [key for key in keys if key.draw == draw]:
                curves.extend(here)


def raced(seeds: Seeds, trained: str, goal: float, step_j: float) -> Advice:
    """At which rate a way reaches a goal first in its worst seed."""
    task = seeds.task
    cost = Cost(step_j, 0.0, 0.0, 0.0, 0, 0, 1, "", is_bound=False)
    step = AdviceStep(learned(task, trained), task.batch, _optimizer(task), cost)
    ones = [Candidate(step, rate) for rate in MOMENTUM_RATES]
    race = Race(ones, seeds, goal_of_share(goal), [len(task.data(one).train) for one in task.seeds], EPOCHS)
    race.run()
    return Advice(task.name, PROFILE, (step,), race.goal, race)


def rows(task: Task, limit_s: float) -> Iterator[Row]:
    """Full training in all and in half of its RAM; the other ways in half of it."""
    seeds, ram = Seeds(task), 0
    for trained, way, method in WAYS:
        try:
            plan = _planned(task, trained, method, ram or "8MB", limit_s)
        except UserError as lack:
            if lack.exit_code != NO_SCHEDULE:
                raise
            why_none = WORDS[lack.status] if isinstance(lack, NoScheduleError) else NONE_EXISTS
            yield from (Row(task.name, trained, way, goal, why_none, 0, 0, *[inf] * 4) for goal in task.goals)
            continue
        made = plan.schedule
        ram = ram or int(SHARE * made.peak_bytes)
        for goal in task.goals:
            advice = raced(seeds, trained, goal, made.energy_j)
            joules = advice.joules if advice.winner else [inf]
            why_not = "" if advice.winner else by_interest(advice)[0].verdict
            step = plan.graph.micro_batches, made.peak_bytes, made.energy_j
            mean_j = sum(joules) / len(joules)
            yield Row(task.name, trained, way, goal, why_not, *step, mean_j, min(joules), max(joules))


def _planned(task: Task, trained: str, method: str, ram: int | str, limit_s: float) -> Plan:
    from poet_planner import OptimiseOptions, plan
    from poet_planner.models.trained import train_only

    given = model(task)
    train_only(given.module, learned(task, trained).learns)
    options = OptimiseOptions(time_limit_s=limit_s)
    return plan(given, profile=PROFILE, ram=ram, optimizer=_optimizer(task), method=method, options=options)


def model(task: Task) -> Model:
    """The task's network, and a batch of random numbers."""
    import torch
    from poet_planner import Model
    from torch.nn.functional import cross_entropy

    inputs, targets = torch.randn(task.batch, *task.sample), torch.randint(task.classes, (task.batch,))
    return Model(task.name, deepcopy(task.network()), (inputs,), (targets,), cross_entropy)


def _optimizer(task: Task) -> Optimizer:
    return replace(STATEFUL[0], clip_value=task.clip)


def goal_of_share(share: float) -> Goal:
    """So many right answers."""
    return goal_of(f"accuracy {share}", lambda outputs, targets: 0.0)


def run_accuracy(limit_s: float = LIMIT_S, path: Path = PATH) -> None:
    """Plan and train everything anew, and write the table."""
    import torch

    torch.set_num_threads(1)  # sums in one order, whatever the computer
    write_rows([row for task in TASKS for row in rows(task, limit_s)], Row, path)


def cheapest(rows: Sequence[Row]) -> dict[str, str]:
    """By task, what is trained for the fewest joules to the middle goal; without tasks that were not run."""
    found = {}
    for task in TASKS:
        here = [row for row in rows if (row.task, row.goal) == (task.name, task.goals[1]) and isfinite(row.mean_j)]
        if here:
            best = min(here, key=lambda row: row.mean_j)
            found[task.name] = f"{best.trained}, {best.way}"
    return found


def facts(rows: Sequence[Row]) -> dict[str, str]:
    """What the pages say of it, and the table beside them."""
    lines = []
    for task in TASKS:
        here = [row for row in rows if row.task == task.name]
        lines += [[task.name, *cells] for cells in _lines(here)] or [[task.name, *[NOT_RUN] * 6]]
    header = ["task", "trained", "way", "parts", "RAM, B", "mJ a step", "mJ to the goals"]
    goals = ", ".join(f"{100 * task.goals[1]:.0f} % ({task.name})" for task in TASKS)
    return {"table": table(header, lines), "goals": goals}


def _lines(rows: Sequence[Row]) -> Iterator[list[str]]:
    """A line a way, with all goals."""
    for (trained, way), some in groupby(rows, lambda row: (row.trained, row.way)):
        first, *others = some
        if not first.parts:
            yield [trained, way, *[first.why_not] * 4]
            continue
        to_goals = "; ".join(f"{row.goal:.0%}: {_joules(row)}" for row in (first, *others))
        yield [trained, way, str(first.parts), f"{first.ram_bytes:,}", f"{1e3 * first.step_j:.3g}", to_goals]


def _joules(row: Row) -> str:
    """Mean, least and most, in mJ; or why there are none."""
    mean, least, most = (f"{float(f'{1e3 * one:.3g}'):,.10g}" for one in (row.mean_j, row.least_j, row.most_j))
    return row.why_not or f"{mean} ({least} to {most})"
