# SPDX-License-Identifier: Apache-2.0
"""The paper's Figure 5: poet and Capuchin, ResNet-18 on the A72."""

from __future__ import annotations

from matplotlib.figure import Figure
from poet_planner.comparison.pictures.energy_vs_ram import overhead_log
from poet_planner.comparison.pictures.method_styles import style_of

from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import OURS, Results, added, planned

METHODS = ("optimal", "capuchin", "capuchin_energy", "capuchin_page_first", "msps_no_release", "msps", "dtr_no_release")
PRINTED = (0.73, 1.41)
PLOTTED = "msps_no_release"


def draw(results: Results) -> dict[str, Figure]:
    """Overheads on a logarithmic axis."""
    return {"figure_5.png": overhead_log([point for point in results.points if point.method in METHODS])}


def facts(results: Results) -> dict[str, str]:
    """What the page says of it."""
    frame = results.frame
    methods = [method for method in METHODS if method in set(frame["method"])]
    of = {method: planned(frame[frame["method"] == method]) for method in methods}
    plotted = of[PLOTTED].sort_values("ram_of_plain", ascending=False)
    inside = plotted[plotted["overhead"].between(*PRINTED)]["ram"]
    taken = f"It takes the printed range at {inside.iloc[0]} to {inside.iloc[-1]} of the RAM." if len(inside) else ""
    return {
        "table": table(
            ["RAM", *(style_of(method).label for method in methods)],
            [
                [ram, *(added(frame[frame["ram"] == ram], method) for method in methods)]
                for ram in dict.fromkeys(frame.sort_values("ram_of_plain", ascending=False)["ram"])
            ],
        ),
        "printed": f"{percent(PRINTED[0])} to {percent(PRINTED[1])}",
        "ours": percent(of[OURS]["overhead"].max()),
        "page_first": percent(of["capuchin_page_first"]["overhead"].max()),
        "plotted": f"{percent(plotted['overhead'].min())} to {percent(plotted['overhead'].max())}",
        "inside": taken or "It does not come into the printed range.",
    }
