# SPDX-License-Identifier: Apache-2.0
"""What keeps a network off the firmware is said in one line: where, what is missing, what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner.lowering import lower_for_firmware
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.tracing import trace
from poet_profiles.graph.file import read_graph, write_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

CLASSES = 3


class Pixels(nn.Module):
    """Whole numbers for an input, and a forward that does arithmetic on them."""

    def __init__(self, scaled: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.fc = nn.Linear(4, CLASSES)
        self.scaled = scaled

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(x.float() / 255 if self.scaled else self.embedding(x * 2).mean(1))
        return out


def why(module: nn.Module, x: Tensor, loss: Any = cross_entropy, target: Tensor | None = None) -> str:
    labels = torch.arange(len(x)) % CLASSES if target is None else target
    words = why_no_headers(lower_for_firmware(trace(module, (x,), (labels,), loss, "own", segments=1)))
    assert words is not None
    assert "\n" not in words
    assert "aten" not in words
    return words


def rows() -> Tensor:
    return torch.randn(2, 4)


def pictures() -> Tensor:
    return torch.randn(2, 1, 6, 6)


def network(*layers: nn.Module) -> nn.Module:
    module = nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(CLASSES))
    module(pictures())
    return module


@pytest.mark.parametrize(
    ("layer", "missing"),
    [
        (nn.ConvTranspose2d(1, 2, 3, dilation=2), "no dilated transposed convolution; use dilation=1 and a larger"),
        (nn.Conv2d(1, 2, 2, stride=2, dilation=2), "no convolution with a stride and a dilation along one axis; use"),
        (
            nn.Sequential(nn.Conv2d(1, 2, 3), nn.RReLU()),
            "0.1 (RReLU): the firmware has no random slopes; use LeakyReLU",
        ),
    ],
)
def test_layers(layer: nn.Module, missing: str) -> None:
    assert missing in why(network(layer), pictures())


def test_a_loss_of_operators_that_the_firmware_lacks() -> None:
    def of_distances(scores: Tensor, target: Tensor) -> Tensor:
        return torch.cdist(scores, target, 1).mean()

    assert "in the loss (test_refusals.py:" in why(nn.Linear(4, 3), rows(), of_distances, torch.randn(2, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types_of_numbers(dtype: torch.dtype) -> None:
    name = str(dtype).removeprefix("torch.")
    said = why(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, CLASSES)).to(dtype), rows().to(dtype))
    assert said == (
        f"the model: the firmware has no arithmetic in {name}; make the model and its batch float32, with .float()"
    )


def test_whole_numbers_are_labels_and_tokens_alone() -> None:
    assert "whole numbers (int64)" in why(nn.Linear(4, 3), rows(), mse_loss, torch.ones(2, 3, dtype=torch.int64))
    assert "whole numbers (int64)" in why(Pixels(scaled=False), torch.randint(0, 4, (2, 3)))
    assert "`x.float()` in Pixels (test_refusals.py:31): the firmware has no conversion of float64" in why(
        Pixels(scaled=True), torch.rand(2, 4, dtype=torch.float64)
    )


def test_a_graph_file_says_it_too(tmp_path: Path) -> None:
    module = network(nn.Conv2d(1, 2, 3, dilation=2))
    graph = lower_for_firmware(trace(module, (pictures(),), (torch.tensor([0, 1]),), cross_entropy, "own"))
    write_graph(graph, tmp_path / "graph.json")
    assert read_graph(tmp_path / "graph.json") == graph
    assert why_no_headers(read_graph(tmp_path / "graph.json")) == why_no_headers(graph)


def test_a_gradient_without_elements_is_not_taken_for_one() -> None:
    class Rolled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x)
            return torch.cat([out[:, 3:], out], 1)

    assert "the firmware has no tensor without elements; leave it out" in why(Rolled(4, CLASSES), rows())
