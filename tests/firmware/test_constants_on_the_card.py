# SPDX-License-Identifier: Apache-2.0
"""Frozen weights on the card, and nothing else: training and inference with the bits that they have from flash."""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from poet_planner.graph.optimizer import Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.lowering import with_constants_on_the_card, with_taking_over
from poet_planner.planning.training_graph import TrainingStep, training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_planner.torch_reference.training_data import training_data
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.validation import check_graph
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.schedule import Schedule

from tests.support.firmware import core as fw
from tests.support.firmware.card_session import CardSession
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import CHUNK, RATE, answers_of

MODEL, BATCH, STEPS, FLASH = "finetune_cnn_small", 2, 3, 20_000
TILES = Streaming(0, 1024)
BOARD = load_board("nrf52840")
SAMPLE = np.random.default_rng(3).standard_normal(64).astype("<f4").tobytes()


@pytest.fixture(scope="module")
def step() -> TrainingStep:
    return training_step(MODEL, BATCH)


@pytest.fixture(scope="module")
def in_flash(step: TrainingStep) -> Graph:
    return step.graph(BOARD, optimizer=Optimizer(momentum=0.9, clip_value=0.2))


def on_card(in_flash: Graph) -> Graph:
    return with_taking_over(with_constants_on_the_card(in_flash, FLASH, TILES))


def inferring(graph: Graph) -> list[str]:
    """Requests for the scores of a sample; its tensor has the number behind all of the training's."""
    number = len(graph.residents) + len(graph.kept)
    puts = [f"put {number} {at} {SAMPLE[at : at + CHUNK].hex()}" for at in range(0, len(SAMPLE), CHUNK)]
    return [*puts, "infer"]


def trained(
    step: TrainingStep, graph: Graph, schedule: Schedule, firmware: fw.HostFirmware, folder: Path, streaming: Streaming
) -> tuple[list[str], dict[str, bytes], list[str]]:
    """Losses, weights and momentum, and the scores before and after training."""
    lowered = step.inference(graph, streaming)
    inference = Inference(lowered.graph, store_all_schedule(lowered.graph), lowered.data)
    assert verify(inference.graph, inference.schedule).sound
    constants = step.constants(graph)
    write_headers(graph, schedule, folder, constants, inference)
    program = firmware.link(folder / "poet", "-I", str(folder))
    session = CardSession(graph, MODEL, BATCH, STEPS, constants)
    begin = session.requests.index(next(one for one in session.requests if one.startswith("step")))
    session.requests[begin:begin] = inferring(graph)
    first = next(place for place, one in enumerate(session.requests) if one.startswith("get"))
    session.requests[first:first] = inferring(graph)
    # The inference lay where the batch is not: what the first step reads was put before it.
    answers = answers_of(program, folder / "card.img", session.requests)
    scores = [answer["scores"] for answer in answers if "scores" in answer]
    assert all("committed" not in answer for answer in answers)
    return [one["loss"] for one in session.steps(answers)], session.found(answers), scores


@pytest.mark.parametrize("make", [store_all_schedule, everything_paged, everything_recomputed])
def test_it_trains_with_momentum_and_infers_as_from_flash(
    step: TrainingStep,
    in_flash: Graph,
    make: Callable[[Graph], Schedule],
    host_firmware: fw.HostFirmware,
    tmp_path: Path,
) -> None:
    graph = on_card(in_flash)
    check_graph(graph)
    assert {kept.kind for kept in graph.kept} == {"constant"}
    assert 0 < sum(constant.bytes for constant in graph.constants) <= FLASH
    assert sorted(graph.residents, key=key) == sorted(
        (replace(one, offset=placed(graph)[one.id].offset) for one in in_flash.residents), key=key
    )
    assert any(node.operation and node.operation.op == "streamed_conv2d" for node in graph.nodes)
    there = trained(step, in_flash, store_all_schedule(in_flash), host_firmware, tmp_path / "flash", Streaming())
    here = trained(step, graph, make(graph), host_firmware, tmp_path / "card", TILES)
    assert here == there
    assert here[2][0] != here[2][1]


def test_it_trains_in_micro_batches_as_from_flash(
    step: TrainingStep, host_firmware: fw.HostFirmware, tmp_path: Path
) -> None:
    part = step.in_micro_batches(2)
    in_flash = part.graph(BOARD, optimizer=Optimizer("adam"))
    graph = on_card(in_flash)
    check_graph(graph)
    assert graph.micro_batches == 2 and graph.kept
    there = trained(part, in_flash, store_all_schedule(in_flash), host_firmware, tmp_path / "flash", Streaming())
    assert trained(part, graph, everything_paged(graph), host_firmware, tmp_path / "card", TILES) == there


def key(resident: Resident) -> str:
    return resident.id


def placed(graph: Graph) -> dict[str, Resident]:
    return {resident.id: resident for resident in graph.residents}


def test_a_card_without_the_weights_trains_nothing(
    step: TrainingStep, in_flash: Graph, host_firmware: fw.HostFirmware, tmp_path: Path
) -> None:
    graph = on_card(in_flash)
    constants = step.constants(graph)
    write_headers(graph, store_all_schedule(graph), tmp_path, constants)
    program = host_firmware.link(tmp_path / "poet", "-I", str(tmp_path))
    requests = ["hello", "format", "step 3f800000 0"]
    with pytest.raises(AssertionError, match="err -9 no card, no label on it, or no record of this model"):
        answers_of(program, tmp_path / "card.img", requests)


def test_a_program_of_ones_own_trains_commits_and_goes_on(
    step: TrainingStep, in_flash: Graph, host_firmware: fw.HostFirmware, tmp_path: Path
) -> None:
    """On the card of the protocol's run, with that run's bits."""
    graph, schedule = (made := on_card(in_flash)), store_all_schedule(made)
    lowered = step.inference(graph, TILES)
    inference = Inference(lowered.graph, store_all_schedule(lowered.graph), lowered.data)
    _, expected, scores = trained(step, graph, schedule, host_firmware, tmp_path, TILES)
    card = fw.Card(2 * fw.PAGE_AREA)
    with (tmp_path / "card.img").open("rb") as image:
        card.content[:] = image.read(len(card.content))
    write_library("net", graph, schedule, step.constants(graph), None, tmp_path / "net", inference)
    program = Program(tmp_path / "net", tmp_path / "net.so")
    assert program.begin(fw.Card(2 * fw.PAGE_AREA)) == fw.E_ABSENT
    assert program.begin(card) == fw.OK
    assert program.call("poet_restore") == fw.OK
    assert program.call("poet_steps") == 0
    assert program.scores() == scores[0]
    data = training_data(MODEL, STEPS, 0, BATCH)
    for number in range(STEPS):
        for name in ("input", "target"):
            content = data[name][number].tobytes()
            c.memmove(getattr(program.library, f"poet_{name}")(program.poet, 0), content, len(content))
        assert program.library.poet_train(program.poet, c.c_float(RATE)) == fw.OK
    assert program.scores() == scores[1]
    assert program.tensors(graph) == expected
    card.fail_reads = 0
    assert program.library.poet_train(program.poet, c.c_float(RATE)) == fw.E_IO
    card.fail_reads = None
    assert program.scores() == scores[1], "no step is lost that was not committed yet"
    assert program.tensors(graph) == expected
    for writes in (0, 1):
        card.fail_writes = writes
        assert program.call("poet_commit") == fw.E_IO
        card.fail_writes = None
        assert (
            program.begin(card) == fw.OK and program.call("poet_restore") == fw.OK and program.call("poet_steps") == 0
        )
        program.set(graph, expected)
    assert program.call("poet_commit") == fw.OK
    program.set(graph, {id: bytes(len(content)) for id, content in expected.items()})
    assert program.begin(card) == fw.OK and program.call("poet_restore") == fw.OK
    assert program.tensors(graph) == expected


class Program:
    """A program on this computer with a library in it, and RAM of noise."""

    def __init__(self, net: Path, output: Path) -> None:
        folders = [fw.FIRMWARE / "src" / name for name in ("library", "kernels", "ops", "runtime")]
        sources = [source for folder in folders for source in sorted(folder.glob("*.c"))]
        flags = ("-shared", "-fPIC", "-O1", "-I", str(net / "src"))
        made = fw.compile_c(output, [*sources, net / "src/net.c", net / "src/net_data.S"], *flags)
        self.library = c.CDLL(str(made))
        for name in ("poet_input", "poet_target", "poet_tensor", "poet_infer_input", "poet_output"):
            getattr(self.library, name).restype = c.c_void_p
        self._network = fw.Network.in_dll(self.library, "net")
        self._size = self._network.ram_bytes
        self._ram = (c.c_uint32 * (self._size // 4))()
        self._poet = fw.Poet()
        self.poet = c.byref(self._poet)

    def begin(self, card: fw.Card) -> int:
        c.memset(self._ram, 0xC9, self._size)
        device, network = c.byref(card.device), c.byref(self._network)
        begun: int = self.library.poet_begin(self.poet, network, self._ram, self._size, device, None)
        return begun

    def call(self, name: str) -> int:
        done: int = getattr(self.library, name)(self.poet)
        return done

    def scores(self) -> str:
        c.memmove(self.library.poet_infer_input(self.poet), SAMPLE, len(SAMPLE))
        assert self.call("poet_infer") == fw.OK
        return c.string_at(self.library.poet_output(self.poet), 40).hex()

    def tensors(self, graph: Graph) -> dict[str, bytes]:
        return {one.id: c.string_at(self._at(place), one.bytes) for place, one in _lasting(graph)}

    def set(self, graph: Graph, tensors: dict[str, bytes]) -> None:
        for place, one in _lasting(graph):
            c.memmove(self._at(place), tensors[one.id], one.bytes)

    def _at(self, place: int) -> int:
        address: int = self.library.poet_tensor(self.poet, place)
        return address


def _lasting(graph: Graph) -> list[tuple[int, Resident]]:
    return [(place, one) for place, one in enumerate(graph.residents) if one.kind in ("parameter", "state")]
