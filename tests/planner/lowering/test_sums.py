# SPDX-License-Identifier: Apache-2.0
"""A step in micro-batches by the firmware's kernels: its sums against numpy's, its weights against PyTorch's loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering import lower_for_firmware
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import micro_batch, parts_of
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph, write_graph
from torch import nn
from torch.nn.functional import mse_loss

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import LEARNING_RATE, Tensors, run_step

BOARD = load_board("nrf52840")

pytestmark = needs.gcc


def model_named(name: str, batch: int) -> models.Model:
    """A built-in one, or one that uses a weight twice."""
    if name != "shared":
        return models.load(name, batch)
    torch.manual_seed(1)
    linear = nn.Linear(6, 6)
    module = nn.Sequential(linear, nn.ReLU(), linear)
    inputs, targets = torch.randn(batch, 6), torch.randn(batch, 6)
    return models.Model(name, module, (inputs,), (targets,), mse_loss)


def without_updates(graph: Graph) -> Graph:
    """What all micro-batches but the last run of a graph without a generator."""
    last = next(index for index, node in enumerate(graph.nodes) if node.operation is None)
    return replace(graph, nodes=graph.nodes[: last + 1])


@pytest.mark.parametrize("name", ["digits_cnn_small", "shared", "finetune_cnn_small"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sums_are_the_parts_gradients_in_order_and_weights_pytorchs(
    name: str, momentum: float, operators: Operators
) -> None:
    count = 3 if name == "digits_cnn_small" else 6
    model = model_named(name, 6)
    whole = TrainingStep(model)
    part = whole.in_micro_batches(count)
    optimizer = Optimizer(momentum=momentum)
    graph = part.graph(BOARD, optimizer=optimizer)
    at_once = [node.id for node in graph.nodes if node.operation and node.operation.op == "matmul_accumulate"]
    assert bool(at_once) == (name == "finetune_cnn_small")
    sums = [resident for resident in graph.residents if resident.kind in ("gradient", "loss")]
    small = micro_batch(model, whole.traced, count)
    alone = lower_for_firmware(trace(small.module, small.inputs, small.targets, small.loss, name))
    held: Tensors = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    held |= part.constants(graph)
    held |= {r.id: np.zeros(r.shape, np.float32) for r in graph.residents if r.id.endswith(".velocity")}
    parameters = dict(model.module.named_parameters())
    trained = [parameter for parameter in parameters.values() if parameter.requires_grad]
    descent = torch.optim.SGD(trained, LEARNING_RATE, momentum=momentum)
    for _ in range(2):
        by_hand: Tensors = {}
        held |= {total.id: np.full(total.shape, -0.0, np.float32) for total in sums}
        for number, ((inputs,), (targets,)) in enumerate(parts_of(model, count)):
            batch = {"input": inputs.numpy(), "target": targets.numpy()}
            given = {**held, **batch}
            own = run_step(alone, given, operators)
            by_hand = {one.id: by_hand[one.id] + own[one.id] if by_hand else own[one.id] for one in sums}
            held |= run_step(graph if number == count - 1 else without_updates(graph), given, operators)
        for total in sums:
            assert held[total.id].tobytes() == by_hand[total.id].tobytes(), total.id
        descent.zero_grad()
        for inputs, targets in parts_of(model, count):
            (model.loss(model.module(*inputs), *targets) / count).backward()
        descent.step()
    for id, parameter in parameters.items():
        expected = parameter.detach().numpy()
        if parameter.requires_grad:
            assert np.abs(held[id] - expected).max() <= 1e-6 * np.abs(expected).max(), id


def test_the_graph_is_one_that_can_be_written_and_read(tmp_path: Path) -> None:
    graph = TrainingStep("digits_cnn_small", 4).in_micro_batches(2).graph(BOARD, optimizer=Optimizer("adam"))
    write_graph(graph, tmp_path / "graph.json")
    assert read_graph(tmp_path / "graph.json") == graph
    assert graph.micro_batches == 2
