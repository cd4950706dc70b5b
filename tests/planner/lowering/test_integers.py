# SPDX-License-Identifier: Apache-2.0
"""Graphs that torchao quantised: the firmware's operators on int8, against those of PyTorch run one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed
from poet_planner.lowering import lower_for_firmware, with_slices
from poet_planner.lowering.firmware import in_parts
from poet_planner.lowering.memory.card import with_parameters_on_the_card
from poet_planner.lowering.rewrites.constants import constant_data, stored
from poet_planner.schedule.c_headers import operators_lacking
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.check import check_plan
from poet_planner.tracing import trace
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.validation import check_graph
from poet_runtime.traced_graph import Ref, TracedGraph, map_refs
from torch import Tensor, nn
from torch.nn import functional

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import tensors_of_step
from tests.support.networks.quantised import EXTENT, Branches, chain, of_branches, of_chain, quantised

BATCH = 3
NETWORKS: dict[str, Callable[[], nn.Module]] = {"chain": chain, "branches": Branches}


def traced(model: nn.Module, x: Tensor) -> TracedGraph:
    targets = torch.arange(len(x)) % 10
    return trace(model, (x,), (targets,), functional.cross_entropy, "quantised")


def tensors_of(graph: TracedGraph, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """What PyTorch gives for every operator of a graph, one by one."""
    held = {**constant_data(graph), **given}

    def seen(ref: Ref) -> Tensor:
        tensor = held[ref.source]
        for view in ref.views:
            tensor = view.target(tensor, *view.args, **view.kwargs)
        return tensor

    for operator in graph.operators:
        if operator.backward:
            break
        results = operator.target(*map_refs(operator.args, seen), **operator.kwargs)
        several = results if isinstance(results, tuple) else (results,)
        held |= {id: tensor for id, tensor in zip(operator.outputs, several, strict=True) if id is not None}
    return held


def given_to(graph: TracedGraph, model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    given = dict(model.named_parameters()) | {"input": x, "target": torch.arange(len(x)) % 10}
    return {resident.id: given[resident.id].detach() for resident in graph.residents if resident.id in given}


def kinds(graph: Graph) -> list[str]:
    return [node.operation.op for node in graph.nodes if node.operation and not node.backward]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NETWORKS)
def test_every_value_has_the_bits_of_pytorchs_operators_on_int8(operators: Operators, name: str, seed: int) -> None:
    torch.manual_seed(seed)
    model = quantised(NETWORKS[name](), seed)
    x = torch.rand(BATCH, 1, EXTENT, EXTENT)
    graph = traced(model, x)
    lowered = lower_for_firmware(graph)
    check_graph(lowered)
    given = given_to(graph, model, x)
    constants: dict[str, Any] = {id: stored(data) for id, data in constant_data(in_parts(graph)).items()}
    found = tensors_of_step(lowered, {id: one.numpy() for id, one in given.items()} | constants, operators)
    expected = tensors_of(in_parts(graph), given)
    compared = 0
    for node in lowered.nodes:
        if node.operation and node.operation.op.endswith("_s8"):
            (id,) = node.operation.results
            one = expected[id].numpy()
            assert np.array_equal(found[id].view(one.dtype), one.ravel()), node.id
            compared += 1
    assert compared >= 6
    loss = functional.cross_entropy(expected["head"], given["target"])
    assert found["loss"].view(np.float32)[0] == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_features_are_those_of_the_quantised_graph_within_steps(name: str) -> None:
    """It sums in f32, with f32 biases, and rounds each layer's results: so that few differ, by little."""
    model = quantised(NETWORKS[name]())
    x = torch.rand(64, 1, EXTENT, EXTENT)
    graph = traced(model, x)
    features = tensors_of(in_parts(graph), given_to(graph, model, x))
    (dequantized,) = [one for one in in_parts(graph).operators if one.id == _features_of(graph)]
    exact = features[dequantized.values[0]].reshape(64, -1)
    eager = model.get_submodule("backbone")(x).detach()
    step = dequantized.args[1]
    assert ((exact - eager).abs() > step / 2).float().mean() < 0.1
    assert (exact - eager).abs().max() < 3.5 * step


def _features_of(graph: TracedGraph) -> str:
    (head,) = [one for one in graph.operators if one.id == "head"]
    return next(ref.source for ref in head.refs if ref.source.startswith("backbone"))


def test_a_chain_is_one_operator_a_layer() -> None:
    graph = traced(quantised(chain()), torch.rand(2, 1, EXTENT, EXTENT))
    lowered = lower_for_firmware(graph)
    integers = ["quantize_s8", "conv2d_s8", "conv2d_s8", "max_pool2d_s8", "conv2d_s8", "dequantize_s8"]
    assert kinds(lowered) == [*integers, "linear", "log_softmax", "nll_loss"]
    weights = {one.id: one for one in lowered.constants if one.dtype == "i8"}
    assert sum(one.bytes for one in weights.values()) == 7 * 9 + 12 * 7 * 9 + 5 * 12


def test_weights_of_int8_stay_in_flash_and_the_rest_goes_to_the_card_before_them() -> None:
    graph = lower_for_firmware(traced(quantised(chain()), torch.rand(2, 1, EXTENT, EXTENT)), resident_gradients=False)
    of_bytes = {one.id for one in graph.constants if one.dtype == "i8"}
    flash_bytes = 64 + 756 + 60
    step = with_parameters_on_the_card(graph, 64, flash_bytes)
    check_graph(step)
    assert {one.id for one in step.constants} == of_bytes
    with pytest.raises(UserError, match="of int8, has no room in flash"):
        with_parameters_on_the_card(graph, 64, flash_bytes - 4)


def test_values_of_int8_are_not_sliced() -> None:
    graph = lower_for_firmware(traced(quantised(chain()), torch.rand(2, 1, EXTENT, EXTENT)), resident_gradients=False)
    assert kinds(with_slices(graph, 20)) == kinds(graph)


@pytest.mark.parametrize("name", ["chain", "branches"])
def test_a_schedule_is_checked_against_pytorchs_own_graph(name: str) -> None:
    model = of_chain() if name == "chain" else of_branches()
    graph = lower_for_firmware(trace(model.module, model.inputs, model.targets, model.loss, model.name))
    assert check_plan(model, graph, store_all_schedule(graph)).different == ()


def test_what_has_no_form_on_int8_is_computed_in_f32() -> None:
    graph = traced(quantised(Branches()), torch.rand(2, 1, EXTENT, EXTENT))
    found = kinds(lower_for_firmware(graph))
    assert {"add_s8", "map_s8", "avg_pool2d_s8", "linear_s8", "conv2d_s8"} <= set(found)
    assert found.count("conv2d") == found.count("pointwise") == 1
    assert found.count("quantize_s8") == found.count("dequantize_s8") == 2


RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-(2**15), 2**15 - 1)}


class OneLayer(nn.Module):
    """A quantised convolution, whose weights are as they are given."""

    def __init__(
        self,
        weight: Tensor,
        zero: int = 0,
        dtype: torch.dtype = torch.int8,
        per_channel: bool = False,
        by_range: bool = False,
    ) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scales", torch.full((len(weight),), 0.01))
        self.register_buffer("zeros", torch.full((len(weight),), zero))
        self.dtype, self.per_channel, self.by_range = dtype, per_channel, by_range

    def forward(self, x: Tensor) -> Tensor:
        decomposed = torch.ops.quantized_decomposed
        low, high = RANGES[self.dtype]
        one_each = (torch.full((x.shape[1],), 0.02), torch.zeros(x.shape[1], dtype=torch.int64), 1, -128, 127)
        if self.per_channel:
            q = decomposed.quantize_per_channel(x, *one_each, torch.int8)
            x = decomposed.dequantize_per_channel(q, *one_each, torch.int8)
        if self.by_range:
            seen = decomposed.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
            q = decomposed.quantize_per_tensor.tensor(x, *seen, -128, 127, torch.int8)
            x = decomposed.dequantize_per_tensor.tensor(q, *seen, -128, 127, torch.int8)

        def rounded(x: Tensor, zero: int) -> Tensor:
            q = decomposed.quantize_per_tensor(x, 0.02, zero, low, high, self.dtype)
            return decomposed.dequantize_per_tensor(q, 0.02, zero, low, high, self.dtype)

        w = decomposed.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)
        return rounded(functional.conv2d(rounded(x, 3), w), 5).flatten(1)


def one_layer(layer: OneLayer) -> Graph:
    features = layer(torch.rand(1, layer.get_buffer("weight").shape[1], 2, 2)).shape[1]
    model = nn.Sequential(layer, nn.Linear(features, 10))
    return lower_for_firmware(traced(model, torch.rand(2, layer.get_buffer("weight").shape[1], 2, 2)))


def test_weights_as_the_firmware_has_them_are_fused() -> None:
    assert kinds(one_layer(OneLayer(torch.full((2, 3, 1, 1), -127, dtype=torch.int8))))[:2] == [
        "quantize_s8",
        "conv2d_s8",
    ]


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (
            OneLayer(torch.ones(2, 3, 1, 1, dtype=torch.int8), zero=4),
            "weights have a zero point; the firmware has symmetric ones; choose per_channel_symmetric",
        ),
        (
            OneLayer(torch.full((2, 4, 1, 1), -128, dtype=torch.int8)),
            "two neighbouring weights are -128; quantise weights to -127…127",
        ),
        (
            OneLayer(torch.full((1, 140_000, 1, 1), 127, dtype=torch.int8)),
            "sums of 140000 taps may leave 32 bits; leave this layer in f32",
        ),
    ],
    ids=["zero point", "-128", "sums"],
)
def test_weights_that_the_kernels_lack_are_refused(layer: OneLayer, words: str) -> None:
    with pytest.raises(UserError) as refused:
        one_layer(layer)
    assert str(refused.value) == f"0.convolution (OneLayer): {words}"


def test_what_is_trained_before_a_quantised_part_is_refused() -> None:
    model = nn.Sequential(OrderedDict(front=nn.Conv2d(1, 1, 1), rest=quantised(chain())))
    graph = traced(model, torch.rand(2, 1, EXTENT, EXTENT))
    with pytest.raises(
        UserError, match=r"front.bias is trained, and no gradient passes rest.backbone.quantize.*freeze it"
    ):
        lower_for_firmware(graph)
    model.get_submodule("front").requires_grad_(False)
    assert kinds(lower_for_firmware(traced(model, torch.rand(2, 1, EXTENT, EXTENT))))[:2] == ["conv2d", "quantize_s8"]


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"dtype": torch.uint8}, "quantised as uint8"),
        ({"dtype": torch.int16}, "quantised as int16"),
        ({"per_channel": True}, "quantised per channel"),
        ({"by_range": True}, "quantised by scales that are computed"),
    ],
    ids=["uint8", "int16", "per channel", "computed"],
)
def test_other_activations_are_refused_with_a_cure(given: dict[str, Any], lacks: str) -> None:
    graph = one_layer(OneLayer(torch.ones(2, 3, 1, 1, dtype=torch.int8), **given))
    cure = "choose a quantizer with int8 and one scale a tensor of activations"
    said = operators_lacking(graph)
    assert said is not None and said.startswith("`decomposed.")
    assert "in 0 (OneLayer, test_integers.py:" in said
    assert f"): the firmware has no activations {lacks}; {cure}" in said
