# SPDX-License-Identifier: Apache-2.0
"""Pictures of a plan: the schedule (the POET paper's Figure 2), RAM over time, and where the energy goes."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import platformdirs
from poet_profiles.cache import cache_folder, is_writable
from poet_profiles.graph import Graph, Node
from poet_profiles.schedule import Action, Schedule
from poet_profiles.whole_file import write_whole

from poet_planner.report.quantities import byte_unit, bytes_text, energy_text, time_text
from poet_planner.schedule.timeline import Kind, Moment, ram_over_time, timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by colour-blind readers too.
COLOURS = {
    Kind.COMPUTE: "#0072B2",
    Kind.RECOMPUTE: "#E69F00",
    Kind.REFETCH: "#56B4E9",
    Kind.PAGE_IN: "#009E73",
    Kind.PAGE_OUT: "#CC79A7",
}
LABELS = {
    Kind.COMPUTE: "computed",
    Kind.RECOMPUTE: "recomputed",
    Kind.REFETCH: "fetched again",
    Kind.PAGE_IN: "paged in",
    Kind.PAGE_OUT: "paged out",
}
HELD = "#D5DCE4"
ABSENT = "#FFFFFF"
INK = "#30363D"
LABEL_LENGTH = 40
# Names under the columns of schedule.png at most, and cells a side below which a mark is drawn larger than its cell.
MOST_NAMES = 60
MOST_CELLS = 150


def write_pictures(graph: Graph, schedule: Schedule, store_all: Schedule, folder: Path) -> None:
    """Write `schedule.png`, `ram.png` and `energy.png`; ``store_all`` is the graph's store-all schedule."""
    moments = timeline(graph, schedule)
    save(_schedule_figure(graph, schedule, moments), folder / "schedule.png")
    save(_ram_figure(graph, schedule, moments, timeline(graph, store_all)), folder / "ram.png")
    save(_energy_figure(graph, schedule, moments), folder / "energy.png")


def new_figure(width: float, height: float, columns: int = 1, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure that needs no display and no global state, and its panels row by row."""
    usual = platformdirs.user_config_path("matplotlib"), platformdirs.user_cache_path("matplotlib")
    if not all(is_writable(folder) for folder in usual):
        os.environ.setdefault("MPLCONFIGDIR", str(cache_folder("matplotlib")))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=140, layout="constrained")
    FigureCanvasAgg(figure)
    axes = list(np.ravel(figure.subplots(rows, columns)))
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(colors=INK, labelsize=8)
    return figure, axes


def save(figure: Figure, path: Path) -> None:
    """Write a figure, whole, as PNG or SVG by the path's ending; equal figures give equal files."""
    import matplotlib

    buffer = BytesIO()
    kind = path.suffix.removeprefix(".")
    with matplotlib.rc_context({"svg.hashsalt": "poet"}):
        figure.savefig(buffer, format=kind, metadata={"Date": None} if kind == "svg" else None)
    write_whole(path, buffer.getvalue())


def _schedule_figure(graph: Graph, schedule: Schedule, moments: list[Moment]) -> Figure:
    """Time downwards, one row a compute or transfer; nodes across; a grey cell is a value held in RAM."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    nodes = _by_first_computation(graph, schedule)
    held, shown = _held(nodes, schedule, moments)
    rows, columns = held.shape
    figure, (axis,) = new_figure(min(14.0, max(6.0, 2.6 + columns * 0.11)), min(11.0, max(4.5, 1.8 + rows * 0.055)))
    axis.pcolormesh(held, cmap=ListedColormap([ABSENT, HELD]), vmin=0, vmax=1, rasterized=True)
    _mark(axis, shown, {node.id: index for index, node in enumerate(nodes)}, rows, columns)
    axis.set(xlim=(0, columns), ylim=(rows, 0))
    axis.set_xlabel("operator, in the order of first computation", color=INK)
    axis.set_ylabel("time (one row a step)", color=INK)
    first_backward = _first_backward(nodes)
    if first_backward:
        axis.axvline(first_backward, color=INK, linewidth=0.8, linestyle=":")
        axis.annotate(
            "backward \u2192", (first_backward, 0), (3, -10), textcoords="offset points", fontsize=8, color=INK
        )
    _operator_ticks(axis, nodes)
    _time_ticks(axis, shown)
    patches = [Patch(facecolor=COLOURS[kind], label=LABELS[kind]) for kind in _kinds(moments)]
    patches.append(Patch(facecolor=HELD, label="held in RAM"))
    figure.legend(handles=patches, loc="outside lower center", ncols=6, frameon=False, fontsize=8)
    figure.suptitle(_title(graph, schedule), fontsize=10, color=INK, parse_math=False)
    return figure


def _kinds(moments: list[Moment]) -> list[Kind]:
    """What steps spend energy on; fetching again only where it happens."""
    return [kind for kind in COLOURS if kind is not Kind.REFETCH or any(m.kind is kind for m in moments)]


def _by_first_computation(graph: Graph, schedule: Schedule) -> list[Node]:
    """Nodes in the order in which the schedule computes them first, so that what is computed once is a diagonal."""
    order = dict.fromkeys(step.target for step in schedule.steps if step.do is Action.COMPUTE)
    nodes = {node.id: node for node in graph.nodes}
    return [nodes[id] for id in order]


def _first_backward(nodes: list[Node]) -> int:
    """Where the backward pass begins: few nodes of either pass stand on the wrong side (updates may stand anywhere)."""
    backward = np.array([node.backward for node in nodes])
    backward_before = np.concatenate([[0], np.cumsum(backward)])
    forward_behind = np.concatenate([np.cumsum(~backward[::-1])[::-1], [0]])
    return int(np.argmin(backward_before + forward_behind))


def _held(nodes: list[Node], schedule: Schedule, moments: list[Moment]) -> tuple[np.ndarray, list[Moment]]:
    """Whether a node has a value in RAM, by row and node, and the moment of each row; frees take no row."""
    column = {node.id: index for index, node in enumerate(nodes)}
    owner = {value.id: node.id for node in nodes for value in node.values}
    held: dict[str, set[str]] = {node.id: set() for node in nodes}
    sized = {node.id: [value.id for value in node.values if value.bytes] for node in nodes}
    taken = {node.id: node.takes_over.values() for node in nodes}
    rows, shown = [], []
    for step, moment in zip(schedule.steps, moments, strict=True):
        if step.do is Action.FREE:
            held[moment.node].discard(step.target)
            continue
        row = np.zeros(len(nodes), dtype=np.uint8)
        for id, values in held.items():
            row[column[id]] = bool(values)
        rows.append(row)
        shown.append(moment)
        if step.do is Action.COMPUTE:
            for id in taken[step.target]:
                held[owner[id]].discard(id)
            held[step.target].update(sized[step.target])
        elif step.do is Action.PAGE_IN:
            held[owner[step.target]].add(step.target)
    return np.array(rows), shown


def _mark(axis: Axes, shown: list[Moment], column: dict[str, int], rows: int, columns: int) -> None:
    """A coloured cell for each compute and transfer; larger than a cell where cells are too small to see."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    width, height = max(1.0, columns / MOST_CELLS), max(1.0, rows / MOST_CELLS)
    for kind, colour in COLOURS.items():
        marks = [
            Rectangle((column[moment.node] + (1 - width) / 2, row + (1 - height) / 2), width, height)
            for row, moment in enumerate(shown)
            if moment.kind is kind
        ]
        axis.add_collection(PatchCollection(marks, facecolor=colour, linewidth=0))


def _operator_ticks(axis: Axes, nodes: list[Node]) -> None:
    """Names under the columns: all of them, or every so manieth."""
    every = -(-len(nodes) // MOST_NAMES)
    places = range(0, len(nodes), every)
    labels = [_shortened(nodes[place].id) for place in places]
    axis.set_xticks([place + 0.5 for place in places], labels, rotation=90, fontsize=6, parse_math=False)


def _shortened(id: str) -> str:
    """An id as long as a label may be; its end tells operators of a module apart."""
    return id if len(id) <= LABEL_LENGTH else f"…{id[1 - LABEL_LENGTH :]}"


def _time_ticks(axis: Axes, shown: list[Moment]) -> None:
    """Seconds beside about ten of the rows."""
    every = max(1, len(shown) // 10)
    places = range(0, len(shown), every)
    axis.set_yticks([place + 0.5 for place in places], [time_text(shown[place].start_s) for place in places])


def _ram_figure(graph: Graph, schedule: Schedule, moments: list[Moment], store_all: list[Moment]) -> Figure:
    """RAM held over time of the plan and of the store-all schedule, and the budget."""
    figure, (axis,) = new_figure(8.5, 4.2)
    unit, scale = byte_unit(max(moment.ram_bytes for moment in store_all + moments))
    times_s, ram = _curve(moments, scale)
    axis.fill_between(times_s, ram, step="post", color=COLOURS[Kind.COMPUTE], alpha=0.25, linewidth=0)
    axis.step(times_s, ram, where="post", color=COLOURS[Kind.COMPUTE], linewidth=1.2, label="this plan")
    axis.step(
        *_curve(store_all, scale), where="post", color=INK, linewidth=0.9, linestyle=":", label="store-all schedule"
    )
    axis.axhline(schedule.ram_budget_bytes / scale, color="#D55E00", linewidth=1.2, linestyle="--", label="budget")
    if graph.resident_bytes:
        axis.fill_between(
            [0, times_s[-1]], graph.resident_bytes / scale, color="#8C959F", alpha=0.5, linewidth=0, label="resident"
        )
    axis.set_xlim(left=0)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("time, s", color=INK)
    axis.set_ylabel(f"RAM, {unit}", color=INK)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(_title(graph, schedule), fontsize=10, color=INK, parse_math=False)
    return figure


def _curve(moments: list[Moment], scale: float) -> tuple[list[float], list[float]]:
    times_s, ram_bytes = ram_over_time(moments)
    return times_s, [held / scale for held in ram_bytes]


def _energy_figure(graph: Graph, schedule: Schedule, moments: list[Moment]) -> Figure:
    """Left: the energy of the plan beside that of the store-all schedule. Right: what the plan adds, split."""
    figure, (total, added) = new_figure(8.5, 3.6, columns=2)
    energy = {kind: sum(m.energy_j for m in moments if m.kind is kind) for kind in _kinds(moments)}
    unit, scale = _energy_unit(sum(energy.values()))
    store_all = sum(node.energy_j for node in graph.nodes)
    total.barh(["store-all"], [store_all / scale], color=COLOURS[Kind.COMPUTE])
    left = 0.0
    for kind, joules in energy.items():
        total.barh(["this plan"], [joules / scale], left=left / scale, color=COLOURS[kind], label=LABELS[kind])
        left += joules
    total.invert_yaxis()
    total.set_xlabel(f"energy a step, {unit}", color=INK)
    total.set_xlim(0, max(left, store_all, 1e-30) / scale * 1.08)
    unit, scale = _energy_unit(left - energy[Kind.COMPUTE])
    extra = {kind: joules for kind, joules in energy.items() if kind is not Kind.COMPUTE}
    bars = added.barh(
        [LABELS[k] for k in extra], [j / scale for j in extra.values()], color=[COLOURS[k] for k in extra]
    )
    added.bar_label(bars, [f"{j / store_all:.2%}" if store_all else "" for j in extra.values()], padding=3, fontsize=8)
    added.invert_yaxis()
    added.set_xlim(0, max(*extra.values(), 1e-30) / scale * 1.2)
    added.set_xlabel(f"above the store-all schedule, {unit}", color=INK)
    figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    figure.suptitle(_title(graph, schedule), fontsize=10, color=INK, parse_math=False)
    return figure


def _energy_unit(joules: float) -> tuple[str, float]:
    for unit, scale in (("J", 1.0), ("mJ", 1e-3), ("\u00b5J", 1e-6)):
        if joules >= scale:
            return unit, scale
    return "nJ", 1e-9


def _title(graph: Graph, schedule: Schedule) -> str:
    cost = f"{energy_text(schedule.energy_j)}, {time_text(schedule.time_s)} a step"
    return f"{graph.name}: {cost} within {bytes_text(schedule.ram_budget_bytes)}"
