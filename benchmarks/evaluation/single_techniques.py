# SPDX-License-Identifier: Apache-2.0
"""The claim "up to 40 % lower energy than paging only or rematerialization only"."""

from __future__ import annotations

from benchmarks.evaluation.markdown import NONE, percent, table
from benchmarks.evaluation.results import Results, below, beside_ours

PRINTED = 0.40


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    rows = beside_ours(results.frame)
    rows = rows[rows["method"].isin(["paging_only", "rematerialization_only"])].assign(below=below)
    by_place = rows.groupby(["board", "model", "ram_budget_bytes"], sort=False)["below"]
    both = by_place.agg(["count", "max", "min"]).query("count == 2")
    most = both.groupby(["board", "model"], sort=False)[["max", "min"]].max()
    models = list(dict.fromkeys(rows["model"]))
    cells = {place: f"{percent(pair['max'])}, {percent(pair['min'])}" for place, pair in most.iterrows()}
    return {
        "printed": percent(PRINTED),
        "table": table(
            ["board", *models],
            [[board, *(cells.get((board, model), NONE) for model in models)] for board in dict.fromkeys(rows["board"])],
        ),
        "worse": percent(both["max"].max()),
        "better": percent(both["min"].max()),
    }
