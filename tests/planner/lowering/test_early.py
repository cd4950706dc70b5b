# SPDX-License-Identifier: Apache-2.0
"""Updates as early as may be: the bits of those at the end, in less RAM, and plans as cheap as any."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.graph.layout import GRADIENTS_EARLY, GRADIENTS_PAGED
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering import lower_for_firmware, with_early_updates
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace
from poet_profiles.boards import load_board
from poet_profiles.errors import FaultError
from poet_profiles.graph.validation import check_graph
from poet_profiles.schedule import Action, Step
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.graphs.costed import costed
from tests.support.graphs.early import random_training
from tests.support.graphs.least_plans import assert_proven_as_by_brute_force

BOARD = load_board("nrf52840")
OPTIMIZERS = [Optimizer(), Optimizer(momentum=0.9, clip_value=0.01), Optimizer("adam", weight_decay=0.1)]


def normed() -> models.Model:
    """Two batch norms, whose statistics are updated, too, and a weight that is used twice."""
    torch.manual_seed(0)
    again = nn.Conv2d(4, 4, 3, padding=1)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), again, nn.BatchNorm2d(4), nn.ReLU(), again]
    module = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * 8 * 8, 10))
    return models.Model("normed", module, (torch.randn(3, 1, 8, 8),), (torch.randint(10, (3,)),), cross_entropy)


@needs.gcc
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["normed", "digits_cnn_small"])
def test_it_has_the_bits_of_updates_at_the_end(name: str, optimizer: Optimizer, operators: Operators) -> None:
    model = normed() if name == "normed" else models.load(name)
    step = TrainingStep(model)
    late = step.graph(BOARD, optimizer=optimizer, layout=GRADIENTS_PAGED)
    early = step.graph(BOARD, optimizer=optimizer, layout=GRADIENTS_EARLY)
    assert store_all_schedule(early).peak_bytes <= store_all_schedule(late).peak_bytes
    given = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    given |= {
        r.id: np.zeros(r.shape, np.int32 if r.id == "optimizer.step" else np.float32)
        for r in early.residents
        if r.kind == "state" and r.id not in given
    }
    given |= {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    one, other = (run_step(graph, given, operators) for graph in (early, late))
    assert one.keys() == other.keys()
    for id in one:
        assert one[id].tobytes() == other[id].tobytes(), id


def test_an_update_comes_as_soon_as_nothing_reads_the_parameter() -> None:
    """The last layer's before the gradients of the layers in front of it."""
    graph = TrainingStep("cnn_40k").graph(BOARD, layout=GRADIENTS_EARLY)
    order = [node.id for node in graph.nodes]
    last, *_ = reversed([r.id for r in graph.residents if r.kind == "parameter"])
    gradients = [node.id for node in graph.nodes if node.id.endswith("backward_weight")]
    assert order.index(f"{last}.sgd") < order.index(gradients[-1])


def test_a_plan_that_recomputes_from_a_changed_weight_is_unsound() -> None:
    """Such a schedule keeps every edge of the graph without early updates; the verifier finds it."""
    graph = random_training(0)
    early = with_early_updates(graph)
    first = early.nodes[0].id
    steps = store_all_schedule(early).steps
    again = (*steps, Step(Action.FREE, first), Step(Action.COMPUTE, first))
    faults = verify(early, replace(store_all_schedule(early), steps=again)).faults
    assert any("computed again from w0, which has changed" in fault for fault in faults), faults


def test_a_change_before_a_reader_is_refused_and_so_are_pages() -> None:
    early = with_early_updates(random_training(1))
    check_graph(early)
    loose = [replace(node, inputs=node.inputs[:1]) if node.id == "w1.sgd" else node for node in early.nodes]
    with pytest.raises(FaultError, match=r"must stand before w1\.sgd, which changes w1"):
        check_graph(replace(early, nodes=tuple(loose)))
    with pytest.raises(FaultError, match="must stand after one node without op"):
        check_graph(costed(early))


@pytest.mark.parametrize("tens", range(4))
def test_plans_are_those_of_brute_force(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        check(seed)


def check(seed: int) -> None:
    graph = with_early_updates(random_training(seed))
    check_graph(graph)
    plain = store_all_schedule(graph)
    ram = int(plain.peak_bytes * random.Random(seed).choice((1.0, 0.95, 0.9, 0.85, 0.8)))
    assert_proven_as_by_brute_force(graph, ram, None)


def test_dropout_and_batch_norm_go_together() -> None:
    """The generator moves on after all that draws, and statistics change before what made them may change."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    traced = trace(module, (torch.randn(4, 5),), (torch.randint(3, (4,)),), cross_entropy, "both")
    graph = with_early_updates(lower_for_firmware(traced, resident_gradients=False))
    check_graph(graph)
    *_, last = graph.nodes
    assert last.operation is not None
    assert last.operation.op == "advance"
    assert verify(graph, store_all_schedule(graph)).faults == ()
