# SPDX-License-Identifier: Apache-2.0
"""`poet-plan compare`: every method on one problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.stopping import Stopped

from poet_planner.cli.option_groups import (
    BoardOptions,
    Json,
    LimitOptions,
    MemoryOptions,
    Methods,
    NetworkOptions,
    SearchOptions,
    TimeLimit,
    TrainingOptions,
    output_option,
    request_of,
    whole_batch,
)
from poet_planner.cli.tables import Form, TableForm, print_table

if TYPE_CHECKING:
    from poet_planner.comparison.compare import Setting
    from poet_planner.comparison.sweep_table import Point
    from poet_planner.planning.method import Method
    from poet_planner.solve import OptimiseOptions


def compare(
    context: typer.Context,
    network: NetworkOptions,
    board: BoardOptions,
    limits: LimitOptions,
    memory: MemoryOptions,
    training: TrainingOptions,
    search: SearchOptions,
    methods: Methods = "all",
    time_limit: TimeLimit = 10.0,
    out: Annotated[Path, output_option("--out", "-o", help="Folder for compare.csv, .png and .svg.")] = Path("compare"),
    as_json: Json = False,
    form: TableForm = None,
) -> None:
    """Plan one training step by every method, at the same costs, and show the energy that each adds.

    The optimiser starts from the others' plans. A method without a schedule within the limits is a row all the same.
    """
    from poet_profiles.files.whole_file import check_writable
    from poet_profiles.program.command_line import alone_in

    from poet_planner.comparison.compare import Setting, by_energy, chosen, subject_of, with_parts, write_picture
    from poet_planner.comparison.sweep_table import write_points
    from poet_planner.planning.bench import Bench
    from poet_planner.planning.pipeline import prepare
    from poet_planner.solve import OptimiseOptions
    from poet_planner.solve.milp.solvers import solver_named

    wanted = chosen(methods)
    solver_named(search.solver)
    check_writable(out / "compare.csv")
    alone_in(context, out)
    request = request_of(network, board, limits, whole_batch(memory), training)
    prepared = prepare(request)
    # Methods that page are given a graph that may be paged.
    forms = (prepared, *prepared.rivals)
    step = next((one.step for one in forms if not one.layout.early_updates), prepared.step)
    setting = Setting(subject_of(step, network.model, network.batch), prepared.budget_bytes, prepared.deadline_s)
    if any(method.in_parts for method in wanted):
        setting = with_parts(setting, Bench(request), step)
    options = OptimiseOptions(time_limit_s=time_limit, seed=search.seed, solver=search.solver)
    points = by_energy(_compared(setting, wanted, options))
    write_points(points, out / "compare.csv")
    for ending in ("png", "svg"):
        write_picture(setting, points, out / f"compare.{ending}")
    _print(points, out, as_json, form)


def _compared(setting: Setting, methods: list[Method], options: OptimiseOptions) -> list[Point]:
    from rich.console import Console
    from rich.progress import track

    from poet_planner.comparison.compare import compare as points_of

    points = points_of(setting, methods, options)
    try:
        return list(track(points, "planning", len(methods), console=Console(stderr=True)))
    except Stopped as stopped:
        raise UserError(f"{stopped}; nothing was written", stopped.exit_code) from None


def _print(points: list[Point], out: Path, as_json: bool, form: Form | None) -> None:
    from dataclasses import asdict

    from poet_profiles.program.json_output import print_json
    from rich.table import Table

    from poet_planner.report.quantities import energy_text, share_text

    if as_json:
        print_json([asdict(point) for point in points])
        return
    table = Table(
        *("method", "energy", "above store-all", "gap", "time", "peak, B", "again", "in", "out", "took, s"),
        box=None,
    )
    for point in points:
        if point.energy_j is None or point.overhead is None:
            table.add_row(point.method, point.status, *[""] * 7, f"{point.seconds:.1f}")
            continue
        table.add_row(
            point.method,
            energy_text(point.energy_j),
            share_text(point.overhead),
            "" if point.gap is None else share_text(point.gap),
            "" if point.time_of_plain is None else f"{point.time_of_plain:.4g}x",
            *(str(count) for count in (point.peak_bytes, point.recomputes, point.page_ins, point.page_outs)),
            f"{point.seconds:.1f}",
        )
    console = print_table(table, form)
    for point in points:
        if point.note:
            console.print(f"{point.method}: {point.note}")
    console.print(f"verified; wrote {out}/: compare.csv, compare.png, compare.svg")
