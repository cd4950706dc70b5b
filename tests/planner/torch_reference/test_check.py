# SPDX-License-Identifier: Apache-2.0
"""`check` sees what a plan changes otherwise than eager PyTorch, in whichever step, and leaves the model as it was."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

import pytest
import torch
from poet_planner.graph.layout import MemoryLayout
from poet_planner.lowering import lower_for_linux
from poet_planner.models import Model
from poet_planner.planning.bench import Bench
from poet_planner.planning.request import Request
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import OptimiseOptions, optimise
from poet_planner.torch_reference import check
from poet_planner.torch_reference.check import CheckReport, check_plan
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_runtime.executor import StepResult
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support.networks.layers import layer_model

pytestmark = pytest.mark.usefixtures("one_thread")

Spoil = Callable[[StepResult], None]


def checked(model: Model) -> CheckReport:
    graph = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    planned = lower_for_linux(graph, dma=False)
    return check_plan(model, planned, store_all_schedule(planned))


def nudge(tensors: dict[str, Tensor]) -> None:
    tensor = next(iter(tensors.values())).view(-1)[:1]
    tensor.copy_(torch.nextafter(tensor, torch.tensor(torch.inf)))


def spend_a_number(result: StepResult) -> None:
    torch.rand(1)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "spoil", "named"),
    [
        ("clamped weight", lambda result: nudge(result.written), "weight"),
        ("shadow weights", lambda result: nudge(result.buffers), "shadow"),
        ("batch changed in place", lambda result: nudge(result.written), "batch[0]"),
        ("loss with a parameter", lambda result: nudge({"": result.gradients["loss.centers"]}), "loss.centers.grad"),
        ("dropout", spend_a_number, "PyTorch's random generator"),
    ],
)
def test_one_bit_in_one_step_is_seen(
    name: str, spoil: Spoil, named: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = iter((1, 2, 3))
    leave = check.leave

    def careless(result: StepResult, graph: TracedGraph, module: nn.Module, residents: dict[str, Tensor]) -> None:
        if next(steps) == step:
            spoil(result)
        leave(result, graph, module, residents)

    monkeypatch.setattr(check, "leave", careless)
    report = checked(layer_model(name))
    assert report.step == step
    assert named in report.different


@pytest.mark.parametrize(
    "name", ["clamped weight", "batch changed in place", "loss with a parameter", "replaced buffer", "kept activation"]
)
def test_the_model_stays_as_it_was(name: str) -> None:
    model = layer_model(name)
    for parameter in model.module.parameters():
        parameter.grad = torch.ones_like(parameter)
    buffers = dict(model.module.named_buffers())
    before = copy.deepcopy((model.module.state_dict(), model.inputs, [p.grad for p in model.module.parameters()]))
    states = torch.get_rng_state(), random.getstate()
    attributes = vars(model.module).keys()
    assert checked(model).different == ()
    after = (model.module.state_dict(), model.inputs, [p.grad for p in model.module.parameters()])
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert (torch.equal(torch.get_rng_state(), states[0]), random.getstate()) == (True, states[1])
    assert all(buffer is buffers[key] for key, buffer in model.module.named_buffers())
    assert vars(model.module).keys() == attributes


def test_a_model_that_eager_pytorch_cannot_train_for_three_steps_is_said_to_be_one() -> None:
    class Breaks(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.weight.data.mul_(2)
            if self.weight.abs().max() > 6:
                raise ValueError("too large")
            return super().forward(x)

    torch.manual_seed(0)
    model = Model("breaks", Breaks(6, 4), (torch.randn(3, 6),), (torch.arange(3),), cross_entropy)
    model.module.weight.data.fill_(1.0)
    with pytest.raises(UserError, match="breaks: eager PyTorch cannot train it for 3 steps: too large"):
        checked(model)


@pytest.mark.parametrize(("count", "share"), [(2, 0.8), (4, 1.0)])
def test_a_plan_in_micro_batches_trains_as_pytorchs_loop(count: int, share: float) -> None:
    """With something recomputed, and dropout, whose numbers each part draws for itself."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Dropout(0.5), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()]
    module = nn.Sequential(*layers, nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    model = Model("parts", module, (torch.randn(4, 1, 8, 8),), (torch.randint(10, (4,)),), cross_entropy)
    graph = Bench(Request(model, "nrf52840")).step(MemoryLayout(micro_batches=count)).graph
    arena_bytes = store_all_schedule(graph).peak_bytes - graph.resident_bytes
    budget = graph.resident_bytes + int(share * arena_bytes)
    report = check_plan(model, graph, optimise(graph, budget, None, OptimiseOptions(time_limit_s=1, paging=False)))
    assert report.different == ()
    assert (report.recomputations > 0) == (share < 1)


def test_a_part_that_is_left_out_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model("parts", nn.Linear(5, 3), (torch.randn(4, 5),), (torch.randint(3, (4,)),), cross_entropy)
    graph = TrainingStep(model).in_micro_batches(2).graph(load_board("nrf52840"))
    leave = check.leave
    calls: list[int] = []

    def every_other(*result: object) -> None:
        calls.append(1)
        if len(calls) % 2:
            leave(*result)  # type: ignore[arg-type]

    monkeypatch.setattr(check, "leave", every_other)
    report = check_plan(model, graph, store_all_schedule(graph))
    assert report.different
