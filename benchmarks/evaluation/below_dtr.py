# SPDX-License-Identifier: Apache-2.0
"""The claim "up to 35 % less energy than DTR" (ResNet-18 on the TX2)."""

from __future__ import annotations

from benchmarks.evaluation.boards import published
from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import Results, below, beside_ours

PRINTED = 0.35


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    rows = beside_ours(results.frame)
    rows = rows[rows["method"] == "dtr"].assign(below=below).sort_values("ram_of_plain", ascending=False, kind="stable")
    cell = rows.set_index(["board", "ram"])["below"]
    dtr = rows.groupby("ram", sort=False)["overhead"].first()
    most = rows.groupby("board", sort=False)["below"].max()
    reached = [str(board) for board in most.index if most[board] >= PRINTED]
    return {
        "printed": percent(PRINTED),
        "table": table(
            ["RAM", "DTR adds, %", *most.index],
            [[ram, percent(dtr[ram]), *(percent(cell.get((board, ram))) for board in most.index)] for ram in dtr.index],
        ),
        "rate": f"{published('tx2').flops_per_s / 1e9:.0f}",
        "byte": f"{published('tx2').byte_in_flops:.0f}",
        "peak": percent(most["tx2"]),
        "tenth": percent(most["tx2-1.6gflops"]),
        "reached": f"{_listed(reached)} reaches the printed figure.",
    }


def _listed(boards: list[str]) -> str:
    return f"Each of {', '.join(boards)}" if boards else "No board"
