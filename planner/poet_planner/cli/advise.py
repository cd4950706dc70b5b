# SPDX-License-Identifier: Apache-2.0
"""`poet-plan advise`: what to train, and how, for the least energy."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from poet_profiles.errors import NO_SCHEDULE, NOT_FOUND, UserError
from poet_profiles.program.stopping import Stopped

from poet_planner.cli.option_groups import (
    BoardOptions,
    Calibrate,
    Json,
    LimitOptions,
    ModelName,
    Weights,
    network_option,
    output_option,
    training_option,
)
from poet_planner.cli.tables import Form, TableForm, print_table, table_text
from poet_planner.planning.calibration import Frozen
from poet_planner.report.quantities import energy_text

if TYPE_CHECKING:
    from poet_planner.advice.advice import Advice, Search
    from poet_planner.advice.candidates import Step, Steps
    from poet_planner.advice.curves import Sets
    from poet_planner.advice.goal import Goal
    from poet_planner.advice.race import Candidate

COMMANDS = "commands.sh"
goal_option = partial(typer.Option, rich_help_panel="Goal")


@dataclass(frozen=True)
class CandidateOptions:
    """What is tried."""

    train: Annotated[
        list[str] | None,
        network_option(
            help="Also try these parameters: layers and patterns with commas between, as 4,*.bias; again for more."
        ),
    ] = None
    batch: Annotated[
        list[int] | None, network_option(min=1, help="Batch size; again for more.", show_default="2 8 24")
    ] = None
    frozen: Annotated[
        Frozen | None, network_option(help="Also try each set with what is frozen before it on int8.")
    ] = None
    calibrate: Calibrate = None
    clip_value: Annotated[
        float | None, training_option(help="Keep each element of a gradient within ± this, in every step.")
    ] = None


@dataclass(frozen=True)
class GoalOptions:
    """What is to be reached with which samples; without samples costs are all there is to say."""

    samples: Annotated[
        str | None,
        goal_option(
            help="What it learns: .npz with x and y (or x_train, x_val, …), a folder with x.npy and y.npy, or "
            "module:callable."
        ),
    ] = None
    goal: Annotated[
        str | None,
        goal_option(
            help="Metric of the validation samples, and number: accuracy 0.85. Also balanced accuracy, macro "
            "f1, loss, mae, rmse, r2, module:callable."
        ),
    ] = None
    groups: Annotated[
        Path | None,
        goal_option(help=".npy with a number or word for each sample, as its recording: one group is held back whole."),
    ] = None
    draws: Annotated[int, goal_option(min=1, help="Orders of the samples in which the goal is to be reached.")] = 8
    epochs: Annotated[int, goal_option(min=3, help="Most epochs of a training.")] = 40
    energy: Annotated[float | None, goal_option(min=0.0, help="Most joules until the goal.")] = None
    battery: Annotated[
        str | None, goal_option(help="cr2032, lipo500 or another cell, or a .toml file: how often it lasts for that.")
    ] = None
    out: Annotated[Path, output_option("--out", "-o", help="Folder to write into.")] = Path("advice")
    resume: Annotated[bool, output_option("--resume", help="Go on with the advice in --out.")] = False


def advise(
    context: typer.Context,
    model: ModelName,
    board: BoardOptions,
    limits: LimitOptions,
    candidates: CandidateOptions,
    goal: GoalOptions,
    weights: Weights = None,
    as_json: Json = False,
    form: TableForm = None,
) -> None:
    """Say what to train, and how, for the least energy until a goal is reached.

    Ways are the last layers, the first and the last, the biases, all; each in three batches, with momentum and with
    Adam, and with plain gradient descent where these do not fit. Without --samples each step's RAM, flash, energy and
    time are listed, or why there is none. An energy is that of poet-plan, or says that it is a bound: no plan takes
    less.

    With --samples and --goal each way is trained here, at four rates, as far as it takes less than the best. The advice
    reaches the goal in each draw, and no other way of the list takes less in its worst. Ctrl-C keeps what was trained.

        poet-plan advise --model digits_cnn --board nrf52840
        poet-plan advise --model my_module:make --board nrf52840 --samples my_data.npz --goal "accuracy 0.85"

    Exit codes: 0 done, 2 bad input, 3 no way fits, 5 nothing reaches the goal, 130 or 143 interrupted.
    """
    from poet_profiles.battery import Battery
    from poet_profiles.cells import load_cell
    from poet_profiles.program.command_line import alone_in, given

    from poet_planner.advice.advice import Advice, Search, asked_of, request_for
    from poet_planner.advice.candidates import BATCHES, Steps

    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # PyTorch's threads, while they have nothing to do
    if (goal.samples is None) != (goal.goal is None):
        raise UserError("--samples and --goal go together; give both, or none for costs alone")
    of_goal = {field.name for field in fields(GoalOptions)} & given(context)
    if goal.samples is None and of_goal:
        raise UserError(f"--{min(of_goal)}: says nothing without --samples and --goal; leave it out")
    on_int8 = {"frozen": candidates.frozen, "calibrate": candidates.calibrate}
    request = request_for(model, board.board, board.profile, **asdict(limits), weights=weights, **on_int8)
    trained, clip = tuple(candidates.train or ()), candidates.clip_value
    most_j = float("inf") if goal.energy is None else goal.energy
    search = Search(tuple(candidates.batch or BATCHES), trained, clip, goal.draws, goal.epochs, most_j)
    steps = Steps(model, request, clip, trained)
    asked = None
    cell = None if goal.battery is None else load_cell(goal.battery)
    if goal.samples is not None and goal.goal is not None:
        alone_in(context, goal.out)
        asked = asked_of(steps, goal.samples, goal.goal, goal.groups)
    costed = _costed(steps, search.batches)
    if not any(step.cost for step in costed):
        raise UserError("none of these ways fits: take a smaller --batch, or another board", NO_SCHEDULE)
    if asked is None:
        _print(Advice(steps.name, steps.board, costed), as_json, form)
        return
    advice = _raced(steps, costed, search, asked, goal)
    if cell is not None and advice.winner is not None and advice.epochs:
        battery = Battery(cell.capacity_ah, cell.voltage_v)
        shares = f"{battery.usable:.0%} of it, and {battery.efficiency:.0%} of that behind a converter"
        lasts = f"a {cell.name} lasts for {advice.times(battery):,.0f} such trainings ({shares}; idle power included)"
        advice = replace(advice, notes=(*advice.notes, lasts))
    _write(advice, goal, board, asdict(limits), weights, candidates.calibrate)
    _print(advice, as_json, form, goal.out)
    if advice.winner is None:
        raise UserError("nothing of these reaches the goal in each draw; the table says how far each came", NOT_FOUND)


def _raced(
    steps: Steps, costed: tuple[Step, ...], search: Search, asked: tuple[Sets, Goal], goal: GoalOptions
) -> Advice:
    """Race, and show who is in front; what was trained is kept, whatever ends it."""
    from rich.console import Console

    from poet_planner.advice.advice import raced
    from poet_planner.advice.report import candidate_text

    console, least_j = Console(stderr=True), 0.0
    with console.status("training") as status:

        def told(joules: float, one: Candidate) -> None:
            nonlocal least_j
            least_j = joules
            status.update(f"none takes less than {energy_text(joules)}; in front: {candidate_text(one)}")

        try:
            return raced(steps, costed, search, asked, goal.out, goal.resume, told)
        except Stopped as stopped:
            words = f"no candidate takes less than {energy_text(least_j)}; --resume goes on"
            raise UserError(f"{stopped}; {words}", stopped.exit_code) from None


def _write(
    advice: Advice,
    goal: GoalOptions,
    board: BoardOptions,
    limits: dict[str, Any],
    weights: Path | None,
    calibrate: Path | None,
) -> None:
    """The table, the picture, and the commands with the samples that they need."""
    from poet_profiles.files.whole_file import write_whole

    from poet_planner.advice.folder import samples_file
    from poet_planner.advice.report import OF_A_CANDIDATE, by_interest, candidate_cells, commands, picture
    from poet_planner.report.figures import save

    assert advice.race is not None and advice.curves is not None and goal.samples is not None
    rows = [candidate_cells(advice, one) for one in by_interest(advice)]
    write_whole(goal.out / "table.csv", table_text(OF_A_CANDIDATE, rows, Form.CSV) + "\n")
    save(picture(advice), goal.out / "advice.png")
    if advice.winner is None:
        (goal.out / COMMANDS).unlink(missing_ok=True)
        return
    samples, sets = goal.samples, advice.curves.sets
    if sets.validation is None:
        samples = str(goal.out / "samples.npz")
        write_whole(Path(samples), samples_file(sets, advice.worst))
    limited = {name: value for name, value in limits.items() if value is not None}
    words = [*(("profile", one) for one in board.profile or [advice.board]), ("board", advice.board), *limited.items()]
    planning = [word for name, value in words for word in (f"--{name}", value)]
    write_whole(goal.out / COMMANDS, commands(advice, planning, weights, samples, goal.out, calibrate))


def _print(advice: Advice, as_json: bool, form: Form | None, out: Path | None = None) -> None:
    from poet_profiles.program.json_output import print_json

    from poet_planner.advice.report import (
        SHOWN,
        candidate_record,
        sentences,
        step_record,
        table_of_candidates,
        table_of_steps,
    )

    if as_json:
        race = advice.race
        ones = [candidate_record(advice, one) for one in race.candidates] if race else []
        told = {"advice": candidate_record(advice, advice.winner) if advice.winner else None, "candidates": ones}
        print_json({**told, "told": sentences(advice)} if race else [*map(step_record, advice.steps)])
    elif advice.race is None:
        print_table(table_of_steps(advice.steps), form)
    else:
        console = print_table(table_of_candidates(advice, SHOWN if form is None else None), form)
        for sentence in sentences(advice):
            console.print(sentence)
        made = f"{COMMANDS}, " if advice.winner else ""
        console.print(f"wrote {out}/: {made}table.csv, curves.csv, advice.png, advice.json")


def _costed(steps: Steps, batches: tuple[int, ...]) -> tuple[Step, ...]:
    from rich.console import Console
    from rich.progress import track

    most = 2 * len(steps.sets) * len(batches)
    try:
        return (*track(steps.all(batches), "costing", most, console=Console(stderr=True)),)
    except Stopped as stopped:
        raise UserError(f"{stopped}; nothing was written", stopped.exit_code) from None
