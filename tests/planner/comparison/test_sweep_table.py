# SPDX-License-Identifier: Apache-2.0
"""The table of points, and what its rows tell of one another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from poet_planner.comparison.compare import Setting, Subject, chosen, compare
from poet_planner.comparison.sharing import settled
from poet_planner.comparison.sweep_table import COLUMNS, Point, append_points, in_order, read_points, write_points
from poet_planner.solve import OptimiseOptions
from poet_profiles.errors import UserError

from tests.support.graphs.random_graphs import training_like_graph

SUBJECT = Subject(training_like_graph(3), "mirror", "m4, mine", "published")


@pytest.fixture(scope="module")
def points() -> list[Point]:
    """Of three methods in four budgets; in the smallest there is no schedule."""
    peak = SUBJECT.store_all.peak_bytes
    methods = chosen("store_all,page_all")
    options = OptimiseOptions(time_limit_s=1.0)
    rams = (4, peak - 8, peak - 4, peak)
    return [point for ram in rams for point in compare(Setting(SUBJECT, ram, None), methods, options)]


def test_what_is_written_is_read(points: list[Point], tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    write_points(points[:5], path)
    append_points(points[5:], path)
    read = read_points(path)
    assert [point.place for point in read] == [point.place for point in points]
    assert [replace(point, note="") for point in read] == [rounded(replace(point, note="")) for point in points]
    table = pd.read_csv(path)
    assert tuple(table.columns) == COLUMNS
    assert list(table["board"]) == ["m4, mine"] * len(points)
    assert table["energy_j"].isna().sum() == sum(point.status == "none" for point in points) > 0


def rounded(point: Point) -> Point:
    """With numbers as the file has them."""
    figures = {name: getattr(point, name) for name in COLUMNS}
    return Point(**{name: float(f"{x:.9g}") if isinstance(x, float) else x for name, x in figures.items()})


def test_a_torn_last_line_is_dropped_and_the_last_row_of_a_place_counts(points: list[Point], tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    append_points(points, path)
    append_points([replace(points[-1], time_limit_s=60.0)], path)
    text = path.read_text()
    path.write_text(text[:-1])
    assert read_points(path)[-1].time_limit_s == 1.0
    path.write_text(text)
    assert len(read_points(path)) == len(points)
    assert read_points(path)[-1].time_limit_s == 60.0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text.replace("model,", "network,", 1), "is no table"),
        (lambda text: text.replace(",none,", ",none,much", 1), "line 2"),
        (lambda text: text.replace("mirror,", "mirror,mirror,", 1), "line 2: has 36 cells"),
        (lambda _: "", "is no table"),
    ],
)
def test_a_damaged_table_is_refused(points: list[Point], tmp_path: Path, damage: object, message: str) -> None:
    path = tmp_path / "points.csv"
    write_points(points, path)
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        read_points(path)


def test_points_are_sorted_by_deadline_and_budget(points: list[Point]) -> None:
    late = [replace(point, deadline_s=9.0) for point in points]
    mixed = [*late, *reversed(points)]
    ordered = in_order(mixed)
    assert [point.deadline_s for point in ordered] == [None] * len(points) + [9.0] * len(points)
    rams = [point.ram_budget_bytes for point in ordered[: len(points)]]
    assert rams == sorted(rams)


def test_less_ram_never_costs_less_and_the_optimiser_is_never_above_another(points: list[Point]) -> None:
    """Rows that a short time limit has spoilt are mended by their neighbours; a baseline's stay as they are."""
    none, *planned = [point for point in points if point.method == "optimal"]
    tight, middle, loose = planned
    assert tight.energy_j and middle.energy_j and loose.energy_j
    assert tight.energy_j > loose.energy_j
    expensive, unproven = 2 * tight.energy_j, loose.plain_energy_j / 2
    spoilt = replace(loose, energy_j=expensive, status="feasible", bound_j=unproven, gap=1 - unproven / expensive)
    slack = replace(tight, status="feasible", bound_j=unproven, gap=1 - unproven / tight.energy_j)
    baseline = next(point for point in points if point.method == "page_all" and point.energy_j)
    cheap = replace(baseline, ram_budget_bytes=middle.ram_budget_bytes, energy_j=middle.energy_j * 0.99)
    mended = settled([none, slack, middle, spoilt, cheap])
    assert [point.place for point in mended] == [p.place for p in (none, slack, middle, spoilt, cheap)]
    assert mended[0] == none and mended[4] == cheap
    # The bound of more RAM holds for less.
    assert mended[1].energy_j == tight.energy_j and mended[1].bound_j == middle.bound_j
    # The schedule of another method, or for less RAM, is one for this.
    assert mended[2].energy_j == mended[3].energy_j == cheap.energy_j
    assert mended[3].peak_bytes == cheap.peak_bytes and "page_all" in mended[3].note
    assert mended[3].gap == pytest.approx(1 - unproven / cheap.energy_j)
    assert settled(points) == points


def test_a_plan_with_one_technique_is_taken_only_from_those_that_do_with_it(points: list[Point]) -> None:
    row = next(point for point in points if point.method == "optimal" and point.energy_j)
    pages = replace(row, page_ins=1, page_outs=1, recomputes=0, energy_j=1.0)
    recomputes = replace(row, method="dtr", page_ins=0, page_outs=0, recomputes=1, energy_j=2.0)
    alone = [replace(row, method=name, energy_j=3.0) for name in ("paging_only", "rematerialization_only")]
    paging, remat = settled([pages, recomputes, *alone])[2:]
    assert (paging.energy_j, remat.energy_j) == (1.0, 2.0)
