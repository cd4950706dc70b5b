# SPDX-License-Identifier: Apache-2.0
"""`train_step` and an optimiser against eager PyTorch and the same: all that eager changes has changed alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_runtime.executor import train_step
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 4


def batches(inputs: Callable[[], Tensor], labels: int) -> list[tuple[Tensor, Tensor]]:
    return [(x, torch.randint(labels, (x.shape[0],))) for x in (inputs() for _ in range(STEPS))]


def test_gradients_add_up_as_backwards_do() -> None:
    torch.manual_seed(0)
    module = nn.Linear(4, 3)
    given = batches(lambda: torch.randn(5, 4), 3)
    graph = trace(module, given[0][:1], given[0][1:], cross_entropy, "halves")
    module.zero_grad()
    for x, labels in given:
        cross_entropy(module(x), labels).backward()
    expected = module.weight.grad
    module.zero_grad()
    for x, labels in given:
        train_step(graph, module, (x,), (labels,))
    assert torch.equal(module.weight.grad, expected)


def test_a_gradient_that_is_there_is_added_to_where_it_lies() -> None:
    module = nn.Linear(4, 3)
    x, labels = torch.randn(5, 4), torch.randint(3, (5,))
    graph = trace(module, (x,), (labels,), cross_entropy, "once")
    module.weight.grad = mine = torch.ones(3, 4)
    train_step(graph, module, (x,), (labels,))
    cross_entropy(module(x), labels).backward()
    assert module.weight.grad is mine


def test_a_parameter_that_takes_no_part_keeps_its_gradient() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.idle = nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x)

    module = Half()
    module.idle.bias.grad = torch.ones(3)
    x, labels = torch.randn(5, 4), torch.randint(3, (5,))
    train_step(trace(module, (x,), (labels,), cross_entropy, "half"), module, (x,), (labels,))
    assert module.idle.weight.grad is None
    assert torch.equal(module.idle.bias.grad, torch.ones(3))


class Clamped(nn.Linear):
    def __init__(self, how: str) -> None:
        super().__init__(6, 4)
        self.how = how
        self.register_buffer("centre", torch.zeros(6))

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "no_grad":
                with torch.no_grad():
                    self.weight.clamp_(-0.2, 0.2)
            case "data":
                self.weight.data.mul_(0.9)
            case "copy":
                with torch.no_grad():
                    self.weight.copy_(self.weight / self.weight.norm())
            case "row":
                with torch.no_grad():
                    self.weight[1] = 0
            case "detach":
                self.bias.detach().add_(1)
            case "init":
                with torch.no_grad():
                    nn.init.uniform_(self.bias)
            case "afterwards":
                y = super().forward(x)
                with torch.no_grad():
                    self.weight.sub_(self.weight.mean(0))
                return y * 2
            case "rebound buffer":
                self.centre = 0.9 * self.centre + 0.1 * x.mean(0)
                x = x - self.centre
            case "swapped buffer":
                self.centre = x.mean(0)
        return super().forward(x)


class Standardised(nn.Linear):
    """Weight standardisation that is written back."""

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight -= self.weight.mean(1, keepdim=True)
        return linear(x, self.weight, self.bias)


class InPlaceBatch(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        x -= x.mean(1, keepdim=True)
        x /= 2
        return super().forward(x)


CLAMPED = ("no_grad", "data", "copy", "row", "detach", "init", "afterwards", "rebound buffer", "swapped buffer")
WRITERS: dict[str, Callable[[], nn.Module]] = {
    **{how: partial(Clamped, how) for how in CLAMPED},
    "standardised": lambda: Standardised(6, 4),
    "batch": lambda: InPlaceBatch(6, 4),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)),
    "old spectral norm": lambda: nn.utils.spectral_norm(nn.Linear(6, 4)),
    "bounded table": lambda: nn.Sequential(nn.Embedding(6, 3, max_norm=0.5), nn.Flatten(), nn.Linear(9, 4)),
    "bounded bag": lambda: nn.Sequential(nn.EmbeddingBag(6, 3, max_norm=0.5, mode="mean"), nn.Linear(3, 4)),
}


@pytest.mark.parametrize("name", WRITERS)
def test_what_the_step_writes_is_written(name: str) -> None:
    def made() -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
        torch.manual_seed(0)
        module = WRITERS[name]()
        return module, batches(lambda: torch.randint(6, (5, 3)) if "bounded" in name else torch.randn(5, 6), 4)

    (ours, given), (theirs, theirs_given) = made(), made()
    graph = trace(ours, given[0][:1], given[0][1:], cross_entropy, "writer")
    optimisers = [torch.optim.SGD(module.parameters(), lr=0.3, momentum=0.9) for module in (ours, theirs)]
    for step in range(STEPS):
        for optimiser in optimisers:
            optimiser.zero_grad()
        torch.manual_seed(step)
        loss = train_step(graph, ours, *[(tensor,) for tensor in given[step]])
        torch.manual_seed(step)
        x, labels = theirs_given[step]
        expected = cross_entropy(theirs(x), labels)
        expected.backward()
        assert torch.equal(loss, expected)
        assert torch.equal(given[step][0], x), "the batch itself"
        for optimiser in optimisers:
            optimiser.step()
        state = ours.state_dict()
        different = [key for key, tensor in theirs.state_dict().items() if not torch.equal(tensor, state[key])]
        assert different == []


class Refused(nn.Linear):
    def __init__(self, how: str) -> None:
        super().__init__(6, 4)
        self.how = how
        self.register_buffer("centre", torch.zeros(6))
        self.scale = torch.ones(6)

    def forward(self, x: Tensor) -> Tensor:
        match self.how:
            case "data":
                self.weight.data = self.weight.data * 0.9
            case "parameter":
                self.weight = nn.Parameter(self.weight.detach() * 0.9)
            case "needs gradient":
                self.centre = self.centre + x.mean(0) * self.weight.mean()
            case "shape":
                self.centre = x.detach().clone()
            case "unregistered":
                self.scale.mul_(0.9)
                x = x * self.scale
        return super().forward(x)


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("data", r"assigns weight\.data"),
        ("parameter", "replaces the parameter weight"),
        ("needs gradient", "the buffer centre.*detach"),
        ("shape", "the buffer centre from shape"),
        ("unregistered", "register_buffer"),
    ],
)
def test_what_cannot_be_carried_to_the_next_step_is_refused(how: str, complaint: str) -> None:
    model = Model("refused", Refused(how), (torch.randn(5, 6),), (torch.randint(4, (5,)),), cross_entropy)
    with pytest.raises(UserError, match=complaint):
        trace(model.module, model.inputs, model.targets, model.loss, model.name)
