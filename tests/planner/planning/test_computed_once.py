# SPDX-License-Identifier: Apache-2.0
"""What a plan computes of one graph: its hash, its store-all schedule and its tables, each hardly more than once."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from poet_planner import OptimiseOptions, plan
from poet_planner.schedule.firmware_tables import tables_at_most, tables_of
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash

FACTS: tuple[Callable[..., Any], ...] = (graph_hash, store_all_schedule, tables_at_most, tables_of)
MOST = 2


@contextmanager
def counted() -> Iterator[list[tuple[str, Graph]]]:
    """Every run of one of those functions, and the graph that it was about, however it was called."""
    codes: dict[CodeType, str] = {code_of(fact): fact.__name__ for fact in FACTS}
    ran: list[tuple[str, Graph]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in codes:
            ran.append((codes[frame.f_code], frame.f_locals["graph"]))

    sys.setprofile(note)
    try:
        yield ran
    finally:
        sys.setprofile(None)


def code_of(fact: Callable[..., Any]) -> CodeType:
    code: CodeType = inspect.unwrap(fact).__code__
    return code


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("digits_cnn_small", {"profile": "nrf52840"}),
        ("digits_cnn_small", {"profile": "nrf52840", "ram": "60%"}),
        ("digits_cnn_small", {"profile": "a72", "ram": "90%"}),
        ("digits_cnn_small", {"profile": "m4", "parameters": "excluded"}),
        ("cnn_40k", {"profile": "mkr1000", "parameters": "card", "ram": "60KB"}),
    ],
)
def test_a_plan_computes_what_it_knows_of_a_graph_at_most_twice(
    model: str, given: dict[str, Any], tmp_path: Path
) -> None:
    with counted() as ran:
        made = plan(model, **given, options=OptimiseOptions(time_limit_s=0.3, capped=False))
        made.write_files(tmp_path)
    assert {name for name, _ in ran} >= {"graph_hash", "store_all_schedule"}
    distinct: list[Graph] = []
    for _, graph in ran:
        if graph not in distinct:
            distinct.append(graph)
    for fact in FACTS:
        for graph in distinct:
            times = sum(name == fact.__name__ and other == graph for name, other in ran)
            assert times <= MOST, f"{fact.__name__} of {graph.name} with {len(graph.nodes)} nodes: {times} times"
