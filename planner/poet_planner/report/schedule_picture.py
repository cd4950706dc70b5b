# SPDX-License-Identifier: Apache-2.0
"""The picture of a schedule, like the POET paper's Figure 2: time downwards, operators across."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.graph import Graph, Node
from poet_profiles.schedule import Action, Schedule

from poet_planner.report.figures import (
    ABSENT,
    COLOURS,
    HELD,
    INK,
    LABELS,
    MARKERS,
    kinds_of,
    new_figure,
    time_label,
    title,
)
from poet_planner.report.module_groups import Group, in_words, module_groups
from poet_planner.report.quantities import time_text
from poet_planner.report.tiles import chains
from poet_planner.schedule.timeline import CostTerm, Moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABEL_LENGTH = 40
# Operators that are named one by one at most; more are labelled by module.
MOST_NAMES = 60
# Transfers of a kind that are drawn large, with an outline, at most.
MOST_OUTLINED = 100
# Marks are no smaller than the picture's width, or height, divided by this.
MOST_CELLS = 160
# Of the grey where time is to scale.
SCALE_ROWS = 500
# Up to so many cells across or down are larger than dots; more are averaged, each split so that edges are not blurred.
MOST_SHARP = 500
LEAST_DOTS = 1200


@dataclass(frozen=True)
class Grid:
    """What is held when."""

    nodes: list[Node]  # the columns, in the order of first computation: what is computed once is then a diagonal
    # The rows: computes and transfers. A free takes no time, and no row.
    moments: list[Moment]
    held: NDArray[np.bool_]  # whether the node has a value in RAM when the row's step begins


def grid(graph: Graph, schedule: Schedule, moments: list[Moment]) -> Grid:
    """The grid of a schedule; ``moments`` are its timeline."""
    by_id = {node.id: node for node in graph.nodes}
    order = dict.fromkeys(step.target for step in schedule.steps if step.do is Action.COMPUTE)
    column = {id: index for index, id in enumerate(order)}
    owner = {value.id: column[id] for id in order for value in by_id[id].values}
    sized = {value.id for id in order for value in by_id[id].values if value.bytes}
    count = np.zeros(len(column), dtype=int)
    rows, shown = [], []
    for step, moment in zip(schedule.steps, moments, strict=True):
        if step.do is Action.FREE:
            count[owner[step.target]] -= step.target in sized
            continue
        rows.append(count > 0)
        shown.append(moment)
        if step.do is Action.COMPUTE:
            node = by_id[step.target]
            for taken in node.takes_over.values():
                count[owner[taken]] -= taken in sized
            count[column[node.id]] += sum(value.bytes > 0 for value in node.values)
        elif step.do is Action.PAGE_IN:
            count[owner[step.target]] += step.target in sized
    return Grid([by_id[id] for id in order], shown, np.array(rows))


def schedule_figure(
    graph: Graph, schedule: Schedule, moments: list[Moment], to_scale: bool = False, origin: str = ""
) -> Figure:
    """Time downwards: one row a compute or transfer, or ``to_scale``; a grey cell is a value held in RAM."""
    from matplotlib.patches import Patch

    shown = grid(graph, schedule, moments)
    rows, columns = shown.held.shape
    height = 6.4 if to_scale else min(8.5, max(4.5, 1.8 + rows * 0.07))
    figure, (axis,) = new_figure(min(9.5, max(6.0, 2.2 + columns * 0.14)), height)
    edges_s = _edges_s(shown.moments) if to_scale else np.arange(rows + 1.0)
    _shade(axis, shown.held, edges_s, to_scale)
    _mark(axis, shown, edges_s, to_scale)
    axis.set(xlim=(0, columns), ylim=(edges_s[-1], edges_s[0]))
    axis.set_ylabel(time_label(graph) if to_scale else "time (one row a step)", color=INK)
    if not to_scale:
        _time_ticks(axis, shown.moments)
    _separate_passes(axis, shown.nodes)
    _mark_chains(axis, shown.nodes)
    _label_operators(axis, shown.nodes)
    kinds = kinds_of(moments)
    key: list[Any] = [Patch(facecolor=COLOURS[kind], label=LABELS[kind]) for kind in kinds if kind not in MARKERS]
    key += [_marker_key(kind) for kind in kinds if kind in MARKERS]
    key.append(Patch(facecolor=HELD, label="grey: held in RAM"))
    figure.legend(handles=key, loc="outside lower center", ncols=6, frameon=False, fontsize=8, handlelength=1.4)
    figure.suptitle(title(graph, schedule, origin), fontsize=10, color=INK, parse_math=False)
    return figure


def first_backward(nodes: list[Node]) -> int:
    """Where the backward pass begins: few nodes of either pass stand on the wrong side (updates may stand anywhere)."""
    backward = np.array([node.backward for node in nodes])
    backward_before = np.concatenate([[0], np.cumsum(backward)])
    forward_after = np.concatenate([np.cumsum(~backward[::-1])[::-1], [0]])
    return int(np.argmin(backward_before + forward_after))


def _edges_s(moments: list[Moment]) -> NDArray[np.float64]:
    """Begin of each row and end of the last, never earlier than the row before."""
    starts_s = [moment.start_s for moment in moments]
    return np.maximum.accumulate([*starts_s, max(moment.end_s for moment in moments)])


def _shade(axis: Axes, held: NDArray[np.bool_], edges_s: NDArray[np.float64], to_scale: bool) -> None:
    """Grey cells. Where cells are smaller than dots, a dot is as grey as cells are held on average."""
    from matplotlib.colors import LinearSegmentedColormap

    if to_scale:
        times_s = edges_s[-1] * (np.arange(SCALE_ROWS) + 0.5) / SCALE_ROWS
        held = held[np.clip(np.searchsorted(edges_s, times_s, side="right") - 1, 0, len(held) - 1)]
    extent = (0, held.shape[1], edges_s[-1], edges_s[0])
    is_sharp = max(held.shape) <= MOST_SHARP
    dots = held.astype(np.float32)
    for way, cells in enumerate(held.shape):
        dots = dots if is_sharp else np.repeat(dots, -(-LEAST_DOTS // cells), axis=way)
    axis.imshow(
        dots,
        cmap=LinearSegmentedColormap.from_list("held", [ABSENT, HELD]),
        vmin=0,
        vmax=1,
        aspect="auto",
        extent=extent,
        interpolation="nearest" if is_sharp else "auto",
        interpolation_stage="data",
    )


def _mark(axis: Axes, shown: Grid, edges_s: NDArray[np.float64], to_scale: bool) -> None:
    """A cell for each compute and a shape for each transfer; larger than its cell where that is too small to see."""
    column = {node.id: index for index, node in enumerate(shown.nodes)}
    for kind in COLOURS:
        rows = [row for row, moment in enumerate(shown.moments) if kind in moment.spans_s]
        x = np.array([column[shown.moments[row].node] for row in rows]) + 0.5
        starts, ends = np.array(rows, float), np.array(rows, float) + 1
        if to_scale:
            starts = np.array([shown.moments[row].start_s for row in rows])
            ends = np.array([shown.moments[row].end_s for row in rows])
        if kind in MARKERS:
            look: dict[str, Any] = {"marker": MARKERS[kind], "color": COLOURS[kind], "s": 8.0, "linewidths": 0.0}
            if len(rows) <= MOST_OUTLINED:
                look |= {"s": 42.0 if len(column) <= MOST_NAMES else 22.0, "edgecolors": INK, "linewidths": 0.5}
            axis.scatter(x, (starts + ends) / 2, zorder=3, clip_on=False, **look)
            if to_scale:
                axis.vlines(x, starts, ends, color=COLOURS[kind], linewidth=2.0)
        else:
            least = max(1.0, len(column) / MOST_CELLS), edges_s[-1] / MOST_CELLS
            parts = np.array([_part(shown.moments[row], kind) for row in rows]).reshape(-1, 2)
            _draw_cells(axis, x, starts, ends, least, parts, kind)


def _part(moment: Moment, kind: CostTerm) -> tuple[float, float]:
    """Begin and end of one kind of work within a step, as fractions of its time."""
    took_s = moment.end_s - moment.start_s
    start_s, end_s = moment.spans_s[kind]
    return ((start_s - moment.start_s) / took_s, (end_s - moment.start_s) / took_s) if took_s else (0.0, 1.0)


def _draw_cells(
    axis: Axes,
    x: NDArray[np.float64],
    starts: NDArray[np.float64],
    ends: NDArray[np.float64],
    least: tuple[float, float],
    parts: NDArray[np.float64],
    kind: CostTerm,
) -> None:
    """Cells as wide and as high as ``least`` at least, of each its part, from where to where of its height."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    width, least_height = least
    whole = np.maximum(ends - starts, least_height)
    tops = (starts + ends - whole) / 2 + parts[:, 0] * whole
    corners = zip(x - width / 2, tops, (parts[:, 1] - parts[:, 0]) * whole, strict=True)
    cells = [Rectangle((left, top), width, height) for left, top, height in corners]
    axis.add_collection(PatchCollection(cells, facecolor=COLOURS[kind], linewidth=0))


def _marker_key(kind: CostTerm) -> Any:
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {"marker": MARKERS[kind], "markersize": 6, "markeredgecolor": INK, "markeredgewidth": 0.5}
    return Line2D([], [], color=COLOURS[kind], linestyle="", label=LABELS[kind], **look)


def _separate_passes(axis: Axes, nodes: list[Node]) -> None:
    first = first_backward(nodes)
    if first:
        axis.axvline(first, color=INK, linewidth=0.8, linestyle=":")
        axis.annotate("backward →", (first, 1), (3, -9), ("data", "axes fraction"), "offset points", fontsize=8)


def _mark_chains(axis: Axes, nodes: list[Node]) -> None:
    """A line above the columns of what is computed tile by tile, with the number of tiles."""
    across = axis.get_xaxis_transform()
    for run in chains(nodes):
        axis.hlines(1.012, run.first + 0.1, run.end - 0.1, color=INK, linewidth=2.0, transform=across, clip_on=False)
        place = (run.first + run.end) / 2, 1.018
        axis.annotate(f"{run.tiles} tiles", place, xycoords=across, ha="center", va="bottom", fontsize=8)


def _label_operators(axis: Axes, nodes: list[Node]) -> None:
    """A name under each column, or one under the columns of each module."""
    groups = [Group(node.id, place, place + 1) for place, node in enumerate(nodes)]
    what = "operator"
    if len(nodes) > MOST_NAMES:
        what = f"{len(nodes)} operators by module"
        runs, modules = chains(nodes), module_groups(nodes)
        apart = (one for one in modules if all(one.end <= run.first or run.end <= one.first for run in runs))
        groups = [*apart, *runs]
        gap = 0.002 * len(nodes)
        axis.hlines(
            [-0.01] * len(groups),
            [group.first + gap for group in groups],
            [group.end - gap for group in groups],
            color=INK,
            linewidth=2.0,
            transform=axis.get_xaxis_transform(),
            clip_on=False,
        )
        axis.tick_params(axis="x", length=0, pad=6)
    places = [(group.first + group.end) / 2 for group in groups]
    names = [_shortened(in_words(group.name)) for group in groups]
    axis.set_xticks(places, names, rotation=90, fontsize=7, parse_math=False)
    axis.set_xlabel(f"{what}, in the order of first computation", color=INK)


def _shortened(name: str) -> str:
    """A name as long as a label may be; its end tells operators of a module apart."""
    return name if len(name) <= LABEL_LENGTH else f"…{name[1 - LABEL_LENGTH :]}"


def _time_ticks(axis: Axes, shown: list[Moment]) -> None:
    """Times beside about ten of the rows."""
    every = max(1, len(shown) // 10)
    places = range(0, len(shown), every)
    labels = [time_text(shown[place].start_s) for place in places]
    # Of equal ones the last has its number.
    labels = [label if label not in labels[row + 1 :] else "" for row, label in enumerate(labels)]
    axis.set_yticks([place + 0.5 for place in places], labels)
