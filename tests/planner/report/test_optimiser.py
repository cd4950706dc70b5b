# SPDX-License-Identifier: Apache-2.0
"""What the summary says of the optimiser's parts."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from poet_planner import plan
from poet_planner.report.optimiser import improvements_table, optimiser_report, parts_table
from poet_planner.solve import OptimiseOptions, Statistics
from poet_planner.solve.statistics import Component
from rich.console import Console

from tests.support.graphs.random_graphs import random_graph


def test_a_plan_says_in_its_summary_what_the_parts_did(tmp_path: Path) -> None:
    made = plan(random_graph(2, 30), ram="60%", options=OptimiseOptions(time_limit_s=2))
    made.write(tmp_path)
    found = json.loads((tmp_path / "summary.json").read_text())["optimiser"]
    names = {part.value for part in Component}
    assert found["source"] in names
    assert found["seconds"] > 0
    assert {"annealing", "eviction", "placement"} <= {part["part"] for part in found["parts"]} <= names
    raised_j = sum(part["bound_raised_j"] for part in found["parts"])
    assert made.store_all.energy_j + raised_j == pytest.approx(made.schedule.bound_j, rel=1e-9)
    overhead_j = made.schedule.energy_j - made.store_all.energy_j
    for part in found["parts"]:
        assert part["bound_raised_share"] == pytest.approx(part["bound_raised_j"] / overhead_j)
        assert part["incumbent_improved_share"] == pytest.approx(part["incumbent_improved_j"] / overhead_j)
    assert {one["source"] for one in found["improvements"]} <= names
    assert found["improvements"][-1]["energy_j"] <= made.schedule.energy_j * (1 + 1e-9)


def test_another_method_says_nothing_of_the_optimiser() -> None:
    assert plan(random_graph(2, 30), ram="100%", method="store_all").summary.document()["optimiser"] is None


def test_tables_show_what_a_part_gained_and_fit_a_terminal() -> None:
    statistics = Statistics()
    for part in Component:
        with statistics.timed(part):
            pass
    statistics.raised(Component.ROUNDING_CUTS, 2.0)
    for k in range(12):
        statistics.found(float(k), 30.0 - k, Component.BACKGROUND_SEARCH)
    statistics.source = Component.BACKGROUND_SEARCH
    report = optimiser_report(statistics, overhead_j=8.0)
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(parts_table(report))
    console.print(improvements_table(report))
    text = console.export_text()
    assert "plan by background search" in text
    row = next(line for line in text.splitlines() if "rounding" in line)
    assert [cell.strip() for cell in row.split("│")[1:-1]] == ["rounding cuts", "0.00", "1", "25 %", ""]
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "138 %" in text
    assert "ejection" not in text
    assert "the last 8 of 12" in text
    assert "19 J" in text and "27 J" not in text
