# SPDX-License-Identifier: Apache-2.0
"""A step with its large values in slices has the bits of the whole one, by the firmware's own kernels."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner import models
from poet_planner.lowering import lower_for_firmware, with_parameters_on_the_card
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.memory.slices import with_slices
from poet_planner.models import Model
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.graph import Graph
from poet_profiles.graph.parts import cut_from, joined, name_of
from poet_profiles.graph.validation import check_graph
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import Tensors, run_step
from tests.support.levels import examples

pytestmark = needs.gcc


@cache
def _built_in(name: str) -> tuple[Graph, Tensors]:
    return _step(models.load(name))


def _step(model: Model) -> tuple[Graph, Tensors]:
    """The lowered step, and what it starts from."""
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    state = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    batch = {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    return lower_for_firmware(traced, resident_gradients=False), {**state, **constant_data(traced), **batch}


def _after(graph: Graph, start: Tensors, operators: Operators) -> Tensors:
    """Loss, parameters and statistics after a step, each whole."""
    tensors = (*graph.residents, *graph.kept)
    given = {tensor.id: cut_from(tensor, start[name_of(tensor)]) for tensor in tensors if name_of(tensor) in start}
    given |= {constant.id: start[constant.id] for constant in graph.constants}
    return joined(tensors, run_step(graph, given, operators))


def _assert_same(found: Tensors, expected: Tensors) -> None:
    assert found.keys() == expected.keys()
    for id, array in expected.items():
        assert found[id].shape == array.shape
        assert found[id].tobytes() == array.tobytes(), id


def _largest(graph: Graph) -> int:
    return max(value.bytes for node in graph.nodes for value in node.values)


@pytest.mark.parametrize(
    ("name", "above"),
    [("mlperf_resnet8", 8192), ("mlperf_ds_cnn", 4000), ("digits_cnn", 2048), ("bert_2x128", 16384), ("cnn_40k", 1024)],
)
@pytest.mark.parametrize("on_card", [False, True])
def test_a_sliced_step_computes_the_same(name: str, above: int, on_card: bool, operators: Operators) -> None:
    whole, start = _built_in(name)
    sliced = with_slices(whole, above)
    assert len(sliced.nodes) > len(whole.nodes)
    check_graph(sliced)
    if on_card:
        sliced = with_parameters_on_the_card(sliced, 256)
        check_graph(sliced)
    assert verify(sliced, store_all_schedule(sliced)).sound
    _assert_same(_after(sliced, start, operators), _after(whole, start, operators))


def _operators(graph: Graph) -> Counter[str]:
    return Counter(node.operation.op for node in graph.nodes if node.operation)


def test_what_reads_slices_adds_to_a_sum() -> None:
    """Of four slices three add to what the first has made; the last has the bias."""
    whole, _ = _built_in("bert_2x128")
    sliced = with_slices(whole, 16384)
    more = _operators(sliced) - _operators(whole)
    assert (more["linear_accumulate"], more["matmul_accumulate"]) == (2 * 3, 2 * 3)
    operations = {node.id: node.operation for node in sliced.nodes if node.operation}
    sums = ["layers.0.narrow..sum0", "layers.0.narrow..sum1", "layers.0.narrow..sum2"]
    for number, (id, so_far) in enumerate(zip([*sums, "layers.0.narrow"], ["", *sums], strict=True)):
        factors = (f"layers.0.gelu..{number}", f"layers.0.narrow.weight..0.{number}")
        bias = ("layers.0.narrow.bias",) if number == 3 else ()
        assert operations[id].operands == (*factors, *filter(None, [so_far]), *bias)


def test_a_step_of_small_values_stays_as_it_is() -> None:
    whole, _ = _built_in("digits_cnn")
    assert with_slices(whole, _largest(whole)) == whole


class _Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sum: torch.Tensor = x + self.inner(x)
        return sum


@st.composite
def _networks(draw: st.DrawFn) -> Model:
    """Chains of layers on small images, with everything that is cut and some that is not."""
    channels, side, batch = 2, 6, draw(st.integers(1, 3))
    shape = (batch, channels, side, side)
    layers: list[nn.Module] = []
    kinds = st.sampled_from(["dense", "norm", "depthwise", "pool", "add", "dense", "norm", "depthwise", "softmax"])
    for kind in ("dense", *draw(st.lists(kinds, min_size=2, max_size=5))):
        wider = draw(st.sampled_from([2, 4, 6, 8]))
        bias = draw(st.booleans())
        if kind == "dense":
            layers += [nn.Conv2d(channels, wider, draw(st.sampled_from([1, 3])), padding=1, bias=bias), nn.ReLU()]
            channels = wider
        elif kind == "depthwise":
            layers.append(nn.Conv2d(channels, channels * 2, 3, padding=1, groups=channels, bias=bias))
            channels *= 2
        elif kind == "norm":
            layers += [nn.BatchNorm2d(channels), nn.Tanh()]
        elif kind == "pool":
            layers.append(draw(st.sampled_from([nn.MaxPool2d(3, 1, 1), nn.AvgPool2d(3, 1, 1)])))
        elif kind == "add":
            layers.append(_Residual(nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=bias), nn.GELU())))
        else:
            layers.append(nn.Softmax(dim=-1))
    torch.manual_seed(draw(st.integers(0, 99)))
    with torch.no_grad():
        features = nn.Sequential(*layers, nn.Flatten())(torch.zeros(shape)).shape[1]
    hidden = draw(st.sampled_from([4, 6, 12]))
    head = [nn.Flatten(), nn.Linear(features, hidden), nn.SiLU(), nn.Linear(hidden, 3, bias=draw(st.booleans()))]
    module = nn.Sequential(*layers, *head)
    return Model("chain", module, (torch.randn(shape),), (torch.randint(3, (batch,)),), cross_entropy)


@settings(max_examples=examples(25), deadline=None)
@given(_networks(), st.sampled_from([64, 200, 600, 1500]))
def test_any_network_computes_the_same_in_slices(operators: Operators, model: Model, above: int) -> None:
    whole, start = _step(model)
    sliced = with_slices(whole, above)
    check_graph(sliced)
    check_graph(with_parameters_on_the_card(sliced, 32))
    makers = Counter(value.id for node in sliced.nodes for value in node.values)
    assert set(makers.values()) == {1}
    assert _largest(sliced) <= _largest(whole)
    _assert_same(_after(sliced, start, operators), _after(whole, start, operators))
