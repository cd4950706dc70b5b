# SPDX-License-Identifier: Apache-2.0
"""The race against brute force, on drawn curves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from poet_planner.advice.candidates import Cost, Step
from poet_planner.advice.curves import Key
from poet_planner.advice.goal import KEPT, Goal
from poet_planner.advice.race import REACHES, Candidate, Race
from poet_planner.advice.trained_sets import TrainedSet
from poet_planner.graph.optimizer import Optimizer

DRAWS, EPOCHS, SAMPLES = 3, 25, 10
GOAL = Goal("accuracy", 0.9, lambda outputs, targets: 0.0)


@dataclass
class Drawn:
    """Trainings that were drawn beforehand."""

    all: dict[Key, list[float]]
    values: dict[Key, list[float]] = field(default_factory=dict)
    epochs: int = 0

    def begun(self, key: Key) -> list[float]:
        return self.values.setdefault(key, self.all[key][:1])

    def extend(self, keys: Sequence[Key]) -> None:
        assert len({*keys}) == len(keys) and len({(key.trained, key.batch) for key in keys}) == 1
        for key in keys:
            self.begun(key).append(self.all[key][len(self.values[key])])
        self.epochs += len(keys)


class Lazy(Step):
    """A step whose true cost, or refusal, is known when it is asked for."""

    true: Any = None

    def settle(self) -> None:
        self.cost = self.true
        self.why_none = "" if self.true else "no room"


def problem(seed: int) -> tuple[list[Candidate], Drawn]:
    draw, ones, drawn = random.Random(seed), [], Drawn({})
    for number in range(draw.randint(2, 12)):
        step = Lazy(TrainedSet(f"set {number % 3}", (), frozenset()), 2, Optimizer())
        energy_j, once_j = draw.uniform(0.1, 10), draw.choice((0.0, draw.uniform(0, 20)))
        is_bound, off = draw.random() < 0.5, draw.choice((0.0, 0.3))
        known = Cost(energy_j, 1.0, once_j / SAMPLES, 0.0, 1, 1, 1, "", is_bound, SAMPLES, error=off)
        step.cost = known
        dearer = replace(known, energy_j=energy_j * draw.uniform(1, 2), is_bound=False)
        step.true = None if draw.random() < 0.2 else dearer
        one = Candidate(step, float(number))
        for at in range(DRAWS):
            rise, noise, top = draw.uniform(0.01, 0.4), draw.uniform(0, 0.1), draw.uniform(0.9, 1.1)
            drawn.all[one.key(at)] = [
                top * (1 - (1 - rise) ** epoch) + draw.gauss(0, noise) for epoch in range(EPOCHS + 1)
            ]
        ones.append(one)
    return ones, drawn


def worst_j(one: Candidate, drawn: Drawn) -> float | None:
    """The joules of its worst draw by brute force.

    None: one never keeps the goal, or it has no room.
    """
    step = one.step
    assert isinstance(step, Lazy) and step.cost is not None
    cost = step.true if step.cost.is_bound else step.cost
    firsts = []
    for at in range(DRAWS):
        curve = drawn.all[one.key(at)]
        kept = [epoch for epoch in range(EPOCHS - KEPT + 2) if min(curve[epoch : epoch + KEPT]) >= GOAL.number]
        firsts.append(kept[0] if kept else None)
    if cost is None or None in firsts:
        return None
    epochs = max(first for first in firsts if first is not None)
    return (cost.feature_j * SAMPLES + epochs * (SAMPLES // 2) * cost.energy_j) if epochs else 0.0


def test_the_winner_is_that_of_brute_force_with_a_part_of_its_epochs() -> None:
    trained = possible = nones = others = 0
    for seed in range(400):
        ones, drawn = problem(seed)
        expected = {id(one): joules for one in ones if (joules := worst_j(one, drawn)) is not None}
        race = Race(ones, drawn, GOAL, [SAMPLES] * DRAWS, EPOCHS)
        race.run()
        trained, possible = trained + drawn.epochs, possible + len(ones) * DRAWS * EPOCHS
        if race.winner is None:
            assert not expected
            nones += 1
            continue
        assert race.winner.verdict == REACHES
        assert max(race.to_goal(race.winner)) == pytest.approx(min(expected.values()))
        assert all(one.verdict for one in ones)
        assert race.winner.step.cost is not None
        least_j = min(expected.values())
        most_j = least_j * (1 + race.winner.step.cost.error)
        near = {one for one, joules in expected.items() if joules <= most_j and one != id(race.winner) and least_j}
        assert {id(one) for one in race.as_good} == near
        others += len(near)
    assert 0 < nones < 400 and others > 10
    assert trained < possible / 3


def test_what_takes_more_than_the_limit_is_out() -> None:
    ones, drawn = problem(1)
    race = Race(ones, drawn, GOAL, [SAMPLES] * DRAWS, EPOCHS, limit_j=0.05)
    race.run()
    assert race.winner is None
    assert any(one.verdict == "takes more than 50 mJ" for one in ones)


def test_a_network_that_has_the_goal_already_takes_nothing() -> None:
    ones, drawn = problem(2)
    for values in drawn.all.values():
        values[:] = [0.95] * len(values)
    race = Race(ones, drawn, GOAL, [SAMPLES] * DRAWS, EPOCHS)
    race.run()
    assert race.winner is not None and race.reached(race.winner) == [0] * DRAWS
    assert race.to_goal(race.winner) == [0.0] * DRAWS
