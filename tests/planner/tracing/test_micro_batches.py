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
from torch.nn.functional import cross_entropy, kl_div, mse_loss, one_hot

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


class Between(nn.Module):
    """Two layers, and between them what is tried."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.change = nn.Linear(5, 8), nn.Linear(8, 3), change

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.last(self.change(self.first(x).relu()))
        return scores


class Words(nn.Module):
    """Means over tokens, which a mask may leave out."""

    def __init__(self, centred: bool = False) -> None:
        super().__init__()
        self.words, self.fc, self.centred = nn.Embedding(20, 6, padding_idx=0), nn.Linear(6, 3), centred

    def forward(self, tokens: Tensor, mask: Tensor | None = None) -> Tensor:
        words = self.words(tokens)
        weights = torch.ones_like(tokens) if mask is None else mask
        weights = weights.to(words.dtype).unsqueeze(-1)
        mean = (words * weights).sum(1) / weights.sum(1)
        scores: Tensor = self.fc(mean - mean.mean(0) if self.centred else mean)
        return scores


class Silent(nn.Module):
    """Its weights are zeros, as a new head's often are."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 3)
        nn.init.zeros_(self.fc.weight)
        nn.init.zeros_(self.fc.bias)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(x)
        return scores


def centred_targets(scores: Tensor, wanted: Tensor) -> Tensor:
    return mse_loss(scores, wanted.to(scores) - wanted.to(scores).mean(0))


def per_valid(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    return (cross_entropy(scores, labels, reduction="none") * mask).sum() / mask.sum()


def per_share(scores: Tensor, shares: Tensor) -> Tensor:
    return -(shares * scores.log_softmax(1)).sum() / shares.sum()


def divergence(scores: Tensor, shares: Tensor) -> Tensor:
    return kl_div(scores.log_softmax(1), shares, reduction="batchmean")


def alike(scores: Tensor, labels: Tensor) -> Tensor:
    return ((scores @ scores.T) * (labels[:, None] == labels).to(scores)).mean()


def per_word(counts: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A mean over those words, or labels, that count."""

    def loss(scores: Tensor, words: Tensor) -> Tensor:
        each = (scores.sum(1) - words.reshape(len(words), -1).sum(1) / 1000).square()
        kept = counts(words).reshape(len(words), -1).sum(1)
        return (each * kept).sum() / kept.sum().clamp(min=1)

    return loss


def per_known(known: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda scores, wanted: (
        ((scores - wanted.nan_to_num()) ** 2 * known(wanted)).sum() / known(wanted).sum().clamp(min=1)
    )


ONE, ZEROS, TINY = torch.zeros(6, dtype=torch.long), torch.zeros(6, 3), 1e-7 * torch.randn(6, 5)
HALVES, TOKENS = torch.randn(3, 5).repeat(2, 1), torch.randint(20, (6, 4))
SHARES, CONSTANT = torch.randn(6, 3).softmax(1), torch.randn(8, 8)
TWICE = nn.Linear(5, 5)
Case = tuple[nn.Module, tuple[Tensor, ...], tuple[Tensor, ...], Callable[..., Tensor]]
HIDDEN: dict[str, Callable[[], Case]] = {
    "inputs of zeros": lambda: (Centred(), (torch.zeros(6, 5),), (ONE,), cross_entropy),
    "equal halves": lambda: (Between(lambda h: h - h.amax(0)), (HALVES,), (ONE,), cross_entropy),
    "tiny inputs": lambda: (Between(lambda h: h.softmax(0)), (TINY,), (ONE,), cross_entropy),
    "sorted": lambda: (Between(lambda h: h.sort(0)[0]), (torch.ones(6, 5),), (ONE,), cross_entropy),
    "added up": lambda: (Between(lambda h: h.cumsum(0)), (torch.zeros(6, 5),), (ONE,), cross_entropy),
    "mixed at random": lambda: (Between(lambda h: h + h[torch.randperm(6)[: len(h)]]), (X,), (Y,), cross_entropy),
    "targets of zeros": lambda: (nn.Linear(5, 3), (X,), (ZEROS,), centred_targets),
    "whole targets": lambda: (nn.Linear(5, 3), (X,), (ZEROS.long(),), centred_targets),
    "one class, weighted": lambda: (nn.Linear(5, 3), (X,), (ONE,), nn.CrossEntropyLoss(torch.tensor([1.0, 2, 3]))),
    "none ignored": lambda: (nn.Linear(5, 3), (X,), (ONE,), nn.CrossEntropyLoss(ignore_index=2)),
    "all ignored": lambda: (nn.Linear(5, 3), (X,), (ONE,), nn.CrossEntropyLoss(ignore_index=0)),
    "ignored beside the classes": lambda: (nn.Linear(5, 3), (X,), (ONE,), nn.CrossEntropyLoss(ignore_index=-1)),
    "one class, compared": lambda: (nn.Linear(5, 3), (X,), (ONE,), alike),
    "a mask of ones": lambda: (nn.Linear(5, 3), (X,), (Y, torch.ones(6)), per_valid),
    "a mask of trues": lambda: (nn.Linear(5, 3), (X,), (Y, torch.ones(6).bool()), per_valid),
    "padding alone": lambda: (Words(centred=True), (torch.zeros(6, 4, dtype=torch.long),), (ONE,), cross_entropy),
    "one token": lambda: (Words(centred=True), (torch.full((6, 4), 7),), (ONE,), cross_entropy),
    "padding by 0": lambda: (Words(), (TOKENS,), (TOKENS.clamp(min=1),), per_word(lambda t: t != 0)),
    "padding by true": lambda: (Words(), (TOKENS,), (TOKENS.clamp(min=1),), per_word(lambda t: t.bool())),
    "padding by another": lambda: (Words(), (TOKENS,), (TOKENS + 5000,), per_word(lambda t: t != 7777)),
    "none missing": lambda: (nn.Linear(5, 3), (X,), (SHARES,), per_known(lambda t: t != -1)),
    "none is none": lambda: (nn.Linear(5, 3), (X,), (SHARES,), per_known(lambda t: ~t.isnan())),
    "two samples": lambda: (nn.Linear(5, 3), (X[:2],), (ONE[:2],), per_word(lambda t: t == 1)),
    "weights of zeros": lambda: (Silent(), (X,), (ONE,), lambda scores, _: (scores @ scores.T).square().mean()),
}
# None of it mixes samples, though much of it does so with numbers that it is not made for.
APART: dict[str, Callable[[], Case]] = {
    "zeros": lambda: (nn.Linear(5, 3), (torch.zeros(6, 5),), (ONE,), cross_entropy),
    "a layer twice": lambda: (nn.Sequential(TWICE, nn.ReLU(), TWICE), (X,), (Y,), cross_entropy),
    "shares": lambda: (nn.Linear(5, 3), (X,), (SHARES,), per_share),
    "one of each": lambda: (nn.Linear(5, 3), (X,), (one_hot(Y, 3).float(),), per_share),
    "zero": lambda: (nn.Linear(5, 3), (X,), (ZEROS,), lambda s, t: kl_div(s.log_softmax(1), t, reduction="batchmean")),
    "noise": lambda: (Between(lambda h: h + torch.randn_like(h) * torch.rand(len(h), 1)), (X,), (Y,), cross_entropy),
    "dropout": lambda: (Between(nn.Sequential(nn.Dropout(), nn.AlphaDropout())), (X,), (Y,), cross_entropy),
    "logarithms": lambda: (Between(torch.log1p), (X.abs(),), (Y,), lambda s, t: cross_entropy(s.exp().log(), t)),
    "a mask of ones": lambda: (Words(), (TOKENS, torch.ones(6, 4)), (Y,), cross_entropy),
    "a mask of whole ones": lambda: (Words(), (TOKENS, torch.ones(6, 4).long()), (Y,), cross_entropy),
    "lengths": lambda: (Words(), (TOKENS,), (torch.full((6,), 4),), lambda s, n: (s.sum(1) / n).mean()),
    "labels from one": lambda: (nn.Linear(5, 3), (X,), (ONE + 1,), lambda s, t: cross_entropy(s, t - 1)),
    "labels as floats": lambda: (nn.Linear(5, 3), (X,), (ONE.float(),), lambda s, t: cross_entropy(s, t.long())),
    "in f32 within": lambda: (Between(lambda h: h.float() @ CONSTANT), (X,), (Y,), cross_entropy),
}


@pytest.mark.parametrize("count", [2, 6])
@pytest.mark.parametrize("name", HIDDEN)
def test_an_example_hides_nothing(name: str, count: int) -> None:
    model = Model(name, *HIDDEN[name]())
    count = min(count, len(model.inputs[0]))
    given = [tensor.clone() for tensor in (*model.inputs, *model.targets)]
    with pytest.raises(UserError, match=f"^--micro-batches {count}: .*something couples samples"):
        part(model, count)
    assert all(map(torch.equal, (*model.inputs, *model.targets), given))


@pytest.mark.parametrize("count", [2, 6])
@pytest.mark.parametrize("name", APART)
def test_what_couples_nothing_is_taken_in_parts(name: str, count: int) -> None:
    assert part(Model(name, *APART[name]()), count).inputs[0].shape[0] == 6 // count


def test_a_loss_of_zero_does_not_tell_a_sum_from_a_mean() -> None:
    model = Model("sum", Silent(), (X,), (ZEROS,), lambda scores, wanted: (scores - wanted).square().sum())
    assert float(part(model, 3).loss(torch.ones(2, 3), torch.zeros(2, 3))) == 6


def test_a_step_that_takes_its_example_alone_is_looked_at_in_another_order() -> None:
    """Where its samples are all the same, nobody can tell, and the line says what would do."""

    def taking(x: Tensor) -> Model:
        def known(h: Tensor) -> Tensor:
            if not torch.isin(h.float(), allowed).all():
                raise ValueError("what is this?")
            return h

        module = nn.Sequential(nn.Identity(), nn.Linear(5, 3))
        module[0].register_forward_hook(lambda _, __, output: known(output))
        allowed = x.clone()
        return Model("takes", module, (x,), (Y,), cross_entropy)

    assert part(taking(X), 3).inputs[0].shape == (2, 5)
    model = replace(taking(torch.full((6, 5), 0.3)), targets=(ONE,))
    with pytest.raises(UserError, match=r"takes no other numbers than its example's.*; give an example whose samples"):
        part(model, 3)


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
    assert step.traced
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
