# SPDX-License-Identifier: Apache-2.0
"""The committed points of the page, as frames, and what is asked of them again and again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from poet_planner.comparison.sweep_table import COLUMNS, Point, read_points

from benchmarks.evaluation.markdown import percent

HERE = Path(__file__).parent
LEAST = "least"
OURS = "optimal"
# POET's own, or poet's: not what it is compared with.
OWN = ("optimal", "optimal_alone", "paging_only", "rematerialization_only", "poet_ilp")

# Why a method has no schedule at a place.
NOT_RUN = "not run"
TIME = "time"
NONE_EXISTS = "none exists"
# What the notes say of those that were kept from running, and that ran out of time.
_KEPT_FROM_RUNNING = ("to state", "cannot be stated")
_OUT_OF_TIME = ("found no schedule in", "in the time allowed", "none was found in")


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


def why_none(row: Mapping[str, object]) -> str:
    """The word for a place where a method has no schedule.

    Parameters
    ----------
    row : mapping
        Of the frame.
    """
    status, note = str(row["status"]), str(row["note"])
    if status in (NOT_RUN, TIME, NONE_EXISTS):
        return status
    if status == "failed" or any(words in note for words in _KEPT_FROM_RUNNING):
        return NOT_RUN
    return TIME if any(words in note for words in _OUT_OF_TIME) else NONE_EXISTS


def why_nowhere(rows: pd.DataFrame) -> str:
    """The word for a method that has a schedule at none of these places; the one that says least if they differ."""
    words = {why_none(row) for row in rows.to_dict("records")} or {NOT_RUN}
    return next(word for word in (NOT_RUN, TIME, NONE_EXISTS) if word in words)


def added(rows: pd.DataFrame, method: str) -> str:
    """What a method adds at one place, in per cent; where it has no schedule, the word why."""
    for row in rows[rows["method"] == method].to_dict("records"):
        return why_none(row) if math.isnan(row["energy_j"]) else percent(row["overhead"])
    return NOT_RUN


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
