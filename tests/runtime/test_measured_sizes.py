# SPDX-License-Identifier: Apache-2.0
"""Operators measured one by one have the sizes that they have in a whole step."""

from __future__ import annotations

import pytest
import torch
from poet_planner.models import Model
from poet_runtime import measured_sizes
from poet_runtime.executor import residents_of
from poet_runtime.measured_sizes import measured, rehearsed
from poet_runtime.peak import allocations
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support.networks.eager import traced
from tests.support.networks.zoo import zoo_model

pytestmark = pytest.mark.usefixtures("one_thread")


class Whitened(nn.Module):
    """Half in every place is no matrix that has such a factor."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        factor: Tensor = torch.linalg.cholesky(x.T @ x + torch.eye(6))
        y: Tensor = self.fc(torch.linalg.solve_triangular(factor, x.T, upper=False).T)
        return y


def whitened() -> Model:
    return Model("whitened", Whitened(), (torch.randn(8, 6),), (torch.arange(8) % 3,), cross_entropy)


@pytest.mark.parametrize("name", ["whitened", "lstm", "in-place", "random", "embedding bag"])
def test_sizes_are_those_of_a_whole_step(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = whitened() if name == "whitened" else zoo_model(name)
    graph = traced(model)
    state = torch.get_rng_state()
    apart = measured(graph, model.module, model.inputs, model.targets)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(measured_sizes, "Apart", measured_sizes._Rehearsal)
    whole = measured(graph, model.module, model.inputs, model.targets)
    # oneDNN's LSTM copies a state of other numbers once more.
    sizes = [[operator.workspace_bytes for operator in graph.operators] for graph in (apart, whole)]
    assert sizes[0] == pytest.approx(sizes[1], rel=0.005)
    assert apart.values == whole.values
    assert apart.gradients == whole.gradients


def test_it_takes_the_memory_of_an_operator() -> None:
    module = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.GELU())), nn.Linear(256, 3))
    model = Model("deep", module, (torch.randn(512, 256),), (torch.arange(512) % 3,), cross_entropy)
    graph = traced(model)
    residents = residents_of(graph, module, model.inputs, model.targets)
    with allocations() as peak:
        rehearsed(graph, residents)
    assert peak.bytes < 4 * 512 * 256 * 4
