# SPDX-License-Identifier: Apache-2.0
"""An optimiser inside the step leaves what its own step after `backward()` leaves, and gradients die early."""

from __future__ import annotations

import copy
import errno
import functools
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import poet_planner as poet
import pytest
import torch
from poet_planner.graph import PageCost
from poet_planner.torch_step import profile_here
from poet_planner.torch_step.inner_optimizer import KNOWN
from poet_planner.torch_step.step import PlannedStep
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.lr_scheduler import StepLR

from tests.planner.torch_step.networks import Batch, small_bert, small_resnet, small_vgg, tiny

Made = Callable[[Any], Optimizer]


def descent(parameters: Any) -> Optimizer:
    return SGD(parameters, lr=0.05, momentum=0.9)


def momentum(parameters: Any) -> Optimizer:
    return SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)


def adamw(parameters: Any) -> Optimizer:
    return AdamW(parameters, lr=0.01)


def compiled(module: nn.Module, batch: Batch, optimizer: Optimizer, **asked: Any) -> PlannedStep:
    options = poet.OptimiseOptions(time_limit_s=60.0, gap=0.5)
    return poet.compile(module, cross_entropy, example=batch, optimizer=optimizer, options=options, quiet=True, **asked)


def left(module: nn.Module, optimizer: Optimizer, loss: Tensor) -> dict[str, Tensor]:
    """Every bit that a step leaves."""
    state = optimizer.state_dict()
    names = [name for name, _ in module.named_parameters()]
    assert [group["params"] for group in state["param_groups"]]
    found = {"loss": loss, "generator": torch.get_rng_state(), **module.state_dict()}
    for index, entries in state["state"].items():
        found |= {f"{names[index]}: {key}": torch.as_tensor(value) for key, value in entries.items()}
    found |= {f"rate {index}": torch.tensor(group["lr"]) for index, group in enumerate(state["param_groups"])}
    return {name: tensor.detach().clone() for name, tensor in found.items()}


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> list[str]:
    assert one.keys() == other.keys()
    return [
        name for name in one if one[name].stride() != other[name].stride() or not torch.equal(one[name], other[name])
    ]


def eager(module: nn.Module, batch: Batch, optimizer: Optimizer, steps: int = 3) -> list[dict[str, Tensor]]:
    """Steps of eager PyTorch, the rate falling from each to the next."""
    scheduler = StepLR(optimizer, 1, 0.5)
    torch.manual_seed(1)
    states = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = cross_entropy(module(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        scheduler.step()
        states.append(left(module, optimizer, loss))
    return states


def ours(
    step: PlannedStep, module: nn.Module, batch: Batch, optimizer: Optimizer, steps: int = 3
) -> list[dict[str, Tensor]]:
    scheduler = StepLR(optimizer, 1, 0.5)
    torch.manual_seed(1)
    states = []
    for _ in range(steps):
        loss = step(*batch)
        scheduler.step()
        states.append(left(module, optimizer, loss))
        assert all(parameter.grad is None for parameter in module.parameters())
    return states


@pytest.mark.parametrize(
    ("network", "make", "ram"),
    [(small_vgg, momentum, None), (small_resnet, descent, "70%"), (small_bert, adamw, "70%")],
)
def test_three_steps_leave_eagers_bits_state_and_rates(
    network: Callable[[], tuple[nn.Module, Batch]], make: Made, ram: str | None
) -> None:
    module, batch = network()
    other = copy.deepcopy(module)
    optimizer = make(module.parameters())
    expected = eager(other, batch, make(other.parameters()))
    with compiled(module, batch, optimizer, ram=ram) as step:
        assert not optimizer.state
        found = ours(step, module, batch, optimizer)
    assert [differing(one, other) for one, other in zip(expected, found, strict=True)] == [[], [], []]
    report = step.report
    assert report.peak_bytes is not None
    assert report.peak_bytes <= 1.02 * report.planned_peak_bytes
    assert report.planned_peak_bytes < report.plain_peak_bytes
    assert (report.recomputations > 0) is (ram is not None)
    if report.budget_bytes is not None:
        assert report.planned_peak_bytes <= report.budget_bytes


@pytest.mark.parametrize("kind", KNOWN, ids=lambda kind: kind.__name__)
def test_every_optimiser_that_is_taken_is_bit_equal(kind: Callable[..., Optimizer]) -> None:
    """With two groups; the norms are in none, and their gradients add up as ever."""
    module, batch = tiny()
    other = copy.deepcopy(module)

    def made(part: nn.Module) -> Optimizer:
        convolutions = [p for name, p in part.named_parameters() if name.startswith("conv")]
        classifier = [p for name, p in part.named_parameters() if name.startswith("fc")]
        return kind([{"params": convolutions}, {"params": classifier, "lr": 0.02}], lr=0.01)

    mine, its = made(module), made(other)
    with compiled(module, batch, mine) as step:
        for _ in range(3):
            its.zero_grad()
            loss = cross_entropy(other(batch[0]), batch[1])
            loss.backward()
            its.step()
            assert torch.equal(step(*batch), loss)
    assert differing(left(other, its, loss), left(module, mine, loss)) == []
    for name, parameter in module.named_parameters():
        gradient = other.get_parameter(name).grad
        if name.startswith("bn"):
            assert parameter.grad is not None and gradient is not None and torch.equal(parameter.grad, gradient)
        else:
            assert parameter.grad is None


def test_tied_parameters_are_updated_once() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)
            self.other.weight = self.one.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.other(torch.relu(self.one(x)))

    module, batch = Tied(), (torch.randn(4, 8), torch.randint(8, (4,)))
    other = copy.deepcopy(module)
    optimizer = momentum(module.parameters())
    with compiled(module, batch, optimizer) as step:
        expected = eager(other, batch, momentum(other.parameters()))
        found = ours(step, module, batch, optimizer)
    assert [differing(*pair) for pair in zip(expected, found, strict=True)] == [[], [], []]


def test_state_can_be_saved_and_loaded_between_steps() -> None:
    """`load_state_dict` puts new groups and a new state in the place of the old."""
    module, batch = tiny()
    optimizer = adamw(module.parameters())
    with compiled(module, batch, optimizer) as step:
        step(*batch)
        saved = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
        first = left(module, optimizer, step(*batch))
        module.load_state_dict(saved[0])
        optimizer.load_state_dict(saved[1])
        assert differing(first, left(module, optimizer, step(*batch))) == []


def stepped(optimizer: Optimizer) -> None:
    optimizer.step = types.MethodType(lambda self, closure=None: None, optimizer)


def stepped_under_a_scheduler(optimizer: Optimizer) -> None:
    stepped(optimizer)
    StepLR(optimizer, 1)


def wrapped_as_a_scheduler_does(optimizer: Optimizer) -> None:
    StepLR(optimizer, 1)
    before = optimizer.step
    optimizer.step = functools.wraps(before)(lambda *_: before())


def of_the_class(optimizer: Optimizer) -> None:
    type(optimizer).step = lambda self, closure=None: None


@pytest.mark.parametrize("replace", [stepped, stepped_under_a_scheduler, wrapped_as_a_scheduler_does, of_the_class])
def test_a_replaced_step_is_refused_and_changes_nothing(
    replace: Callable[[Optimizer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SGD, "step", SGD.step)
    module, batch = tiny()
    optimizer = momentum(module.parameters())
    with compiled(module, batch, optimizer) as step:
        step(*batch)
        before = left(module, optimizer, torch.zeros(()))
        replace(optimizer)
        with pytest.raises(
            UserError, match=r"^optimizer: its step\(\) has been replaced.*leave optimizer= out"
        ) as refused:
            step(*batch)
        assert "\n" not in str(refused.value)
        assert differing(before, left(module, optimizer, torch.zeros(()))) == []
    if replace is not of_the_class:
        with pytest.raises(UserError, match=r"its step\(\) has been replaced"):
            compiled(module, batch, optimizer)


def test_gradients_of_parameters_that_the_step_does_not_train_are_refused() -> None:
    """The optimiser's own step would have used them."""
    module, batch = tiny()
    module.unused = nn.Linear(3, 2)
    optimizer = momentum(module.parameters())
    with compiled(module, batch, optimizer) as step:
        step(*batch)
        before = left(module, optimizer, torch.zeros(()))
        module.unused.weight.grad = torch.ones(2, 3)
        with pytest.raises(UserError, match=r"shape \(2, 3\) that it holds has a gradient already.*set_to_none=True"):
            step(*batch)
        assert differing(before, left(module, optimizer, torch.zeros(()))) == []
        optimizer.zero_grad()
        step(*batch)


def test_a_parameter_that_joins_the_optimiser_is_refused() -> None:
    module, batch = tiny()
    optimizer = momentum([parameter for name, parameter in module.named_parameters() if name != "fc.bias"])
    with compiled(module, batch, optimizer) as step:
        optimizer.add_param_group({"params": [module.fc.bias]})
        with pytest.raises(UserError, match=r"it holds fc.bias now, and did not when compiled; .*compile again"):
            step(*batch)


@pytest.mark.parametrize("tie", [True, False])
def test_tying_with_the_optimizer_inside_is_eagers(tie: bool) -> None:
    module, (x, y) = tiny()
    if not tie:
        module.bn2.bias = module.bn1.bias
    other = copy.deepcopy(module)
    seen = []
    for part in (other, module):
        optimizer = momentum(part.parameters())
        step = compiled(part, (x, y), optimizer) if part is module else None
        for number in range(4):
            if number == 2:
                part.bn2.bias = part.bn1.bias if tie else nn.Parameter(part.bn1.bias.detach().clone())
                if not tie:
                    optimizer.add_param_group({"params": [part.bn2.bias]})
            if step is not None:
                step(x, y)
            else:
                optimizer.zero_grad()
                cross_entropy(part(x), y).backward()
                optimizer.step()
        seen.append(part.state_dict())
    assert all(map(torch.equal, seen[0].values(), seen[1].values()))


class Own(SGD):
    """A user's."""


def with_hook(parameters: Any) -> Optimizer:
    optimizer = SGD(parameters, lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: None)
    return optimizer


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda parameters: torch.optim.LBFGS(parameters), "cannot take the step of LBFGS parameter by parameter"),
        (lambda parameters: Own(parameters, lr=0.1), "cannot take the step of Own"),
        (lambda parameters: SGD(parameters, lr=0.1, foreach=True), "SGD has foreach=True.*leave foreach out"),
        (lambda parameters: AdamW(parameters, fused=True), "AdamW has fused=True"),
        (with_hook, "hooks around its step"),
        (lambda parameters: SGD([*parameters, nn.Parameter(torch.ones(3))], lr=0.1), "a parameter of shape (3,) that"),
        (lambda parameters: SGD([next(parameters).requires_grad_(False)], lr=0.1), "none of the parameters that Tiny"),
    ],
)
def test_what_cannot_be_honoured_is_refused_in_one_line(make: Made, words: str) -> None:
    module, batch = tiny()
    with pytest.raises(UserError, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
        compiled(module, batch, make(module.parameters()))
    assert "\n" not in str(caught.value)


def test_a_profile_of_a_board_and_a_parameter_that_the_forward_pass_changes_are_refused() -> None:
    module, batch = tiny()
    with pytest.raises(UserError, match="no rows for its updates"):
        compiled(module, batch, adamw(module.parameters()), profile="a72")
    table = nn.Sequential(nn.Embedding(6, 4, max_norm=1.0), nn.Flatten(), nn.Linear(8, 3))
    words = torch.randint(6, (2, 2)), torch.randint(3, (2,))
    with pytest.raises(UserError, match=r"itself changes 0\.weight, as max_norm does"):
        compiled(table, words, adamw(table.parameters()))


def test_a_step_that_would_lose_a_gradient_or_miss_a_parameter_is_refused_and_changes_nothing() -> None:
    module, batch = tiny()
    optimizer = momentum(module.parameters())
    with compiled(module, batch, optimizer) as step:
        before = left(module, optimizer, torch.zeros(()))
        module.conv1.weight.grad = torch.ones_like(module.conv1.weight)  # type: ignore[union-attr, arg-type]
        with pytest.raises(UserError, match=r"conv1.weight has a gradient already.*zero_grad"):
            step(*batch)
        optimizer.zero_grad()
        optimizer.param_groups[0]["foreach"] = True
        with pytest.raises(UserError, match=r"has foreach=True"):
            step(*batch)
        optimizer.param_groups[0]["foreach"] = None
        held = module.fc.bias  # type: ignore[union-attr]
        module.fc.bias = nn.Parameter(torch.ones(10))  # type: ignore[union-attr]
        with pytest.raises(UserError, match=r"does not hold fc.bias any more.*compile again"):
            step(*batch)
        module.fc.bias = held  # type: ignore[union-attr]
        assert differing(before, left(module, optimizer, torch.zeros(()))) == []
        step(*batch)


def test_a_full_disk_says_how_far_the_step_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, batch = tiny()
    optimizer = momentum(module.parameters())
    cheap = PageCost(1e-9, 1e-9, 1e-9, 1e-9)
    monkeypatch.setattr(profile_here.PageCosts, "cost", lambda *_: cheap)
    monkeypatch.setattr(profile_here, "LEAST_PAGE_BYTES", 1024)

    def full(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before = [parameter.detach().clone() for parameter in module.parameters()]
    with compiled(module, batch, optimizer, ram="85%", pages=tmp_path) as step:
        assert step.report.planned_in_bytes > 0
        with monkeypatch.context() as patch:
            patch.setattr(os, "preadv", full)
            with pytest.raises(UserError, match="cannot page in") as refused:
                step(*batch)
        updated = sum(not old.equal(new) for old, new in zip(before, module.parameters(), strict=True))
        said = re.search(r"(\d+) of 10 parameters have been updated already", str(refused.value))
        assert updated == (int(said[1]) if said else 0)
        assert all(parameter.grad is None for parameter in module.parameters())
        assert [*optimizer.param_groups[0]["params"]] == [*module.parameters()]
        step(*batch)
