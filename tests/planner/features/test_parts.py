# SPDX-License-Identifier: Apache-2.0
"""A step in two parts has the bits of the whole one, whatever the neighbours of a sample: by the firmware's kernels."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_planner import models
from poet_planner.features.cut import least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_planner.features.independent import independent_values
from poet_planner.features.parts import features_of, head_of
from poet_planner.graph.optimizer import Optimizer
from poet_planner.models import Model
from poet_planner.planning.request import Request
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.validation import check_graph

from tests.support import ROOT
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


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize(("make", "kept"), NETWORKS, ids=["finetune_cnn", "small", "badge", "last block", "watch"])
def test_two_parts_have_the_bits_of_the_whole_step(
    make: Callable[[], Model], kept: list[str], operators: Operators
) -> None:
    model = make()
    step = TrainingStep(model)
    whole = step.graph(BOARD, optimizer=Optimizer(momentum=0.9, clip_value=0.2))
    costs = Request(model, "nrf52840").cost_model
    assert costs is not None
    alone = independent_values(model, step.traced)
    cut = least_cut(costs.apply(whole).graph, fixed_nodes(whole), lambda id, _: 0.0 if id in alone else float("inf"))
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
