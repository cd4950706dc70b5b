# SPDX-License-Identifier: Apache-2.0
"""`poet-plan sweep`: what less RAM, or less time, costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.stopping import Stopped, undisturbed

from poet_planner.cli.network import network
from poet_planner.planning.memory_policy import Parameters

if TYPE_CHECKING:
    from poet_profiles.graph import Graph

    from poet_planner.planning.sweep import Point
    from poet_planner.planning.task import Task
    from poet_planner.solve import OptimiseOptions

RAMS = ("100%", "90%", "75%", "60%", "50%", "40%", "30%", "20%")
FORMS = (".6g", ".3%", ".3%", ".6g", "d")


def sweep(
    profile: Annotated[str | None, typer.Option(help="Profile of the board: a CSV file, or a shipped one.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Built-in model, or module:callable.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Plan this costed graph (poet-graph/1), not a model.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size; default is the model's own.")] = None,
    board: Annotated[str | None, typer.Option("--board", "-b", help="Board; default is the profile's.")] = None,
    ram: Annotated[
        list[str] | None, typer.Option(help=f"A RAM budget; again for more. Default {' '.join(RAMS)}.")
    ] = None,
    deadline: Annotated[list[str] | None, typer.Option(help="A deadline; again for more. Default none.")] = None,
    parameters: Annotated[
        Parameters,
        typer.Option(
            help="Keep parameters in RAM (resident, the same as auto), or on the card (card), or do not count them "
            "(excluded)."
        ),
    ] = Parameters.AUTO,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds to optimise a point for, at most.")] = 8.0,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal plans.")] = 0,
    jobs: Annotated[int, typer.Option(help="Points planned at once; -1 for one a core.")] = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for sweep.csv and sweep.png.")] = Path("sweep"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in --out, of the same graph.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the points as JSON.")] = False,
) -> None:
    """Plan every pair of RAM budget and deadline, and draw energy against RAM.

    Points are written to sweep.csv as they come. A signal ends the sweep; --resume goes on with what is missing.
    """
    from itertools import product

    from poet_profiles.whole_file import check_writable

    from poet_planner.baselines.store_all import store_all_schedule
    from poet_planner.planning.memory_policy import Gradients, choose_residents, usual_form
    from poet_planner.planning.pipeline import forms_of
    from poet_planner.planning.sweep import in_order, read_points, write_picture
    from poet_planner.report.quantities import deadline_s, ram_bytes
    from poet_planner.solve import OptimiseOptions

    if jobs == 0:
        raise UserError("--jobs 0: give how many points to plan at once, or -1 for one a core")
    table_path = out / "sweep.csv"
    check_writable(table_path)
    if table_path.exists() and not resume:
        raise UserError(f"{table_path}: exists already; --resume goes on with it, or name another --out")
    forms = forms_of(network(graph, model, {"--board": board}), profile, board, batch)
    if parameters in (Parameters.CARD, Parameters.EXCLUDED):
        planned = choose_residents(forms, parameters, Gradients.AUTO, _board_bytes).task.graph
    else:
        planned = usual_form(forms).graph
    store_all = store_all_schedule(planned)
    if store_all.energy_j == 0:
        raise UserError(f"{planned.name}: has no energies to sweep over; cost it from a profile first (--profile)")
    rams = [ram_bytes(text, store_all.peak_bytes) for text in ram or RAMS]
    deadlines: list[float | None] = [deadline_s(text, store_all.time_s) for text in deadline or ()]
    done = read_points(table_path, planned) if table_path.exists() else []
    known = {(point.ram_budget_bytes, point.deadline_s) for point in done}
    budgets = [pair for pair in product(rams, deadlines or [None]) if pair not in known]
    options = OptimiseOptions(time_limit_s=time_limit, seed=seed)
    _plan_all(planned, budgets, options, jobs, done, table_path)
    done = in_order(done)
    write_picture(planned, done, out / "sweep.png")
    _print(done, out, json)


def _board_bytes(task: Task) -> int:
    """The RAM for which the form of the graph is chosen, whatever the budgets are."""
    from poet_planner.planning.board_ram import plan_ram_bytes

    return plan_ram_bytes(task.board, task.graph) if task.board else 0


def _plan_all(
    graph: Graph,
    budgets: list[tuple[int, float | None]],
    options: OptimiseOptions,
    jobs: int,
    done: list[Point],
    path: Path,
) -> None:
    """Add a point for each budget to ``done``, and to the file as they come."""
    from rich.console import Console
    from rich.progress import track

    from poet_planner.planning.sweep import sweep as points_of
    from poet_planner.planning.sweep import write_points

    points = points_of(graph, budgets, options, jobs)
    try:
        for point in track(points, "planning", len(budgets), console=Console(stderr=True)):
            with undisturbed():
                done.append(point)
                write_points(done, path)
    except Stopped as stopped:
        kept = f"{path} holds {len(done)} points; --resume goes on" if done else "no point was planned"
        raise UserError(f"{stopped}; {kept}", stopped.exit_code) from None


def _print(points: list[Point], out: Path, as_json: bool) -> None:
    from dataclasses import asdict
    from json import dumps

    from rich.console import Console
    from rich.table import Table

    if as_json:
        print(dumps([asdict(point) for point in points], indent=1))
        return
    table = Table("RAM, B", "deadline, s", "", "energy, J", "above store-all", "gap", "time, s", "peak, B", box=None)
    for point in points:
        table.add_row(
            str(point.ram_budget_bytes),
            _text(point.deadline_s, ".6g"),
            point.status,
            *(_text(value, form) for value, form in zip(_figures(point), FORMS, strict=True)),
        )
    Console(highlight=False, soft_wrap=True).print(table)
    print(f"wrote {out}/: sweep.csv, sweep.png")


def _figures(point: Point) -> tuple[float | None, ...]:
    return point.energy_j, point.overhead, point.gap, point.time_s, point.peak_bytes


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
