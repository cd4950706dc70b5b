# SPDX-License-Identifier: Apache-2.0
"""The zoo: every small model is either planned and trained bit for bit, or refused in one line."""

from __future__ import annotations

import random
import re
import sysconfig
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from poet_planner.costs.features import has_features
from poet_planner.lowering import lower_for_linux
from poet_planner.models import Model
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.torch_reference.check import check_plan
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule
from poet_runtime.executor import train_step
from poet_runtime.traced_graph import TracedGraph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from tests.support.graphs.costed import costed
from tests.support.networks.eager import traced
from tests.support.networks.layers import LAYERS, REFUSED, layer_model
from tests.support.networks.mistakes import MISTAKES, mistake

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 3


def refusal(model: Model) -> str:
    with pytest.raises(UserError) as refused:
        traced(model)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_refused_in_one_line(name: str) -> None:
    model, word = mistake(name)
    assert word in refusal(model)


@pytest.mark.parametrize("seed", [torch.manual_seed, random.seed, np.random.seed])
def test_a_step_that_seeds_is_refused_where_the_generator_stands_there_already(seed: Callable[[int], object]) -> None:
    """As it does after a user's file that seeds, and draws nothing afterwards."""

    class Seeding(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seed(0)
            return dropout(super().forward(x))

    model = Model("seeding", Seeding(6, 3), (torch.randn(3, 6),), (torch.arange(3),), cross_entropy)
    seed(0)
    assert "random generator" in refusal(model)


# What is wrong is no part's: the words that say whose it is.
NO_PARTS = {
    "class counter": "_Bad.count",
    "hook in the loss": "loss.centres",
    "loss that counts": "changes calls",
    "input with gradient": "an input or a target",
    "unreduced loss": "the loss",
    "nothing to train": "the model",
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_refusal_names_the_place(name: str) -> None:
    """The path of the part, in what it is part of, or the line of its code."""
    model, _ = mistake(name)
    said = refusal(replace(model, name="whole", module=nn.Sequential(OrderedDict(part=model.module))))
    assert said.startswith("whole: ")
    assert re.search(r"\bpart\b|\bmistakes\.py:\d+", said) if name not in NO_PARTS else NO_PARTS[name] in said


LIBRARY = """
import torch
from torch import nn

def remove_self_loops(edge_index):
    mask = edge_index[0] != edge_index[1]
    return edge_index[:, mask]

class GraphConv(nn.Module):
    def __init__(self, lookup):
        super().__init__()
        self.lin = nn.Linear(6, 4)
        self.lookup = lookup

    def forward(self, x, edge_index):
        source, target = self.lookup(edge_index)
        return self.lin(x).index_add(0, target, self.lin(x)[source])
"""


class Graphs(nn.Module):
    """A network of the user's over a layer of an installed package."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convs = nn.ModuleList([convolution])

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        out: Tensor = self.convs[0](x, edge_index)
        return out


def test_a_graph_networks_self_loops_are_refused_with_their_place_and_a_cure() -> None:
    installed: dict[str, Any] = {"__name__": "graphs"}
    file = Path(sysconfig.get_path("purelib")) / "graphs" / "conv.py"
    exec(compile(LIBRARY, str(file), "exec"), installed)
    edges = torch.tensor([[0, 1, 2, 1], [1, 2, 0, 1]])

    def network(lookup: Callable[[Tensor], Tensor], edge_index: Tensor) -> Model:
        inputs = (torch.randn(3, 6), edge_index)
        return Model("net", Graphs(installed["GraphConv"](lookup)), inputs, (torch.arange(3),), cross_entropy)

    line = Graphs.forward.__code__.co_firstlineno + 1
    said = refusal(network(installed["remove_self_loops"], edges))
    assert f"net: convs.0 (test_zoo.py:{line}): the shape of what aten.index.Tensor returns depends on its data" in said
    assert "outside of the step" in said and "edge_index" in said
    # The cure is one.
    assert traced(network(Tensor.unbind, installed["remove_self_loops"](edges))).operators


@pytest.mark.parametrize("name", REFUSED)
def test_a_layer_that_cannot_be_planned_is_refused_in_one_line(name: str) -> None:
    assert REFUSED[name] in refusal(layer_model(name))


@pytest.mark.parametrize("name", [name for name in LAYERS if name not in REFUSED])
def test_a_layer_is_planned_and_trains_bit_for_bit(name: str) -> None:
    model = layer_model(name)
    graph = traced(model)
    planned = costed(lower_for_linux(graph, dma=False))
    assert [node.id for node in planned.nodes if node.operation and not has_features(node.operation.params)] == []
    report = check_plan(model, planned, schedule_of(planned))
    assert (report.different, report.step) == ((), STEPS)
    trains_like_eager(model, graph, layer_model(name))


def schedule_of(planned: Graph) -> Schedule:
    """In less RAM than the store-all schedule takes, where that is possible."""
    store_all = store_all_schedule(planned)
    budget = planned.resident_bytes + int(0.85 * (store_all.peak_bytes - planned.resident_bytes))
    try:
        return optimise(planned, budget, options=OptimiseOptions(time_limit_s=0.05))
    except NoScheduleError:
        return store_all


def trains_like_eager(ours: Model, graph: TracedGraph, theirs: Model) -> None:
    """`train_step` and an optimiser against `backward()` and the same, without a word from `check`."""
    optimisers = [torch.optim.SGD(parameters(model), lr=0.05, momentum=0.9) for model in (ours, theirs)]
    for step in range(STEPS):
        for optimiser in optimisers:
            optimiser.zero_grad()
        torch.manual_seed(step)
        loss = train_step(graph, ours.module, ours.inputs, ours.targets)
        drawn = torch.get_rng_state()
        torch.manual_seed(step)
        expected = theirs.loss(theirs.module(*theirs.inputs), *theirs.targets)
        expected.backward()
        assert torch.equal(drawn, torch.get_rng_state())
        assert torch.equal(loss, expected)
        assert [*map(same, left(ours), left(theirs))].count(False) == 0
        for optimiser in optimisers:
            optimiser.step()
        assert [*map(same, left(ours), left(theirs))].count(False) == 0


def parameters(model: Model) -> list[Tensor]:
    own = [*model.loss.parameters()] if isinstance(model.loss, nn.Module) else []
    return [*model.module.parameters(), *own]


def left(model: Model) -> list[Tensor | None]:
    gradients = [parameter.grad for parameter in parameters(model)]
    return [*parameters(model), *gradients, *model.module.buffers(), *model.inputs, *model.targets]


def same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other if one is None or other is None else torch.equal(one, other)
