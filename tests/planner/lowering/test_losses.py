# SPDX-License-Identifier: Apache-2.0
"""Losses by labels in words of `gather`, against PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from poet_planner.lowering.rewrites.losses import with_plain_losses
from poet_planner.tracing import trace
from poet_runtime.executor import execute, residents_of
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import cross_entropy, log_softmax

from tests.support import needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators

Loss = Callable[[Tensor, Tensor], Tensor]
IGNORED = -100
LABELS = torch.tensor([0, 2, 1, 1, 2, 0])
SOME = torch.tensor([0, IGNORED, 2, 1, IGNORED, 1])
PLACES = torch.randint(3, (2, 4, 3), generator=torch.Generator().manual_seed(0))
SOME_PLACES = PLACES.clone()
SOME_PLACES[:, 3:] = IGNORED


def weights(scores: Tensor) -> Tensor:
    return torch.tensor([1.0, 2.0, 0.5], dtype=scores.dtype)


def weighted(scores: Tensor, labels: Tensor, reduction: str = "mean", smoothing: float = 0.0) -> Tensor:
    return cross_entropy(scores, labels, weights(scores), reduction=reduction, label_smoothing=smoothing)


def focal(scores: Tensor, labels: Tensor) -> Tensor:
    sure = torch.softmax(scores, 1).gather(1, labels[:, None]).squeeze(1)
    return ((1 - sure) ** 2 * cross_entropy(scores, labels, reduction="none")).mean()


def masked(scores: Tensor, labels: Tensor) -> Tensor:
    counts = labels != IGNORED
    return (cross_entropy(scores, labels, reduction="none") * counts).sum() / counts.sum()


def of_mask(scores: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(scores, labels, label_smoothing=0.1) + (labels == IGNORED).to(scores).mean() * scores.sum()


CASES: dict[str, tuple[Loss, Tensor]] = {
    "sum": (partial(cross_entropy, reduction="sum"), LABELS),
    "sum of some": (partial(cross_entropy, reduction="sum"), SOME),
    "none": (lambda y, t: (cross_entropy(y, t, reduction="none") ** 2).mean(), LABELS),
    "weighted sum": (partial(weighted, reduction="sum"), SOME),
    "weighted, none": (lambda y, t: weighted(y, t, "none").mean(), LABELS),
    "smooth": (partial(cross_entropy, label_smoothing=0.1), LABELS),
    "probabilities": (lambda y, t: weighted(y, t, smoothing=0.1), torch.rand(6, 3)),
    "gather": (lambda y, t: -log_softmax(y, 1).gather(1, t[:, None]).mean(), LABELS),
    "index": (lambda y, t: -log_softmax(y, 1)[torch.arange(6), t].mean(), LABELS),
    "focal": (focal, LABELS),
    "divided by less than nothing": (lambda y, t: cross_entropy(y, t) / -3, LABELS),
    "weighted": (weighted, LABELS),
    "some": (cross_entropy, SOME),
    "a class left out": (partial(cross_entropy, ignore_index=1), LABELS),
    "weighted, some": (weighted, SOME),
    "weighted, smooth": (partial(weighted, smoothing=0.2), LABELS),
    "weighted, smooth, some": (partial(weighted, smoothing=0.2), SOME),
    "smooth, some": (partial(cross_entropy, label_smoothing=0.1), SOME),
    "masked": (masked, SOME),
    "a mask read elsewhere, of some": (of_mask, SOME),
    "a mask read elsewhere": (of_mask, LABELS),
    "planes": (cross_entropy, PLACES),
    "planes, summed": (partial(cross_entropy, reduction="sum", ignore_index=2), PLACES),
    "planes, weighted, smooth, some": (partial(weighted, smoothing=0.2), SOME_PLACES),
    "planes, part of them": (lambda y, t: functional.nll_loss(log_softmax(y, 1)[..., 1:], t[..., 1:]), SOME_PLACES),
}


def network(target: Tensor) -> tuple[nn.Module, Tensor]:
    return (nn.Linear(4, 3), torch.randn(6, 4)) if len(target) == 6 else (nn.Conv2d(2, 3, 1), torch.randn(2, 2, 4, 3))


@needs.gcc
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_compute_the_gradients(name: str, operators: Operators) -> None:
    torch.manual_seed(0)
    loss, target = CASES[name]
    module, x = network(target)
    equals_autograd(module, x, operators, target, loss)


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_step_is_pytorchs(name: str) -> None:
    torch.manual_seed(0)
    loss, target = CASES[name]
    module, x = network(target)
    traced = trace(module, (x,), (target,), loss, "own")
    rewritten = with_plain_losses(traced)
    targets = [str(operator.target) for operator in rewritten.operators]
    assert not {"aten.gather.default", "aten.nll_loss2d_forward.default", "aten.index.Tensor"}.intersection(targets)
    residents = residents_of(traced, module, (x,), (target,))
    theirs, ours = execute(traced, residents), execute(rewritten, residents)
    torch.testing.assert_close(ours.loss, theirs.loss, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(ours.gradients, theirs.gradients, rtol=1e-6, atol=1e-6)


def test_no_mask_is_made_where_no_label_is_left_out() -> None:
    x = torch.randn(6, 4)
    traced = trace(nn.Linear(4, 3), (x,), (LABELS,), partial(weighted, smoothing=0.2), "own")
    targets = {str(operator.target).split(".")[1] for operator in with_plain_losses(traced).operators}
    assert targets.isdisjoint({"eq", "masked_fill", "bitwise_not"})
