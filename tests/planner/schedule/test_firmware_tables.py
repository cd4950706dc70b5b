# SPDX-License-Identifier: Apache-2.0
"""The RAM of the firmware's own tables: what the planner counts is what a compiler makes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from poet_planner.planning.budget import plan_ram_bytes
from poet_planner.schedule.firmware_tables import (
    CHECK_ENTRY_BYTES,
    PAGE_ENTRY_BYTES,
    FirmwareTables,
    tables_at_most,
    tables_of,
)
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board

from tests.support import ROOT
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.graphs.random_graphs import either_graph


def test_entries_are_as_long_as_the_compiler_makes_them(tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include "poet/runner.h"\n'
        f'_Static_assert(sizeof(poet_check) == {CHECK_ENTRY_BYTES}, "");\n'
        f'_Static_assert(sizeof(poet_page) == {PAGE_ENTRY_BYTES}, "");\n'
    )
    include = f"-I{ROOT / 'firmware' / 'include'}"
    subprocess.run(["gcc", "-std=c11", include, "-fsyntax-only", str(source)], check=True)


@pytest.mark.parametrize("seed", range(30))
def test_the_tables_of_any_schedule(seed: int) -> None:
    graph = either_graph(seed)
    for schedule in (store_all_schedule(graph), everything_recomputed(graph), everything_paged(graph)):
        paged = {step.target for step in schedule.steps if step.do == "page_out"}
        assert tables_of(graph, schedule) == FirmwareTables(len(paged))
    pageable = {value.id for node in graph.nodes for value in node.values if value.page}
    assert tables_at_most(graph).page_count == len(pageable)


@pytest.mark.parametrize("name", ["nrf52840", "mkr1000", "rpi4b"])
def test_a_microcontroller_leaves_room_for_them(name: str) -> None:
    board = load_board(name)
    graph = either_graph(0)
    tables = tables_at_most(graph).bytes if board.kind == "microcontroller" else 0
    assert plan_ram_bytes(board, graph) == board.ram_bytes - board.ram_reserved_bytes - tables
