# SPDX-License-Identifier: Apache-2.0
"""A plan for the firmware runs in PyTorch whatever its order, though PyTorch's operators may need more values."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner import models
from poet_planner.lowering import lower_for_firmware
from poet_planner.models import Model
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import StepResult, execute, residents_of
from poet_runtime.plan_steps import planned_steps
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.support.levels import examples
from tests.support.networks.eager import SEED, differences, eager_step

pytestmark = pytest.mark.usefixtures("one_thread")


class Views(nn.Module):
    """Reads its activations through views, which the firmware copies."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 12), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.first(x))
        return self.last(y[:, :6] + y[:, 6:])


def mlp() -> Model:
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))
    return Model("mlp", module, (torch.randn(4, 1, 4, 4),), (torch.arange(4),), cross_entropy)


def normed() -> Model:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 4)
    )
    return Model("normed", module, (torch.randn(3, 1, 6, 6),), (torch.arange(3),), cross_entropy)


def regression() -> Model:
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 2))
    return Model("regression", module, (torch.randn(5, 6),), (torch.randn(5, 2),), mse_loss)


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp,
    "normed": normed,
    "regression": regression,
    "views": lambda: Model("views", Views(), (torch.randn(3, 8),), (torch.arange(3),), cross_entropy),
    "digits_cnn_small": lambda: models.load("digits_cnn_small", 2),
}


def any_order(planned: Graph, seed: int) -> Iterator[Step]:
    """All nodes in a random order that the contract allows; values are freed after their last reader, some earlier."""
    dice = random.Random(seed)
    maker = {value.id: node for node in planned.nodes for value in node.values}
    waiting = list(planned.nodes)
    computed: set[str] = set()
    held: set[str] = set()
    while waiting:
        ready = [node for node in waiting if all(maker[id].id in computed for id in node.inputs)]
        node = dice.choice(ready)
        waiting.remove(node)
        yield from compute(node.id, {one.id: one for one in planned.nodes}, maker, held)
        computed.add(node.id)
        wanted = {id for other in waiting for id in other.inputs}
        for id in sorted(held):
            early = maker[id].recomputable and dice.random() < 0.1
            if id not in wanted or early:
                held.remove(id)
                yield Step(Action.FREE, id)


def compute(id: str, nodes: dict, maker: dict, held: set[str]) -> Iterator[Step]:  # type: ignore[type-arg]
    for value in nodes[id].inputs:
        if value not in held:
            yield from compute(maker[value].id, nodes, maker, held)
    for value in nodes[id].values:
        if value.id in held:
            held.remove(value.id)
            yield Step(Action.FREE, value.id)
    held.update(value.id for value in nodes[id].values)
    yield Step(Action.COMPUTE, id)


@cache
def prepared(name: str) -> tuple[Model, TracedGraph, StepResult]:
    torch.manual_seed(0)
    model = MODELS[name]()
    return model, trace(model.module, model.inputs, model.targets, model.loss, model.name), eager_step(model)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=examples(10), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), resident_gradients=st.booleans())
def test_any_order_gives_eagers_numbers(name: str, seed: int, resident_gradients: bool) -> None:
    model, traced, expected = prepared(name)
    planned = lower_for_firmware(traced, resident_gradients=resident_gradients)
    torch.manual_seed(SEED)
    steps = planned_steps(traced, planned, any_order(planned, seed))
    found = execute(traced, residents_of(traced, model.module, model.inputs, model.targets), steps)
    assert differences(model, expected, found) == []


def test_what_the_plan_itself_leaves_out_is_no_affair_of_checks() -> None:
    """A value that the firmware's operator reads has to be there: nothing is brought for it."""
    model = mlp()
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    planned = lower_for_firmware(traced)
    steps = [Step(Action.COMPUTE, "1"), Step(Action.FREE, "1"), Step(Action.COMPUTE, "2")]
    with pytest.raises(UserError, match="1: it is not in RAM"):
        execute(
            traced,
            residents_of(traced, model.module, model.inputs, model.targets),
            planned_steps(traced, planned, steps),
        )
