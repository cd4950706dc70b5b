# SPDX-License-Identifier: Apache-2.0
"""`poet-plan` itself: from a model and a profile, or a costed graph, to a verified schedule and its headers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import INTERRUPTED, UserError
from poet_profiles.schedule import Objective
from poet_profiles.stopping import interrupting, undisturbed
from poet_profiles.version import show_version

from poet_planner.cli.network import DEFAULT_MODEL, network
from poet_planner.cli.options import (
    Batch,
    Betas,
    Board,
    ClipValue,
    Deadline,
    Eps,
    GraphFile,
    Model,
    Momentum,
    Nesterov,
    OptimizerMethod,
    Profiles,
    Ram,
    Seed,
    SolverName,
    WeightDecay,
    Weights,
    optimizer_given,
)
from poet_planner.cli.progress import progress
from poet_planner.graph.optimizer import Method
from poet_planner.planning.request import Gradients, Parameters, Request

if TYPE_CHECKING:
    from poet_profiles.schedule import Schedule

    from poet_planner.planning.choose import BudgetedStep
    from poet_planner.planning.method import Method as Scheduler
    from poet_planner.planning.plan import Plan
    from poet_planner.report.summary import MoreRam
    from poet_planner.solve import OptimiseOptions

MORE_RAM = (1.0, 1.05, 1.1, 1.2)  # budgets that a sweep is suggested for, relative to the plan's

HELP = """Plan a training step of least energy within a RAM budget and a deadline.

Without a verb: trace a model (or read a costed graph), cost it from a profile, optimise, verify, and write the
schedule, its C headers, pictures and a summary.

    poet-plan --profile nrf52840 --model digits_cnn --ram 216KB --out plan
    poet-plan --graph graph.json --ram 256KB --deadline 1.5x --time-limit 60 --out plan
"""


def plan(
    context: typer.Context,
    profile: Profiles = None,
    model: Model = None,
    graph: GraphFile = None,
    batch: Batch = None,
    board: Board = None,
    ram: Ram = None,
    deadline: Deadline = None,
    parameters: Annotated[
        Parameters,
        typer.Option(
            help="Keep parameters in RAM (resident) or, if they are large, on the card (card); auto: on the card where "
            "they would not fit in RAM; excluded: do not count them, like the paper."
        ),
    ] = Parameters.AUTO,
    gradients: Annotated[
        Gradients,
        typer.Option(
            help="Give gradients places of their own in RAM (resident), or treat them like activations (paged); "
            "auto: where they would not fit or a step is cheaper, and on Linux boards."
        ),
    ] = Gradients.AUTO,
    card_above: Annotated[
        str | None,
        typer.Option(
            help="Where parameters lie on the card: those up to this size stay in RAM.",
            show_default="2KB or 256, the cheaper",
        ),
    ] = None,
    stream_above: Annotated[
        str | None,
        typer.Option(
            help="Those on the card above this size are read tile by tile, and not whole.",
            show_default="none, or those above 64, 16 or 4 KB: the cheapest",
        ),
    ] = None,
    optimizer: OptimizerMethod = Method.SGD,
    momentum: Momentum = 0.0,
    nesterov: Nesterov = False,
    weight_decay: WeightDecay = 0.0,
    betas: Betas = None,
    eps: Eps = None,
    clip_value: ClipValue = None,
    weights: Weights = None,
    paging: Annotated[bool, typer.Option(help="Whether values may be paged to storage.")] = True,
    objective: Annotated[
        Objective, typer.Option(help="What to spend as little of as possible; time: of all computes and transfers.")
    ] = Objective.ENERGY,
    method: Annotated[str, typer.Option(metavar="NAME", help="Who plans: a name of `poet-plan methods`.")] = "optimal",
    solver: SolverName = "highs",
    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Optimise for so much work at most: seconds of one core of a usual computer. Processor time is "
            "limited to as many seconds.",
            show_default="work that takes one core some 7 s, however long that lasts",
        ),
    ] = None,
    seed: Seed = 0,
    endurance: Annotated[
        str | None,
        typer.Option(
            help="What may be written to the card in all, for its life in the summary: 4TB.",
            show_default="the board's",
        ),
    ] = None,
    library: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Also write a PlatformIO library, OUT/NAME: the plan, and the model's weights to begin with, for "
            "training inside your own program.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write into.")] = Path("plan"),
    time_to_scale: Annotated[
        bool,
        typer.Option("--time-to-scale", help="Draw the schedule with equal times equally long, not one row a step."),
    ] = False,
    svg: Annotated[bool, typer.Option("--svg", help="Write the pictures as SVG, too.")] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", help="List the fits that the costs rest on, and what each part of the optimiser did."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Plan a training step (the default action)."""
    if context.invoked_subcommand is not None:
        return
    from poet_profiles.command_line import alone_in, given
    from poet_profiles.whole_file import check_writable

    from poet_planner.planning.method import OPTIMAL, method_named
    from poet_planner.planning.more_ram import seconds_for
    from poet_planner.planning.pipeline import prepare, verified
    from poet_planner.report.pictures import NAMES as PICTURES
    from poet_planner.report.quantities import size_bytes
    from poet_planner.schedule.c_library import check_name
    from poet_planner.solve import DEFAULT_S, OptimiseOptions, Statistics

    chosen = method_named(method)
    chosen.refuse_others(given(context))
    if library is not None:
        check_name(library)
    endurance_bytes = None if endurance is None else size_bytes(endurance, "--endurance", "4TB")
    check_writable(out / "summary.json")
    alone_in(context, out)
    request = Request(
        network(graph, model),
        profile=profile,
        board=board,
        batch=batch,
        ram=ram,
        deadline=deadline,
        parameters=parameters,
        gradients=gradients,
        card_above=card_above,
        stream_above=stream_above,
        optimizer=optimizer_given(optimizer, momentum, nesterov, weight_decay, betas, eps, clip_value),
        weights=weights,
        paging=paging,
    )
    prepared = prepare(request)
    if prepared.note:
        typer.echo(f"poet-plan: {prepared.note}", err=True)
    if library is not None:
        _refuse_without_library(prepared, library)
    time_limit_s = time_limit or DEFAULT_S
    asking_s = seconds_for(time_limit_s) if chosen is OPTIMAL and prepared.is_short_of_ram else 0.0
    options = OptimiseOptions(
        time_limit_s=time_limit_s - asking_s,
        capped=time_limit is not None,
        seed=seed,
        solver=solver,
        objective=objective,
        statistics=Statistics(),
    )
    schedule, interrupted = _schedule(prepared, chosen, options)
    asks = asking_s and not interrupted
    saving = _more_ram(prepared, schedule, replace(options, time_limit_s=asking_s)) if asks else None
    with undisturbed():
        made = verified(prepared, schedule, options.statistics, endurance_bytes, saving)
        made.write_files(out)
        if library is not None:
            _write_library(made, library, out, None if graph else model or DEFAULT_MODEL, batch, weights)
        _report(made, out, verbose, json)
        made.draw(out, time_to_scale, svg)  # Meanwhile people read.
        if not json:
            typer.echo(f"pictures: {', '.join(str(out / f'{name}.png') for name in PICTURES)}")


def _refuse_without_library(prepared: BudgetedStep, name: str) -> None:
    """Before minutes are spent on a plan."""
    from poet_planner.schedule.c_library import why_no_library

    reason = why_no_library(prepared.graph)
    if reason:
        raise UserError(f"--library {name}: {prepared.graph.name}: {reason}")


def _write_library(
    plan: Plan, name: str, out: Path, model: str | None, batch: int | None, weights: Path | None
) -> None:
    from poet_planner import models
    from poet_planner.schedule.c_library import write_library
    from poet_planner.torch_reference.training_data import initial_state

    initial = None if model is None else initial_state(model, 0, batch, weights)
    classes = () if model is None else models.load(model, batch).classes
    write_library(name, plan.graph, plan.schedule, plan.constants, initial, out / name, plan.inference, classes)
    begin = "weights of zeros, since a graph has none" if initial is None else f"the weights of {weights or model}"
    typer.echo(f"poet-plan: wrote {out / name}/, a PlatformIO library; it begins with {begin}", err=True)


def _schedule(prepared: BudgetedStep, method: Scheduler, options: OptimiseOptions) -> tuple[Schedule, bool]:
    """The schedule, with its progress shown; whether a signal ended the search."""
    from poet_planner.planning.pipeline import schedule_of

    with progress(options.objective) as show:
        try:
            with interrupting() as heard:
                schedule = schedule_of(prepared, method, replace(options, progress=show))
                return schedule, heard()
        except KeyboardInterrupt:
            raise UserError("interrupted before there was a schedule; nothing was written", INTERRUPTED) from None


def _more_ram(prepared: BudgetedStep, schedule: Schedule, options: OptimiseOptions) -> MoreRam | None:
    """What a little more RAM would save; a signal ends the question, not the plan."""
    from poet_planner.planning.budget import plan_ram_bytes
    from poet_planner.planning.more_ram import more_ram

    try:
        with interrupting():
            found = more_ram(prepared.graph, schedule, prepared.store_all, options)
    except KeyboardInterrupt:
        return None
    board = prepared.step.board
    if found is None or board is None or found.ram_budget_bytes <= plan_ram_bytes(board, prepared.graph):
        return found
    return replace(found, beyond_board=board.name)


def _report(plan: Plan, out: Path, verbose: bool, as_json: bool) -> None:
    import json

    from rich.console import Console

    from poet_planner.report.optimiser import improvements_table, parts_table
    from poet_planner.report.summary import table

    summary = plan.summary
    if as_json:
        print(json.dumps(summary.document(), indent=1))
        return
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(table(summary, verbose))
    if verbose and summary.optimiser is not None:
        console.print(parts_table(summary.optimiser))
        console.print(improvements_table(summary.optimiser))
    files = "graph.json, schedule.json, summary.json"
    headers = "poet_model.h, poet_schedule.h"
    if plan.program is not None and plan.why_no_program is None:
        files += ", program.json"
    if plan.names:
        files += ", state_dict.npz"
    if plan.constants:
        files += ", constants.safetensors"
        headers += ", poet_constants.h"
    if plan.why_no_headers:
        headers = f"no C headers: {plan.why_no_headers}"
    elif plan.why_no_inference:
        headers += f"; no inference: {plan.why_no_inference}"
    else:
        files += ", inference/"
    if plan.why_no_program:
        headers += f"; no program.json: {plan.why_no_program}"
    console.print(f"verified; wrote {out}/: {files}; {headers}")
    if summary.more_ram is not None:
        rams = " ".join(f"--ram {factor * summary.ram_budget_bytes / 1024:.4g}KB" for factor in MORE_RAM)
        console.print(f"{summary.more_ram}; what lies between: poet-plan sweep --graph {out / 'graph.json'} {rams}")
