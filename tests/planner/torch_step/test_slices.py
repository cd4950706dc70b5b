# SPDX-License-Identifier: Apache-2.0
"""A step in slices leaves the bits of a loop that accumulates gradients, or is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import poet_planner as poet
import pytest
import torch
from poet_planner.torch_step import slices
from poet_planner.torch_step.inner_optimizer import UpdateCost
from poet_planner.torch_step.report import Report
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss, normalize

from tests.planner.torch_step.networks import small_bert, small_llama

OPTIONS = poet.OptimiseOptions(time_limit_s=1.0)
Loss = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def _given_additions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices.Sums, "cost", lambda _, parameter: UpdateCost(1e-9 * parameter.numel(), 0))


def convolutions(*more: nn.Module, classes: int = 10) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    first = nn.Conv2d(2, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()
    module = nn.Sequential(*first, *more, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))
    return module, (torch.randn(8, 2, 16, 16), torch.randint(classes, (8,)))


def summed(y: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(y, labels, reduction="sum")


def weighted(y: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(y, labels, weight=torch.arange(1.0, 11.0))


def contrasting(y: Tensor, labels: Tensor) -> Tensor:
    rows = normalize(y, dim=1)
    return cross_entropy(rows @ rows.t(), torch.arange(len(rows)))


def centred(y: Tensor, wanted: Tensor) -> Tensor:
    return mse_loss(y, wanted - wanted.mean(0, keepdim=True))


class Prototypes(nn.Module):
    """A loss with parameters of its own, which the step trains, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(10, 10))

    def forward(self, y: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(y @ self.rows, labels)


class Masked(nn.Module):
    """Takes a dict, and a mask that all slices share."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.mask = nn.Linear(5, 5), None

    def forward(self, given: dict[str, Tensor], scale: float) -> Tensor:
        return self.fc(given["x"] * given["mask"]) * scale


def masked() -> tuple[nn.Module, Any]:
    given = {"x": torch.randn(8, 5), "mask": torch.rand(5)}
    return Masked(), ((given, 0.5), torch.randint(5, (8,)))


def accumulated(model: nn.Module, loss: Loss, parts: Iterator[Any], divisor: int) -> Tensor:
    """The user's own loop."""
    total = torch.zeros(())
    for inputs, target in parts:
        value = loss(model(*inputs), target) / divisor
        value.backward()
        total = total + value.detach()
    return total


def cut(batch: Any, count: int) -> Iterator[Any]:
    x, y = batch
    if isinstance(x, tuple):
        given, scale = x
        parts = [({**given, "x": one}, scale) for one in given["x"].chunk(count)]
    else:
        parts = [(one,) for one in x.chunk(count)]
    return zip(parts, y.chunk(count), strict=True)


CASES: dict[str, tuple[Callable[[], Any], Loss, int, str | None]] = {
    "dropout": (small_bert, cross_entropy, 2, "75%"),
    "tied weights": (small_llama, cross_entropy, 4, "30%"),
    "a sum": (convolutions, summed, 4, "40%"),
    "a loss's own parameters": (convolutions, Prototypes(), 8, None),
    "a nest with a mask": (masked, cross_entropy, 2, None),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_users_own_loop(name: str) -> None:
    network, loss, count, ram = CASES[name]
    module, batch = network()
    step = poet.compile(module, loss, batch, slices=count, ram=ram, options=OPTIONS, quiet=True)
    modules = [module, *([loss] if isinstance(loss, nn.Module) else [])]
    trained = [parameter for one in modules for parameter in one.parameters()]
    left = []
    for take in (
        lambda: step(*batch),
        lambda: accumulated(module, loss, cut(batch, count), 1 if loss is summed else count),
    ):
        for parameter in trained:
            parameter.grad = None
        torch.manual_seed(1)
        # The second batch adds to what is there.
        values = [take(), take()]
        gradients = [parameter.grad for parameter in trained]
        left.append([*values, *gradients, torch.get_rng_state()])
    assert len({gradient.untyped_storage()._cdata for gradient in gradients}) == len(gradients)
    assert all(map(torch.equal, *left))
    report = step.report
    assert (report.slices, report.steps) == (count, 2)
    assert f", {count} slices" in str(report)


def test_a_plan_of_slices_keeps_its_budget_and_pages(tmp_path: Path) -> None:
    """With gradients gone before each batch."""
    module, batch = small_llama()
    for pages in (None, tmp_path):
        step = poet.compile(module, cross_entropy, batch, slices=4, ram="22%", pages=pages, options=OPTIONS, quiet=True)
        with step:
            for _ in range(2):
                module.zero_grad()
                step(*batch)
            report = step.report
            assert report.budget_bytes is not None
            assert report.peak_bytes is not None
            assert (
                0.9 * report.planned_peak_bytes < report.peak_bytes <= report.planned_peak_bytes <= report.budget_bytes
            )
            assert report.recomputations or report.planned_out_bytes
            assert report.out_bytes == 2 * report.planned_out_bytes


class Keeping(nn.Module):
    """Keeps what went through it, and how many it was."""

    def forward(self, x: Tensor) -> Tensor:
        self.last, self.width = x, x.shape[1]
        return x


class Fixed(nn.Module):
    """Works with batches of eight only."""

    def forward(self, x: Tensor) -> Tensor:
        return x.reshape(8, 8, 16, 16)


def twice(y: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(y.repeat_interleave(2, 0), labels)


REFUSED: dict[str, tuple[Callable[[], Any], Loss, str]] = {
    "batch norm": (
        lambda: convolutions(nn.BatchNorm2d(8)), cross_entropy, "4 normalises by the statistics of the whole batch"
    ),
    "batch norm without buffers": (
        lambda: convolutions(nn.BatchNorm2d(8, track_running_stats=False)), cross_entropy, "4 normalises by the"
    ),
    "what a step leaves": (
        lambda: convolutions(Keeping()), cross_entropy, "last would be left of the last part alone; leave it out"
    ),
    "fixed size": (lambda: convolutions(Fixed()), cross_entropy, "invalid for input of size"),
    "contrasting loss": (convolutions, contrasting, "something couples samples; leave it out"),
    "weights of classes": (convolutions, weighted, "a loss that divides by another number in each part"),
    "all of one class": (
        lambda: (convolutions()[0], (torch.randn(8, 2, 16, 16), torch.zeros(8, dtype=torch.long))), weighted, "divides"
    ),
    "targets of zeros": (
        lambda: (convolutions()[0], (torch.randn(8, 2, 16, 16), torch.zeros(8, 10))), centred, "couples samples"
    ),
    "a label that is ignored": (
        convolutions, nn.CrossEntropyLoss(ignore_index=3), "divides by another number in each part"
    ),
    "two labels a sample": (
        lambda: (convolutions()[0], (torch.randn(8, 2, 16, 16), torch.randint(10, (16,)))), twice, "batch_size"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_where_a_slice_is_no_share_of_the_batch_it_is_refused(name: str) -> None:
    network, loss, words = REFUSED[name]
    module, batch = network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    for count in (2, 8):
        with pytest.raises(UserError, match=words) as refusal:
            poet.compile(module, loss, batch, slices=count, quiet=True)
        assert "\n" not in str(refusal.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"slices": 3}, "^slices=3: does not divide the batch of 8; it is one of 1, 2, 4, 8$"),
        ({"slices": 0}, "^slices 0: give a whole number, at least 1, or 'auto'$"),
        ({"slices": True}, "^slices True: give"),
        ({"slices": "all"}, "^slices 'all': give"),
        ({"slices": "auto", "profile": "a72"}, "^slices: do not go with profile=, for it has no rows"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(given: dict[str, Any], words: str) -> None:
    module, batch = convolutions()
    with pytest.raises(UserError, match=words):
        poet.compile(module, cross_entropy, batch, quiet=True, **given)
    with pytest.raises(UserError, match=r"^slices: do not go with optimizer="):
        poet.compile(module, cross_entropy, batch, slices=2, optimizer=torch.optim.SGD(module.parameters()), quiet=True)


def test_a_refusal_names_how_many_slices_do() -> None:
    module, batch = convolutions(nn.Dropout(0.1))
    with pytest.raises(poet.NoScheduleError, match=r"; slices=(\d) does$") as refusal:
        poet.compile(module, cross_entropy, batch, ram="30%", options=OPTIONS, quiet=True)
    assert refusal.value.printed == str(refusal.value)
    count = int(re.findall(r"slices=(\d)", str(refusal.value))[0])
    for asked in (count, "auto"):
        step = poet.compile(module, cross_entropy, batch, ram="30%", slices=asked, options=OPTIONS, quiet=True)
        assert step.report.slices >= count
    with pytest.raises(poet.NoScheduleError):
        poet.compile(module, cross_entropy, batch, ram="30%", slices=count // 2, options=OPTIONS, quiet=True)
    with pytest.raises(poet.NoScheduleError, match=r"; slices=2: 4 normalises by the statistics"):
        module, batch = convolutions(nn.BatchNorm2d(8))
        poet.compile(module, cross_entropy, batch, ram="30%", slices="auto", options=OPTIONS, quiet=True)


def test_auto_takes_what_is_quickest_for_each_shape(capsys: pytest.CaptureFixture[str]) -> None:
    layers = [layer for _ in range(3) for layer in (nn.Linear(32, 32), nn.GELU())]
    module, batch = nn.Sequential(*layers, nn.Linear(32, 10)), (torch.randn(768, 32), torch.randint(10, (768,)))

    def report(count: int | str, ram: str | None) -> Report:
        return poet.compile(module, cross_entropy, batch, slices=count, ram=ram, options=OPTIONS, quiet=True).report

    assert report("auto", None).slices == 1
    whole, halves, chosen = (report(count, "75%") for count in (1, 2, "auto"))
    assert whole.recomputations
    assert not halves.recomputations
    assert whole.planned_time_s > halves.planned_time_s == chosen.planned_time_s
    step = poet.compile(module, cross_entropy, batch, slices="auto", ram="75%", options=OPTIONS)
    step(*(tensor[:7] for tensor in batch))
    assert [" slices" in line for line in capsys.readouterr().err.splitlines()[1:]] == [True, False]
    fixed = poet.compile(module, cross_entropy, batch, slices=2, quiet=True)
    with pytest.raises(UserError, match=r"^slices=2: does not divide the batch of 7; it is one of 1, 7$"):
        fixed(*(tensor[:7] for tensor in batch))


def test_what_changes_is_traced_again_in_as_many_slices() -> None:
    module, batch = convolutions(nn.Dropout(0.1))
    step = poet.compile(module, cross_entropy, batch, slices=2, quiet=True)
    plan = step.plan
    for change, kept in ((lambda: setattr(module[4], "p", 0.5), True), (module[4].eval, False)):
        change()
        state = torch.get_rng_state()
        left = []
        for take in (lambda: step(*batch), lambda: accumulated(module, cross_entropy, cut(batch, 2), 2)):
            module.zero_grad()
            torch.set_rng_state(state)
            left.append([take(), *(parameter.grad for parameter in module.parameters())])
        assert all(map(torch.equal, *left))
        assert (step.plan is plan, step.report.slices) == (kept, 2)


def test_what_goes_wrong_after_gradients_were_added_is_said() -> None:
    module, batch = convolutions()
    step = poet.compile(module, cross_entropy, batch, slices=2, quiet=True)
    planned = step.planned
    calls = []

    def failing(*tensors: Tensor) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise UserError("the disk is full")
        return function(*tensors)

    function = planned.compiled.function
    planned.compiled = replace(planned.compiled, function=failing)
    with pytest.raises(UserError, match=r"^the disk is full; gradients of a part of the batch have been added: call"):
        step(*batch)
