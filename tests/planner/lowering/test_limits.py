# SPDX-License-Identifier: Apache-2.0
"""What the firmware's operators do not compute as meant stays PyTorch's: such a graph gets no headers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_planner.lowering import lower_for_firmware, lower_for_linux
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.firmware.operators import parse_params
from poet_profiles.firmware.steps import steps_in
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph, write_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, scaled_dot_product_attention

from tests.support.networks import zoo

CLASSES = 3


class Apply(nn.Module):
    """A linear layer, and something after it."""

    def __init__(self, after: Any, width: int = CLASSES) -> None:
        super().__init__()
        self.fc = nn.Linear(4, width)
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.after(self.fc(x))
        return out


def lowered(module: nn.Module, x: Tensor, loss: Any = cross_entropy) -> Graph:
    torch.manual_seed(0)
    return lower_for_firmware(trace(module, (x,), (torch.arange(len(x)) % CLASSES,), loss, "small"))


def rows() -> Tensor:
    return torch.randn(4, 4)


def runs(graph: Graph) -> bool:
    return why_no_headers(graph) is None


@pytest.mark.parametrize(
    ("ignored", "means_the_same"), [(-100, True), (-1, True), (0, False), (CLASSES - 1, False), (CLASSES, True)]
)
def test_a_loss_that_leaves_rows_out_is_not_the_plain_one(ignored: int, means_the_same: bool) -> None:
    graph = lowered(Apply(nn.Identity()), rows(), partial(cross_entropy, ignore_index=ignored))
    ops = {node.operation.op for node in graph.nodes if node.operation}
    assert ("nll_loss" in ops, "gather" in ops) == (means_the_same, not means_the_same)


@pytest.mark.parametrize(
    ("factor", "held"),
    [
        *((factor, True) for factor in (0.5, 32**-0.5, 1e-7, -1.25, 1 / 30000, 1e-10, -1e-12, 3.0, 8**0.5, -1e30)),
        (1e39, False),
    ],
)
def test_a_factor_is_given_by_its_bits(factor: float, held: bool) -> None:
    graph = lowered(Apply(lambda x: x * factor), rows())
    keys = [node.operation.params for node in graph.nodes if node.operation and "mulc" in node.operation.params]
    assert (runs(graph), bool(keys)) == (held, held)
    for key in keys:
        ((number,),) = (step.numbers for step in steps_in(parse_params(key)))
        assert number == pytest.approx(factor, rel=2**-24)


@pytest.mark.parametrize(("eps", "means_the_same"), [(1e-5, True), (1e-3, True), (1e-9, True), (1e-12, False)])
def test_an_epsilon_that_billionths_do_not_hold_is_not_the_firmwares(eps: float, means_the_same: bool) -> None:
    ops = {node.operation.op for node in lowered(Apply(nn.LayerNorm(CLASSES, eps=eps)), rows()).nodes if node.operation}
    assert ("layer_norm" in ops) == means_the_same
    pictures = nn.Sequential(nn.Conv2d(2, CLASSES, 3), nn.BatchNorm2d(CLASSES, eps=eps), nn.Flatten(), nn.Linear(48, 3))
    assert runs(lowered(pictures, torch.randn(2, 2, 6, 6))) == means_the_same


@pytest.mark.parametrize(("kernel", "means_the_same"), [(16, True), (17, False)])
def test_a_window_with_more_places_than_a_byte_counts_is_not_the_firmwares(kernel: int, means_the_same: bool) -> None:
    module = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(kernel), nn.Flatten(), nn.Linear(1, CLASSES))
    ops = {node.operation.op for node in lowered(module, torch.randn(2, 1, 20, 20)).nodes if node.operation}
    assert ("max_pool2d" in ops) == means_the_same


@pytest.mark.parametrize("name", zoo.ZOO)
def test_all_that_a_module_does_comes_before_the_first_change_of_a_parameter(name: str, tmp_path: Path) -> None:
    model = zoo.ZOO[name]()
    graph = lower_for_firmware(trace(model.module, model.inputs, model.targets, model.loss, model.name))
    write_graph(graph, tmp_path / "graph.json")
    assert read_graph(tmp_path / "graph.json") == graph


class Unrolled(nn.Module):
    """Reads its weight in the order in which channels-last images lie."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CLASSES, 2, 6, 6).to(memory_format=torch.channels_last))

    def forward(self, x: Tensor) -> Tensor:
        return linear(x.flatten(1), self.weight.permute(0, 2, 3, 1).view(CLASSES, -1))


def test_a_view_that_only_another_layout_has_can_be_planned_but_not_run() -> None:
    graph = lowered(Unrolled(), torch.randn(3, 2, 6, 6))
    assert not runs(graph)
    assert verify(graph, store_all_schedule(graph)).faults == ()


def test_attention_on_a_processor_is_counted_as_the_products_that_it_is() -> None:
    heads, length, width = 2, 8, 4

    def attend(x: Tensor) -> Tensor:
        split = x.reshape(1, length, heads, 3 * width).transpose(1, 2)
        return (
            scaled_dot_product_attention(*split.chunk(3, dim=-1)).transpose(1, 2).reshape(length, heads * width)[:, :3]
        )

    traced = trace(
        Apply(attend, 3 * heads * width),
        (torch.randn(length, 4),),
        (torch.arange(length) % 3,),
        cross_entropy,
        "attention",
    )
    flops = {
        node.operation.op: int(node.operation.params.split()[0].removeprefix("flops="))
        for node in lower_for_linux(traced, dma=False).nodes
        if node.operation and "attention" in node.operation.op
    }
    product = 2 * heads * length * length * width
    # Scores and what they weigh; backwards the scores again, and two products for each of those two.
    assert sorted(flops.values()) == [2 * product, 5 * product]
