# SPDX-License-Identifier: Apache-2.0
"""A plan for a board is of a step that is eager PyTorch's, or there is none."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner.cli import app
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_profiles.errors import UserError
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import _get_current_dispatch_mode
from torch.utils.checkpoint import checkpoint
from typer.testing import CliRunner

Y = torch.tensor([0, 1, 2, 0])


class Changed(nn.Module):
    """Does something else while it is traced."""

    def __init__(self, change: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.fc, self.change = nn.Linear(6, 3), change

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x)
        return self.change(y) if _get_current_dispatch_mode() is not None else y


class Halved(torch.autograd.Function):
    """The identity, with half of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient / 2


class Doubled(Changed):
    """Of an example of zeros nobody sees it."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.fc(x * 2 if _get_current_dispatch_mode() is not None else x)
        return y


def model(module: nn.Module, x: Tensor) -> Model:
    torch.manual_seed(0)
    return Model("asks", module, (x,), (Y,), cross_entropy)


@pytest.mark.parametrize(
    ("module", "x", "what"),
    [
        (Changed(lambda y: y * 2), torch.randn(4, 6), "the loss"),
        (Changed(Halved.apply), torch.randn(4, 6), "the gradient of fc.weight"),
        (Doubled(nn.Identity()), torch.zeros(4, 6), "the loss"),
    ],
    ids=["loss", "gradient", "zeros"],
)
def test_another_step_than_eagers_is_refused_in_one_line(module: nn.Module, x: Tensor, what: str) -> None:
    before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
    with pytest.raises(UserError, match=f"^asks: {what} is not eager PyTorch's") as refusal:
        _ = TrainingStep(Model("asks", module, (x,), (Y,), cross_entropy)).traced
    assert "\n" not in str(refusal.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_nothing_is_written_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "asking.py").write_text(
        "import torch\nfrom poet_planner import Model\nfrom tests.planner.tracing.test_same_as_eager import *\n"
        "def make(batch):\n    return Model('asks', Changed(lambda y: y * 2), (torch.randn(4, 6),), (Y,),"
        " torch.nn.functional.cross_entropy)\n"
    )
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["--profile", "nrf52840", "--model", "asking:make", "--out", "plan"])
    assert isinstance(done.exception, UserError) and not (tmp_path / "plan").exists()


class Twice(nn.Module):
    """Dropout within what PyTorch takes again on the way back."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.block, self.out, self.options = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)), nn.Linear(6, 3), options

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(checkpoint(self.block, x + self.out.bias.sum(), **self.options))
        return y


@pytest.mark.parametrize("reentrant", [False, True])
def test_dropout_that_is_taken_again_has_its_first_mask(reentrant: bool) -> None:
    step = TrainingStep(model(Twice(use_reentrant=reentrant), torch.randn(4, 6)))
    assert [operator.id for operator in step.traced.operators if operator.random] == ["block.1.bernoulli"]
