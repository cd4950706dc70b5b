# SPDX-License-Identifier: Apache-2.0
"""The paper's Figure 3: energy against RAM of every method, three networks on four boards."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from poet_planner.comparison.pictures.energy_vs_ram import energy_vs_ram, overhead_log
from poet_planner.comparison.pictures.method_styles import in_legend_order, style_of

from benchmarks.evaluation.markdown import NONE, percent, table
from benchmarks.evaluation.results import (
    LEAST,
    NOT_RUN,
    OURS,
    OWN,
    TIME,
    Results,
    added,
    beside_ours,
    planned,
    why_none,
    why_nowhere,
)

# The paper's methods, and two that page.
DRAWN = (
    *("optimal", "dtr", "checkmate", "chen_sqrt", "chen_greedy", "revolve"),
    *("capuchin", "capuchin_page_first", "pofo_energy", "paging_only", "rematerialization_only"),
)
BRIEF = ("50 %", "20 %", LEAST)
SAME = 1 + 1e-9
IN_DTRS_SIMULATOR = ("dtr", "dtr_no_release", "lru", "msps", "msps_no_release")
MILPS = ("checkmate", "checkmate_lp", "poet_ilp")
UNFIT = "At the others the RAM is below what the largest operator needs."


def draw(results: Results) -> dict[str, Figure]:
    """Small multiples: energy over the store-all schedule's, and its overhead on a logarithmic axis."""
    points = [point for point in results.points if point.method in DRAWN]
    return {"figure_3.png": energy_vs_ram(points), "figure_3_log.png": overhead_log(points)}


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    frame = results.frame
    compared = beside_ours(frame)
    above = compared[compared["ours_j"] > compared["energy_j"] * SAME]
    ours = frame[frame["method"] == OURS]
    schedules = planned(ours)
    least = schedules.groupby(["model", "board"])["ram_budget_bytes"].min()
    missing = ours[ours["energy_j"].isna()].join(least.rename("least"), on=["model", "board"])
    unfit = (missing["ram_budget_bytes"] < missing["least"]).all()
    next_best = [_next_best(group) for _, group in frame.groupby(["model", "board", "ram"])]
    chen = planned(frame[frame["method"] == "chen_sqrt"])["overhead"]
    return {
        "unplanned": "At the others the RAM is below what the largest operator needs."
        if unfit
        else "It lacks the others.",
        "dtr_next": str(sum(name in IN_DTRS_SIMULATOR for name in next_best)),
        "milps": _without_schedules(frame),
        "capuchin_next": str(sum(name.startswith("capuchin") for name in next_best)),
        "chen": f"{percent(chen.min())} to {percent(chen.max())}",
        "planned": str(len(schedules)),
        "points": str(len(ours)),
        "methods": str(frame["method"].nunique() - 1),
        "compared": str(len(compared)),
        "above": f"{'None' if above.empty else len(above)} of them cost less than poet's.",
        "gap": percent(schedules["gap"].max()),
        "within": str((schedules["gap"] <= 0.01).sum()),
        "overheads": _overheads(frame),
        "brief": _brief(frame),
        "least_ram": _least_ram(frame),
    }


def _overheads(frame: pd.DataFrame) -> str:
    shares = [*sorted(set(frame["ram"]) - {LEAST}, key=lambda ram: -float(ram.removesuffix(" %"))), LEAST]
    rows = []
    for (model, board), group in frame.groupby(["model", "board"], sort=False):
        cells = []
        for share in shares:
            here = group[group["ram"] == share]
            overhead = here.set_index("method")["overhead"]
            other, ours = _next_best(here), added(here, OURS)
            cells.append(f"{ours} / {percent(overhead[other])} {_short(other)}" if other else ours)
        rows.append([model, board, *cells])
    return table(["network", "board", *shares], rows)


def _brief(frame: pd.DataFrame) -> str:
    """poet planned alone, the cheapest other method, and poet's gap with the others' schedules, in three budgets."""
    rows = []
    for (model, board), group in frame.groupby(["model", "board"], sort=False):
        row = [str(model), str(board)]
        for share in BRIEF:
            here = group[group["ram"] == share]
            other, ours = _next_best(here), planned(here[here["method"] == OURS])
            cells = [
                added(here, "optimal_alone"),
                added(here, other) if other else NONE,
                percent(ours["gap"].iloc[0]) if len(ours) else NONE,
            ]
            row.append(cells[0] if ours.empty else " / ".join(cells))
        rows.append(row)
    return table(["network", "board", *BRIEF], rows)


def _without_schedules(frame: pd.DataFrame) -> str:
    """At how many points the methods that solve a MILP were not run, and at how many their time was up."""
    missing = frame[frame["method"].isin(MILPS) & frame["energy_j"].isna()]
    words = [why_none(row) for row in missing.to_dict("records")]
    limits = " or ".join(f"{limit:g}" for limit in sorted(set(frame["time_limit_s"])))
    return (
        f"Of {frame['method'].isin(MILPS).sum()} points of Checkmate, its LP and Algorithm 1, {words.count(NOT_RUN)} "
        f"were not run, and at {words.count(TIME)} the time of {limits} s was up."
    )


def _next_best(here: pd.DataFrame) -> str:
    """The cheapest method at one place besides POET's own; none where no other has a schedule."""
    others = planned(here[~here["method"].isin([*OWN, "store_all"])])
    return "" if others.empty else str(others.loc[others["energy_j"].idxmin(), "method"])


def _short(method: str) -> str:
    return style_of(method).label.split(",")[0]


def _least_ram(frame: pd.DataFrame) -> str:
    rows = planned(frame)
    least = rows.groupby(["method", "model"])["ram_of_plain"].min()
    models = list(dict.fromkeys(frame["model"]))
    return table(
        ["method", *models],
        [
            [style_of(method).label, *(_least_of(frame, least, method, model) for model in models)]
            for method in in_legend_order(set(frame["method"]))
        ],
    )


def _least_of(frame: pd.DataFrame, least: pd.Series, method: str, model: str) -> str:
    if (method, model) in least.index:
        return percent(least[method, model])
    return why_nowhere(frame[(frame["method"] == method) & (frame["model"] == model)])
