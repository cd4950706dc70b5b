# SPDX-License-Identifier: Apache-2.0
"""How pictures look: the colours, shapes and hatches of what steps do, and figures as PNG and SVG.

Nothing is said by colour alone. What is computed and what is recomputed differ in lightness, transfers have shapes and
hatches of their own: so pictures can be read by colour-blind people and in grey print.
"""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
from poet_profiles.files.cache import cache_folder, is_writable
from poet_profiles.files.whole_file import write_whole
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.report.quantities import bytes_text, energy_text, time_text
from poet_planner.schedule.timeline import CostTerm, Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = {
    CostTerm.COMPUTE: "#0072B2",
    CostTerm.CARD: "#3F1A57",
    CostTerm.RECOMPUTE: "#E69F00",
    CostTerm.REFETCH: "#56B4E9",
    CostTerm.PAGE_IN: "#009E73",
    CostTerm.PAGE_OUT: "#CC79A7",
}
LABELS = {
    CostTerm.COMPUTE: "computed",
    CostTerm.CARD: "card: kept tensors",
    CostTerm.RECOMPUTE: "recomputed",
    CostTerm.REFETCH: "fetched again",
    CostTerm.PAGE_IN: "paged in",
    CostTerm.PAGE_OUT: "paged out",
}
# Of transfers: a page leaves downwards and comes back upwards.
MARKERS = {CostTerm.REFETCH: "D", CostTerm.PAGE_IN: "^", CostTerm.PAGE_OUT: "v"}
HATCHES = {CostTerm.CARD: "....", CostTerm.REFETCH: "xxxx", CostTerm.PAGE_IN: "////", CostTerm.PAGE_OUT: "\\\\\\\\"}
HELD = "#D5DCE4"
ABSENT = "#FFFFFF"
INK = "#30363D"
BUDGET = "#D55E00"


def new_figure(
    width: float, height: float, columns: int = 1, rows: int = 1, **layout: Any
) -> tuple[Figure, list[Axes]]:
    """A figure that needs no display and no global state, and its panels row by row.

    ``layout`` goes to matplotlib's ``Figure.subplots``.
    """
    usual = platformdirs.user_config_path("matplotlib"), platformdirs.user_cache_path("matplotlib")
    if not all(is_writable(folder) for folder in usual):
        os.environ.setdefault("MPLCONFIGDIR", str(cache_folder("matplotlib")))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(np.ravel(figure.subplots(rows, columns, **layout)))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
    return figure, axes


def kinds_of(moments: list[Moment]) -> list[CostTerm]:
    """What the steps spend energy on, in the order of `COLOURS`."""
    present = {moment.kind for moment in moments}
    present |= {term for moment in moments for term, joules in moment.terms_j.items() if joules}
    return [kind for kind in COLOURS if kind in present]


def time_label(graph: Graph) -> str:
    """Of the axis of time. One micro-batch is drawn, at the times of all."""
    parts = graph.micro_batches
    return "time, s" if parts == 1 else f"time of all {parts} micro-batches, s; one is drawn"


def store_all_label(graph: Graph) -> str:
    return "store-all schedule" + (" of a micro-batch" if graph.micro_batches > 1 else "")


def title(graph: Graph, schedule: Schedule, origin: str) -> str:
    """What plan a picture shows, and where its costs come from."""
    cost = f"{energy_text(schedule.energy_j)}, {time_text(schedule.time_s)} a step"
    plan = f"{graph.name}: {cost} within {bytes_text(schedule.ram_budget_bytes)}"
    return f"{plan}\n{origin}" if origin else plan


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole, as PNG or SVG by the path's ending."""
    write_whole(path, _file(figure, path.suffix.removeprefix(".")))


def svg_text(figure: Figure) -> str:
    """The figure as SVG."""
    return _file(figure, "svg").decode()


def _file(figure: Figure, kind: str) -> bytes:
    """Equal figures give equal files; text stays text in SVG."""
    from matplotlib import rc_context

    buffer = BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "poet"}):
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()
