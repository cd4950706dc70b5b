# SPDX-License-Identifier: Apache-2.0
"""Which steps may be taken in micro-batches is found by looking at their gradients."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from poet_planner.models import Model, load
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import micro_batch
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
X, Y = torch.randn(6, 5), torch.randint(3, (6,))
LEFT_OUT = int(Y[0])


class Centred(nn.Module):
    """Takes the batch's mean off each sample."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x - x.mean(0))
        return scores


class Counting(nn.Module):
    """Counts its batches in a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        scores: Tensor = self.fc(x)
        return scores


def given(module: nn.Module, loss: Callable[..., Tensor] = cross_entropy, *more: Tensor) -> Model:
    return Model("given", module, (X, *more), (Y,), loss)


def part(model: Model, count: int) -> Model:
    return micro_batch(model, trace(model.module, model.inputs, model.targets, model.loss, model.name), count)


def pairs(scores: Tensor, _: Tensor) -> Tensor:
    return torch.cdist(scores, scores).square().mean()


REFUSED = {
    "1 normalises by the statistics of the whole batch; put it into evaluation mode": lambda: given(
        nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3))
    ),
    "2 normalises by the statistics of the whole batch; put it into": lambda: given(
        nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.BatchNorm1d(3, track_running_stats=False))
    ),
    "seen changes once a batch, not once a part; leave": lambda: given(Counting()),
    r"the gradient of fc.weight over 6 samples is not the mean of those over 3 x 2 \(\d+ % off\)": lambda: given(
        Centred()
    ),
    "something couples samples; leave it out": lambda: given(nn.Linear(5, 3), pairs),
    "over 6 samples is not the mean": lambda: given(
        nn.Linear(5, 3), lambda scores, labels: cross_entropy(scores, labels, ignore_index=LEFT_OUT)
    ),
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_couples_samples_is_refused(line: str) -> None:
    with pytest.raises(UserError, match=rf"^--micro-batches 3: .*{line}") as refusal:
        part(REFUSED[line](), 3)
    assert "\n" not in str(refusal.value)


class AnotherWay(nn.Module):
    """A part of two samples goes another way to the same gradients, and may count its steps."""

    def __init__(self, counts: bool) -> None:
        super().__init__()
        self.fc, self.counts, self.steps = nn.Linear(5, 3), counts, 0

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x)
        self.steps += self.counts and len(x) == 2
        return scores.clone() if len(x) == 2 else scores


@pytest.mark.parametrize(("module", "traces"), [(nn.Linear(5, 3), [2, 1, 1]), (AnotherWay(False), [2, 2, 1])])
def test_a_part_on_the_way_of_another_is_traced_once(
    module: nn.Module, traces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its step is what two traces of it show."""
    taken: list[int] = []
    capture = sys.modules["poet_planner.tracing.capture"]
    traced = capture._traced
    monkeypatch.setattr(capture, "_traced", lambda *given: taken.append(1) or traced(*given))  # type: ignore[func-returns-value]
    step, board = TrainingStep(given(module)), load_board("nrf52840")
    counts = []
    for count in (2, 3, 6):
        taken.clear()
        graph = step.in_micro_batches(count).graph(board)
        counts.append(len(taken))
        assert graph == TrainingStep(given(module)).in_micro_batches(count).graph(board)
    assert counts == traces


def test_a_part_that_counts_on_a_way_of_its_own_is_refused() -> None:
    step = TrainingStep(given(AnotherWay(True)))
    assert step.in_micro_batches(2).traced
    with pytest.raises(UserError, match="the step changes steps each time it is taken"):
        assert step.in_micro_batches(3).traced


def test_an_example_of_equal_samples_hides_nothing() -> None:
    """Of zeros alone the mean over the batch is each sample, in parts as in the whole."""
    for x in (torch.zeros(6, 5), torch.ones(6, 5)):
        model = Model("zeros", Centred(), (x,), (torch.zeros(6, dtype=torch.long),), cross_entropy)
        with pytest.raises(UserError, match="something couples samples"):
            part(model, 3)
        assert torch.equal(model.inputs[0], x)
        assert part(replace(model, module=nn.Linear(5, 3)), 3).inputs[0].shape == (2, 5)


def test_a_number_that_does_not_divide_the_batch_is_refused() -> None:
    with pytest.raises(UserError, match=r"^--micro-batches 4: does not divide the batch of 6; it is one of 1, 2, 3, 6"):
        part(given(nn.Linear(5, 3)), 4)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("norm", [nn.Identity(), nn.LayerNorm(5), nn.BatchNorm1d(5).eval()])
def test_gradients_of_the_parts_add_up(reduction: str, norm: nn.Module) -> None:
    """And the model is left as it was: its weights have the same bits, and its dropout is on."""
    module = nn.Sequential(norm, nn.Linear(5, 3), nn.Dropout(0.5))
    before = [parameter.clone() for parameter in module.parameters()]
    model = given(module, nn.CrossEntropyLoss(reduction=reduction))
    small = part(model, 3)
    assert small.inputs[0].shape == (2, 5)
    assert all(torch.equal(one, other) for one, other in zip(module.parameters(), before, strict=True))
    assert module[2].training
    scores = torch.randn(2, 3)
    expected = model.loss(scores, Y[:2]) / (3 if reduction == "mean" else 1)
    assert torch.equal(small.loss(scores, Y[:2]), expected)


def test_what_has_no_axis_of_samples_is_shared() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x: Tensor, scale: Tensor) -> Tensor:
            scores: Tensor = self.fc(x * scale)
            return scores

    small = part(given(Scaled(), cross_entropy, torch.ones(5)), 2)
    assert [tuple(tensor.shape) for tensor in small.inputs] == [(3, 5), (5,)]


def test_built_in_networks_without_batch_norm_may() -> None:
    for name in ("digits_cnn_small", "finetune_cnn_small", "bert_2x128"):
        assert part(load(name, 2), 2).inputs[0].shape[0] == 1
