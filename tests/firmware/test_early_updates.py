# SPDX-License-Identifier: Apache-2.0
"""Updates as soon as a parameter is read no more: weights and states on the core are those of updates at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from poet_planner import models
from poet_planner.graph.layout import GRADIENTS_EARLY, GRADIENTS_PAGED
from poet_planner.graph.optimizer import PLAIN, Method, Optimizer
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph

from tests.support.firmware.core import BLOCK, PAGE_AREA, HostFirmware
from tests.support.firmware.training_session import TrainingSession, train
from tests.support.networks import own

STEPS = 2
CASES: dict[str, tuple[Callable[[], Model], Optimizer]] = {
    "plain": (lambda: models.load("digits_cnn", 4), PLAIN),
    "dropout, momentum": (lambda: own.dropout(4), Optimizer(momentum=0.9)),
    "adam, clipped": (lambda: models.load("digits_cnn_small", 4), Optimizer(Method.ADAM, clip_value=0.01)),
    "attention": (lambda: own.encoder_with_dropout(4), Optimizer(weight_decay=0.01)),
    "running statistics": (lambda: own.many_layers(4), PLAIN),
}


def lasting(tensors: dict[str, bytes], graph: Graph) -> dict[str, bytes]:
    kept = {resident.id for resident in graph.residents if resident.kind in ("parameter", "state", "loss")}
    return {id: content for id, content in tensors.items() if id in kept}


@pytest.mark.parametrize("name", CASES)
def test_two_steps_have_todays_bits(name: str, host_firmware: HostFirmware, tmp_path: Path) -> None:
    torch.manual_seed(3)
    make, optimizer = CASES[name]
    model = make()
    step, board = TrainingStep(model), load_board("nrf52840")
    data = {id: tensor.detach().numpy().copy() for id, tensor in model.module.state_dict().items()}
    for kind, tensors in (("input", model.inputs), ("target", model.targets)):
        data[kind] = torch.stack([tensors[0], tensors[0].flip(0)]).numpy()
        data[kind] = data[kind].astype("i4") if data[kind].dtype.kind == "i" else data[kind]
    found = {}
    changes = {}
    for early in (False, True):
        graph = step.graph(board, optimizer=optimizer, layout=GRADIENTS_EARLY if early else GRADIENTS_PAGED)
        folder = tmp_path / str(early)
        folder.mkdir()
        schedule = store_all_schedule(graph)
        write_headers(graph, schedule, folder, step.constants(graph))
        program = host_firmware.link(folder / "poet", "-I", str(folder))
        (folder / "card.img").write_bytes(bytes((PAGE_AREA + 100) * BLOCK))
        answers, tensors = train(program, folder / "card.img", TrainingSession(graph, "", 0, STEPS, data))
        found[early] = (lasting(tensors, graph), [answer["loss"] for answer in answers])
        written = {one.id for one in graph.residents if one.kind in ("parameter", "state")}
        order = [bool(node.operation and written.intersection(node.operation.results)) for node in graph.nodes]
        changes[early] = order.index(True)
    assert found[True] == found[False]
    assert changes[True] < changes[False]
