# SPDX-License-Identifier: Apache-2.0
"""Two claims: up to twice less memory, and plans within ten minutes."""

from __future__ import annotations

import pandas as pd

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import OURS, Results, planned


def facts(results: Results, as_printed: Results | None) -> dict[str, str]:
    """What the page says of it."""
    ours = planned(results.frame[results.frame["method"] == OURS])
    rows = []
    for (model, board), group in ours.groupby(["model", "board"], sort=False):
        least = group.loc[group["ram_budget_bytes"].idxmin()]
        rows.append(
            [
                *(str(model), str(board), f"{least['plain_peak_bytes'] / least['ram_budget_bytes']:.1f}"),
                *(percent(least["overhead"]), f"{group['seconds'].max():.0f}", percent(group["gap"].max())),
                f"{(group['gap'] <= 0.001).sum()} of {len(group)}",
            ]
        )
    bert = ours[(ours["model"] == "bert") & ours["board"].isin(["m4", "tx2"])]
    header = (
        "network",
        "board",
        "memory down by, times",
        "which adds, %",
        "longest plan, s",
        "largest gap, %",
        "0.1 % or less",
    )
    return {
        "table": table(header, rows),
        "limit": " or ".join(f"{limit:g}" for limit in sorted(set(ours["time_limit_s"]))),
        "bert": str(len(bert)),
        "bert_gap": percent(bert["gap"].max()),
        "as_printed": _as_printed(as_printed),
    }


def _as_printed(results: Results | None) -> str:
    """What Algorithm 1 as printed makes of the instances that the paper names, beside ours."""
    if results is None:
        return "It was not run for this page."
    said = []
    for (model, board, ram), group in results.frame.groupby(["model", "board", "ram"], sort=False):
        rows = group.set_index("method")
        printed, ours = rows.loc["poet_ilp"], percent(rows.loc[OURS, "overhead"])
        added = "has no schedule" if pd.isna(printed["energy_j"]) else f"adds {percent(printed['overhead'])} %"
        where = f"for {model} on the {board} in {ram} of the RAM, where poet adds {ours} %"
        said.append(f"Given {printed['time_limit_s']:g} s it {added} {where}.")
    return " ".join(said)
