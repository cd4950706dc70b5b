# SPDX-License-Identifier: Apache-2.0
"""A curve is ordinary training: against PyTorch's own modules and optimizers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from poet_planner import Model
from poet_planner.advice.advice import doubts
from poet_planner.advice.candidates import PLAIN_SGD, STATEFUL
from poet_planner.advice.curves import Curves, Data, Key, Sets
from poet_planner.advice.goal import goal_of
from poet_planner.advice.trained_sets import sets_of
from torch import nn
from torch.nn.functional import cross_entropy

BATCH, EPOCHS, CLIP = 4, 3, 0.3
OPTIMIZERS = [replace(one, clip_value=CLIP) for one in (*STATEFUL, PLAIN_SGD)]


def network(norm: nn.Module | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    front = nn.Conv1d(2, 4, 3, padding=1), norm or nn.Identity(), nn.ReLU(), nn.AvgPool1d(2)
    return nn.Sequential(*front, nn.Conv1d(4, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3))


def sets() -> Sets:
    torch.manual_seed(1)
    y = torch.arange(30) % 3
    x = torch.randn(30, 2, 8) + y[:, None, None]
    return Sets(Data((x[:20],), (y[:20],)), Data((x[20:],), (y[20:],)))


def model(module: nn.Module) -> Model:
    one = sets().train
    return Model("small", module, (one.inputs[0][:4],), (one.targets[0][:4],), cross_entropy)


def loss_of(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """Of all samples: a metric that every weight changes."""
    return float(cross_entropy(outputs, targets))


def plain(module: nn.Module, key: Key, dtype: torch.dtype, given: Sets | None = None) -> list[float]:
    """Twenty lines of PyTorch."""
    module, given = deepcopy(module).to(dtype), given or sets()
    assert given.validation is not None
    for path, parameter in module.named_parameters():
        parameter.requires_grad_(path in key.trained.learns)
    learning = [one for one in module.parameters() if one.requires_grad]
    of = key.optimizer
    made = torch.optim.Adam(learning, key.rate) if of.is_adam else torch.optim.SGD(learning, key.rate, of.momentum)
    (x,), (y,) = given.train.inputs, given.train.targets
    values = []
    for epoch in range(EPOCHS + 1):
        module.eval()
        with torch.no_grad():
            values.append(loss_of(module(given.validation.inputs[0].to(dtype)), given.validation.targets[0]))
        module.train()
        order = np.random.default_rng([key.draw, epoch]).permutation(len(y))
        for at in range(0, len(y) - key.batch + 1, key.batch):
            chosen = order[at : at + key.batch]
            made.zero_grad()
            cross_entropy(module(x[chosen].to(dtype)), y[chosen]).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_value_(learning, CLIP)
            made.step()
    return values


def keys(module: nn.Module, trained: int) -> list[Key]:
    one = sets_of(module)[trained]
    rates = {of: 0.01 if of.is_adam else 0.1 for of in OPTIMIZERS}
    return [Key(one, BATCH, of, rates[of], draw) for of in OPTIMIZERS for draw in (0, 5)]


@pytest.mark.parametrize(("dtype", "off"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("trained", [0, -1])  # the head, on features; all
def test_a_curve_is_ordinary_training(trained: int, dtype: torch.dtype, off: float) -> None:
    module = network()
    curves, wanted = Curves(model(module), sets(), loss_of, dtype=dtype), keys(module, trained)
    for _ in range(EPOCHS):
        curves.extend(wanted)
    assert curves.epochs == EPOCHS * len(wanted)
    for key in wanted:
        assert curves.values[key] == pytest.approx(plain(module, key, dtype), abs=off)


def test_batch_norms_that_learn_go_one_by_one() -> None:
    module = network(nn.BatchNorm1d(4))
    curves, wanted = Curves(model(module), sets(), loss_of, dtype=torch.float64), keys(module, -1)
    for _ in range(EPOCHS):
        curves.extend(wanted)
    for key in wanted:
        assert curves.values[key] == pytest.approx(plain(module, key, torch.float64), abs=1e-12)


def test_a_training_has_the_same_bits_in_any_company() -> None:
    module = network()
    together, wanted = Curves(model(module), sets(), loss_of), keys(module, -1)
    apart = Curves(model(module), sets(), loss_of)
    for epoch in range(EPOCHS):
        together.extend(wanted)
        for first in range(0, len(wanted), 1 + epoch):
            apart.extend(wanted[first : first + 1 + epoch])
    assert together.values == apart.values


def test_each_draw_holds_back_a_fifth_of_each_class() -> None:
    y = torch.tensor([0] * 20 + [1] * 10)
    given = Sets(Data((torch.randn(30, 2),), (y,)))
    splits = [given.split(draw) for draw in range(4)]
    for learned, held in splits:
        assert sorted([*learned, *held]) == [*range(30)]
        assert np.bincount(y.numpy()[held]).tolist() == [4, 2]
    assert len({held.tobytes() for _, held in splits}) == 4
    assert given.counts(0) == (24, 6)


@pytest.mark.parametrize("of_one_class", [False, True])
def test_groups_are_never_on_both_sides(of_one_class: bool) -> None:
    """Of people who did all, or of recordings of one thing each; of any size."""
    random = np.random.default_rng(0)
    sizes = random.integers(3, 12, 14)
    groups = np.repeat(np.arange(14), sizes)
    y = np.repeat(np.arange(14) % 3, sizes) if of_one_class else random.integers(0, 3, len(groups))
    given = Sets(Data((torch.randn(len(y), 2),), (torch.from_numpy(y),)), None, groups)
    splits = [given.split(draw) for draw in range(20)]
    for learned, held in splits:
        assert sorted([*learned, *held]) == [*range(len(y))]
        assert not {*groups[learned]} & {*groups[held]}
        assert {*y[learned]} == {0, 1, 2}
        assert 0.1 < len(held) / len(y) < 0.35
    assert {*np.concatenate([y[held] for _, held in splits])} == {0, 1, 2}
    assert len({held.tobytes() for _, held in splits}) > 5


def test_a_class_of_one_group_is_said() -> None:
    y = torch.tensor([0] * 20 + [1] * 20)
    given = Sets(Data((torch.randn(40, 2),), (y,)), None, np.repeat([0, 1, 2], (10, 10, 20)))
    assert given.counts(0) == (30, 10)
    said = doubts(given, goal_of("accuracy 0.8", loss_of))
    assert said[1:] == ("class 1 is of one group alone, so it is never validated with",)


def test_draws_of_unequal_groups_are_ordinary_trainings() -> None:
    module, (x,), (y,) = network(), sets().train.inputs, sets().train.targets
    given = Sets(Data((x,), (y,)), None, np.repeat(np.arange(5), (3, 4, 2, 6, 5)))
    draws = range(6)
    assert len({given.counts(draw)[0] for draw in draws}) > 1
    together, wanted = Curves(model(module), given, loss_of), [keys(module, -1)[0]._replace(draw=one) for one in draws]
    for _ in range(EPOCHS):
        together.extend(wanted)
    for key in wanted:
        learned, held = given.split(key.draw)
        alone = Sets(Data((x[learned],), (y[learned],)), Data((x[held],), (y[held],)))
        assert together.values[key] == pytest.approx(plain(module, key, torch.float32, alone), abs=1e-5)
