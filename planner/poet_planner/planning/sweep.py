# SPDX-License-Identifier: Apache-2.0
"""Many budgets and deadlines of one problem: energy against RAM, as the POET paper's Figure 3 shows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash
from poet_profiles.whole_file import write_whole

from poet_planner.planning.pipeline import plan
from poet_planner.solve import NoScheduleError, OptimiseOptions


@dataclass(frozen=True)
class Point:
    """One budget and deadline, and the plan for it; ``status`` is "none" where there is no schedule."""

    graph_hash: str
    ram_budget_bytes: int
    deadline_s: float | None
    status: str
    energy_j: float | None = None
    overhead: float | None = None
    bound_j: float | None = None
    gap: float | None = None
    time_s: float | None = None
    peak_bytes: int | None = None
    recomputes: int | None = None
    page_ins: int | None = None
    page_outs: int | None = None


def sweep(
    graph: Graph, budgets: Iterable[tuple[int, float | None]], options: OptimiseOptions, jobs: int
) -> Iterator[Point]:
    """Plan every pair of RAM budget and deadline, verified, in the order in which they finish.

    Runs on joblib's default backend; `joblib.parallel_config` around it puts it on a cluster.
    """
    from joblib import Parallel, delayed

    quiet = replace(options, progress=None)
    tasks = [delayed(_plan)(graph, ram_bytes, deadline_s, quiet) for ram_bytes, deadline_s in budgets]
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(tasks)


def read_points(path: Path, graph: Graph) -> list[Point]:
    """The points of an earlier sweep of the same graph.

    Raises
    ------
    UserError
        If the file is not a sweep's, or another graph's.
    """
    import csv

    with path.open(newline="") as stream:
        rows = csv.DictReader(stream)
        if rows.fieldnames != [field.name for field in fields(Point)]:
            raise UserError(f"{path}: is not a file of this sweep; name another --out")
        try:
            points = [_point(row) for row in rows]
        except (ValueError, TypeError) as error:
            raise UserError(f"{path}: line {rows.line_num}: {error}; mend the line or name another --out") from None
    if any(point.graph_hash != graph_hash(graph) for point in points):
        raise UserError(f"{path}: holds a sweep of another graph; name another --out")
    return points


def _point(row: dict[str, str]) -> Point:
    """A row of the CSV; a blank cell is None."""
    whole = {"ram_budget_bytes", "peak_bytes", "recomputes", "page_ins", "page_outs"}
    figures: dict[str, Any] = {name: None if cell == "" else cell for name, cell in row.items()}
    for name in figures.keys() - {"graph_hash", "status"}:
        if figures[name] is not None:
            figures[name] = int(figures[name]) if name in whole else float(figures[name])
    return Point(**figures)


def write_points(points: Iterable[Point], path: Path) -> None:
    """Write the CSV, whole."""
    import csv
    from io import StringIO

    text = StringIO()
    table = csv.DictWriter(text, [field.name for field in fields(Point)], lineterminator="\n")
    table.writeheader()
    table.writerows(asdict(point) for point in in_order(points))
    write_whole(path, text.getvalue())


def in_order(points: Iterable[Point]) -> list[Point]:
    """Points by deadline, the loosest first, and within one by budget."""
    return sorted(points, key=lambda p: (-(p.deadline_s or float("inf")), p.ram_budget_bytes))


def _plan(graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> Point:
    try:
        figures = plan(graph, ram=ram_bytes, deadline=deadline_s, parameters="resident", options=options).summary
    except NoScheduleError:
        return Point(graph_hash(graph), ram_bytes, deadline_s, "none")
    shared = {field.name: getattr(figures, field.name) for field in fields(Point)}
    return Point(**shared)


def write_picture(graph: Graph, points: list[Point], path: Path) -> None:
    """Energy above the store-all schedule against RAM, one line a deadline; the band reaches down to the bound."""
    from poet_planner.report.figures import INK, new_figure

    figure, (axis,) = new_figure(7.5, 4.4)
    store_all_j = sum(node.energy_j for node in graph.nodes)
    for deadline_s in dict.fromkeys(point.deadline_s for point in points):
        line = [point for point in points if point.deadline_s == deadline_s and point.energy_j is not None]
        rams = [point.ram_budget_bytes / 1024 for point in line]
        above = [100 * ((point.energy_j or 0.0) / store_all_j - 1) for point in line]
        proven = [100 * max(0.0, (point.bound_j or 0.0) / store_all_j - 1) for point in line]
        label = "no deadline" if deadline_s is None else f"within {deadline_s:.4g} s"
        (drawn,) = axis.plot(rams, above, marker="o", markersize=4, linewidth=1.3, label=label)
        axis.fill_between(rams, proven, above, color=drawn.get_color(), alpha=0.2, linewidth=0)
    axis.set_ylim(bottom=0)
    axis.set_xlabel("RAM budget, KB", color=INK)
    axis.set_ylabel("energy above the store-all schedule, %", color=INK)
    axis.legend(frameon=False, fontsize=8)
    title = f"{graph.name}: what less RAM costs (bands: not proven to be needed)"
    figure.suptitle(title, fontsize=10, color=INK, parse_math=False)
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    write_whole(path, buffer.getvalue())
