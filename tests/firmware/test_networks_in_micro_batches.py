# SPDX-License-Identifier: Apache-2.0
"""Networks in micro-batches on the core: loss, sums and weights of two steps, bit for bit.

They are held against the gradients of the parts by single operators, added by numpy in PyTorch's order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.graph.optimizer import PLAIN, Method, Optimizer
from poet_planner.lowering import lower_for_firmware
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.tracing import trace
from poet_planner.tracing.micro_batches import micro_batch
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import parse_params
from poet_profiles.graph import Graph, Operation
from poet_profiles.schedule import Action, Schedule
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from tests.support.firmware.core import BLOCK, PAGE_AREA, HostFirmware
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import LEARNING_RATE, Tensors, run_step
from tests.support.firmware.training_session import TrainingSession, train
from tests.support.networks import own

STEPS = 2


class Masked(nn.Module):
    """Numbers that are not there are left out by a second input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor, mask: Tensor) -> Any:
        return self.last(torch.tanh(self.first(x * mask)))


def masked(batch: int) -> Model:
    mask = (torch.rand(batch, 6) > 0.3).float()
    return Model("masked", Masked(), (torch.randn(batch, 6), mask), (torch.randn(batch, 4),), mse_loss)


def summed(batch: int) -> Model:
    """Its loss is a sum over the samples, so that nothing is divided by the number of parts."""
    module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))
    x, y = torch.randn(batch, 6), torch.randn(batch, 4)
    return Model("summed", module, (x,), (y,), squares)


class Bytes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.float() / 255


def camera(batch: int, dtype: torch.dtype = torch.uint8) -> Model:
    """Pictures in bytes or int16, parts of one sample, an activation before a pooling."""
    layers = (Bytes(), nn.Conv2d(3, 4, 3), nn.LeakyReLU(0.1), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3))
    x = torch.randint(0, 256, (batch, 3, 10, 10), dtype=dtype)
    return Model("camera", nn.Sequential(*layers), (x,), (torch.randint(3, (batch,)),), cross_entropy)


def squares(output: Tensor, target: Tensor) -> Tensor:
    difference = output - target
    return (difference * difference).sum()


CASES: dict[str, tuple[Callable[[], Model], int, Optimizer]] = {
    "digits": (lambda: models.load("digits_cnn", 24), 3, PLAIN),
    "dropout, momentum": (lambda: own.dropout(12), 3, Optimizer(momentum=0.9)),
    "attention with dropout": (lambda: own.encoder_with_dropout(6), 2, PLAIN),
    "adam, clipped": (lambda: models.load("digits_cnn_small", 8), 4, Optimizer(Method.ADAM, clip_value=0.01)),
    "mask": (lambda: masked(6), 3, Optimizer(momentum=0.9, nesterov=True, weight_decay=0.01, clip_value=0.05)),
    "camera": (lambda: camera(6), 6, Optimizer(momentum=0.9)),
    "int16": (lambda: camera(4, torch.int16), 2, PLAIN),
    "a loss that sums": (lambda: summed(8), 4, Optimizer(Method.ADAMW, weight_decay=0.1)),
}
SCHEDULES = {"kept": store_all_schedule, "paged": everything_paged, "recomputed": everything_recomputed}


def drawn_data(model: Model, graph: Graph) -> Tensors:
    """Parameters, and other batches in each step than the one that it was traced with."""
    torch.manual_seed(5)
    kinds = {kind: [one for one in graph.residents if one.kind == kind] for kind in ("input", "target")}
    given = {"input": model.inputs, "target": model.targets}
    data = {name: tensor.detach().numpy().copy() for name, tensor in model.module.state_dict().items()}
    for kind, residents in kinds.items():
        for resident, example in zip(residents, given[kind], strict=True):
            shuffled = [example[torch.randperm(len(example))].numpy() for _ in range(STEPS)]
            array = np.stack(shuffled)
            data[resident.id] = array.astype(np.int32) if array.dtype.kind == "i" and resident.dtype is None else array
    return data


def by_single_operators(
    plain: Graph, data: Tensors, constants: Tensors, count: int, operators: Operators
) -> tuple[Tensors, list[float]]:
    """Tensors after the last step, and the loss of each. ``plain`` is the step on one part, without sums."""
    kinds = {kind: [one for one in plain.residents if one.kind == kind] for kind in ("parameter", "state")}
    generators = {one.operands[0] for one in operations(plain) if one.op == "advance"}
    held = {one.id: data[one.id].astype(np.float32) for one in kinds["parameter"]}
    held |= {one.id: np.zeros(one.shape, np.float32) for one in kinds["state"]}
    sums: Tensors = {}
    losses = []
    for step in range(STEPS):
        sums = {}
        for part in range(count):
            held |= {id: np.array([0, step * count + part], np.int32) for id in generators}
            found = run_step(plain, {**constants, **held, **part_of(plain, data, step, part)}, operators)
            for one in plain.residents:
                if one.kind in ("gradient", "loss"):
                    sums[one.id] = sums[one.id] + found[one.id] if part else found[one.id].copy()
        held = updated(plain, {**held, **sums}, operators)
        held |= {id: np.array([0, (step + 1) * count], np.int32) for id in generators}
        losses.append(float(sums["loss"].reshape(-1)[0]))
    return {**held, **sums}, losses


def part_of(plain: Graph, data: Tensors, step: int, part: int) -> Tensors:
    chosen = {}
    for one in plain.residents:
        if one.kind in ("input", "target"):
            chosen[one.id] = data[one.id][step][part * one.shape[0] : (part + 1) * one.shape[0]]
    return chosen


def operations(graph: Graph) -> list[Operation]:
    return [node.operation for node in graph.nodes if node.operation]


def updated(plain: Graph, held: Tensors, operators: Operators) -> Tensors:
    """By the operators that end a step, on the sums."""
    held = dict(held)
    lasting = {one.id for one in plain.residents if one.kind in ("parameter", "state")}
    for operation in operations(plain):
        if operation.op == "advance" or not (operation.op == "adam_factors" or lasting.intersection(operation.results)):
            continue
        given = [held[id] for id in operation.operands]
        results = operators.run(operation.op, parse_params(operation.params), given, LEARNING_RATE)
        for id, result in zip(operation.results, results, strict=True):
            held[id] = result.view(np.float32).reshape(held[id].shape if id in held else -1)
    return held


Case = tuple[Graph, Tensors, TrainingSession, Tensors, list[float]]


@pytest.fixture(scope="module")
def cases(operators: Operators) -> Callable[[str], Case]:
    made: dict[str, Case] = {}

    def case(name: str) -> Case:
        if name not in made:
            made[name] = _made(*CASES[name], operators)
        return made[name]

    return case


def _made(make: Callable[[], Model], count: int, optimizer: Optimizer, operators: Operators) -> Case:
    torch.manual_seed(3)
    model = make()
    whole = TrainingStep(model)
    step = whole.in_micro_batches(count)
    graph = step.graph(load_board("nrf52840"), optimizer=optimizer)
    small = micro_batch(model, whole.traced, count)
    traced = trace(small.module, small.inputs, small.targets, small.loss, model.name)
    plain = lower_for_firmware(traced, optimizer=optimizer)
    data = drawn_data(model, graph)
    constants = step.constants(graph)
    tensors, losses = by_single_operators(plain, data, constants, count, operators)
    return graph, constants, TrainingSession(graph, "", 0, STEPS, data, LEARNING_RATE), tensors, losses


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_a_step_has_the_bits_of_its_parts_added_in_order(
    name: str, schedule: str, cases: Callable[[str], Case], host_firmware: HostFirmware, tmp_path: Path
) -> None:
    graph, constants, session, expected, losses = cases(name)
    planned: Schedule = SCHEDULES[schedule](graph)
    write_headers(graph, planned, tmp_path, constants)
    program = host_firmware.link(tmp_path / "poet", "-I", str(tmp_path))
    card = tmp_path / "card.img"
    card.write_bytes(bytes((PAGE_AREA + 4000) * BLOCK))
    answers, found = train(program, card, session)
    assert {id: content for id, content in found.items() if content != expected[id].tobytes()} == {}
    assert (schedule == "paged") == any(int(answer["page_ins"]) > 0 for answer in answers)
    assert (schedule == "recomputed") == (sum(one.do is Action.COMPUTE for one in planned.steps) > len(graph.nodes))
    last = [answer for answer in answers if answer["gathered"] == "0"]
    assert [np.array(int(answer["loss"], 16), np.uint32).view(np.float32) for answer in last] == losses
