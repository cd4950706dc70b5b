# SPDX-License-Identifier: Apache-2.0
"""`poet-plan` itself: from a model and a profile, or a costed graph, to a verified schedule and its headers."""

from __future__ import annotations

import math
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import INTERRUPTED, UserError
from poet_profiles.stopping import interrupting, undisturbed
from poet_profiles.version import show_version

from poet_planner.cli.progress import progress
from poet_planner.planning.memory_policy import Gradients, Parameters, settle

if TYPE_CHECKING:
    from poet_profiles.graph import Graph
    from poet_profiles.schedule import Schedule

    from poet_planner.planning.task import Problem
    from poet_planner.report.summary import Summary

# Unless told otherwise: until so long after the start, within these limits.
SOON_SECONDS = 10.5
MOST_SECONDS = 7.0
LEAST_SECONDS = 5.0
# Of the energy above plain training, from which on a look at larger budgets is advised, and those budgets.
DEAR = 0.1
MORE_RAM = (1.0, 1.05, 1.1, 1.2)
# Relative; sums of the same energies in another order differ by less.
SAME_ENERGY = 1e-9

HELP = """Plan a training step of least energy within a RAM budget and a deadline.

Without a verb: trace a model (or read a costed graph), cost it from a profile, optimise, verify, and write the
schedule, its C headers, pictures and a summary.

    poet-plan --profile profiles/m4.csv

    poet-plan --graph graph.json --ram 256KB --deadline 1.5x --time-limit 60 --out plan
"""


class Formulation(StrEnum):
    """Which optimisation problem is solved."""

    BEST = "best"
    PAPER = "paper"


# The method of each: our own, or the name of a baseline.
OPTIMAL = "optimal"
METHODS = {Formulation.BEST: OPTIMAL, Formulation.PAPER: "poet_ilp"}


class Strategy(StrEnum):
    """How the schedule is made."""

    OPTIMAL = "optimal"
    PLAIN = "plain"


def plan(
    context: typer.Context,
    profile: Annotated[
        str | None, typer.Option(help="Profile of the board: a CSV file, or the name of a shipped one.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="Built-in model (see `poet-plan models`), or module:callable.")
    ] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Plan this costed graph (poet-graph/1) instead of a model.")
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size; default is the model's own.")] = None,
    board: Annotated[str | None, typer.Option("--board", "-b", help="Board; default is the profile's.")] = None,
    ram: Annotated[
        str | None,
        typer.Option(
            help="RAM budget: 256KB (KB, MB and GB are powers of 1024, as boards are sold), or 50% of plain "
            "training's peak; default is the board's."
        ),
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="Time limit of a training step: 2.5s, or 1.5x plain training's time.")
    ] = None,
    parameters: Annotated[
        Parameters,
        typer.Option(
            help="Count parameters and gradients in RAM (resident), or, like the paper, not (excluded); "
            "auto: not where they alone exceed the budget."
        ),
    ] = Parameters.AUTO,
    gradients: Annotated[
        Gradients,
        typer.Option(
            help="Give gradients places of their own in RAM (resident), or treat them like activations (paged); "
            "auto: where they would not fit."
        ),
    ] = Gradients.AUTO,
    momentum: Annotated[
        float, typer.Option(min=0, max=1, help="Momentum of the gradient descent that ends a step.")
    ] = 0.0,
    paging: Annotated[bool, typer.Option(help="Whether values may be paged to storage.")] = True,
    strategy: Annotated[
        Strategy, typer.Option(help="optimal; or plain: every value kept until its last use.")
    ] = Strategy.OPTIMAL,
    formulation: Annotated[
        Formulation, typer.Option(help="best: search and order-free MILP; paper: Algorithm 1 as printed.")
    ] = Formulation.BEST,
    solver: Annotated[str, typer.Option(help="MILP solver (see `poet-plan solvers`).")] = "highs",
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Seconds to optimise for, at most.",
            show_default=f"{MOST_SECONDS:g}; down to {LEAST_SECONDS:g} where tracing took long",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal plans.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path("plan"),
    verbose: Annotated[bool, typer.Option("--verbose", help="List every fit that the costs rest on.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Plan a training step (the default action)."""
    if context.invoked_subcommand is not None:
        return
    started_s = time.monotonic()
    from poet_profiles.whole_file import check_writable

    from poet_planner.baselines.store_all import plain_schedule
    from poet_planner.report.summary import summarise

    check_writable(out / "summary.json")

    settled = settle(
        lambda resident_gradients: _problem(profile, model, graph, batch, board, momentum, paging, resident_gradients),
        parameters,
        gradients,
        lambda problem: _budget_bytes(problem, ram),
    )
    if settled.note:
        typer.echo(f"poet-plan: {settled.note}", err=True)
    problem = settled.problem
    budget_bytes = settled.budget_bytes
    plain = plain_schedule(problem.graph)
    deadline_s = _deadline_s(deadline, plain)
    method = "store_all" if strategy is Strategy.PLAIN else METHODS[formulation]
    time_limit_s = time_limit or default_seconds(time.monotonic() - started_s)
    schedule = _optimised(problem.graph, budget_bytes, deadline_s, time_limit_s, seed, solver, method)
    with undisturbed():
        _check(problem.graph, schedule)
        why_no_headers = _write(problem.graph, schedule, out)
        summary = summarise(problem.graph, schedule, problem.costed, settled.excluded_bytes)
        _report(summary, why_no_headers, out, verbose, json)


def default_seconds(spent_s: float) -> float:
    """So that a small network's plan comes soon on a slow machine, too."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, SOON_SECONDS - spent_s))


def _problem(
    profile: str | None,
    model: str | None,
    graph: Path | None,
    batch: int | None,
    board: str | None,
    momentum: float,
    paging: bool,
    resident_gradients: bool,
) -> Problem:
    from dataclasses import replace

    from poet_planner.planning.task import problem_from_graph, problem_from_model, without_paging

    if graph is not None:
        others = {"--profile": profile, "--model": model, "--batch": batch, "--momentum": momentum or None}
        problem = problem_from_graph(graph, board, others)
    elif profile is not None:
        problem = problem_from_model(model, batch, profile, board, resident_gradients, momentum)
    else:
        from poet_profiles.shipped import profile_names

        names = ", ".join(profile_names())
        raise UserError(f"nothing to plan: give --profile (a CSV file, or one of {names}) or --graph; see --help")
    return problem if paging else replace(problem, graph=without_paging(problem.graph))


def _budget_bytes(problem: Problem, ram: str | None) -> int:
    from poet_planner.baselines.store_all import plain_schedule
    from poet_planner.report.quantities import ram_bytes

    if ram is not None:
        return ram_bytes(ram, plain_schedule(problem.graph).peak_bytes)
    if problem.board is None:
        raise UserError("the graph names no board: give the RAM budget, for example --ram 256KB or --ram 50%")
    return problem.board.usable_ram_bytes


def _deadline_s(deadline: str | None, plain: Schedule) -> float | None:
    from poet_planner.report.quantities import deadline_s

    return None if deadline is None else deadline_s(deadline, plain.time_s)


def _optimised(
    graph: Graph,
    budget_bytes: int,
    deadline_s: float | None,
    time_limit_s: float,
    seed: int,
    solver: str,
    method: str,
) -> Schedule:
    from poet_planner.baselines.methods import method_named
    from poet_planner.solve import OptimiseOptions, Progress, optimise

    schedule_by = optimise if method == OPTIMAL else method_named(method).schedule
    best_j = math.inf
    with progress() as show:

        def tell(state: Progress) -> None:
            nonlocal best_j
            best_j = min(best_j, state.incumbent_j or math.inf)
            show(state)

        options = OptimiseOptions(time_limit_s=time_limit_s, seed=seed, solver=solver, progress=tell)
        try:
            with interrupting():
                schedule = schedule_by(graph, budget_bytes, deadline_s, options)
        except KeyboardInterrupt:
            raise UserError("interrupted before there was a schedule; nothing was written", INTERRUPTED) from None
    _tell_of_lost_best(best_j, schedule.energy_j)
    return schedule


def _tell_of_lost_best(best_j: float, energy_j: float) -> None:
    """Why the plan is dearer than what the progress had shown."""
    from poet_planner.report.quantities import energy_text

    if energy_j > best_j * (1 + SAME_ENERGY):
        typer.echo(
            f"poet-plan: a schedule of {energy_text(best_j)} was found, but no static offsets for it within the "
            f"budget; the plan takes {energy_text(energy_j)} (a longer --time-limit looks for offsets longer)",
            err=True,
        )


def _check(graph: Graph, schedule: Schedule) -> None:
    """Every plan is verified before it is written."""
    from poet_planner.schedule.verify import verify

    report = verify(graph, schedule)
    if not report.sound:
        raise RuntimeError(f"the plan of {graph.name} breaks the contract, a fault of poet's: {report.faults[0]}")


def _write(graph: Graph, schedule: Schedule, out: Path) -> str | None:
    """Write everything but the summary; what keeps the firmware from running the graph, so that it gets no headers."""
    from poet_profiles.graph.file import write_graph
    from poet_profiles.schedule.file import write_schedule

    from poet_planner.report.figures import write_pictures
    from poet_planner.schedule.c_headers import remove_headers, why_no_headers, write_headers

    remove_headers(out)
    write_graph(graph, out / "graph.json")
    write_schedule(schedule, out / "schedule.json")
    reason = why_no_headers(graph)
    if reason is None:
        write_headers(graph, schedule, out)
    write_pictures(graph, schedule, out)
    return reason


def _report(summary: Summary, why_no_headers: str | None, out: Path, verbose: bool, as_json: bool) -> None:
    import json

    from poet_profiles.whole_file import write_whole
    from rich.console import Console

    from poet_planner.report.summary import table

    document = json.dumps(summary.document(), indent=1)
    write_whole(out / "summary.json", document + "\n")
    if as_json:
        print(document)
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(table(summary, verbose))
    files = "graph.json, schedule.json, schedule.png, ram.png, energy.png, summary.json"
    headers = f"no C headers: {why_no_headers}" if why_no_headers else "poet_model.h, poet_schedule.h"
    console.print(f"verified; wrote {out}/: {files}; {headers}")
    if summary.overhead > DEAR and summary.ram_budget_bytes < summary.plain_peak_bytes:
        rams = " ".join(f"--ram {factor * summary.ram_budget_bytes / 1024:.4g}KB" for factor in MORE_RAM)
        console.print(
            f"a little more RAM may cost much less energy: poet-plan sweep --graph {out / 'graph.json'} {rams}"
        )
