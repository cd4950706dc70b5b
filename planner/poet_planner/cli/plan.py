# SPDX-License-Identifier: Apache-2.0
"""`poet-plan` itself: from a model and a profile, or a costed graph, to a verified schedule and its headers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.errors import INTERRUPTED, UserError
from poet_profiles.program.json_output import print_json
from poet_profiles.program.stopping import interrupting, undisturbed
from poet_profiles.program.version import show_version

from poet_planner.cli.option_groups import (
    DEFAULT_MODEL,
    BoardOptions,
    KeptFeatures,
    LimitOptions,
    MemoryOptions,
    NetworkOptions,
    OptimiserOptions,
    OutputOptions,
    SearchOptions,
    StreamAxis,
    TrainingOptions,
    request_of,
)
from poet_planner.cli.progress import progress
from poet_planner.planning.request import AUTO_PARTS

if TYPE_CHECKING:
    from poet_profiles.schedule import Objective

    from poet_planner.planning.pipeline import Search
    from poet_planner.planning.plan import Plan

HELP = """Plan a training step of least energy within a RAM budget and a deadline.

Without a verb: trace a model (or read a costed graph), cost it from a profile, optimise, verify, and write the
schedule, its C headers, pictures and a summary.

    poet-plan --profile nrf52840 --model digits_cnn --ram 216KB --out plan
    poet-plan --graph graph.json --ram 256KB --deadline 1.5x --time-limit 60 --out plan

Exit codes: 0 done, 2 bad input, 3 no schedule exists, 5 none was found in the work allowed, 130 or 143 interrupted.
"""


def plan(
    context: typer.Context,
    network: NetworkOptions,
    board: BoardOptions,
    limits: LimitOptions,
    memory: MemoryOptions,
    training: TrainingOptions,
    optimiser: OptimiserOptions,
    search: SearchOptions,
    output: OutputOptions,
    features: KeptFeatures = AUTO_PARTS,
    stream: StreamAxis = None,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=show_version, help="Print the version and end.")
    ] = False,
) -> None:
    """Plan a training step (the default action)."""
    if context.invoked_subcommand is not None:
        return
    from poet_profiles.files.arrays import read_arrays
    from poet_profiles.files.whole_file import check_writable
    from poet_profiles.program.command_line import alone_in, given

    from poet_planner.comparison.registry import method_named
    from poet_planner.planning import pipeline
    from poet_planner.report.pictures import NAMES as PICTURES
    from poet_planner.schedule.c_library import check_name
    from poet_planner.solve import DEFAULT_S, OptimiseOptions

    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads, while they have nothing to do
    out = output.out
    method = method_named(optimiser.method)
    method.refuse_others(given(context))
    if output.library is not None:
        check_name(output.library)
    if output.validate is not None:
        read_arrays(output.validate, "numpy.savez")
    check_writable(out / "summary.json")
    alone_in(context, out)
    request = replace(request_of(network, board, limits, memory, training), features=features, stream=stream)
    options = OptimiseOptions(
        time_limit_s=optimiser.time_limit or DEFAULT_S,
        capped=optimiser.time_limit is not None,
        seed=search.seed,
        solver=search.solver,
        objective=optimiser.objective,
    )
    with ExitStack() as ending:
        hooks = pipeline.Hooks(
            say=_say,
            searching=partial(_searching, options.objective),
            found=lambda: ending.enter_context(undisturbed()),
        )
        with _refusal_as_json(output.as_json):
            made = pipeline.plan(request, method, options, hooks, library=output.library, validate=output.validate)
        made.write_files(out)
        if output.library is not None:
            _write_library(made, output.library, out, network)
        _report(made, output)
        made.draw(out)  # Meanwhile people read.
        if not output.as_json:
            typer.echo(f"pictures: {', '.join(str(out / f'{name}.png') for name in PICTURES)}")


@contextmanager
def _refusal_as_json(as_json: bool) -> Iterator[None]:
    """A refusal of limits as a document on standard output, beside its line on standard error."""
    from poet_profiles.program.json_output import print_json

    from poet_planner.solve import NoScheduleError

    try:
        yield
    except NoScheduleError as lack:
        if as_json:
            print_json(lack.document())
        raise


def _say(note: str) -> None:
    if note:
        typer.echo(f"poet-plan: {note}", err=True)


@contextmanager
def _searching(objective: Objective) -> Iterator[Search]:
    """Progress is shown, and a signal ends the search with the best so far, if there is anything."""
    with progress(objective) as show:
        try:
            with interrupting() as stopped:
                yield show, stopped
        except KeyboardInterrupt:
            raise UserError("interrupted before there was a schedule; nothing was written", INTERRUPTED) from None


def _write_library(plan: Plan, name: str, out: Path, network: NetworkOptions) -> None:
    from poet_planner import models
    from poet_planner.report.quantities import bytes_text
    from poet_planner.schedule.c_library import STACK_BYTES, write_library
    from poet_planner.torch_reference.training_data import initial_state

    model = None if network.graph else network.model or DEFAULT_MODEL
    initial = None if model is None else initial_state(model, 0, network.batch, network.weights)
    classes = () if model is None else models.load(model, network.batch).classes
    beside = plan.inference, classes, plan.extraction
    ram_bytes, flash_bytes = write_library(
        name, plan.graph, plan.schedule, plan.constants, initial, out / name, *beside
    )
    of_model = f"the weights of {network.weights or model}"
    begin = "weights of zeros, since a graph has none" if initial is None else of_model
    _say(f"wrote {out / name}/, a library for PlatformIO and Arduino; it begins with {begin}")
    if (board := plan.form.step.board) is not None and board.kind == "microcontroller":
        left = [
            f"{bytes_text(max(0, there - taken))} of {there // 1024} KB of {what}"
            for what, there, taken in (("RAM", board.ram_bytes, ram_bytes), ("flash", board.flash_bytes, flash_bytes))
            if there
        ]
        _say(
            f"it leaves {' and '.join(left)} of {board.name} to your program, poet's code and the stack (of a call "
            f"{STACK_BYTES} B at most); --ram says otherwise"
        )
    if plan.graph.micro_batches > 1:
        _say(f"a batch is {plan.graph.micro_batches} calls of poet_train: all but the last give POET_GATHERED")


def _report(plan: Plan, output: OutputOptions) -> None:
    from poet_profiles.amounts import energy_text, time_text
    from rich.console import Console

    from poet_planner.report.optimiser import improvements_table, parts_table
    from poet_planner.report.table import contest_table, more_ram_text, smaller_batch_text, table

    summary, out = plan.summary, output.out
    if output.as_json:
        print_json(summary.document())
        return
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(table(summary, output.verbose))
    if output.verbose:
        console.print(contest_table(summary.contest))
    if output.verbose and summary.optimiser is not None:
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
    if plan.extraction is not None:
        files += ", features/"
    if plan.why_no_program:
        headers += f"; no program.json: {plan.why_no_program}"
    console.print(f"verified; wrote {out}/: {files}; {headers}")
    if plan.inference is not None and plan.inference.shares_inputs(plan.graph):
        console.print("the inference shares the batch's input: put a batch after an inference, not before it")
    if plan.inference is not None and plan.inference.is_between_batches(plan.graph):
        console.print("the inference lies in the gradients' place: it runs between batches, not between their parts")
    if plan.inference is not None and (stream := plan.inference.stream) is not None:
        cost = f"{energy_text(stream.schedule.energy_j)} in {time_text(stream.schedule.time_s)} a call"
        window = f"after {stream.calls} calls it has heard a window"
        console.print(f"stream: {cost}, {window}; to flash and evaluate it: --plan {out / 'stream'}")
    if advice := smaller_batch_text(summary):
        console.print(advice)
    if (more := summary.more_ram) is not None:
        between = (summary.ram_budget_bytes + part * more.more_bytes for part in (0, 1 / 3, 2 / 3, 1))
        rams = " ".join(f"--ram {ram_bytes / 1024:.4g}KB" for ram_bytes in between)
        sweep = f"; what lies between: poet-plan sweep --graph {out / 'graph.json'} {rams}"
        console.print(more_ram_text(more) + ("" if more.beyond_board else sweep))
