# SPDX-License-Identifier: Apache-2.0
"""Joules to a share of right answers: `python -m benchmarks.evaluation accuracy` makes `accuracy_*.csv`.

Three tasks are fine-tuned: a watch learns its wearer's exercises, digits are held at another angle, and what knows six
speakers is to tell three others apart. Each way of training has its own accuracy, by PyTorch, and its own energy a
step, by the nRF52840's emulated profile. Where a way is not trained by a plan of the whole batch, the batch is cut into
the fewest equal parts whose store-all schedule fits half of the RAM that full training takes; their gradients add up to
those of the whole batch, and so the curve is its own.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from poet_planner.advice.goal import goal_of
from poet_planner.comparison.code_version import code_version
from poet_planner.solve import NoScheduleError
from poet_profiles.errors import NO_SCHEDULE, UserError
from poet_profiles.files.whole_file import write_whole

from benchmarks.evaluation.exact import WORDS
from benchmarks.evaluation.markdown import table
from benchmarks.evaluation.results import HERE, NONE_EXISTS, NOT_RUN

if TYPE_CHECKING:
    from poet_planner import Model, Optimizer
    from poet_planner.advice.trained_sets import TrainedSet
    from poet_planner.planning.plan import Plan
    from torch import Tensor, nn

CURVES, STEPS = HERE / "accuracy_curves.csv", HERE / "accuracy_steps.csv"
PROFILE = "nrf52840"
LIMIT_S = 8.0
EPOCHS = 30
ACCURACY = goal_of("accuracy 1", lambda outputs, targets: 0.0)
RATES = (0.003, 0.01, 0.03, 0.1)
MOMENTUM = 0.9
SHARE = 0.5  # of the RAM that full training takes
FULL, LAST_BLOCK, BIASES, HEAD = "full", "last block", "biases and head", "head"
IN_PARTS = "store_all_micro_batches"
LAST = 3  # epochs whose share is that at the end
TRAINED = (FULL, LAST_BLOCK, BIASES, HEAD)
Record = TypeVar("Record")


class Data(NamedTuple):
    """What is learned, and what is asked afterwards."""

    shown: Tensor
    labels: Tensor
    tested: Tensor
    answers: Tensor


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
    data: Callable[[int], Data]
    network: Callable[[], nn.Module]


@dataclass(frozen=True)
class Curve:
    """The share of right answers after an epoch; epoch 0 is before the first."""

    task: str
    trained: str
    rate: float
    seed: int
    epoch: int
    right: float


@dataclass(frozen=True)
class Step:
    """What a step of the whole batch takes; where ``why_none`` has a word there is no schedule."""

    task: str
    trained: str
    way: str
    why_none: str
    parts: int
    ram_bytes: int
    energy_j: float
    time_limit_s: float
    code_version: str


def _watch_data(seed: int) -> Data:
    import torch

    from benchmarks.firmware.watch import load_example

    watch = load_example()
    (shown, labels), (tested, answers) = watch.labelled_by(seed), watch.tested_with(seed)
    return Data(
        watch.numbers(shown),
        torch.from_numpy(labels).long(),
        watch.numbers(tested),
        torch.from_numpy(answers).long(),
    )


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


def _digits_data(seed: int) -> Data:
    _, turned, labels = _digits()
    order = np.random.default_rng(seed).permutation(np.arange(1000, len(labels)))
    shown, tested = order[:192], order[192:]
    return Data(turned[shown], labels[shown], turned[tested], labels[tested])


@cache
def _pretrained_digits() -> dict[str, Tensor]:
    """Weights that know the first thousand digits, upright."""
    import torch
    from poet_planner.models.digits import digits_cnn
    from torch.nn.functional import cross_entropy

    upright, _, labels = _digits()
    torch.manual_seed(0)
    module = digits_cnn()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.03, momentum=MOMENTUM)
    for epoch in range(12):
        for at in np.random.default_rng(epoch).permutation(1000).reshape(-1, 25):
            optimizer.zero_grad()
            cross_entropy(module(upright[at]), labels[at]).backward()
            optimizer.step()
    return module.state_dict()


def _digits_network() -> nn.Module:
    from poet_planner.models.digits import digits_cnn

    module = digits_cnn()
    module.load_state_dict(_pretrained_digits())
    return module


def _speech_data(seed: int) -> Data:
    """Eighteen of thirty utterances of each stranger; asked are those of other occasions."""
    import torch

    from notebooks import voices

    first, rest, (later, answers) = voices.utterances(voices.STRANGERS)
    said, speakers = (np.concatenate(parts) for parts in zip(first, rest, strict=True))
    random = np.random.default_rng(seed)
    shown = np.concatenate(
        [random.permutation(np.flatnonzero(speakers == one))[: voices.ENROLLED] for one in np.unique(speakers)]
    )
    return Data(
        voices.numbers(said[shown]),
        torch.from_numpy(speakers[shown]).long(),
        voices.numbers(later),
        torch.from_numpy(answers).long(),
    )


@cache
def _speaker_backbone() -> nn.Module:
    """What tells six speakers apart, without its head; each batch norm is one with its convolution, as on a board."""
    from torch import nn
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    from notebooks import voices

    *blocks, pool, flatten = voices.pretrained()[0]
    layers = []
    for conv, norm, relu in blocks:
        layers += [fuse_conv_bn_eval(conv, norm), relu]
    return nn.Sequential(*layers, pool, flatten)


def _speech_network() -> nn.Module:
    """With a new head for three others."""
    import torch

    backbone = deepcopy(_speaker_backbone())
    torch.manual_seed(0)
    return torch.nn.Sequential(*backbone, torch.nn.Linear(64, 3))


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


def curves(task: Task, trained: str, seed: int, rates: Sequence[float] = RATES, epochs: int = EPOCHS) -> list[Curve]:
    """Train at each rate, and ask after every epoch."""
    from poet_planner.advice.curves import Curves, Key, Sets
    from poet_planner.advice.curves import Data as Samples

    data = task.data(seed)
    sets = Sets(Samples((data.shown,), (data.labels,)), Samples((data.tested,), (data.answers,)))
    made = Curves(_model(task), sets, ACCURACY.measure)
    keys = [Key(learned(task, trained), task.batch, _optimizer(task), rate, seed) for rate in rates]
    for _ in range(epochs):
        made.extend(keys)
    return [
        Curve(task.name, trained, key.rate, seed, epoch, right)
        for key in keys
        for epoch, right in enumerate(made.values[key])
    ]


def steps(task: Task, limit_s: float) -> list[Step]:
    """Full training in all and in half of its RAM; the other ways in half of it."""
    store_all = _planned(task, FULL, "store_all", "8MB", limit_s)
    ram = int(SHARE * store_all.schedule.peak_bytes)

    def step(trained: str, way: str, method: str) -> Step:
        try:
            plan = _planned(task, trained, method, ram, limit_s) if method else store_all
        except UserError as lack:
            if lack.exit_code != NO_SCHEDULE:
                raise
            why_none = WORDS[lack.status] if isinstance(lack, NoScheduleError) else NONE_EXISTS
            return Step(task.name, trained, way, why_none, 0, 0, 0.0, limit_s, code_version())
        parts, made = plan.graph.micro_batches, plan.schedule
        return Step(task.name, trained, way, "", parts, made.peak_bytes, made.energy_j, limit_s, code_version())

    made = [step(FULL, "store-all", ""), step(FULL, "poet in half", "optimal")]
    return made + [step(trained, "parts in half", IN_PARTS) for trained in TRAINED]


def _planned(task: Task, trained: str, method: str, ram: int | str, limit_s: float) -> Plan:
    from poet_planner import OptimiseOptions, plan
    from poet_planner.models.trained import train_only

    model = _model(task)
    train_only(model.module, learned(task, trained).learns)
    options = OptimiseOptions(time_limit_s=limit_s)
    return plan(model, profile=PROFILE, ram=ram, optimizer=_optimizer(task), method=method, options=options)


def _model(task: Task) -> Model:
    import torch
    from poet_planner import Model
    from torch.nn.functional import cross_entropy

    inputs, targets = torch.randn(task.batch, *task.sample), torch.randint(task.classes, (task.batch,))
    return Model(task.name, task.network(), (inputs,), (targets,), cross_entropy)


def _optimizer(task: Task) -> Optimizer:
    from poet_planner import Optimizer

    return Optimizer(momentum=MOMENTUM, clip_value=task.clip)


def run_accuracy(limit_s: float = LIMIT_S, path: Path = CURVES, energies: Path = STEPS) -> None:
    """Train what the table of curves lacks; plan the steps anew where the limit or the code is another."""
    import torch

    torch.set_num_threads(1)  # sums in one order, whatever the computer
    known = read(path, Curve)
    done = {(one.task, one.trained, one.rate, one.seed) for one in known}
    for task in TASKS:
        for trained in TRAINED:
            for seed in task.seeds:
                rates = [rate for rate in RATES if (task.name, trained, rate, seed) not in done]
                known += curves(task, trained, seed, rates) if rates else []
            write(known, Curve, path)
            print(f"{task.name}, {trained}: trained", flush=True)
    kept = [one for one in read(energies, Step) if (one.time_limit_s, one.code_version) == (limit_s, code_version())]
    for task in TASKS:
        if task.name not in {one.task for one in kept}:
            kept += steps(task, limit_s)
            write(kept, Step, energies)
            print(f"{task.name}: planned", flush=True)


def read(path: Path, kind: type[Record]) -> list[Record]:
    """The records of a table; none if it is not there."""
    if not path.exists():
        return []
    frame = pd.read_csv(path)
    words = {field.name: "" for field in fields(kind) if field.type == "str"}  # type: ignore[arg-type]
    return [kind(**record) for record in frame.fillna(words).to_dict("records")]


def write(records: Sequence[Record], kind: type[Record], path: Path) -> None:
    """Write a table whole."""
    text = StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(kind)], lineterminator="\n")  # type: ignore[arg-type]
    writer.writeheader()
    writer.writerows(asdict(record) for record in records)  # type: ignore[call-overload]
    write_whole(path, text.getvalue())


def epochs_to(right: Sequence[float], goal: float) -> int | None:
    """The first epoch from which several keep the goal; None if there is none."""
    epoch, is_sure = replace(ACCURACY, number=goal).least_epoch(right)
    return epoch if is_sure else None


def joules_to(curves: pd.DataFrame, goal: float, epoch_j: float) -> list[float] | None:
    """Of each seed, at the rate by which the mean reaches the goal soonest; None if it reaches it at none.

    A seed that does not reach it by itself is not a number.
    """
    soonest = {
        rate: epochs_to(here.groupby("epoch")["right"].mean().tolist(), goal) for rate, here in curves.groupby("rate")
    }
    reached = {rate: epoch for rate, epoch in soonest.items() if epoch is not None}
    if not reached:
        return None
    best = curves[curves["rate"] == min(reached, key=lambda rate: reached[rate])]
    each = [epochs_to(here.sort_values("epoch")["right"].tolist(), goal) for _, here in best.groupby("seed")]
    return [float("nan") if epoch is None else epoch * epoch_j for epoch in each]


def cheapest(curves: Sequence[Curve], energies: Sequence[Step]) -> dict[str, str]:
    """By task, what is trained for the fewest joules to the middle goal; without tasks whose rows were not made."""
    frame, found = _frame(curves), {}
    for task in TASKS:
        joules = {}
        for step in (one for one in energies if one.task == task.name and not one.why_none):
            here = frame[(frame["task"] == task.name) & (frame["trained"] == step.trained)]
            reached = None if here.empty else joules_to(here, task.goals[1], _epoch_j(task, step))
            if reached is not None:
                joules[step.trained, step.way] = float(np.nanmean(reached))
        if joules:
            found[task.name] = ", ".join(min(joules, key=lambda way: joules[way]))
    return found


def facts(curves: Sequence[Curve], energies: Sequence[Step]) -> dict[str, str]:
    """What the pages say of it, and the table beside them."""
    frame = _frame(curves)
    lines = []
    for task in TASKS:
        here, own = frame[frame["task"] == task.name], [one for one in energies if one.task == task.name]
        lines += [[task.name, one.trained, one.way, *_cells(task, one, here)] for one in own]
        lines += [] if own else [[task.name, *[NOT_RUN] * 7]]
    header = ["task", "trained", "way", "parts", "RAM, B", "mJ a step", "mJ to the goals", "right at the end, %"]
    goals = ", ".join(f"{100 * task.goals[1]:.0f} % ({task.name})" for task in TASKS)
    return {
        "table": table(header, lines),
        "goals": goals,
    }


def _frame(curves: Sequence[Curve]) -> pd.DataFrame:
    return pd.DataFrame([asdict(one) for one in curves], columns=[field.name for field in fields(Curve)])


def _epoch_j(task: Task, step: Step) -> float:
    return step.energy_j * (len(task.data(task.seeds[0]).labels) // task.batch)


def _ends(curves: pd.DataFrame) -> pd.Series:
    """The share of right answers in the last epochs of each seed, at the rate with the highest mean."""
    last = curves[curves["epoch"] > curves["epoch"].max() - LAST].groupby(["rate", "seed"])["right"].mean()
    return last[last.groupby("rate").mean().idxmax()]


def _cells(task: Task, step: Step, curves: pd.DataFrame) -> list[str]:
    if step.why_none:
        return [step.why_none] * 5
    energy = [str(step.parts), f"{step.ram_bytes:,}", f"{1e3 * step.energy_j:.3g}"]
    here = curves[curves["trained"] == step.trained]
    if here.empty:
        return [*energy, NOT_RUN, NOT_RUN]
    epoch_j, end = _epoch_j(task, step), _ends(here)
    goals = "; ".join(f"{goal:.0%}: {_spread(joules_to(here, goal, epoch_j))}" for goal in task.goals)
    return [*energy, goals, f"{100 * end.mean():.1f} ({100 * end.min():.1f} to {100 * end.max():.1f})"]


def _spread(joules: list[float] | None) -> str:
    """Mean, least and most; of those that reach the goal, if not all do."""
    reached = [1e3 * one for one in joules or [] if one == one]
    if not reached:
        return "never"
    some = "" if len(reached) == len(joules or []) else f", {len(reached)} of {len(joules or [])}"
    mean, least, most = (f"{float(f'{one:.3g}'):,.10g}" for one in (np.mean(reached), min(reached), max(reached)))
    return f"{mean} ({least} to {most}{some})"
