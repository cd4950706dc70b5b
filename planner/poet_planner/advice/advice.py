# SPDX-License-Identifier: Apache-2.0
"""From a model, its samples, a board and a goal to an advice: `advise` is the whole way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.shipped import profile_names

from poet_planner.advice.candidates import BATCHES, Step, Steps
from poet_planner.advice.goal import SHARES, Goal, goal_of
from poet_planner.advice.race import Candidate, Race
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.request import AUTO_PARTS, Profiles, Request

if TYPE_CHECKING:
    from poet_profiles.battery import Battery

    from poet_planner.advice.curves import Curves, Data, Sets
    from poet_planner.models import Model

# A factor of three apart.
SGD_RATES, MOMENTUM_RATES, ADAM_RATES = (0.01, 0.03, 0.1, 0.3), (0.003, 0.01, 0.03, 0.1), (0.0003, 0.001, 0.003, 0.01)


@dataclass(frozen=True)
class Search:
    """What is tried, and how thoroughly.

    Attributes
    ----------
    batches : tuple of int
    trained : tuple of str
        Sets beside the usual ones, as after a model's name: ``4,*.bias``.
    clip_value : float or None
        Each element of a gradient is kept within plus and minus that.
    draws, epochs : int
        Trainings of a candidate with other orders of the samples, all of which reach the goal; epochs at most.
    limit_j : float
        What takes more joules is out.
    """

    batches: tuple[int, ...] = BATCHES
    trained: tuple[str, ...] = ()
    clip_value: float | None = None
    draws: int = 8
    epochs: int = 40
    limit_j: float = inf


@dataclass(frozen=True)
class Advice:
    """What each step costs; with samples and a goal also what reaches it.

    Attributes
    ----------
    steps : tuple of Step
    goal : Goal or None
    race : Race or None
        With ``winner``, and the verdict on each candidate.
    curves : Curves or None
    """

    model: str
    board: str
    steps: tuple[Step, ...]
    goal: Goal | None = None
    race: Race | None = None
    curves: Curves | None = None
    notes: tuple[str, ...] = ()

    @property
    def winner(self) -> Candidate | None:
        """Who reaches the goal with the least joules in its worst draw."""
        return self.race.winner if self.race else None

    @property
    def epochs(self) -> int:
        """How many the winner is trained for: those of its worst draw."""
        assert self.race is not None and self.winner is not None
        return self.race.reached(self.winner)[self.worst]

    @property
    def worst(self) -> int:
        """The draw in which the winner takes most."""
        return self.joules.index(max(self.joules))

    @property
    def joules(self) -> list[float]:
        """What the winner takes to the goal, by draw."""
        assert self.race is not None and self.winner is not None
        return self.race.to_goal(self.winner)

    def times(self, battery: Battery) -> float:
        """How often a battery lasts for the worst draw, idle power included."""
        assert self.race is not None and self.winner is not None and self.winner.step.cost is not None
        drawn_j = max(self.joules) + (self.winner.step.cost.idle_w or 0.0) * self.seconds
        return battery.energy_j / drawn_j if drawn_j else inf

    @property
    def seconds(self) -> float:
        """What the winner takes in its worst draw."""
        assert self.race is not None and self.winner is not None and self.winner.step.cost is not None
        step, samples = self.winner.step, self.race.samples[self.worst]
        return self.winner.step.cost.epochs_s(self.epochs, samples, step.batch)


def request_for(model: str | Model, board: str | None, profile: Profiles | None, **given: Any) -> Request:
    """What planning is asked for; without a profile by the board's own, where poet has one."""
    request = Request(
        model, profile or (board if board in profile_names() else None), board, features=AUTO_PARTS, **given
    )
    request.refuse_without_costs()
    return request


def advise(
    model: str | Model,
    samples: str | Path | None = None,
    goal: str | None = None,
    *,
    board: str | None = None,
    profile: Profiles | None = None,
    ram: int | str | None = None,
    weights: str | Path | None = None,
    folder: str | Path | None = None,
    groups: str | Path | None = None,
    search: Search | None = None,
) -> Advice:
    """Say what to train, and how, for the least energy until a goal is reached in every draw.

    Parameters
    ----------
    model : str or Model
        As for `poet_planner.plan`; what it has frozen stays so.
    samples : str or Path, optional
        What it learns: an .npz with x and y (or x_train, x_val, …), a folder of .npy, or ``module:callable``. Without,
        the advice has costs alone.
    goal : str, optional
        A metric of the validation samples and a number: ``"accuracy 0.85"``.
    board, profile, ram, weights
        As for `poet_planner.plan`; the profile is the board's own if there is one.
    folder : str or Path, optional
        Where curves are kept, to go on with; what it holds of the same samples and weights is not trained again.
    groups : str or Path, optional
        A .npy with a number or word for each sample: those of one group are held back together.
    search : Search, optional

    Raises
    ------
    UserError
        If samples, goal or model do not go together.
    """
    search = search or Search()
    request = request_for(model, board, profile, ram=ram, weights=weights)
    steps = Steps(model, request, search.clip_value, search.trained)
    data = None if samples is None or goal is None else asked_of(steps, str(samples), goal, groups)
    costed = tuple(steps.all(search.batches))
    if data is None:
        return Advice(steps.name, steps.board, costed)
    return raced(steps, costed, search, data, None if folder is None else Path(folder), resume=True)


def asked_of(steps: Steps, samples: str, goal: str, groups: str | Path | None = None) -> tuple[Sets, Goal]:
    """The samples and the goal, read before anything is costed."""
    model = steps.model(BATCHES[0])
    if any(one.int8 for one in steps.sets) and steps.calibrate is None:
        raise UserError("--frozen int8: its ranges are those of samples; give --calibrate")
    sets = _sets(samples, model)
    if groups is not None:
        sets = _grouped(sets, Path(groups))
    if not sets.counts(0)[1]:
        more = "groups of each class" if groups else "samples"
        raise UserError(f"{samples}: none is left to validate with; give more {more}, or x_val and y_val")
    return sets, goal_of(goal, lambda outputs, targets: float(model.loss(outputs, targets)))


def raced(
    steps: Steps,
    costed: tuple[Step, ...],
    search: Search,
    asked: tuple[Sets, Goal],
    folder: Path | None = None,
    resume: bool = False,
    told: Callable[[float, Candidate], None] = lambda least_j, one: None,
) -> Advice:
    """Race the steps that fit, at four rates each.

    What was trained is kept, whatever ends it.
    """
    import torch

    from poet_planner.advice.curves import Curves
    from poet_planner.advice.folder import AdviceFolder, digest

    model, (sets, wanted) = steps.model(BATCHES[0]), asked
    candidates = [Candidate(one, rate) for one in costed if one.cost for rate in _rates(one.optimizer)]
    smallest, counts = min((one.step.batch for one in candidates), default=1), [*map(sets.counts, range(search.draws))]
    if smallest > (fewest := min(counts)[0]):
        raise UserError(f"--samples: an epoch has {fewest}, fewer than a batch; take a smaller --batch")
    candidates = [one for one in candidates if one.step.batch <= fewest]
    curves = Curves(model, sets, wanted.measure, traced=steps.traced)
    kept = None
    if folder is not None:
        settings = {"metric": wanted.metric, "clip": search.clip_value, "samples": digest(model, sets, steps.calibrate)}
        kept = AdviceFolder(folder, settings, resume)
        kept.load(curves, [one.key(draw) for one in candidates for draw in range(search.draws)])
    race = Race(candidates, curves, wanted, [learned for learned, _ in counts], search.epochs, search.limit_j)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums in one order, whatever the computer
    try:
        race.run(told)
    finally:
        torch.set_num_threads(threads)
        if kept is not None:
            kept.save(curves)
    notes = (
        *doubts(sets, wanted),
        *_rounded(race, Curves(model, sets, wanted.measure, dtype=torch.float64, traced=steps.traced)),
    )
    return Advice(steps.name, steps.board, costed, wanted, race, curves, notes)


def _rounded(race: Race, double: Curves) -> list[str]:
    """What is to be said where the winner reaches its goal at other epochs in f64: then roundings alone decide."""
    winner, goal = race.winner, race.goal
    if winner is None:
        return []
    keys = [winner.key(draw) for draw in range(race.draws)]
    while opened := [key for key in keys if not goal.least_epoch(double.begun(key))[1]]:
        if len(double.values[opened[0]]) > race.most_epochs:
            break
        double.extend(opened)
    moved = [goal.least_epoch(double.values[key])[0] for key in keys]
    if moved == race.reached(winner):
        return []
    epochs = f"{max(moved)} epochs in f64, {max(race.reached(winner))} in f32"
    return [f"at rate {winner.rate:g} roundings alone decide when it is reached: in the worst draw after {epochs}"]


def _rates(optimizer: Optimizer) -> tuple[float, ...]:
    return ADAM_RATES if optimizer.is_adam else MOMENTUM_RATES if optimizer.momentum else SGD_RATES


def _sets(samples: str, model: Model) -> Sets:
    """The data set as tensors, held against the model's example batch."""
    import numpy as np
    import torch
    from poet_profiles.samples import BatchTensor, Samples, read_sets
    from poet_runtime.nested import tensors_in

    from poet_planner.advice.curves import Data, Sets
    from poet_planner.tracing.evaluating import evaluating

    inputs, targets = ([*tensors_in(part)] for part in (model.inputs, model.targets))
    if len(inputs) != 1 or len(targets) != 1:
        raise UserError(f"{model.name}: takes {len(inputs)} inputs and {len(targets)} targets; --samples are for one")
    with torch.no_grad(), evaluating(model.module):
        outputs = model.module(*model.inputs)
    scores = isinstance(outputs, torch.Tensor) and outputs.dim() == 2 and targets[0].dim() == 1
    choices = outputs.shape[1] if scores and not targets[0].is_floating_point() else None

    def dtype(tensor: torch.Tensor) -> np.dtype[Any]:
        return np.dtype(np.float32 if tensor.is_floating_point() else np.int32)

    tensors = [
        BatchTensor(0, "input", "input", tuple(inputs[0].shape[1:]), dtype(inputs[0]), None),
        BatchTensor(1, "target", "target", tuple(targets[0].shape[1:]), dtype(targets[0]), choices),
    ]

    def data(given: Samples | None) -> Data | None:
        if given is None or not given.count:
            return None
        rows = given.rows(np.arange(given.count))
        x, y = (torch.from_numpy(rows[index].copy()) for index in (0, 1))
        return Data((x.to(inputs[0].dtype),), (y.to(targets[0].dtype),))

    sets = read_sets(samples, tensors)
    train = data(sets.train)
    if train is None:
        raise UserError(f"{samples}: holds no sample")
    return Sets(train, data(sets.validation))


def _grouped(sets: Sets, path: Path) -> Sets:
    """With a number of its group for each sample."""
    import numpy as np
    from poet_profiles.samples import mapped

    if sets.validation is not None:
        raise UserError("--groups: says nothing beside x_val; leave one of them out")
    words, count = mapped(path), len(sets.train)
    if words.shape != (count,):
        raise UserError(f"{path}: is of shape {words.shape}; give a number or word for each of the {count} samples")
    return replace(sets, groups=np.unique(words, return_inverse=True)[1])


FEW = 30
RARE = 0.1  # of the largest class


def doubts(sets: Sets, goal: Goal) -> tuple[str, ...]:
    """What makes an advice doubtful."""
    notes, labels, held = [], sets.train.targets[0], sets.counts(0)[1]
    if held < FEW:
        notes.append(f"{held} validation samples are few: more make the advice safer")
    if goal.metric == "accuracy" and labels.dim() == 1:
        counts = Counter(labels.tolist()).values()
        if min(counts) < RARE * max(counts):
            notes.append("a class is rare, and accuracy hardly sees it: balanced accuracy or macro f1 do")
    if sets.groups is not None and goal.metric in SHARES:
        alone = [one for one in sorted({*labels.tolist()}) if len({*sets.groups[labels.numpy() == one]}) == 1]
        notes += [f"class {one} is of one group alone, so it is never validated with" for one in alone]
    return tuple(notes)
