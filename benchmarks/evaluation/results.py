# SPDX-License-Identifier: Apache-2.0
"""The committed points of the page, as frames, and what is asked of them again and again."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from poet_planner.comparison.sweep_table import COLUMNS, Point, read_points

HERE = Path(__file__).parent
LEAST = "least"
OURS = "optimal"
# POET's own, or poet's: not what it is compared with.
OWN = ("optimal", "optimal_alone", "paging_only", "rematerialization_only", "poet_ilp")


@dataclass(frozen=True)
class Results:
    """A CSV's points, and as a frame whose rows have in addition ``ram``: "50 %", or "least" for the least RAM."""

    name: str
    points: list[Point]
    frame: pd.DataFrame


def read_results(name: str, folder: Path = HERE) -> Results:
    """The points of ``NAME.csv``."""
    points = read_points(folder / f"{name}.csv")
    frame = pd.DataFrame([asdict(point) for point in points], columns=list(COLUMNS))
    frame["ram"] = [ram_name(share) for share in frame["ram_of_plain"]]
    return Results(name, points, frame)


def ram_name(share: float) -> str:
    """A share as it was asked for: whole tenths of a per cent; anything else was the largest node's own need."""
    percent = round(100 * share, 2)
    return f"{percent:g} %" if abs(100 * share - percent) < 5e-4 else LEAST


def planned(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows with a schedule."""
    return frame[frame["energy_j"].notna()]


def beside_ours(frame: pd.DataFrame) -> pd.DataFrame:
    """Every other method's schedules, each with ``ours_j``, our energy at the same place."""
    place = ["model", "board", "ram_budget_bytes", "late"]
    rows = planned(frame).assign(late=lambda rows: rows["deadline_of_plain"].fillna(math.inf))
    ours = rows[rows["method"] == OURS].set_index(place)["energy_j"].rename("ours_j")
    return rows[rows["method"] != OURS].join(ours, on=place)


def below(rows: pd.DataFrame) -> pd.Series:
    """By which share our energy is below the other method's."""
    return 1 - rows["ours_j"] / rows["energy_j"]
