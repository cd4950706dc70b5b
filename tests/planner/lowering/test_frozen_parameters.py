# SPDX-License-Identifier: Apache-2.0
"""What a step leaves alone: constants in flash, batch norms folded into the layer before, no way back without need.

That folded networks compute what PyTorch's do is `test_own_networks`' matter.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.models import Model
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.graph.sizes import constant_bytes
from torch import nn
from torch.nn import functional

from tests.support.graphs.one_step import name_of
from tests.support.networks import own
from tests.support.networks.eager import traced


def lowered(model: Model) -> Graph:
    return lower_for_firmware(traced(model))


def ids(graph: Graph, *kinds: str) -> set[str]:
    return {resident.id for resident in graph.residents if resident.kind in kinds}


def operators(graph: Graph, prefix: str = "") -> list[str]:
    return [node.operation.op for node in graph.nodes if node.operation and node.id.startswith(prefix)]


@pytest.mark.parametrize("make", [own.frozen_backbone, own.backbone_without_gradients])
def test_a_backbone_that_is_cut_off_runs_forward_alone(make: Callable[[], Model]) -> None:
    graph = lowered(make())
    assert operators(graph, "backbone") == ["conv2d_relu", "max_pool2d_infer", "conv2d_relu", "avg_pool2d"]
    assert not [node.id for node in graph.nodes if node.backward and node.id.startswith("backbone")]
    trained = {"head.weight", "head.bias"}
    assert ids(graph, "parameter", "state", "constant") == trained
    assert ids(graph, "gradient") == {f"{name}.grad" for name in trained}
    # The second norm's eps differs: both are folded all the same.
    folded = {f"backbone.{index}..{name}" for index in (1, 5) for name in ("weight", "bias")}
    assert {constant.id for constant in graph.constants} == folded


def test_a_pooling_has_indices_where_a_backward_pass_reads_them() -> None:
    """The gradient ends before the first pooling, whose input has none."""
    layers = (nn.MaxPool2d(2), nn.Conv2d(2, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2, 3))
    image, target = (torch.zeros(1, 2, 8, 8),), (torch.zeros(1, dtype=torch.int64),)
    graph = lowered(Model("poolings", nn.Sequential(*layers), image, target, functional.cross_entropy))
    assert operators(graph)[:3] == ["max_pool2d_infer", "conv2d", "max_pool2d"]


def test_values_of_a_frozen_part_live_until_the_next_operator() -> None:
    """Nothing of it is saved for a way back."""
    graph = lowered(own.frozen_backbone())
    readers = {
        value.id: [node.id for node in graph.nodes if value.id in node.inputs]
        for node in graph.nodes
        if node.id.startswith("backbone")
        for value in node.values
        if value.bytes
    }
    ends = readers.pop("backbone.7")
    assert all(len(nodes) <= 1 for nodes in readers.values())
    assert len(ends) == 2  # the head, and its weight's gradient


def test_norms_are_folded_on_the_way_back_too() -> None:
    graph = lowered(own.trained_through_folded_norms())
    frozen = [node for node in graph.nodes if node.id.startswith("2.")]
    forward = ["conv2d_relu", "conv2d", "linear", "tanh", "linear"]
    backward = ["matmul", "tanh_backward", "matmul", "conv2d_backward_input", "relu_backward", "conv2d_backward_input"]
    assert [name_of(node.operation) for node in frozen if node.operation and not node.backward] == forward
    assert [name_of(node.operation) for node in frozen if node.operation and node.backward] == backward
    weights = [f"2.{norm}..weight" for norm in (1, 5, 8, 11)]
    for node in frozen:
        if node.operation and node.operation.op in (
            "conv2d",
            "conv2d_relu",
            "linear",
            "matmul",
            "conv2d_backward_input",
        ):
            assert [id for id in node.operation.operands if id in weights]
    biases = [id.replace("weight", "bias") for id in weights]
    assert {constant.id for constant in graph.constants} == {*weights, *biases}


def test_a_folded_layer_is_the_layer_and_the_norm() -> None:
    torch.manual_seed(0)
    model = own.frozen_backbone()
    data = constant_data(traced(model))
    convolution, norm = model.module.backbone[0], model.module.backbone[1]
    with torch.no_grad():
        exact = norm.double()(convolution.double()(model.inputs[0].double()))
        weight, bias = (torch.from_numpy(data[f"backbone.1..{name}"]).double() for name in ("weight", "bias"))
        found = nn.functional.conv2d(model.inputs[0].double(), weight, bias, padding=1)
    assert (found - exact).abs().max() <= 1e-6 * exact.abs().max()


def test_what_is_trained_or_counts_on_is_no_constant() -> None:
    graph = lowered(own.trained_through_frozen_norms())
    constants = {constant.id for constant in graph.constants}
    of_a_norm = ("weight", "bias", "running_mean", "running_var")
    norms = {f"backbone.{index}.{name}" for index in (1, 5) for name in of_a_norm}
    assert constants == norms, "a norm after a trained convolution stays"
    assert ids(graph, "parameter") == {"backbone.0.weight", "backbone.4.weight", "backbone.4.bias"} | {
        "head.weight", "head.bias"
    }  # fmt: skip
    graph = lowered(own.moving_statistics())
    assert {"0.0.1.running_mean", "0.0.1.running_var"} == ids(graph, "state")
    assert {"0.0.0.weight", "0.0.1.weight"} < {constant.id for constant in graph.constants}
    graph = lowered(own.biases_alone())
    assert {id.rpartition(".")[2] for id in ids(graph, "parameter")} == {"bias"}


def test_constants_are_the_data_and_the_hash_sees_them() -> None:
    torch.manual_seed(0)
    model = own.frozen_backbone()
    step = traced(model)
    graph, data = lower_for_firmware(step), constant_data(step)
    end = 0
    for constant in graph.constants:
        array = data[constant.id]
        assert (array.dtype, array.shape, array.nbytes) == (np.float32, constant.shape, constant.bytes)
        assert constant.crc32 == f"{crc32(array.tobytes()):08x}"
        assert constant.offset == end
        end += constant.bytes
    assert graph_hash(lowered(model)) == graph_hash(graph)
    with torch.no_grad():
        model.module.backbone[1].running_var[3] += 1
    assert graph_hash(lowered(model)) != graph_hash(graph)
    with torch.no_grad():
        model.module.head.weight += 1
    assert graph_hash(lowered(model)) == graph_hash(lowered(model))


def test_what_follows_from_constants_alone_is_computed_beforehand() -> None:
    model = own.positions()
    graph = lowered(model)
    (constant,) = graph.constants
    data = constant_data(traced(model))[constant.id]
    assert np.array_equal(data, model.module.table.weight[[7, 2, 8]].numpy())
    assert "embedding" not in operators(graph)
    assert "unread" not in ids(graph, "parameter")


def test_a_constant_that_is_no_number_is_refused_in_one_line() -> None:
    model = own.frozen_backbone()
    with torch.no_grad():
        model.module.backbone[1].running_var[0] = -1
    with pytest.raises(UserError, match=r"backbone\.1\.\.weight holds what is no number"):
        lowered(model)


def test_mobilenets_frozen_part_fits_the_board() -> None:
    """Its largest activations, 147,456 B, would not fit twice: before a ReLU, and after it."""
    model = models.load("mobilenet_v1_last_block")
    graph = lower_for_firmware(traced(model))
    assert ids(graph, "parameter") == {
        name for name, parameter in model.module.named_parameters() if parameter.requires_grad
    }
    frozen_ram = [
        node.workspace_bytes + sum(sizes_of(graph)[id] for id in (*node.inputs, *(value.id for value in node.values)))
        for node in graph.nodes
        if not node.id.startswith("block13") and not node.backward
    ]
    assert max(frozen_ram) == 73_728 + 147_456
    assert constant_bytes(graph) < (load_board("nrf52840").usable_flash_bytes or 0)


def sizes_of(graph: Graph) -> dict[str, int]:
    return {value.id: value.bytes for node in graph.nodes for value in node.values}
