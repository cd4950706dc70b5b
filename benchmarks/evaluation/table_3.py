# SPDX-License-Identifier: Apache-2.0
"""The paper's Table 3: poet and POFO, ResNet-18 on the TX2."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from poet_planner.comparison.pictures.method_styles import style_of
from poet_planner.report.figures import INK, new_figure

from benchmarks.evaluation.boards import published
from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import OURS, Results, planned
from benchmarks.evaluation.subjects import paper_subject

PRINTED_KB = {"optimal": 285_873, "pofo_time": 311_808}
PRINTED_MS = {"optimal": 82.36, "pofo_time": 94.79}
RATIO = PRINTED_KB["optimal"] / PRINTED_KB["pofo_time"]
LESS_TIME = 1 - PRINTED_MS["optimal"] / PRINTED_MS["pofo_time"]


def pairs(results: Results) -> pd.DataFrame:
    """POFO's schedules, and ours in the printed ratio of each one's own peak, on each bus."""
    frame = planned(results.frame)
    found = []
    for board, here in frame.groupby("board", sort=False):
        pofo = here[here["method"] == "pofo_time"].drop_duplicates("peak_bytes")
        ours = here[here["method"] == OURS].set_index("ram_budget_bytes")
        for row in pofo.itertuples():
            budget = int(row.peak_bytes * RATIO)
            if budget in ours.index:
                mine = ours.loc[budget]
                found.append(
                    {
                        "board": str(board),
                        "pofo_bytes": int(row.peak_bytes),
                        "pofo_time": row.time_s / row.plain_time_s,
                        "pofo_pages": int(row.page_ins),
                        "ours_bytes": int(mine["peak_bytes"]),
                        "ours_time": mine["time_s"] / row.plain_time_s,
                    }
                )
    columns = ["board", "pofo_bytes", "pofo_time", "pofo_pages", "ours_bytes", "ours_time"]
    pairs = pd.DataFrame(found, columns=columns).sort_values(["board", "pofo_bytes"], ascending=[True, False])
    return pairs.assign(less_time=1 - pairs["ours_time"] / pairs["pofo_time"])


def draw(results: Results) -> dict[str, Figure]:
    """Bars of peak and time, ours over POFO's, each pair, the printed one first."""
    rows = pairs(results)
    rows = rows[rows["board"] == "tx2"]
    figure, axes = new_figure(7.0, 2.2, columns=2)
    printed = [RATIO, *(rows["ours_bytes"] / rows["pofo_bytes"])], [1 - LESS_TIME, *(1 - rows["less_time"])]
    names = ["printed", *(f"{count / 1000:.0f} kB" for count in rows["pofo_bytes"])]
    for axis, values, title in zip(axes, printed, ("peak memory, of POFO's", "time, of POFO's"), strict=True):
        bars = axis.bar(names, values, color=style_of(OURS).colour, edgecolor=INK, linewidth=0.5, width=0.6)
        bars[0].set(facecolor="white", hatch="////")
        for text in axis.bar_label(bars, [f"{value:.3f}" for value in values], label_type="center", fontsize=7):
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
        axis.axhline(1, color=INK, linewidth=0.8, linestyle="--")
        axis.set_ylim(0, 1.08)
        axis.set_title(title, fontsize=8, color=INK)
        axis.set_xlabel("POFO's peak", fontsize=7, color=INK)
        axis.tick_params(labelsize=7)
    return {"table_3.png": figure}


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    rows = pairs(results)
    return {
        "printed_ours": _printed("optimal"),
        "printed_pofo": _printed("pofo_time"),
        "less_memory": percent(1 - RATIO),
        "less_time": percent(LESS_TIME),
        "throughput": percent(1 / (1 - LESS_TIME) - 1),
        "table": table(
            [
                "board",
                "POFO's peak, B",
                "POFO's time",
                "POFO's page-ins",
                "poet's peak, B",
                "poet's time",
                "less time, %",
            ],
            [
                [
                    *(row.board, f"{row.pofo_bytes:,}", f"{row.pofo_time:.4f}\u00d7", str(row.pofo_pages)),
                    f"{row.ours_bytes:,}",
                    *(f"{row.ours_time:.4f}\u00d7", percent(row.less_time)),
                ]
                for row in rows.itertuples()
            ],
        ),
        **_at_224_pixels(),
        "range": f"{percent(rows['less_time'].min())} to {percent(rows['less_time'].max())}",
    }


def _at_224_pixels() -> dict[str, str]:
    """What one image takes by the paper's own graph, and what a core of the TX2 can do."""
    store_all = paper_subject("resnet18", "m4").store_all
    flop, printed_s = store_all.time_s * published("m4").flops_per_s, PRINTED_MS[OURS] / 1000
    return {
        "image": f"{store_all.peak_bytes / 1e6:.1f} MB",
        "images": f"{1000 * PRINTED_KB[OURS] / store_all.peak_bytes:.1f}",
        "printed_time": f"{PRINTED_MS[OURS]} ms",
        "flop": f"{flop / 1e9:.1f}",
        "rate": f"{flop / printed_s / 1e9:.0f}",
        "peak": f"{published('tx2').flops_per_s / 1e9:.0f}",
    }


def _printed(method: str) -> str:
    return f"{PRINTED_KB[method]:,} kB and {PRINTED_MS[method]} ms"
