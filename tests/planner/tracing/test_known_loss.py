# SPDX-License-Identifier: Apache-2.0
"""Which losses have a name by which NumPy computes them, and along which axis of the scores their classes are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from poet_planner.models import Model, load
from poet_planner.tracing.known_loss import known_loss
from poet_profiles.losses import Loss
from torch import Tensor, nn
from torch.nn import functional

FLOATS, LABELS, SEQUENCES = torch.rand(4, 3), torch.tensor([0, 1, 0, 1]), torch.randint(3, (4, 5))


def known(loss: Callable[..., Tensor], target: Any, *sample: int) -> Loss | None:
    return known_loss(Model("own", nn.Linear(3, 3), (torch.rand(4, 3),), (target,), loss), sample)


@pytest.mark.parametrize(
    ("loss", "target", "sample", "expected"),
    [
        (nn.MSELoss(), FLOATS, (3,), Loss("mse_loss")),
        (nn.BCELoss(), FLOATS, (3,), Loss("binary_cross_entropy")),
        (nn.BCEWithLogitsLoss(), FLOATS, (3,), Loss("binary_cross_entropy_with_logits")),
        (nn.CrossEntropyLoss(), LABELS, (3,), Loss("cross_entropy", 1)),
        (nn.NLLLoss(), LABELS, (3,), Loss("nll_loss", 1)),
        (lambda x, y: functional.nll_loss(functional.log_softmax(x, 1), y), LABELS, (3,), Loss("cross_entropy", 1)),
        (functional.cross_entropy, SEQUENCES, (3, 5), Loss("cross_entropy", 1)),
        (
            lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten()),
            SEQUENCES,
            (5, 3),
            Loss("cross_entropy", 2),
        ),
        (
            lambda x, y: functional.cross_entropy(x.transpose(1, 2).flatten(0, 1), y.flatten()),
            SEQUENCES,
            (3, 5),
            Loss("cross_entropy", 1),
        ),
        (lambda x, y: functional.mse_loss(x.squeeze(-1), y), torch.rand(4), (1,), Loss("mse_loss")),
        (
            lambda x, y: functional.binary_cross_entropy_with_logits(x.squeeze(1), y.float()),
            LABELS,
            (1,),
            Loss("binary_cross_entropy_with_logits"),
        ),
    ],
)
def test_a_mean_of_all_numbers_has_a_name(
    loss: Callable[..., Tensor], target: Any, sample: tuple[int, ...], expected: Loss
) -> None:
    assert known(loss, target, *sample) == expected


@pytest.mark.parametrize(
    ("loss", "target", "sample"),
    [
        (nn.L1Loss(), FLOATS, (3,)),
        (nn.MSELoss(reduction="sum"), FLOATS, (3,)),
        (lambda x, y: 2 * functional.mse_loss(x, y), FLOATS, (3,)),
        (lambda x, y: functional.mse_loss(x / 2, y), FLOATS, (3,)),
        (lambda x, y: functional.mse_loss(x.reshape(3, 4).T, y), FLOATS, (3,)),
        (lambda x, y: functional.mse_loss(x[:, :2], y[:, :2]), FLOATS, (3,)),
        (lambda x, y: functional.mse_loss(x, y) + functional.mse_loss(x, y), FLOATS, (3,)),
        (nn.BCELoss(weight=torch.ones(3)), FLOATS, (3,)),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), FLOATS, (3,)),
        (nn.CrossEntropyLoss(weight=torch.ones(3)), LABELS, (3,)),
        (nn.CrossEntropyLoss(label_smoothing=0.1), LABELS, (3,)),
        (nn.CrossEntropyLoss(ignore_index=2), LABELS, (3,)),  # which the example happens to lack
        (nn.CrossEntropyLoss(), torch.tensor([0, -100, 1, 2]), (3,)),
        (nn.CrossEntropyLoss(reduction="sum"), LABELS, (3,)),
        (nn.CrossEntropyLoss(), FLOATS, (3,)),
        (lambda x, y: functional.nll_loss(functional.log_softmax(x, 0), y), LABELS, (3,)),
        (lambda x, y: functional.cross_entropy(x.view(-1, 3), y.flatten()), SEQUENCES, (3, 5)),
        (lambda x, y: functional.cross_entropy(x[0], y), LABELS, (3,)),  # of an output that is a pair in training
    ],
)
def test_every_other_loss_has_none(loss: Callable[..., Tensor], target: Any, sample: tuple[int, ...]) -> None:
    assert known(loss, target, *sample) is None


def test_built_in_models() -> None:
    for name, expected in (("gpt_small", Loss("cross_entropy", 2)), ("mlperf_autoencoder", Loss("mse_loss"))):
        model = load(name)
        with torch.no_grad():
            shape = model.module(*model.inputs).shape
        assert known_loss(model, shape[1:]) == expected


def test_two_targets_or_none_have_no_name_and_the_loss_stays_as_it_was() -> None:
    model = load("mlperf_autoencoder")
    (target,) = model.targets
    assert (
        known_loss(replace(model, targets=(), loss=lambda x: functional.mse_loss(x, target)), target.shape[1:]) is None
    )
    both = replace(model, targets=(target, target), loss=lambda x, y, _: functional.mse_loss(x, y))
    assert known_loss(both, target.shape[1:]) is None

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            self.calls += 1
            return functional.mse_loss(x, y)

    counting = Counting()
    known_loss(replace(model, loss=counting), target.shape[1:])
    assert counting.calls == 0
