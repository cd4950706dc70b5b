# SPDX-License-Identifier: Apache-2.0
"""Tasks that only one layer's weights can solve, and orders of price that say who is to win."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from poet_planner import Model
from poet_planner.advice.candidates import STATEFUL, Cost, Step
from poet_planner.advice.curves import Curves, Data, Sets
from poet_planner.advice.goal import goal_of
from poet_planner.advice.race import Candidate as One
from poet_planner.advice.race import Race
from poet_planner.advice.trained_sets import sets_of
from torch import nn
from torch.nn.functional import mse_loss

FIRST, HEAD, ALL = "0", "head", "all"


def winner(planted: int, prices: dict[str, float]) -> str:
    """Who wins where a network's layer is another one, by the joules of a step of each set."""
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 4))
    x, other = torch.randn(200, 6), deepcopy(module)
    with torch.no_grad():
        other[planted].weight.copy_(3 * other[planted].weight.roll(1, 1 if planted == 0 else 0))
        y = other(x)
    model = Model("planted", module, (x[:8],), (y[:8],), mse_loss)
    goal = goal_of("loss 0.02", lambda outputs, targets: float(mse_loss(outputs, targets)))
    curves = Curves(model, Sets(Data((x[:150],), (y[:150],)), Data((x[150:],), (y[150:],))), goal.measure)
    named = {one.name: one for one in sets_of(module, (FIRST,))}
    costs = {name: Cost(price, 1.0, 0.0, 0.0, 1, 1, 1, "", False) for name, price in prices.items()}
    ones = [One(Step(named[name], 8, STATEFUL[1], cost), 0.03) for name, cost in costs.items()]
    race = Race(ones, curves, goal, [150] * 2, 60)
    race.run()
    assert race.winner is not None
    return race.winner.step.trained.name


@pytest.mark.parametrize(("planted", "name"), [(0, FIRST), (2, HEAD)])
def test_the_layer_that_differs_wins_unless_another_is_free_or_it_is_dear(planted: int, name: str) -> None:
    alike = {FIRST: 1.0, HEAD: 1.0, ALL: 4.0}
    assert winner(planted, alike) == name
    assert winner(planted, {**alike, ALL: 0.0}) == ALL
    assert winner(planted, {**alike, name: 1000.0}) != name
