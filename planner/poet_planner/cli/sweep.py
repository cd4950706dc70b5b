"""`poet-plan sweep`: what less RAM, or less time, costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError

if TYPE_CHECKING:
    from poet_planner.sweep import Point

RAMS = ("100%", "90%", "75%", "60%", "50%", "40%", "30%", "20%")
FORMS = (".6g", ".3%", ".3%", ".6g", "d")


def sweep(
    profile: Annotated[str | None, typer.Option(help="Profile of the board: a CSV file, or a shipped one.")] = None,
    model: Annotated[str | None, typer.Option(help="Built-in model, or module:callable.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Plan this costed graph (poet-graph/1), not a model.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size; default is the model's own.")] = None,
    board: Annotated[str | None, typer.Option(help="Board; default is the profile's.")] = None,
    ram: Annotated[
        list[str] | None, typer.Option(help=f"A RAM budget; again for more. Default {' '.join(RAMS)}.")
    ] = None,
    deadline: Annotated[list[str] | None, typer.Option(help="A deadline; again for more. Default none.")] = None,
    parameters: Annotated[bool, typer.Option(help="Whether parameters and gradients count in RAM.")] = True,
    time_limit: Annotated[float, typer.Option(min=0.1, help="Seconds to optimise a point for, at most.")] = 8.0,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal plans.")] = 0,
    jobs: Annotated[int, typer.Option(help="Points planned at once; -1 for one a core.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for sweep.csv and sweep.png.")] = Path("sweep"),
) -> None:
    """Plan every pair of RAM budget and deadline, and draw energy against RAM."""
    from rich.console import Console
    from rich.progress import track
    from rich.table import Table

    from poet_planner.amounts import deadline_s, ram_bytes
    from poet_planner.plain import plain_schedule
    from poet_planner.problem import problem_from_graph, problem_from_model
    from poet_planner.residency import without_parameters
    from poet_planner.solve import OptimiseOptions
    from poet_planner.sweep import in_order, write_sweep
    from poet_planner.sweep import sweep as plan_all

    if jobs == 0:
        raise UserError("--jobs 0: give how many points to plan at once, or -1 for one a core")
    if graph is not None:
        others = {"--profile": profile, "--model": model, "--batch": batch, "--board": board}
        problem = problem_from_graph(graph, None, others)
    elif profile is not None:
        problem = problem_from_model(model, batch, profile, board)
    else:
        raise UserError("nothing to plan: give --profile or --graph; see --help")
    planned = problem.graph if parameters else without_parameters(problem.graph)
    plain = plain_schedule(planned)
    if plain.energy_j == 0:
        raise UserError(f"{planned.name}: has no energies to sweep over; cost it from a profile first (--profile)")
    rams = [ram_bytes(text, plain.peak_bytes) for text in ram or RAMS]
    deadlines: list[float | None] = [deadline_s(text, plain.time_s) for text in deadline or ()]
    points = plan_all(planned, rams, deadlines or [None], OptimiseOptions(time_limit_s=time_limit, seed=seed), jobs)
    errors = Console(stderr=True)
    done = in_order(track(points, "planning", len(rams) * max(1, len(deadlines)), console=errors))
    write_sweep(planned, done, out)
    table = Table("RAM, B", "deadline, s", "", "energy, J", "above plain", "gap", "time, s", "peak, B", box=None)
    for point in done:
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
