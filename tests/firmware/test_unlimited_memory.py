# SPDX-License-Identifier: Apache-2.0
"""The same network under very different schedules: loss, gradients and weights agree bit for bit.

Three schedules of a traced network on the host board: everything kept and nothing computed in place (unlimited
memory), everything paged out as soon as it is there, everything recomputed whenever it is needed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from poet_planner.lowering import without_taking_over
from poet_planner.planning.training_graph import training_graph
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Schedule

from tests.support.firmware.core import BLOCK, PAGE_AREA, HostFirmware
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.firmware.training_session import TrainingSession, train

MODEL, BATCH, STEPS = "digits_cnn", 4, 2


@pytest.fixture(scope="module")
def graph() -> Graph:
    return training_graph(MODEL, BATCH, load_board("nrf52840"))


@pytest.fixture(scope="module")
def runs(
    graph: Graph, host_firmware: HostFirmware, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Schedule, list[dict[str, str]], dict[str, bytes]]]:
    results = {}
    session = TrainingSession(graph, MODEL, BATCH, STEPS)
    makers: list[Callable[[Graph], Schedule]] = [store_all_schedule, everything_paged, everything_recomputed]
    assert any(node.takes_over for node in graph.nodes)
    apart = without_taking_over(graph)
    for make in makers:
        folder = tmp_path_factory.mktemp(make.__name__)
        planned = apart if make is store_all_schedule else graph
        schedule = make(planned)
        write_headers(planned, schedule, folder)
        program = host_firmware.link(folder / "poet", "-I", str(folder))
        card = folder / "card.img"
        card.write_bytes(bytes((PAGE_AREA + 2000) * BLOCK))
        results[make.__name__] = (schedule, *train(program, card, session))
    return results


def test_the_network_trains(runs: dict) -> None:
    _, steps, tensors = runs["store_all_schedule"]
    assert len({step["loss"] for step in steps}) == STEPS
    assert any(any(content) for name, content in tensors.items() if name.endswith(".grad"))


@pytest.mark.parametrize("name", ["everything_paged", "everything_recomputed"])
def test_tensors_equal_those_of_unlimited_memory_bit_for_bit(runs: dict, name: str) -> None:
    _, store_all_steps, unlimited = runs["store_all_schedule"]
    _, steps, tensors = runs[name]
    assert [step["loss"] for step in steps] == [step["loss"] for step in store_all_steps]
    assert tensors == unlimited


@pytest.mark.parametrize("name", ["store_all_schedule", "everything_paged", "everything_recomputed"])
def test_as_many_pages_move_as_the_schedule_says(runs: dict, name: str) -> None:
    schedule, steps, _ = runs[name]
    for step in steps:
        assert int(step["page_ins"]) == sum(one.do is Action.PAGE_IN for one in schedule.steps)
        assert int(step["page_outs"]) == sum(one.do is Action.PAGE_OUT for one in schedule.steps)


def test_the_schedules_differ(runs: dict) -> None:
    store_all, paged, recomputed = (schedule for schedule, _, _ in runs.values())
    assert sum(step.do is Action.PAGE_IN for step in paged.steps) > 20
    assert len(recomputed.steps) > 2 * len(store_all.steps)
    assert paged.peak_bytes < store_all.peak_bytes
