# SPDX-License-Identifier: Apache-2.0
"""Parameters on the card of both emulated boards: the bits of training in RAM; and plans that do not fit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import CARD, FLASH, build, built
from poet_harness.protocol.link import Link
from poet_planner.graph.layout import MemoryLayout
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.firmware_tables import tables_of
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

from tests.support import ROOT
from tests.support.firmware.card_session import CardSession
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.crude_schedules import everything_paged
from tests.support.firmware.training_session import answers_of

MODEL, BATCH, STEPS = "digits_cnn_small", 4, 2


SLOW = str(ROOT / "tests/support/emulation/nrf52840-memory.toml")


@pytest.mark.parametrize("name", ["nrf52840", "mkr1000", SLOW], ids=["nrf52840", "mkr1000", "slow memory"])
def test_parameters_on_the_card_of_a_board(
    name: str, host_firmware: HostFirmware, builds: Path, tmp_path: Path
) -> None:
    board = load_board(name)
    name = board.name
    step = training_step(MODEL, BATCH)
    in_ram = step.graph(board)
    write_headers(in_ram, store_all_schedule(in_ram), tmp_path)
    session = CardSession(in_ram, MODEL, BATCH, STEPS)
    program = host_firmware.link(tmp_path / "poet", "-I", str(tmp_path))
    answers = answers_of(program, tmp_path / "host.img", session.requests)
    losses, weights = [one["loss"] for one in session.steps(answers)], session.found(answers)

    graph = step.graph(board, layout=MemoryLayout(card_above_bytes=64))
    schedule = everything_paged(graph)
    write_headers(graph, schedule, tmp_path)
    with mock.patch.dict(os.environ, PLATFORMIO_BUILD_DIR=str(builds)):
        keep = CARD if board.memory is None else FLASH
        with (
            built(board, tmp_path, keep) as image,
            open_emulated_board(board, image, tmp_path / "board.img") as emulated,
        ):
            link = Link(emulated.serial, name)
            session = CardSession(graph, MODEL, BATCH, STEPS)
            answers = [link.request(request, 60.0).values for request in session.requests]
            assert [one["loss"] for one in session.steps(answers)] == losses
            assert session.found(answers) == weights

            if board.memory is None:
                emulated.reset()
            else:
                link.request(f"commit {STEPS}")
                emulated.cut_power()
            link.request("hello")
            assert link.request("restore").values["step"] == str(STEPS)
            assert session.found([link.request(request).values for request in session.gets]) == weights

        room = board.usable_ram_bytes - tables_of(graph, schedule).bytes - graph.resident_bytes
        write_headers(graph, replace(schedule, arena_bytes=room), tmp_path)
        build(board, tmp_path)
        write_headers(graph, replace(schedule, arena_bytes=board.ram_bytes), tmp_path)
        with pytest.raises(UserError, match=rf"^{name}: the plan needs more RAM than the board has .*plan again"):
            build(board, tmp_path)
