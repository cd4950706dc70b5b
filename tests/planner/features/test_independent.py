# SPDX-License-Identifier: Apache-2.0
"""Which values move with their samples: known of layers by what PyTorch's pages say of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from poet_planner import models
from poet_planner.features.independent import independent_values
from poet_planner.models import Model
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support.networks.heads import badge_head

BOARD = load_board("nrf52840")


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


class Trace(nn.Module):
    """Of the other samples there is less than a number of int8 can say."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1e-3 * x.mean(0, keepdim=True)


@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize(("layer", "alone"), [(nn.Sigmoid(), True), (Trace(), False)], ids=["alone", "mixed"])
def test_rounding_to_int8_hides_no_other_sample(layer: nn.Module, alone: bool, samples: int) -> None:
    torch.manual_seed(0)
    body = nn.Sequential(layer, nn.Conv1d(1, 4, 1), nn.ReLU(), nn.Flatten()).requires_grad_(False)
    module = nn.Sequential(body, nn.Linear(8, 3))
    x, y = torch.randn(samples, 1, 2), torch.zeros(samples, dtype=torch.long)
    model = Model("job", module, (x,), (y,), cross_entropy)
    step = TrainingStep(model, calibration=Calibration())
    found = independent_values(model, step.traced)
    ops = {
        result: one.operation.op for one in step.graph(BOARD).nodes if one.operation for result in one.operation.results
    }
    on_int8 = {id for id, op in ops.items() if op in ("conv2d_s8", "dequantize_s8")}
    assert len(on_int8) == 2
    assert on_int8 & found == (on_int8 if alone else set())


@pytest.mark.parametrize(
    "make", [badge_head, lambda: models.load("finetune_cnn"), lambda: models.load("finetune_cnn_small")]
)
def test_a_frozen_backbone_is_kept_whole(make: Callable[[], Model]) -> None:
    assert len(independent(make())) > 5
