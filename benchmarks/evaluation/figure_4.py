# SPDX-License-Identifier: Apache-2.0
"""The paper's Figure 4: both techniques against one, over deadlines, for VGG16."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from poet_planner.comparison.pictures.energy_vs_deadline import energy_vs_deadline
from poet_planner.report.quantities import time_text

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import LEAST, Results, added, beside_ours, planned

METHODS = ("optimal", "rematerialization_only", "paging_only")
DRAWN = "a72-dma"


def draw(results: Results) -> dict[str, Figure]:
    """Three lines at two RAM budgets, on the board where the paper's story shows best."""
    board = _drawn(results.frame)
    points = [point for point in results.points if point.board == board and point.method in METHODS]
    return {"figure_4.png": energy_vs_deadline(points)}


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    frame = results.frame
    deadlines = sorted(set(frame["deadline_of_plain"]))
    single = beside_ours(frame).groupby(["board", "ram", "deadline_of_plain"])
    better = single["energy_j"].min()
    return {
        "table": _overheads(frame, deadlines),
        "techniques": " ".join(_earliest(frame, _drawn(frame), ram) for ram in dict.fromkeys(frame["ram"])),
        "plain": time_text(frame.loc[frame["board"] == "a72", "plain_time_s"].iloc[0]),
        "better": percent((1 - single["ours_j"].first() / better).max()),
    }


def _overheads(frame: pd.DataFrame, deadlines: list[float]) -> str:
    rows = []
    for (board, ram), group in frame.groupby(["board", "ram"], sort=False):
        at = [group[group["deadline_of_plain"] == late] for late in deadlines]
        cells = [" / ".join(added(here, method) for method in METHODS) for here in at]
        rows.append([str(board), str(ram), *cells])
    return table(["board", "RAM", *(f"{late:.4g}\u00d7" for late in deadlines)], rows)


def _drawn(frame: pd.DataFrame) -> str:
    """The board of the picture; the first that has plans where it was not run."""
    made = list(dict.fromkeys(planned(frame)["board"]))
    return DRAWN if DRAWN in made else made[0]


def _earliest(frame: pd.DataFrame, board: str, ram: str) -> str:
    """From which deadline on each method has a plan."""
    here = frame[(frame["board"] == board) & (frame["ram"] == ram)]
    first = planned(here).groupby("method")["deadline_of_plain"].min()
    earliest = [f"{first[method]:.4g}\u00d7" if method in first.index else "no deadline" for method in METHODS]
    where = "the least RAM" if ram == LEAST else f"{ram} of the RAM"
    return (
        f"On `{board}` in {where}, poet has plans from {earliest[0]} on, rematerialization alone from {earliest[1]}, "
        f"paging alone from {earliest[2]}."
    )
