# SPDX-License-Identifier: Apache-2.0
"""The same figures by the emulated nRF52840's own profile, whose kernels are far more efficient."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from poet_planner.comparison.pictures.energy_vs_ram import overhead_log
from poet_planner.comparison.pictures.method_styles import style_of

from benchmarks.evaluation.boards import emulated, published
from benchmarks.evaluation.figure_3 import DRAWN
from benchmarks.evaluation.markdown import NONE, percent, table
from benchmarks.evaluation.results import OURS, OWN, Results, added, planned


def draw(results: Results, by_published: Results) -> dict[str, Figure]:
    """What each method adds by the published constants, and beside that by the emulated profile."""
    points = [point for point in (*by_published.points, *results.points) if point.method in DRAWN]
    return {"nrf52840.png": overhead_log(points)}


def facts(results: Results, by_published: Results) -> dict[str, str]:
    """What the page says of it: plans by the emulated profile, beside those for the same networks and RAM by m4's."""
    frame = results.frame
    ours = planned(frame[frame["method"] == OURS])
    others = planned(by_published.frame[by_published.frame["method"] == OURS])
    m4, nrf = published("m4"), emulated("nrf52840")
    least_first = frame.sort_values(["model", "ram_of_plain"])
    return {
        "cheaper": f"{m4.j_per_flop / nrf.j_per_flop:.0f}",
        "table": table(
            [
                *("network", "RAM", "m4, published: poet", "pages", "paging only"),
                *("nrf52840, emulated: poet", "pages", "paging only", "cheapest other method"),
            ],
            [
                [*place, *_row(by_published.frame, *place), *_row(frame, *place), _cheapest(frame, *place)]
                for place in dict.fromkeys(zip(least_first["model"], least_first["ram"], strict=True))
            ],
        ),
        "byte": f"{float(f'{nrf.byte_in_flops:.3g}'):,.0f}",
        "printed_byte": f"{m4.byte_in_flops:.0f}",
        "plans": str(len(ours)),
        "paging": str((ours["page_ins"] > 0).sum()),
        "paging_by_published": str((others["page_ins"] > 0).sum()),
        "paging_only": _range(frame, "paging_only"),
        "paging_only_by_published": _range(by_published.frame, "paging_only"),
    }


def _at(frame: pd.DataFrame, model: str, ram: str) -> pd.DataFrame:
    return planned(frame[(frame["model"] == model) & (frame["ram"] == ram)]).set_index("method")


def _row(frame: pd.DataFrame, model: str, ram: str) -> list[str]:
    rows, here = frame[(frame["model"] == model) & (frame["ram"] == ram)], _at(frame, model, ram)
    pages = f"{here.loc[OURS, 'page_ins']:.0f}" if OURS in here.index else NONE
    return [added(rows, OURS), pages, added(rows, "paging_only")]


def _cheapest(frame: pd.DataFrame, model: str, ram: str) -> str:
    here = _at(frame, model, ram)
    others = here[~here.index.isin([*OWN, "store_all"])]["overhead"]
    return NONE if others.empty else f"{percent(others.min())} {style_of(str(others.idxmin())).label}"


def _range(frame: pd.DataFrame, method: str) -> str:
    overheads = planned(frame[frame["method"] == method])["overhead"]
    return f"{percent(overheads.min())} to {percent(overheads.max())}"
