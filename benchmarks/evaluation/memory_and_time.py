# SPDX-License-Identifier: Apache-2.0
"""Two claims: up to twice less memory, and plans within ten minutes."""

from __future__ import annotations

import pandas as pd

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import NONE_EXISTS, NOT_RUN, OURS, TIME, Results, planned, why_none

# Of Algorithm 1 where it has no schedule; with its time limit.
WORDS = {NOT_RUN: "It was not run", TIME: "In {:g} s it found none", NONE_EXISTS: "It has none"}


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
        where = f"for {model} on the {board} in {ram} of the RAM, where poet adds {ours} %"
        if pd.isna(printed["energy_j"]):
            said.append(f"{WORDS[why_none(printed.to_dict())].format(printed['time_limit_s'])} {where}.")
        else:
            said.append(f"Given {printed['time_limit_s']:g} s it adds {percent(printed['overhead'])} % {where}.")
    return " ".join(said)
