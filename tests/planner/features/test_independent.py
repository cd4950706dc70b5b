# SPDX-License-Identifier: Apache-2.0
"""Which values move with their samples: known of layers by what PyTorch's pages say of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from poet_planner import models
from poet_planner.features.independent import independent_values
from poet_planner.models import Model
from poet_planner.tracing import trace
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support.networks.heads import badge_head


def independent(model: Model) -> frozenset[str]:
    return independent_values(model, trace(model.module, model.inputs, model.targets, model.loss, model.name))


def with_frozen(*layers: nn.Module, samples: int = 4, zeros: bool = False) -> Model:
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv1d(4, 8, 3), *layers, nn.Flatten()).requires_grad_(False)
    x = torch.zeros(samples, 4, 10) if zeros else torch.randn(samples, 4, 10)
    module = nn.Sequential(body, nn.Linear(64, 3))
    return Model("job", module, (x,), (torch.zeros(samples, dtype=torch.long),), cross_entropy)


class Centred(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


class Neighbour(nn.Module):
    """Reads the sample before."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.cat([x[1:], x[:1]])


@pytest.mark.parametrize(
    ("layers", "last"),
    [
        ([nn.ReLU()], True),
        ([nn.InstanceNorm1d(8), nn.ReLU()], True),
        ([nn.GroupNorm(2, 8)], True),
        ([nn.BatchNorm1d(8).eval()], True),
        ([nn.BatchNorm1d(8, track_running_stats=False)], False),
        ([Centred()], False),
        ([Neighbour(), nn.ReLU()], False),
    ],
    ids=["relu", "instance", "group", "evaluated", "by the batch", "centred", "neighbour"],
)
@pytest.mark.parametrize("zeros", [False, True])
def test_what_mixes_samples_is_found(layers: list[nn.Module], last: bool, zeros: bool) -> None:
    found = independent(with_frozen(*layers, zeros=zeros))
    assert "0.0" in found
    assert (f"0.{len(layers)}" in found or any(id.startswith(f"0.{len(layers)}.") for id in found)) is last


def test_a_batch_of_one_is_looked_at_with_two() -> None:
    assert "0.1" in independent(with_frozen(nn.ReLU(), samples=1))
    assert "0.1" not in independent(with_frozen(Centred(), samples=1))


@pytest.mark.parametrize(
    "make", [badge_head, lambda: models.load("finetune_cnn"), lambda: models.load("finetune_cnn_small")]
)
def test_a_frozen_backbone_is_kept_whole(make: Callable[[], Model]) -> None:
    assert len(independent(make())) > 5
