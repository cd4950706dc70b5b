# SPDX-License-Identifier: Apache-2.0
"""A step in two parts has the bits of the whole one, whatever the neighbours of a sample: by the firmware's kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_planner import models
from poet_planner.features.cut import Cut, least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_planner.features.independent import independent_values
from poet_planner.features.parts import features_of, head_of
from poet_planner.graph.optimizer import Optimizer
from poet_planner.models import Model
from poet_planner.planning.bench import Bench
from poet_planner.planning.request import Request, calibration
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.validation import check_graph
from torch import Tensor, nn

from tests.support import ROOT, needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.networks.heads import badge_head, badge_last_block

BOARD = load_board("nrf52840")
Tensors = dict[str, NDArray[np.float32]]


def watch_head() -> Model:
    """That of firmware/examples/watch, with its head trained alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "firmware/examples/watch"))
        model = models.load("tests.support.networks.watch:make", 8)
    layers = list(model.module.children())
    for layer in layers[:-1]:
        layer.requires_grad_(False)
    return model


NETWORKS: list[tuple[Callable[[], Model], list[str]]] = [
    (lambda: models.load("finetune_cnn"), ["backbone.bn"]),
    (lambda: models.load("finetune_cnn_small"), ["backbone.bn"]),
    (badge_head, ["mean"]),
    (badge_last_block, ["block2.2"]),
    (watch_head, ["6"]),
]


@needs.gcc
@pytest.mark.parametrize(("make", "kept"), NETWORKS, ids=["finetune_cnn", "small", "badge", "last block", "watch"])
def test_two_parts_have_the_bits_of_the_whole_step(
    make: Callable[[], Model], kept: list[str], operators: Operators
) -> None:
    model = make()
    step = TrainingStep(model)
    whole = step.graph(BOARD, optimizer=Optimizer(momentum=0.9, clip_value=0.2))
    cut = cut_of(step, whole)
    assert list(cut.kept) == kept
    head = head_of(whole, cut)
    making = features_of(whole, cut, head)
    for graph in (making, head):
        check_graph(graph)
        assert verify(graph, store_all_schedule(graph)).sound
    given = drawn(whole, step)
    expected = run_step(whole, given, operators)
    features = made(making, given, operators)
    found = run_step(head, given | features, operators)
    for one in whole.residents:
        assert found[one.id].tobytes() == expected[one.id].tobytes(), one.id
    assert any(not np.array_equal(found[one.id], given[one.id]) for one in whole.residents if one.kind == "parameter")
    order = np.random.default_rng(5).permutation(len(given["input"]))
    moved = made(making, given | {"input": given["input"][order]}, operators)
    assert all(moved[id].tobytes() == features[id][order].tobytes() for id in features)
    again = run_step(head, found | features | step.constants(whole), operators)  # features outlive a step
    second = run_step(whole, expected | step.constants(whole), operators)
    assert all(again[one.id].tobytes() == second[one.id].tobytes() for one in whole.residents)


@needs.gcc
@pytest.mark.parametrize(("make", "kept"), NETWORKS, ids=["finetune_cnn", "small", "badge", "last block", "watch"])
def test_an_inference_from_features_gives_the_scores_of_the_sample(
    make: Callable[[], Model], kept: list[str], operators: Operators
) -> None:
    whole = TrainingStep(make())
    graph = whole.graph(BOARD)
    cut = cut_of(whole, graph)
    step = whole.on_features(cut)
    head = step.graph(BOARD)
    of_sample = step.inference(head)
    of_features = step.inference_on_features(of_sample.graph, head)
    assert of_features is not None
    check_graph(of_features)
    assert verify(of_features, store_all_schedule(of_features)).sound
    assert len(of_features.nodes) < len(of_sample.graph.nodes)
    given = drawn(graph, whole) | {id: data for id, data in of_sample.data.items()}
    for one in graph.residents:
        if one.kind == "state" and one.id.endswith("running_var"):
            given[one.id] = np.ones(one.shape, np.float32)
    features = made(features_of(graph, cut, head), given, operators)
    for sample in range(len(given["input"])):
        row = {f"inference.{id}": rows[sample : sample + 1] for id, rows in features.items()}
        alone = {"inference.input": given["input"][sample : sample + 1]}
        found = run_step(of_features, given | row, operators)["inference.output"]
        expected = run_step(of_sample.graph, given | alone, operators)["inference.output"]
        # A batch is computed by another algorithm than a sample.
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@needs.gcc
def test_features_may_be_bytes(operators: Operators) -> None:
    """Frozen layers on int8: the last of them is kept, a quarter of what f32 takes."""
    step = training_step("finetune_cnn_small", 4, calibration=calibration("int8", None))
    whole = step.graph(BOARD)
    free = {node.id for node in whole.nodes if node.operation and node.operation.op == "dequantize_s8"}
    costed = replace(whole, nodes=tuple(replace(one, energy_j=1e-6 * (one.id not in free)) for one in whole.nodes))
    alone = independent_values(step.model, step.traced)
    cut = least_cut(costed, fixed_nodes(whole), lambda id, _: 0.0 if id in alone else float("inf"))
    assert cut.kept == ("backbone.bn",)
    on_features = step.on_features(cut)
    head = on_features.graph(BOARD)
    feature = next(one for one in head.residents if one.kind == "feature")
    assert feature.bytes == 4 * 64  # what the linear layer reads of a sample, in bytes
    given = drawn(whole, step)
    making = features_of(whole, cut, head)
    expected, found = (
        run_step(whole, given, operators),
        run_step(head, given | made(making, given, operators), operators),
    )
    changed = [one.id for one in whole.residents if one.kind == "parameter"]
    assert all(found[id].tobytes() == expected[id].tobytes() != given[id].tobytes() for id in changed)
    of_features = on_features.inference_on_features(on_features.inference(head).graph, head)
    assert of_features is not None
    assert [node.operation.op for node in of_features.nodes if node.operation] == ["dequantize_s8", "linear"]


def test_an_inference_that_makes_other_features_is_none() -> None:
    """A frozen part that does something else in evaluation mode, without random numbers."""

    class Louder(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.relu(x) if self.training else nn.functional.silu(x)

    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv1d(8, 8, 3), Louder(), nn.AdaptiveAvgPool1d(1), nn.Flatten()).requires_grad_(False)
    module = nn.Sequential(body, nn.Linear(8, 3))
    batch = (torch.randn(4, 8, 12),), (torch.zeros(4, dtype=torch.long),)
    whole = TrainingStep(Model("job", module, *batch, nn.functional.cross_entropy))
    step = whole.on_features(cut_of(whole, whole.graph(BOARD)))
    head = step.graph(BOARD)
    assert step.inference_on_features(step.inference(head).graph, head) is None


def cut_of(step: TrainingStep, graph: Graph) -> Cut:
    costs = Bench(Request("finetune_cnn", "nrf52840")).costs
    assert costs is not None
    alone = independent_values(step.model, step.traced)
    return least_cut(costs.apply(graph).graph, fixed_nodes(graph), lambda id, _: 0.0 if id in alone else float("inf"))


def drawn(graph: Graph, step: TrainingStep) -> Tensors:
    draw = np.random.default_rng(1)
    given: Tensors = dict(step.constants(graph))
    for one in graph.residents:
        if one.kind in ("parameter", "input"):
            given[one.id] = draw.standard_normal(one.shape).astype(np.float32) * (0.1 if one.kind == "parameter" else 1)
        elif one.kind == "state":
            given[one.id] = np.zeros(one.shape, np.float32)
        elif one.kind == "target":
            given[one.id] = draw.integers(0, 4, one.shape).astype(np.int32)  # type: ignore[assignment]
    return given


def made(graph: Graph, given: Tensors, operators: Operators) -> Tensors:
    results = run_step(graph, given, operators)
    return {one.id: results[one.id] for one in graph.residents if one.kind == "feature"}
