# SPDX-License-Identifier: Apache-2.0
"""The race of an advice beside Optuna's successive halving, on one list of candidates.

`python -m benchmarks.evaluation halving` makes `halving.csv`. Both train by the same code the same draws of the same
steps and rates to the same goal, and measure a candidate by its worst draw. Optuna's trials report after each epoch how
far the worst draw is from all right, and end once all draws keep the goal; its pruner has its own defaults, and three
seeds have three orders of the list. Processor time is that of the trainings and of the search: costing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from math import inf
from pathlib import Path
from random import Random
from time import process_time
from typing import TYPE_CHECKING, Any

from poet_planner.advice.advice import Search, raced, request_for
from poet_planner.advice.candidates import Steps
from poet_planner.advice.race import Candidate, Race
from poet_planner.advice.report import optimizer_text
from poet_profiles.errors import UserError

from benchmarks.evaluation import accuracy
from benchmarks.evaluation.fresh_draws import Case, speech, watch
from benchmarks.evaluation.records import write_rows
from benchmarks.evaluation.results import HERE

if TYPE_CHECKING:
    from poet_planner.advice.curves import Curves

PATH = HERE / "halving.csv"
LIMIT_S = 0.0  # seconds a plan: the planner has its own
SEEDS = range(3)


@dataclass(frozen=True)
class Row:
    """What one way names, how many epochs it trained for that, and the joules of the worst draw."""

    task: str
    goal: float
    who: str
    candidates: int
    epochs: int
    processor_s: float
    trained: str
    batch: int
    optimizer: str
    rate: float
    worst_j: float


def halved(race: Race, seed: int) -> Candidate | None:
    """What Optuna names of a race's candidates; it fills the race's trainings."""
    optuna: Any = import_module("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(
        sampler=optuna.samplers.RandomSampler(seed), pruner=optuna.pruners.SuccessiveHalvingPruner()
    )

    def objective(trial: Any) -> float:
        one = race.candidates[trial.suggest_int("candidate", 0, len(race.candidates) - 1)]
        keys = [one.key(draw) for draw in range(race.draws)]
        for epoch in range(race.most_epochs + 1):
            one.seen = [epoch] * race.draws
            values = (
                [race.values(one, draw) for draw in range(race.draws)] if epoch else [curves.begun(k) for k in keys]
            )
            if all(race.goal.least_epoch(each)[1] for each in values):
                one.step.settle()
                return max(race.to_goal(one)) if one.step.cost else inf
            trial.report(1 - min(each[-1] for each in values), epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
            if epoch < race.most_epochs:
                curves.extend(keys)
        return inf

    curves: Curves = race.trainings  # type: ignore[assignment]
    numbers = [*range(len(race.candidates))]
    Random(seed).shuffle(numbers)
    for number in numbers:
        study.enqueue_trial({"candidate": number})
    study.optimize(objective, n_trials=len(numbers))
    done = [trial for trial in study.trials if trial.value is not None and trial.value < inf]
    return race.candidates[min(done, key=lambda trial: trial.value).params["candidate"]] if done else None


def rows(case: Case, search: Search | None = None, seeds: range = SEEDS) -> Iterator[Row]:
    """The advice, and what Optuna names with each seed."""
    from poet_planner.advice.curves import Curves

    task, share, sets, _ = case
    search, goal, model = search or Search(clip_value=task.clip), accuracy.goal_of_share(share), accuracy.model(task)
    steps = Steps(model, request_for(model, accuracy.PROFILE, None), search.clip_value)
    costed = tuple(steps.all(search.batches))
    began = process_time()
    race = raced(steps, costed, search, (sets, goal)).race
    assert race is not None

    def row(who: str, race: Race, one: Candidate | None, seconds: float) -> Row:
        named = ("", 0, "", 0.0)
        if one is not None:
            named = one.step.trained.name, one.step.batch, optimizer_text(one.step.optimizer), one.rate
        epochs = race.trainings.epochs  # type: ignore[attr-defined]
        worst_j = max(race.to_goal(one)) if one else inf
        return Row(task.name, share, who, len(race.candidates), epochs, seconds, *named, worst_j)

    yield row("advice", race, race.winner, process_time() - began)
    for seed in seeds:
        candidates = [Candidate(one.step, one.rate) for one in race.candidates]
        other = Race(candidates, Curves(model, sets, goal.measure), goal, race.samples, race.most_epochs)
        began = process_time()
        found = halved(other, seed)
        yield row(f"Optuna, seed {seed}", other, found, process_time() - began)


def run_halving(limit_s: float = LIMIT_S, path: Path = PATH) -> None:
    """Race and halve everything anew, and write the table."""
    import torch

    try:
        import_module("optuna")
    except ImportError:
        raise UserError("halving: needs Optuna: pip install optuna==5.0.0") from None
    torch.set_num_threads(1)  # sums in one order, whatever the computer
    write_rows([row for case in (watch, speech) for row in rows(case())], Row, path)
