# SPDX-License-Identifier: Apache-2.0
"""The same network with its parameters in RAM and on the card: loss and weights agree bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.reference.training_data import training_data
from poet_planner.schedule.c_headers import write_headers
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule

from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import CHUNK, RATE_NANO, answers_of

MODEL, BATCH, STEPS = "digits_cnn", 4, 3
BOARD = load_board("nrf52840")
Run = tuple[Schedule, list[dict[str, str]], dict[str, bytes]]


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return training_step(MODEL, BATCH)


class Session:
    """Requests that put a network's data where its graph wants them, train, and read the weights.

    A batch in RAM is put before its step, batches on the card once; every other step is traced.
    """

    def __init__(self, graph: Graph) -> None:
        self.tensors = [*graph.residents, *graph.kept]
        self.index = {tensor.id: place for place, tensor in enumerate(self.tensors)}
        self.weights = [tensor for tensor in self.tensors if tensor.kind in ("parameter", "state")]
        on_card = {tensor.id for tensor in graph.kept}
        data = training_data(MODEL, STEPS, 0, BATCH)
        self.requests = ["hello", "format", *([f"batches {STEPS}"] if on_card else [])]
        for tensor in self.weights:
            self.put(tensor.id, data[tensor.id].tobytes())
        for name in on_card & {"input", "target"}:
            self.put(name, data[name].tobytes())
        if on_card:
            self.requests.append("commit 0")
        for number in range(STEPS):
            for name in ("input", "target"):
                if name not in on_card:
                    self.put(name, data[name][number].tobytes())
            self.requests.append(f"step {RATE_NANO} {number % 2}")
        for tensor in self.weights:
            self.requests += [
                f"get {self.index[tensor.id]} {offset} {min(CHUNK, tensor.bytes - offset)}"
                for offset in range(0, tensor.bytes, CHUNK)
            ]

    def put(self, name: str, data: bytes) -> None:
        """No line reaches over the end of a batch."""
        size = self.tensors[self.index[name]].bytes
        for start in range(0, len(data), size):
            for offset in range(start, start + size, CHUNK):
                part = data[offset : min(offset + CHUNK, start + size)]
                self.requests.append(f"put {self.index[name]} {offset} {part.hex()}")

    def run(self, program: Path, card: Path) -> tuple[list[dict[str, str]], dict[str, bytes]]:
        answers = answers_of(program, card, self.requests)
        found = {tensor.id: b"" for tensor in self.weights}
        for request, answer in zip(self.requests, answers, strict=True):
            if request.startswith("get"):
                found[self.tensors[int(request.split()[1])].id] += bytes.fromhex(answer["data"])
        steps = [answer for request, answer in zip(self.requests, answers, strict=True) if request.startswith("step")]
        return steps, found


@pytest.fixture(scope="module")
def runs(step: TrainingStep, host_firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    in_ram = step.graph(BOARD)
    on_card = step.graph(BOARD, resident_gradients=False, card_above_bytes=64)
    results = {}
    forms: list[tuple[str, Graph, Callable[[Graph], Schedule]]] = [
        ("in RAM", in_ram, store_all_schedule),
        ("stored", on_card, store_all_schedule),
        ("paged", on_card, everything_paged),
        ("recomputed", on_card, everything_recomputed),
    ]
    for name, graph, make in forms:
        folder = tmp_path_factory.mktemp(name.replace(" ", "_"))
        schedule = make(graph)
        write_headers(graph, schedule, folder, step.constants(graph))
        program = host_firmware.link(folder / "poet", "-I", str(folder))
        results[name] = (schedule, *Session(graph).run(program, folder / "card.img"))
    return results


def test_the_form_on_the_card_keeps_weights_and_batches_there(step: TrainingStep) -> None:
    graph = step.graph(BOARD, resident_gradients=False, card_above_bytes=64)
    assert {tensor.kind for tensor in graph.kept} == {"parameter", "input", "target"}
    assert {node.operation.op for node in graph.nodes if node.operation} >= {"fetch", "conv2d_update", "commit"}


@pytest.mark.parametrize("name", ["stored", "paged", "recomputed"])
def test_loss_and_weights_are_those_of_training_in_ram(runs: dict[str, Run], name: str) -> None:
    _, steps_in_ram, weights_in_ram = runs["in RAM"]
    schedule, steps, weights = runs[name]
    assert [one["loss"] for one in steps] == [one["loss"] for one in steps_in_ram]
    assert [one["committed"] for one in steps] == ["1", "2", "3"]
    assert weights == weights_in_ram
    for one in steps:
        assert (int(one["peak"]), int(one["arena"])) == (schedule.peak_bytes, schedule.arena_bytes)
        assert int(one["page_ins"]) == sum(entry.do is Action.PAGE_IN for entry in schedule.steps)


def test_the_schedules_differ(runs: dict[str, Run]) -> None:
    stored, paged, recomputed = (runs[name][0] for name in ("stored", "paged", "recomputed"))
    assert any(entry.do is Action.PAGE_IN for entry in paged.steps)
    fetches = [entry.target for entry in recomputed.steps if entry.do is Action.COMPUTE]
    assert len(fetches) > len(set(fetches))
    assert paged.peak_bytes < stored.peak_bytes
