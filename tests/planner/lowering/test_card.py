# SPDX-License-Identifier: Apache-2.0
"""Parameters on the card: the step computes what it computed, and says what it does on the card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.graph.streaming import FETCHED_WHOLE, Streaming
from poet_planner.lowering import lower_for_firmware, with_parameters_on_the_card, with_taking_over
from poet_planner.lowering.firmware import constant_data
from poet_planner.lowering.rewrites.random_numbers import generator_of
from poet_planner.report.card_wear import wear
from poet_planner.schedule.page_all import page_all_schedule
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.card.layout import card_layout
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph import Graph, Uses
from poet_profiles.graph.file import document_of_graph, graph_from_document
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.graph.validation import check_graph
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.graphs.one_step import name_of
from tests.support.networks.eager import traced
from tests.support.networks.heads import wide_head
from tests.support.networks.own import OWN_NETWORKS

ABOVE = 2048


@cache
def lowered_in_ram(name: str) -> Graph:
    return lower_for_firmware(traced(models.load(name)), resident_gradients=False)


def lowered(name: str, above: int = ABOVE, streaming: Streaming = FETCHED_WHOLE) -> tuple[Graph, Graph]:
    """The step with all parameters in RAM, and on the card."""
    graph = lowered_in_ram(name)
    return graph, with_parameters_on_the_card(graph, above, streaming=streaming)


@needs.gcc
@pytest.mark.parametrize(
    ("name", "above", "streaming"),
    [
        ("mlperf_resnet8", ABOVE, FETCHED_WHOLE),
        ("mlperf_resnet8", 0, FETCHED_WHOLE),
        ("mlperf_ds_cnn", ABOVE, FETCHED_WHOLE),
        ("transformer", ABOVE, FETCHED_WHOLE),
        ("mlperf_resnet8", ABOVE, Streaming(16384)),
        ("cnn_40k", ABOVE, Streaming(4096, 4096)),
        ("bert_2x128", ABOVE, Streaming(8192)),
    ],
)
def test_a_step_computes_the_same_to_the_last_bit(
    name: str, above: int, streaming: Streaming, operators: Operators
) -> None:
    model = models.load(name)
    given = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    given |= constant_data(traced(model))
    given |= {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    in_ram, on_card = lowered(name, above, streaming)
    expected, found = run_step(in_ram, given, operators), run_step(on_card, given, operators)
    assert expected.keys() == found.keys()
    assert [id for id in expected if not np.array_equal(expected[id], found[id], equal_nan=True)] == []
    parameters = [id for id, _ in model.module.named_parameters()]
    changed = [id for id in parameters if not np.array_equal(found[id], given[id])]
    assert len(changed) > 0.8 * len(parameters)


@needs.gcc
@pytest.mark.parametrize("make", OWN_NETWORKS)
def test_own_networks_compute_the_same_with_every_parameter_on_the_card(
    make: Callable[[int | None], models.Model], operators: Operators
) -> None:
    torch.manual_seed(0)
    model = make(None)
    step = trace(model.module, model.inputs, model.targets, model.loss, model.name, segments=1)
    in_ram = lower_for_firmware(step, resident_gradients=False)
    on_card = with_parameters_on_the_card(in_ram, 0)
    check_graph(on_card)
    assert not any(resident.kind == "parameter" for resident in on_card.residents)
    given = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    given |= constant_data(step) | {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    given |= {id: np.zeros(2, np.int32) for id in [generator_of(step)] if id is not None}
    expected, found = run_step(in_ram, given, operators), run_step(on_card, given, operators)
    assert [id for id in expected if not np.array_equal(expected[id], found[id], equal_nan=True)] == []


def _planes() -> models.Model:
    """Frozen convolutions of planes: one for Winograd's algorithm, one of groups, one without a bias."""
    torch.manual_seed(0)
    body = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 3, stride=2, groups=2), nn.ReLU(), nn.Conv2d(64, 64, 1, bias=False), nn.ReLU()),
    ).requires_grad_(False)
    module = nn.Sequential(body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 3))
    return models.Model("planes", module, (torch.randn(2, 3, 8, 8),), (torch.tensor([0, 2]),), cross_entropy)


@needs.gcc
@pytest.mark.parametrize(
    ("make", "streaming", "most"), [(wide_head, Streaming(4096, 4096), 126_000), (_planes, Streaming(0, 1024), None)]
)
def test_a_frozen_convolution_whose_weights_are_read_in_tiles_has_its_relu_beside_it(
    make: Callable[[], models.Model], streaming: Streaming, most: int | None, operators: Operators
) -> None:
    model = make()
    step = traced(model)
    in_ram = lower_for_firmware(step, resident_gradients=False)
    on_card = with_taking_over(with_parameters_on_the_card(in_ram, ABOVE, 0, streaming))
    check_graph(on_card)
    fetching = with_taking_over(with_parameters_on_the_card(in_ram, ABOVE, 0))
    clipped = [graph_operators(graph).count("conv2d_relu") for graph in (in_ram, on_card)]
    assert clipped[1] < clipped[0] == clipped[1] + graph_operators(on_card).count("relu")
    assert most is None or smallest_ram_bytes(on_card) < most < smallest_ram_bytes(fetching) / 7
    given = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    given |= constant_data(step) | {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    expected, found = run_step(in_ram, given, operators), run_step(on_card, given, operators)
    assert [id for id in expected if not np.array_equal(expected[id], found[id], equal_nan=True)] == []


def graph_operators(graph: Graph) -> list[str]:
    return [name_of(node.operation) for node in graph.nodes if node.operation]


@pytest.mark.parametrize("name", ["poet_resnet18", "mlperf_resnet8", "cnn_40k", "bert_2x128", "mlperf_mobilenet_v1"])
def test_large_parameters_and_the_batch_lie_on_the_card(name: str) -> None:
    in_ram, on_card = lowered(name)
    check_graph(on_card)
    assert verify(on_card, store_all_schedule(on_card)).faults == ()
    assert verify(on_card, page_all_schedule(on_card)).faults == ()
    kept = {tensor.id: tensor for tensor in on_card.kept}
    by_id = {resident.id: resident for resident in in_ram.residents}
    assert {id for id, tensor in kept.items() if tensor.kind in ("input", "target")} == {"input", "target"}
    for id, resident in by_id.items():
        if resident.kind == "parameter":
            assert id in kept or resident.bytes <= ABOVE
            assert id not in kept or resident.bytes > ABOVE or id.removesuffix("bias") + "weight" in kept
    assert {*kept, *(r.id for r in on_card.residents)} == by_id.keys()
    assert smallest_ram_bytes(on_card) < smallest_ram_bytes(in_ram)
    commit = on_card.nodes[-1]
    assert commit.operation is not None and commit.operation.op == "commit" and commit.uses is Uses.BOTH


def test_tiles_are_whole_blocks_of_at_most_eight_kilobytes_or_four_channels() -> None:
    _, graph = lowered("poet_resnet18")
    tiles = {}
    for node in graph.nodes:
        if node.operation and node.operation.op == "conv2d_update":
            p = parse_params(node.operation.params)
            row = 4 * p["c"] * p["r"] * p["s"]
            tiles[row] = p["tile"]
            assert p["tile"] == p["k"] or (p["tile"] * row <= max(8192, 4 * row) and p["tile"] * row % 512 == 0)
    assert tiles == {576: 8, 1152: 4, 2304: 4}


def test_linear_layers_update_in_tiles_without_their_bias() -> None:
    _, graph = lowered("cnn_40k")
    updates = {node.operation.results: node.operation for node in graph.nodes if node.uses is Uses.BOTH}
    assert updates["fc1.weight",].params == "m=1 k=256 n=60 bias=0 tile=8"
    assert updates["fc2.weight",].params == "m=1 k=60 n=10 bias=0 tile=10"
    assert ("conv3.weight", "conv3.bias") in updates
    assert "fc1.bias" in {resident.id for resident in graph.residents}


def test_clip_and_decay_take_no_more_traffic() -> None:
    """Nor more RAM; only what an update computes on a tile is another."""
    ruled = Optimizer(weight_decay=0.01, clip_value=1.0)
    in_ram = lower_for_firmware(traced(models.load("cnn_40k")), resident_gradients=False, optimizer=ruled)
    for streaming in (FETCHED_WHOLE, Streaming(16384)):
        _, plain = lowered("cnn_40k", streaming=streaming)
        graph = with_parameters_on_the_card(in_ram, ABOVE, streaming=streaming)
        check_graph(graph)
        assert (graph.kept, graph.residents) == (plain.kept, plain.residents)
        assert wear(graph, store_all_schedule(graph), None) == wear(plain, store_all_schedule(plain), None)
        assert smallest_ram_bytes(graph) == smallest_ram_bytes(plain)
        ops = [[node.operation.op for node in one.nodes if node.operation] for one in (graph, plain)]
        assert [op.replace("sgd_general", "sgd") for op in ops[0]] == ops[1]
        assert sum("decay_f32" in node.operation.params for node in graph.nodes if node.uses is Uses.BOTH) >= 4


def test_a_decay_changes_every_row_of_an_embedding(operators: Operators) -> None:
    torch.manual_seed(0)
    module, x, target = _Tables(), torch.tensor([[1, 2, 2, 5]]), torch.tensor([3])
    step = trace(module, (x,), (target,), cross_entropy, "tables")
    in_ram = lower_for_firmware(step, resident_gradients=False, optimizer=Optimizer(weight_decay=0.5))
    graph = with_parameters_on_the_card(in_ram, 0, streaming=Streaming(0))
    check_graph(graph)
    assert all(tensor.rows == 1 for tensor in graph.kept)
    given = {id: tensor.detach().clone().numpy() for id, tensor in module.state_dict().items()}
    given |= constant_data(step) | {"input": x.numpy(), "target": target.numpy()}
    expected, found = run_step(in_ram, given, operators), run_step(graph, given, operators)
    assert [id for id in expected if not np.array_equal(expected[id], found[id], equal_nan=True)] == []
    assert (found["once.weight"] != given["once.weight"]).all()


def test_what_two_parameters_share_is_not_fused() -> None:
    """GPT's output layer is its token embedding: the gradient is a sum, and one update reads it."""
    _, graph = lowered("gpt_small")
    (update,) = (node for node in graph.nodes if node.operation and "tokens.weight" in node.operation.results)
    assert update.operation is not None and update.operation.op == "sgd_update"
    check_graph(graph)


@pytest.mark.parametrize("streaming", [FETCHED_WHOLE, Streaming(1024, 1024)])
def test_adam_needs_what_its_largest_node_needs(streaming: Streaming) -> None:
    """Its averages lie beside their parameters, and what all updates share is there before the first."""
    adam = Optimizer("adam")
    in_ram = lower_for_firmware(traced(models.load("mlperf_resnet8")), resident_gradients=False, optimizer=adam)
    graph = with_parameters_on_the_card(in_ram, ABOVE, streaming=streaming)
    check_graph(graph)
    kinds = Counter(tensor.kind for tensor in graph.kept)
    assert kinds["state"] == 2 * kinds["parameter"] > 0
    assert verify(graph, page_all_schedule(graph)).faults == ()


@pytest.mark.parametrize(("name", "above"), [("cnn_40k", 16384), ("bert_2x128", 65536)])
def test_streaming_reads_large_parameters_by_operators_alone(name: str, above: int) -> None:
    """No fetch of a streamed tensor is left, so that the largest node needs no room for one."""
    _, whole = lowered(name)
    _, graph = lowered(name, streaming=Streaming(above))
    check_graph(graph)
    assert verify(graph, store_all_schedule(graph)).faults == ()
    assert smallest_ram_bytes(graph) < smallest_ram_bytes(whole) / 2
    sizes = {tensor.id: tensor.bytes for tensor in graph.kept if tensor.kind == "parameter"}
    read: dict[str, set[str]] = {id: set() for id in sizes}
    for operation in (node.operation for node in graph.nodes if node.operation):
        for id in sizes.keys() & {*operation.operands}:
            read[id].add(operation.op)
    for id, size in sizes.items():
        assert all(op.startswith("streamed_") for op in read[id]) if size > above else read[id] == {"fetch"}
    assert any(size > above for size in sizes.values())
    for node in graph.nodes:
        if node.operation and node.operation.op.startswith("streamed_"):
            assert node.uses is Uses.BOTH
            assert node.recomputable is not node.operation.op.endswith("_update")


def test_an_embedding_lies_by_rows_of_which_a_step_writes_those_of_its_tokens() -> None:
    _, graph = lowered("bert_2x128", streaming=Streaming(65536))
    assert {tensor.id: tensor.rows for tensor in graph.kept if tensor.rows != 1} == {"tokens.weight": 1000}
    assert graph_from_document(document_of_graph(graph)) == graph
    (update,) = (n.operation for n in graph.nodes if n.operation and "tokens.weight" in n.operation.results)
    assert (update.op, update.params) == ("streamed_embedding_update", "m=32 v=1000 d=128")
    layout = card_layout(graph)
    assert layout is not None
    others = sum(-(-place.bytes // 512) for place in layout.units if place.id != "tokens.weight")
    record = -(-(52 + 4 * (-(-(1000 + len(layout.units) - 1) // 32) + layout.checks)) // 512)
    assert wear(graph, store_all_schedule(graph), None).committed_bytes == 512 * (others + 32 + record)


class _Tables(nn.Module):
    """Looks one table up once, another one twice, and reads a third one as a matrix, too."""

    def __init__(self) -> None:
        super().__init__()
        self.once, self.twice, self.tied = (nn.Embedding(9, 4) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        looked_up = self.once(x) + self.twice(x) + self.twice(x) + self.tied(x)
        out: Tensor = (looked_up @ self.tied.weight.T).mean(1)
        return out


def test_a_table_that_is_read_or_written_whole_does_not_lie_by_rows(operators: Operators) -> None:
    torch.manual_seed(0)
    module, x, target = _Tables(), torch.tensor([[1, 2, 2, 5]]), torch.tensor([3])
    step = trace(module, (x,), (target,), cross_entropy, "tables")
    in_ram = lower_for_firmware(step, resident_gradients=False)
    graph = with_parameters_on_the_card(in_ram, 0, streaming=Streaming(0))
    check_graph(graph)
    assert {tensor.id: tensor.rows for tensor in graph.kept if tensor.rows != 1} == {"once.weight": 9}
    given = {id: tensor.detach().clone().numpy() for id, tensor in module.state_dict().items()}
    given |= constant_data(step) | {"input": x.numpy(), "target": target.numpy()}
    expected, found = run_step(in_ram, given, operators), run_step(graph, given, operators)
    assert [id for id in expected if not np.array_equal(expected[id], found[id], equal_nan=True)] == []


def test_an_attentions_keys_are_updated_like_any_layer() -> None:
    """Their gradient lies transposed: a copy, and all products are of the form that streams and updates."""
    _, whole = lowered("bert_2x128")
    _, graph = lowered("bert_2x128", streaming=Streaming(8192))
    keys = [tensor.id for tensor in graph.kept if tensor.id.endswith("attention.key.weight")]
    assert len(keys) == 2
    for key in keys:
        makers = [
            [n.operation.op for n in g.nodes if n.operation and key in n.operation.results] for g in (whole, graph)
        ]
        assert makers == [["linear_update"], ["streamed_linear_update"]]
        readers = {n.operation.op for n in graph.nodes if n.operation and key in n.operation.operands}
        assert readers == {"streamed_linear", "streamed_linear_backward_input", "streamed_linear_update"}
