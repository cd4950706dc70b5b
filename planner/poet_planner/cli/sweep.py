# SPDX-License-Identifier: Apache-2.0
"""`poet-plan sweep`: what less RAM, or less time, costs; by every method, on every board."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.stopping import Stopped, undisturbed

from poet_planner.cli.option_groups import (
    DEFAULT_MODEL,
    RAMS,
    BoardsOptions,
    Json,
    LimitsOptions,
    MemoryOptions,
    Methods,
    NetworksOptions,
    SearchOptions,
    TimeLimit,
    TrainingOptions,
    optimiser_option,
    output_option,
    whole_batch,
)
from poet_planner.cli.tables import Form, TableForm, print_table
from poet_planner.graph.layout import Parameters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from poet_planner.comparison.compare import Setting, Subject
    from poet_planner.comparison.sweep_table import Point
    from poet_planner.planning.bench import Bench
    from poet_planner.planning.costed_step import CostedStep
    from poet_planner.planning.method import Method
    from poet_planner.solve import OptimiseOptions


def sweep(
    context: typer.Context,
    networks: NetworksOptions,
    boards: BoardsOptions,
    limits: LimitsOptions,
    memory: MemoryOptions,
    training: TrainingOptions,
    search: SearchOptions,
    methods: Methods = "optimal",
    time_limit: TimeLimit = 8.0,
    jobs: Annotated[int, optimiser_option(help="Points planned at once; -1 for one a core.")] = 1,
    scheduler: Annotated[
        str | None, optimiser_option(help="Plan on the workers of this Dask scheduler: tcp://host:8786.")
    ] = None,
    out: Annotated[Path, output_option("--out", "-o", help="Folder for points.csv and the picture.")] = Path("sweep"),
    resume: Annotated[bool, output_option("--resume", help="Go on with the sweep in --out.")] = False,
    as_json: Json = False,
    form: TableForm = None,
) -> None:
    """Plan every pair of RAM budget and deadline, of every model on every board, by every method.

    Points are written to points.csv as they come. A signal ends the sweep; --resume goes on with what is missing.
    All budgets have one layout: auto keeps parameters, and on microcontrollers gradients, in RAM.

        poet-plan sweep --model digits_cnn --profile nrf52840 --ram 100% --ram 60% --ram 40% --methods all
        poet-plan sweep --graph graph.json --ram 50% --deadline 1.2x --deadline none --jobs -1 --out sweep
    """
    from poet_profiles.files.whole_file import check_writable
    from poet_profiles.program.command_line import alone_in

    from poet_planner.comparison.compare import chosen, with_parts
    from poet_planner.comparison.pictures.energy_vs_ram import energy_vs_ram
    from poet_planner.comparison.sweep import settings_of
    from poet_planner.report.figures import save
    from poet_planner.solve import OptimiseOptions
    from poet_planner.solve.milp.solvers import solver_named

    wanted = chosen(methods)
    solver_named(search.solver)
    if jobs == 0:
        raise UserError("--jobs 0: give how many points to plan at once, or -1 for one a core")
    path = out / "points.csv"
    check_writable(path)
    alone_in(context, out)
    if path.exists() and not resume:
        raise UserError(f"{path}: exists already; --resume goes on with it, or name another --out")
    subjects = _subjects(networks, boards, whole_batch(memory), training)
    rams, deadlines = limits.ram or RAMS, limits.deadline or ("none",)
    settings = [
        with_parts(setting, bench, step) if any(method.in_parts for method in wanted) else setting
        for subject, bench, step in subjects
        for setting in settings_of(subject, rams, deadlines)
    ]
    options = OptimiseOptions(time_limit_s=time_limit, seed=search.seed, solver=search.solver)
    points = plan_missing(settings, wanted, options, path, jobs, scheduler)
    figure = energy_vs_ram(points)
    for ending in ("png", "svg"):
        save(figure, out / f"energy-vs-ram.{ending}")
    _print(points, out, as_json, form)


def plan_missing(
    settings: Sequence[Setting],
    methods: Sequence[Method],
    options: OptimiseOptions,
    path: Path,
    jobs: int = 1,
    scheduler: str | None = None,
) -> list[Point]:
    """Make the points that the table at ``path`` lacks, and settle what its points tell of one another.

    Returns
    -------
    list of Point
        All that the table holds, in order.

    Raises
    ------
    UserError
        If a signal comes. What was planned until then is in the table.
    """
    from poet_planner.comparison.cluster import workers
    from poet_planner.comparison.sharing import settled
    from poet_planner.comparison.sweep import missing, sweep
    from poet_planner.comparison.sweep_table import append_points, in_order, read_points, write_points

    known: list[Point] = []
    if path.exists():
        known = read_points(path)
        # Without a torn last line, after which nothing could be added.
        write_points(known, path)
    asked = missing(settings, methods, options, known)
    try:
        with workers(scheduler):
            for points in _shown(sweep(asked, options, jobs), len(asked)):
                with undisturbed():
                    append_points(points, path)
    except Stopped as stopped:
        kept = len(read_points(path)) if path.exists() else 0
        raise UserError(f"{stopped}; {path} holds {kept} points; --resume goes on", stopped.exit_code) from None
    with undisturbed():
        write_points(in_order(settled(read_points(path))), path)
    return read_points(path)


def _shown(made: Iterator[list[Point]], problems: int) -> Iterator[list[Point]]:
    """A bar on a terminal, and in a log a line for each problem."""
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)
    if console.is_terminal:
        yield from track(made, "planning", problems, console=console)
        return
    for number, points in enumerate(made, 1):
        console.print(f"{number} of {problems}: {_problem(points)}")
        yield points


def _problem(points: Sequence[Point]) -> str:
    """What was planned, on all its boards, each within its deadline."""
    first = points[0]
    within = (f"within {_name(point, 'deadline')}" if point.deadline_s is not None else "" for point in points)
    limits = dict.fromkeys(f"{point.board} {limit}".strip() for point, limit in zip(points, within, strict=True))
    network = first.model if first.batch is None else f"{first.model}, batch {first.batch},"
    return ", ".join(text for text in (f"{network} in {first.ram_budget_bytes} B", *limits) if text)


def _subjects(
    networks: NetworksOptions, boards: BoardsOptions, memory: MemoryOptions, training: TrainingOptions
) -> list[tuple[Subject, Bench, CostedStep]]:
    """Each graph, or each model on each board of each profile in each batch size; with what it was made of.

    Raises
    ------
    UserError
        If one is not to be had, or has no energies.
    """
    from collections import Counter
    from dataclasses import asdict, replace
    from itertools import product

    from poet_planner.comparison.compare import subject_of
    from poet_planner.planning.bench import Bench
    from poet_planner.planning.contest import Contest
    from poet_planner.planning.request import Request, refuse_beside_a_graph

    if networks.graph:
        of_a_model = {"--model": networks.model, "--batch": networks.batch}
        refuse_beside_a_graph({**of_a_model, "--profile": boards.profile, "--board": boards.board})
    for option, given in (("--card-above", memory.card_above), ("--stream-above", memory.stream_above)):
        if given is not None and memory.parameters is not Parameters.CARD:
            raise UserError(f"{option}: a sweep has parameters on the card with --parameters card alone; give it, too")
    named: list[Path | str] = [*networks.graph] if networks.graph else [*(networks.model or [DEFAULT_MODEL])]
    of_profile: Sequence[str | None] = boards.profile or [None]
    on_board: Sequence[str | None] = boards.board or [None]
    of_samples: Sequence[int | None] = networks.batch or [None]
    of_layers = {"weights": networks.weights, "frozen": networks.frozen, "calibrate": networks.calibrate}
    chosen = {**of_layers, "optimizer": training.chosen, **asdict(memory)}
    made: list[tuple[Subject, str | None, Bench, CostedStep]] = []
    for network, profile, board, batch in product(named, of_profile, on_board, of_samples):
        request = Request(network, profile, board, batch, **chosen)
        request.refuse_without_costs()
        bench = Bench(request)
        step = Contest(bench).in_one_layout()
        if not any(node.energy_j for node in step.graph.nodes):
            raise UserError(
                f"{step.graph.name}: has no energies to sweep over; cost it from a profile first (--profile)"
            )
        subject = subject_of(step, network if isinstance(network, str) else None, batch)
        made.append((subject, profile, bench, step))
    names = Counter((subject.model, subject.board, subject.batch) for subject, *_ in made)
    # Two profiles may be of one board.
    return [
        (replace(subject, board=f"{subject.board} by {Path(profile).stem}"), bench, step)
        if profile and names[subject.model, subject.board, subject.batch] > 1
        else (subject, bench, step)
        for subject, profile, bench, step in made
    ]


def _print(points: list[Point], out: Path, as_json: bool, form: Form | None) -> None:
    from dataclasses import asdict

    from poet_profiles.program.json_output import print_json
    from rich.table import Table

    from poet_planner.report.quantities import energy_text, share_text

    if as_json:
        print_json([asdict(point) for point in points])
        return
    named = [
        name for name in ("model", "board", "batch", "deadline") if len({_name(point, name) for point in points}) > 1
    ]
    table = Table(*named, "RAM, B", "method", "status", "energy", "above store-all", "gap", "time", "peak, B", box=None)
    for point in points:
        table.add_row(
            *(_name(point, name) for name in named),
            *(str(point.ram_budget_bytes), point.method, point.status),
            "" if point.energy_j is None else energy_text(point.energy_j),
            "" if point.overhead is None else share_text(point.overhead),
            "" if point.gap is None else share_text(point.gap),
            "" if point.time_of_plain is None else f"{point.time_of_plain:.4g}x",
            "" if point.peak_bytes is None else str(point.peak_bytes),
        )
    console = print_table(table, form)
    for point in points:
        if point.status == "failed":
            console.print(f"{_problem([point])}, {point.method}: {point.note}")
    console.print(f"wrote {out}/: points.csv, energy-vs-ram.png, energy-vs-ram.svg")


def _name(point: Point, name: str) -> str:
    """Of a deadline as many digits as tell two apart."""
    if name == "deadline":
        return "" if point.deadline_s is None else f"{point.deadline_s:.6g} s"
    return str(getattr(point, name))
