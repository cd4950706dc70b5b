# SPDX-License-Identifier: Apache-2.0
"""Two claims: up to twice less memory, and plans within ten minutes."""

from __future__ import annotations

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import OURS, Results, planned


def facts(results: Results) -> dict[str, str]:
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
    }
