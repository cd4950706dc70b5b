# SPDX-License-Identifier: Apache-2.0
"""The inference beside a training step: what it shares with the step, and its scores against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import why_no_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import constant_bytes
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from tests.support import needs
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import run_step
from tests.support.networks import own

BOARD = load_board("nrf52840")
OWN = [
    *(own.sigmoid_bce, own.dropout, own.sixteen_channels, own.encoder_with_dropout, own.keyword_spotter, own.causal),
    *(own.frozen_backbone, own.trained_through_fixed_statistics, own.trained_through_folded_norms, own.biases_alone),
    *(own.moving_statistics, own.group_norms, own.masked_encoder, own.joined, own.norms_without_weights),
]

pytestmark = needs.gcc


def named(name: str) -> Callable[[], Model]:
    return lambda: models.load(name, 2)


def moved_statistics(module: nn.Module) -> None:
    """As if it had been trained: running statistics that are not those of the beginning."""
    generator = torch.Generator().manual_seed(5)
    for name, buffer in module.named_buffers():
        if name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
        elif name.endswith("running_mean"):
            buffer.copy_(0.3 * torch.randn(buffer.shape, generator=generator))


@pytest.mark.parametrize(
    "make",
    [named("digits_cnn"), named("mlperf_ds_cnn"), *OWN],
    ids=["digits_cnn", "mlperf_ds_cnn", *(one.__name__ for one in OWN)],
)
def test_scores_are_those_of_evaluation_mode(make: Callable[[], Model], operators: Operators) -> None:
    model = make()
    moved_statistics(model.module)
    modes = [part.training for part in model.module.modules()]
    step = TrainingStep(model)
    training = step.graph(BOARD)
    lowered = step.inference(training)
    graph = lowered.graph
    assert [part.training for part in model.module.modules()] == modes
    assert why_no_headers(graph) is None
    assert verify(graph, store_all_schedule(graph)).sound
    assert graph.residents[: len(training.residents)] == training.residents
    assert graph.constants[: len(training.constants)] == training.constants
    *inputs, output = graph.residents[len(training.residents) :]
    assert (output.kind, inputs[0].offset) == ("output", training.resident_bytes)
    with torch.no_grad():
        expected = model.module.eval()(*model.inputs)[:1].numpy()
    given = {id: tensor.detach().numpy() for id, tensor in model.module.state_dict().items()}
    given |= {one.id: tensor[:1].numpy() for one, tensor in zip(inputs, model.inputs, strict=True)}
    found = run_step(graph, {**given, **step.constants(training), **lowered.data}, operators)
    assert output.shape == expected.shape
    assert np.abs(found[output.id] - expected).max() <= 1e-5 * max(1.0, np.abs(expected).max())
    for one in training.residents:
        if one.id in given and one.kind in ("parameter", "state"):
            np.testing.assert_array_equal(found[one.id], given[one.id], one.id)


def test_dropout_vanishes_and_norms_are_those_of_evaluation() -> None:
    step = TrainingStep(models.load("mlperf_ds_cnn"))
    ops = operations(step.inference(step.graph(BOARD)).graph)
    assert ops.count("batch_norm_eval") == 9
    step = TrainingStep(own.dropout())
    assert "bernoulli" in operations(step.graph(BOARD))
    assert "bernoulli" not in operations(step.inference(step.graph(BOARD)).graph)


def test_the_largest_of_a_window_comes_without_its_place() -> None:
    step = TrainingStep(models.load("digits_cnn", 1))
    graph = step.inference(step.graph(BOARD)).graph
    assert operations(graph).count("max_pool2d_infer") == 2
    assert "max_pool2d" not in operations(graph)
    assert all(len(node.values) == 1 for node in graph.nodes)


def operations(graph: Graph) -> list[str]:
    return [node.operation.op for node in graph.nodes if node.operation]


class Extra(nn.Module):
    """In evaluation mode alone, a frozen scale is read that training does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([0.5, 2.0, 3.0]))

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) if self.training else self.fc(x) * self.scale.expand(x.shape[0], 3)


def model_of(module: nn.Module, x: Tensor, loss: Callable[..., Tensor] = cross_entropy) -> Model:
    return Model("own", module, (x,), (torch.zeros(x.shape[0], dtype=torch.int64),), loss)


def test_what_only_the_inference_reads_stands_after_the_trainings_constants(operators: Operators) -> None:
    model = model_of(Extra(), torch.randn(5, 4))
    step = TrainingStep(model)
    training = step.graph(BOARD)
    lowered = step.inference(training)
    (scale,) = lowered.graph.constants
    assert scale.offset == constant_bytes(training) == 0
    given = {id: tensor.numpy() for id, tensor in model.module.state_dict().items()}
    given |= {"inference.input": model.inputs[0][:1].numpy()}
    found = run_step(lowered.graph, {**given, **lowered.data}, operators)
    expected = model.module.eval()(model.inputs[0][:1]).detach().numpy()
    np.testing.assert_allclose(found["inference.output"], expected, atol=1e-6)


def test_no_part_of_a_frozen_network_lies_in_flash_twice() -> None:
    step = TrainingStep(own.trained_through_folded_norms())
    training = step.graph(BOARD)
    lowered = step.inference(training)
    assert training.constants
    assert lowered.graph.constants == training.constants
    assert not lowered.data


class Named(nn.Module):
    """Its layers are called like the residents of a training step."""

    def __init__(self) -> None:
        super().__init__()
        self.loss, self.target, self.input = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.input(torch.relu(self.target(torch.relu(self.loss(x)))))


def test_names_do_not_clash_with_the_trainings() -> None:
    step = TrainingStep(model_of(Named(), torch.randn(5, 4)))
    graph = step.inference(step.graph(BOARD)).graph  # check_graph is content
    assert next(node.id for node in graph.nodes if node.operation and node.operation.op == "linear") != "loss"


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x - x.mean(0, keepdim=True))


class Noisy(Mixing):
    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.nn.functional.dropout(x, 0.5, training=True))


class Counting(Mixing):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.seen += 1
        return self.fc(x)


class Two(Mixing):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.fc(x), x


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Mixing(), "does not count samples"),
        (Noisy(), "draws random numbers in evaluation mode"),
        (Counting(), "changes seen in evaluation mode"),
        (Two(), "the model returns a tuple"),
    ],
)
def test_refusals(module: nn.Module, words: str) -> None:
    loss = (lambda out, target: cross_entropy(out[0], target)) if isinstance(module, Two) else cross_entropy
    step = TrainingStep(model_of(module, torch.randn(5, 4), loss))
    training = step.graph(BOARD)
    with pytest.raises(UserError, match=words):
        step.inference(training)
