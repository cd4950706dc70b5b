# SPDX-License-Identifier: Apache-2.0
"""A lowered training step, run by the firmware's own kernels on this computer, against PyTorch's autograd.

The reference is autograd in double precision. A tensor may be off by 1e-5 of its largest element; where rounding alone
moves it more (a bias in front of a batch norm has a gradient of zero in exact arithmetic), by a few times as much as
PyTorch's own single precision is.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.lowering import lower_for_firmware
from poet_planner.lowering.firmware import constant_data
from poet_planner.planning.costed_step import without_parameters
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.tracing import trace

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import LEARNING_RATE, Tensors, run_step

TOLERANCE = 1e-5
ROUNDING = 16.0
MODELS = [
    *("digits_cnn", "cnn_40k", "bert_2x128", "mlperf_resnet8", "mlperf_ds_cnn"),
    *("mlperf_autoencoder", "resnet18_cifar_w4", "vgg16_cifar_w4", "transformer"),
]

# After 27 batch norms of a batch of one, rounding alone turns a ReLU on or off, and gradients jump.
JUMPING_MODELS = ["mlperf_mobilenet_v1", "poet_resnet18"]

pytestmark = needs.gcc


@pytest.mark.parametrize("name", [*MODELS, *JUMPING_MODELS])
def test_microcontroller_model_lowers_completely(name: str) -> None:
    model = models.load(name)
    graph = lower_for_firmware(trace(model.module, model.inputs, model.targets, model.loss, model.name))
    assert why_no_headers(graph) is None
    assert verify(graph, store_all_schedule(graph)).sound


@pytest.mark.parametrize(
    ("name", "resident_gradients"),
    [*((name, True) for name in MODELS), ("mlperf_ds_cnn", False), ("digits_cnn", False)],
)
def test_step_equals_autograd(name: str, resident_gradients: bool, operators: Operators) -> None:
    model = models.load(name)
    before = {id: tensor.detach().clone().numpy() for id, tensor in model.module.state_dict().items()}
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    graph = lower_for_firmware(traced, resident_gradients=resident_gradients)
    assert verify(graph, store_all_schedule(graph)).sound
    constants = constant_data(traced)
    batch = {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    tensors = run_step(graph, {**before, **constants, **batch}, operators)

    single, double = _autograd(name, torch.float32), _autograd(name, torch.float64)
    compared = [resident.id for resident in graph.residents if resident.id in double]
    parameters = {id for id, _ in model.module.named_parameters()}
    gradients = {f"{id}.grad" for id in parameters} if resident_gradients else set()
    assert {"loss", *parameters, *gradients} <= set(compared)
    for id in compared:
        allowed = max(TOLERANCE * np.abs(double[id]).max(), ROUNDING * np.abs(single[id] - double[id]).max())
        assert np.abs(tensors[id] - double[id]).max() <= allowed, id


@pytest.mark.parametrize(
    ("resident_gradients", "method"), [(True, Method.SGD), (False, Method.SGD), (False, Method.ADAM)]
)
def test_nothing_is_fetched_between_two_changes(resident_gradients: bool, method: Method) -> None:
    """Whatever changes parameters or statistics reads only what the node before all of them has seen in RAM."""
    model = models.load("mlperf_ds_cnn")
    traced = trace(model.module, model.inputs, model.targets, model.loss, model.name)
    graph = lower_for_firmware(traced, resident_gradients=resident_gradients, optimizer=Optimizer(method))
    lasting = {resident.id for resident in graph.residents if resident.kind in ("parameter", "state")}
    changing = [node for node in graph.nodes if node.operation and lasting.intersection(node.operation.results)]
    (order,) = (node for node in graph.nodes if node.operation is None)
    assert len(changing) == 29 + 9 + (method is Method.ADAM)  # parameters, batch norms and the number of steps
    assert graph.nodes[-len(changing) - 1 :] == (order, *changing)
    for node in changing:
        assert order.id in node.inputs
        assert set(node.inputs) <= {order.id, *order.inputs}


def test_statistics_are_updated_at_once_where_ram_does_not_hold_parameters() -> None:
    model = models.load("mlperf_ds_cnn")
    graph = lower_for_firmware(trace(model.module, model.inputs, model.targets, model.loss, model.name))
    excluded = without_parameters(graph)
    assert {node.id for node in excluded.nodes} == {node.id for node in graph.nodes}
    for before, node in pairwise(excluded.nodes):
        if node.operation and node.operation.op == "batch_norm_update":
            assert set(node.inputs) <= {value.id for value in before.values}
    assert verify(excluded, store_all_schedule(excluded)).sound


def test_two_steps_with_momentum_equal_pytorch(operators: Operators) -> None:
    model = models.load("digits_cnn_small")
    module = model.module
    traced = trace(module, model.inputs, model.targets, model.loss, model.name)
    graph = lower_for_firmware(traced, optimizer=Optimizer(momentum=0.9))
    assert verify(graph, store_all_schedule(graph)).sound
    tensors = {id: tensor.detach().clone().numpy() for id, tensor in module.state_dict().items()}
    tensors |= {r.id: np.zeros(r.shape, np.float32) for r in graph.residents if r.id.endswith(".velocity")}
    batch = {"input": model.inputs[0].numpy(), "target": model.targets[0].numpy()}
    for _ in range(2):
        tensors = run_step(graph, tensors | batch, operators)
    optimiser = torch.optim.SGD(module.parameters(), LEARNING_RATE, momentum=0.9)
    for _ in range(2):
        optimiser.zero_grad()
        model.loss(module(*model.inputs), *model.targets).backward()
        optimiser.step()
    for id, parameter in module.named_parameters():
        expected = parameter.detach().numpy()
        assert np.abs(tensors[id] - expected).max() <= TOLERANCE * np.abs(expected).max(), id


def _autograd(name: str, dtype: torch.dtype) -> Tensors:
    """Loss, gradients, buffers and stepped parameters by PyTorch."""
    model = models.load(name)
    module = model.module.to(dtype)
    batch = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in (*model.inputs, *model.targets)]
    loss = model.loss(module(*batch[: len(model.inputs)]), *batch[len(model.inputs) :])
    loss.backward()
    found = {"loss": loss.detach()}
    for id, parameter in module.named_parameters():
        found[f"{id}.grad"] = parameter.grad
    torch.optim.SGD(module.parameters(), LEARNING_RATE).step()
    return {id: tensor.detach().numpy() for id, tensor in {**found, **module.state_dict()}.items()}
