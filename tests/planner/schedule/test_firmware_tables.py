# SPDX-License-Identifier: Apache-2.0
"""The RAM of the firmware's own tables: what the planner counts is what a compiler makes of them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from poet_planner.planning.budget import plan_ram_bytes
from poet_planner.schedule.firmware_tables import (
    CHECK_ENTRY_BYTES,
    LIVE_ENTRY_BYTES,
    PAGE_ENTRY_BYTES,
    FirmwareTables,
    tables_at_most,
    tables_of,
)
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from tests.support import ROOT
from tests.support.firmware.crude_schedules import everything_paged, everything_recomputed
from tests.support.graphs.random_graphs import either_graph


def test_entries_are_as_long_as_the_compiler_makes_them(tmp_path: Path) -> None:
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include "poet/runner.h"\n'
        f'_Static_assert(sizeof(poet_block) == {LIVE_ENTRY_BYTES}, "");\n'
        f'_Static_assert(sizeof(poet_check) == {CHECK_ENTRY_BYTES}, "");\n'
        f'_Static_assert(sizeof(poet_page) == {PAGE_ENTRY_BYTES}, "");\n'
    )
    include = f"-I{ROOT / 'firmware' / 'include'}"
    subprocess.run(["gcc", "-std=c11", include, "-fsyntax-only", str(source)], check=True)


def counted(graph: Graph, schedule: Schedule) -> FirmwareTables:
    """Step by step, as the firmware's arena holds them."""
    live, most, paged = set(), 1, set()
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: value.bytes for node in graph.nodes for value in node.values}
    for step in schedule.steps:
        if step.do == "compute":
            live |= {value.id for value in nodes[step.target].values if value.bytes}
            most = max(most, len(live) + bool(nodes[step.target].workspace_bytes))
        elif step.do == "page_in":
            live |= {step.target}
        elif step.do == "page_out":
            paged |= {step.target}
        elif sizes[step.target]:
            live -= {step.target}
        most = max(most, len(live))
    return FirmwareTables(most, len(paged))


@pytest.mark.parametrize("seed", range(30))
def test_the_tables_of_any_schedule(seed: int) -> None:
    graph = either_graph(seed)
    for schedule in (store_all_schedule(graph), everything_recomputed(graph), everything_paged(graph)):
        assert tables_of(graph, schedule) == counted(graph, schedule)
    bound = tables_at_most(graph, store_all_schedule(graph))
    assert bound.live_count >= tables_of(graph, store_all_schedule(graph)).live_count


@pytest.mark.parametrize("name", ["nrf52840", "mkr1000", "rpi4b"])
def test_a_microcontroller_leaves_room_for_them(name: str) -> None:
    board = load_board(name)
    graph = either_graph(0)
    tables = tables_at_most(graph, store_all_schedule(graph)).bytes if board.kind == "microcontroller" else 0
    assert plan_ram_bytes(board, graph) == board.ram_bytes - board.ram_reserved_bytes - tables
