# SPDX-License-Identifier: Apache-2.0
"""What the optimiser's parts are worth: what is switched off, what is measured, and what is said to differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import typer
from poet_planner.planning.method import OPTIMAL
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.options import Parts
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule
from typer.testing import CliRunner

from benchmarks.planner import measuring
from benchmarks.planner.__main__ import app
from benchmarks.planner.instances import Instance
from benchmarks.planner.parts import comparison, parts_without

RUN = measuring.Run(seconds=2.0, clock="wall", formulation="best", solver="highs", seed=0)
# A row of `parts.csv`, as far as the comparison reads it.
ROW = {
    **{"without": "", "suite": "paper", "graph": "g", "ram": "90%", "deadline": "2x", "paging": True},
    **{"formulation": "best", "solver": "highs", "seconds": 7.0, "clock": "wall", "seed": 0, "load": 1.0},
    **{"plain_energy_j": 1.0, "status": "feasible", "verified": True, "energy_j": 1.25, "bound_j": 1.0},
    "commit": "1234567",
}


def table(text: str, first: str) -> dict[str, str]:
    """The first row of the table whose head begins so."""
    lines = text.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith(f"| {first} |"))
    head, row = ([cell.strip() for cell in lines[place].strip("|").split("|")] for place in (at, at + 2))
    return dict(zip(head, row, strict=True))


def test_what_a_part_gains_is_counted() -> None:
    """Of four instances one is worse without, one better, one loses its schedule, and one is the same."""
    without = {**ROW, "without": "milp"}
    rows = [{**ROW, "graph": name} for name in "abcd"] + [
        {**without, "graph": "a", "energy_j": 1.5},
        {**without, "graph": "b", "energy_j": 1.0, "status": "optimal"},
        {**without, "graph": "c", "energy_j": None, "bound_j": None, "status": "none", "verified": False},
        {**without, "graph": "d", "energy_j": 1.25 * (1 + 1e-7)},
    ]
    text = comparison(pd.DataFrame(rows))
    row = table(text, "without")
    assert (row["without"], row["limit"], row["instances"]) == ("milp", "7 s wall", "4")
    assert (row["energy worse"], row["better"], row["no schedule"], row["proven"]) == ("2", "1", "0 → 1", "0 → 1")
    assert row["gap, median"] == "20.0000 % → 26.6667 %"  # of 33.3, 0, no schedule and 20 %
    assert [line.split("|")[4].strip() for line in text.splitlines() if line.startswith("| milp | 7.0")] == [*"abc"]


def test_where_the_ram_is_given_no_larger_one_is_planned_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a part without which no schedule is found would seem to cost energy."""

    def from_5000_bytes_on(graph: Graph, ram_bytes: int, limit_s: float | None, options: OptimiseOptions) -> Schedule:
        if ram_bytes < 5000:
            raise NoScheduleError("none", possible_bytes=5000)
        return optimise(graph, ram_bytes, limit_s, options)

    monkeypatch.setattr(measuring, "method_named", lambda _: replace(OPTIMAL, schedule=from_5000_bytes_on))
    instance = Instance("paper", "linear.m4", "smallest", "2x", True)
    given, own = (measuring.measure(instance, RUN, ram_bytes) for ram_bytes in (4000, None))
    assert (given.status, given.ram_bytes, given.energy_j) == ("none", 4000, None)
    assert (own.verified, own.ram_bytes) == (True, 5000)


def test_parts_are_switched_off_by_name() -> None:
    assert parts_without("control") == Parts()
    assert parts_without("crossover+eviction") == Parts(crossover=False, eviction=False)
    with pytest.raises(typer.BadParameter, match=r"no part 'magic'; it has .*crossover"):
        parts_without("crossover+magic")


def test_an_instance_is_planned_once_with_all_parts_and_once_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def received(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Schedule:
        asked.append(options.parts)
        return optimise(graph, ram_bytes, deadline_s, options)

    monkeypatch.setattr(measuring, "method_named", lambda _: replace(OPTIMAL, schedule=received))
    results = tmp_path / "parts.csv"
    command = ["parts", "milp", "--suite", "paper", "--only", "linear.m4 50% 2x paging", "--results", str(results)]
    done = CliRunner().invoke(app, [*command, "--seconds", "2"])
    assert done.exit_code == 0, done.output
    assert asked == [Parts(), Parts(milp=False)]
    rows = pd.read_csv(results).fillna({"without": ""})
    assert list(rows["without"]) == ["", "milp"]
    assert rows["verified"].all()
    row = table(done.output, "without")
    assert (row["without"], row["instances"]) == ("milp", "1")

    again = CliRunner().invoke(app, [*command, "--seconds", "2"])
    assert table(again.output, "without") == row
    assert len(asked) == 2  # what is measured is not measured again
