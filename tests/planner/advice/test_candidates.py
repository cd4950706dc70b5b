# SPDX-License-Identifier: Apache-2.0
"""What a step costs at least, against the plan that it stands for."""

from __future__ import annotations

import json

import pytest
import torch
from poet_planner import Model, Optimizer, plan
from poet_planner.advice.candidates import PLAIN_SGD, STATEFUL, Steps
from poet_planner.planning import pipeline
from poet_planner.planning.request import Request
from poet_profiles.boards import Board, load_board
from poet_profiles.errors import NO_SCHEDULE
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support.programs import Said, poet_plan

MOMENTUM, ADAM = STATEFUL
TIGHT = "16KB"  # less than the store-all schedule of two samples takes


def model(batch: int = 4) -> Model:
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 4, 3, padding=1)
    module = nn.Sequential(conv, nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
    return Model("small", module, (torch.randn(batch, 1, 8, 8),), (torch.arange(batch) % 3,), cross_entropy)


def steps(ram: str | None = None, board: Board | None = None) -> Steps:
    given = model()
    return Steps(given, Request(given, "nrf52840", board, ram=ram, features="auto"))


@pytest.mark.parametrize("optimizer", [MOMENTUM, ADAM])
@pytest.mark.parametrize("name", ["head", "last 2 of 3", "all"])
def test_an_energy_is_that_of_the_plan_by_the_name_with_its_patterns(name: str, optimizer: Optimizer) -> None:
    """To the last bit, with what is beside it: an epoch's features and its steps."""
    costed = steps()
    step = costed.step(next(one for one in costed.sets if one.name == name), 4, optimizer)
    given = model()
    for path, parameter in given.module.named_parameters():
        parameter.requires_grad_(path in step.trained.learns)
    planned = plan(given, profile="nrf52840", optimizer=optimizer)
    assert step.cost is not None and not step.cost.is_bound
    assert step.cost.energy_j == planned.summary.energy_j
    assert step.cost.time_s == planned.summary.time_s
    assert step.cost.ram_bytes == planned.summary.peak_bytes
    features = planned.summary.features
    once_j = 10 * features.energy_j / features.at_once if features else 0.0
    assert step.cost.epochs_j(3, samples=10, batch=4) == pytest.approx(once_j + 6 * planned.summary.energy_j)


def test_a_sketch_has_room_for_as_many_features_as_its_plan() -> None:
    """Less than a chip's firmware: it keeps the loaded plan in RAM, too."""
    chip = load_board("nrf52840")
    sketch = chip.model_copy(update={"sketch": True})
    rooms = []
    for board in (chip, sketch):
        costed = steps(board=board)
        head = costed.step(costed.sets[0], 4, MOMENTUM)
        assert head.cost is not None and head.cost.room is not None
        rooms.append(head.cost.room)
    given = model()
    for path, parameter in given.module.named_parameters():
        parameter.requires_grad_(path in head.trained.learns)
    request = Request(given, "nrf52840", sketch, optimizer=MOMENTUM, features="auto")
    features = pipeline.plan(request).summary.features
    assert features is not None
    assert rooms[0] > rooms[1] == features.room


def test_a_bound_is_below_the_plan_that_is_made_when_somebody_asks() -> None:
    costed = steps(TIGHT)
    step = costed.step(costed.sets[-1], 2, MOMENTUM)
    assert step.cost is not None and step.cost.is_bound
    least_j = step.cost.energy_j
    step.settle()
    planned = plan(model(2), profile="nrf52840", ram=TIGHT, optimizer=MOMENTUM).summary
    assert step.cost is not None and not step.cost.is_bound
    assert least_j <= step.cost.energy_j == planned.energy_j
    assert step.cost.ram_bytes == planned.peak_bytes <= planned.ram_budget_bytes


def test_plain_descent_is_tried_where_nothing_else_fits() -> None:
    costed = steps("9KB")
    costed.sets = costed.sets[:1]
    found = [*costed.all((2,))]
    assert [one.optimizer for one in found] == [*STATEFUL, PLAIN_SGD]
    assert [bool(one.cost) for one in found] == [False, False, True]
    assert all(" KB by itself" in one.why_none for one in found[:2])


def test_the_verb_says_what_each_step_takes(capsys: Said) -> None:
    options = ("--model", "digits_cnn_small[fc,conv5]", "--board", "nrf52840", "--batch", 2)
    assert poet_plan("advise", *options, "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["trained"], row["optimizer"]) for row in rows[:2]] == [("head", "momentum"), ("head", "adam")]
    assert poet_plan("advise", *options, "--table", "csv") == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == len(rows) + 1 and table[1].startswith("head,2,momentum,")


def test_a_board_on_which_nothing_fits_is_said(capsys: Said) -> None:
    options = ("--model", "digits_cnn_small[fc]", "--board", "nrf52840", "--batch", 2, "--ram", "1KB")
    assert poet_plan("advise", *options) == NO_SCHEDULE
    assert "none of these ways fits" in capsys.readouterr().err
