# SPDX-License-Identifier: Apache-2.0
"""Losses without a name, as data, against the user's code on other samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
import torch
from poet_planner.models import Model
from poet_planner.tracing.traced_loss import traced_loss
from poet_profiles.errors import UserError
from poet_profiles.traced_loss import TracedLoss
from pydantic import TypeAdapter
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, log_softmax

COUNT, MORE = 4, 7
WEIGHTS = torch.tensor([1.0, 2.0, 0.5])
Draw = Callable[[int], Tensor]


def floats(count: int) -> Tensor:
    return torch.rand(count, 3)


def labels(count: int) -> Tensor:
    return torch.arange(count) % 3


def places(count: int) -> Tensor:
    return torch.randint(3, (count, 5))


def shares(count: int) -> Tensor:
    return torch.rand(count, 3).softmax(1)


def contrastive(scores: Tensor, wanted: Tensor) -> Tensor:
    a, b = functional.normalize(scores), functional.normalize(wanted)
    return cross_entropy(a @ b.T / 0.1, torch.arange(len(scores)))


def masked(scores: Tensor, wanted: Tensor) -> Tensor:
    return log_softmax(scores.masked_fill(wanted > 0.9, -1e9), 1).clamp_min(-9).sum() * (1 / len(scores))


class Focal(nn.Module):
    def forward(self, scores: Tensor, wanted: Tensor) -> Tensor:
        return (
            (1 - scores.softmax(1).gather(1, wanted[:, None]).squeeze(1)) ** 2 * cross_entropy(scores, wanted)
        ).mean()


CASES: dict[str, tuple[Callable[..., Tensor], Draw, tuple[int, ...], int | None, bool]] = {
    "weights": (nn.CrossEntropyLoss(weight=WEIGHTS), labels, (3,), 1, False),
    "weights, smooth": (nn.CrossEntropyLoss(WEIGHTS, label_smoothing=0.1), labels, (3,), 1, False),
    "ignored": (nn.CrossEntropyLoss(ignore_index=1), labels, (3,), 1, False),
    "sum": (nn.CrossEntropyLoss(reduction="sum"), labels, (3,), 1, False),
    "shares": (nn.CrossEntropyLoss(), shares, (3,), 1, True),
    "places": (nn.CrossEntropyLoss(weight=WEIGHTS), places, (3, 5), 1, False),
    "places last": (lambda y, t: cross_entropy(y.flatten(0, 1), t.flatten(), WEIGHTS), places, (5, 3), 2, False),
    "square": (
        lambda y, t: cross_entropy(y.transpose(1, 2).flatten(0, 1), t.flatten(), WEIGHTS),
        lambda n: labels(3 * n).view(n, 3),
        (3, 3),
        1,
        False,
    ),
    "square, last": (
        lambda y, t: cross_entropy(y.flatten(0, 1), t.flatten(), WEIGHTS),
        lambda n: labels(3 * n).view(n, 3),
        (3, 3),
        2,
        False,
    ),
    "huber": (nn.HuberLoss(), floats, (3,), None, False),
    "l1": (nn.L1Loss(), floats, (3,), None, False),
    "positive weights": (nn.BCEWithLogitsLoss(pos_weight=WEIGHTS), floats, (3,), None, False),
    "divergence": (lambda y, t: functional.kl_div(log_softmax(y, 1), t, reduction="batchmean"), shares, (3,), 1, True),
    "contrastive": (contrastive, floats, (3,), None, False),
    "masked": (masked, floats, (3,), None, False),
    "in place": (lambda y, t: (y - t).pow_(2).mul_(3).mean(), floats, (3,), None, False),
    "focal": (Focal(), labels, (3,), 1, False),
}


def found(loss: Callable[..., Tensor], targets: tuple[Tensor, ...], sample: tuple[int, ...]) -> TracedLoss | None:
    return traced_loss(Model("own", nn.Linear(3, 3), (torch.rand(COUNT, 3),), targets, loss), sample)


@pytest.mark.parametrize("name", CASES)
def test_it_is_the_users_of_any_number_of_samples(name: str) -> None:
    torch.manual_seed(0)
    loss, draw, sample, axis, soft = CASES[name]
    data = found(loss, (draw(COUNT),), sample)
    assert data is not None
    read = TypeAdapter(TracedLoss).validate_json(json.dumps(asdict(data), allow_nan=False), strict=True)
    assert (read.class_axis, read.soft) == (axis, soft)
    for count in (1, MORE):
        scores, wanted = torch.rand(count, *sample), draw(count)
        assert read.mean(scores.numpy(), wanted.numpy()) == pytest.approx(loss(scores, wanted).item(), rel=1e-5)


def test_two_targets_or_none() -> None:
    y, wanted = torch.rand(MORE, 3), (labels(MORE), floats(MORE))

    def distilled(scores: Tensor, label: Tensor, teacher: Tensor) -> Tensor:
        return cross_entropy(scores, label) + functional.mse_loss(scores, teacher)

    data = found(distilled, (labels(COUNT), floats(COUNT)), (3,))
    assert data is not None
    assert data.mean(y.numpy(), *(one.numpy() for one in wanted)) == pytest.approx(distilled(y, *wanted).item(), 1e-5)
    assert found(lambda scores: scores.sum(), (), (3,)) is None


def test_what_hangs_on_the_number_of_samples_otherwise_is_no_data() -> None:
    fixed: list[Callable[..., Any]] = [
        lambda y, t: functional.mse_loss(y.view(COUNT, 3), t),
        lambda y, t: functional.mse_loss(y, t) / len(y) ** 2,
        lambda y, t: functional.mse_loss(functional.dropout(y), t),
        lambda y, t: y.sum() * float(t.max()),
        lambda y, t: functional.mse_loss(y, t[:, :2]),
    ]
    assert [found(loss, (floats(COUNT),), (3,)) for loss in fixed] == [None] * len(fixed)


def test_samples_of_another_shape_are_refused() -> None:
    data = found(nn.L1Loss(), (floats(COUNT),), (3,))
    assert data is not None
    with pytest.raises(UserError, match="the plan's loss cannot be computed of these samples"):
        data.mean(torch.rand(2, 3).numpy(), torch.rand(2, 4).numpy())
