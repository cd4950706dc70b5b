# SPDX-License-Identifier: Apache-2.0
"""Choices of homes of a small network: on the host each gives the bits of all in RAM."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from poet_planner.graph.layout import MemoryLayout
from poet_planner.graph.optimizer import Optimizer
from poet_planner.graph.streaming import Streaming
from poet_planner.lowering import with_constants_on_the_card, with_taking_over
from poet_planner.lowering.memory.early import with_early_updates
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.schedule.verify import verify
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.validation import check_graph
from poet_profiles.schedule import Schedule

from tests.support.firmware.card_session import CardSession
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import answers_of

MODEL, BATCH, STEPS = "digits_cnn_small", 4, 3
OPTIMIZERS = {
    "sgd": Optimizer(),
    "momentum": Optimizer(momentum=0.9),
    "adam": Optimizer("adam"),
    "adamw": Optimizer("adamw", weight_decay=0.01),
}
FETCHED, STREAMED, TILES = Streaming(), Streaming(64, 1024), Streaming(64, 512)
BOARD = load_board("nrf52840")
Found = tuple[list[str], dict[str, bytes]]


def graph_of(optimizer: str, layout: MemoryLayout) -> Graph:
    step = training_step(MODEL, BATCH).in_micro_batches(layout.micro_batches)
    return step.graph(BOARD, OPTIMIZERS[optimizer], layout)


@pytest.fixture(scope="module")
def found(
    host_firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, MemoryLayout, Callable[[Graph], Schedule]], Found]:
    """Losses of all steps, and weights and states after them."""

    @cache
    def found(optimizer: str, layout: MemoryLayout, make: Callable[[Graph], Schedule] = store_all_schedule) -> Found:
        graph = graph_of(optimizer, layout)
        schedule, folder = make(graph), tmp_path_factory.mktemp("homes")
        assert not [fault for fault in verify(graph, schedule).faults if "not pageable" not in fault]
        write_headers(graph, schedule, folder, training_step(MODEL, BATCH).constants(graph))
        session = CardSession(graph, MODEL, BATCH, STEPS)
        answers = answers_of(
            host_firmware.link(folder / "poet", "-I", str(folder)), folder / "card.img", session.requests
        )
        return [one["loss"] for one in session.steps(answers)], session.found(answers)

    return found


@pytest.mark.parametrize("streaming", [FETCHED, STREAMED, TILES], ids=["fetched", "streamed", "tiles"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_micro_batches_have_the_bits_of_all_in_ram(
    found: Callable[..., Found], optimizer: str, streaming: Streaming
) -> None:
    layout = MemoryLayout(card_above_bytes=64, micro_batches=2, batch_on_card=False, streaming=streaming)
    make = everything_paged if optimizer == "adam" else everything_recomputed
    assert found(optimizer, layout, make) == found(optimizer, MemoryLayout(micro_batches=2))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_states_away_from_their_parameters_have_the_bits_of_all_in_ram(
    found: Callable[..., Found], optimizer: str, parts: int
) -> None:
    layout = MemoryLayout(micro_batches=parts, states_above_bytes=64, streaming=Streaming(None, 1024))
    assert {kept.kind for kept in graph_of(optimizer, layout).kept} == {"state"}
    assert found(optimizer, layout) == found(optimizer, MemoryLayout(micro_batches=parts))


FROZEN = "finetune_cnn_small"


def test_updates_of_sums_read_the_card_tile_by_tile() -> None:
    graph = graph_of("adam", MemoryLayout(card_above_bytes=64, micro_batches=2, batch_on_card=False, streaming=TILES))
    assert "streamed_sgd_update" in {node.operation.op for node in graph.nodes if node.operation}


def test_early_updates_beside_constants_on_the_card(host_firmware: HostFirmware, tmp_path: Path) -> None:
    step, results = training_step(FROZEN, 2), []
    in_ram = step.graph(BOARD, OPTIMIZERS["momentum"])
    values = step.in_ram(BOARD.dma_overlap, False, OPTIMIZERS["momentum"])
    early = with_taking_over(with_early_updates(with_constants_on_the_card(values, 20_000, STREAMED)))
    check_graph(early)
    assert {kept.kind for kept in early.kept} == {"constant"}
    for number, graph in enumerate((in_ram, early)):
        schedule, folder = store_all_schedule(graph), tmp_path / str(number)
        write_headers(graph, schedule, folder, step.constants(graph))
        session = CardSession(graph, FROZEN, 2, STEPS, step.constants(graph))
        answers = answers_of(
            host_firmware.link(folder / "poet", "-I", str(folder)), folder / "card.img", session.requests
        )
        results.append(([one["loss"] for one in session.steps(answers)], session.found(answers)))
    assert results[0] == results[1]
