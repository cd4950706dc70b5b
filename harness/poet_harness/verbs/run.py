# SPDX-License-Identifier: Apache-2.0
"""``poet-harness run``: training steps on the board, predicted against observed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import epochs as by_epochs
from .flash import flashed_image
from .options import BoardName, Card, CardPauses, Emulate, Json, MeterName, Plan, Port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ..data.batches import TrainingData
    from ..plan_folder import plan as plans
    from ..training.run_folder import EpochRow
    from ..training.trainer import ObservedStep, Trainer

NAME = "run"
MOST_STEPS_SHOWN = 8
MOST_DIFFERENCE = 0.03
PLAN_FILES = (
    *("graph.json", "schedule.json", "summary.json", "program.json", "constants.safetensors", "state_dict.npz"),
    *("poet_model.h", "poet_schedule.h", "poet_constants.h", "inference/graph.json", "inference/schedule.json"),
)


def command(
    board: BoardName,
    plan: Plan,
    data: Annotated[Path, typer.Option(help=".npz with parameters and batches (poet-plan data).")],
    steps: Annotated[int | None, typer.Option(min=1, help="Training steps, one batch each. [1]")] = None,
    learning_rate: Annotated[float, typer.Option("--lr", min=0.0, help="Learning rate of the optimiser.")] = 0.01,
    port: Port = None,
    emulate: Emulate = False,
    meter: MeterName = None,
    card: Card = None,
    card_pauses: CardPauses = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV: predicted and observed, row by row.")] = None,
    commit_every: Annotated[
        int, typer.Option(min=0, help="Keep the weights on the card every N steps (those that lie there: every step).")
    ] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the weights kept on the card, or by --folder.")
    ] = False,
    samples: by_epochs.SamplesSource = None,
    epochs: by_epochs.EpochCount = None,
    shuffle: by_epochs.Shuffle = None,
    rate_schedule: by_epochs.RateSchedule = "constant",
    warmup: by_epochs.Warmup = 0,
    every: by_epochs.Every = 10,
    factor: by_epochs.Factor = 0.1,
    scale: by_epochs.Scale = None,
    shift: by_epochs.Shift = None,
    folder: by_epochs.Folder = None,
    to_card: by_epochs.ToCard = False,
    validate: by_epochs.Validate = False,
    save: Annotated[Path | None, typer.Option(help=".npz: loss and gradients of every step.")] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="Weights to begin with, instead of those of --data: .safetensors, .pt, .pth or .npz."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            help="The optimiser's state to begin with: .safetensors, as --trained writes it beside the weights."
        ),
    ] = None,
    trained: Annotated[
        Path | None, typer.Option(help=".safetensors: the trained model's state_dict, read back from the board.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="For the agent on this computer: threads, and processors, of PyTorch.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run training steps under a plan, and compare energy, time and peak RAM with the prediction.

    The first step is traced: every operator and every page transfer is timed and metered for itself. What was observed
    is written to --out and --save however the training ends. Ctrl-C, or SIGTERM, ends it behind the step under way; a
    second one at once.

    Where a plan keeps parameters and batches on the card, the card has to be prepared (poet-harness card). That of a
    board that runs here is, where --card names no file; that of a real one as well, where it is empty and the model is
    small. Every step commits; --resume goes on behind the last one.

    With --epochs and --samples, training goes through a data set of any size; --folder keeps weights and a row of
    figures behind each epoch, and --resume goes on from there with the same bits as if nothing had been in between.
    """
    from contextlib import ExitStack
    from functools import partial

    from poet_profiles.boards import load_board
    from poet_profiles.errors import NO_DEVICE, UserError
    from poet_profiles.stopping import finishing, undisturbed

    from ..card.image import prepared_image
    from ..card.reading import weights_in
    from ..data.batches import read_training_data
    from ..plan_folder.plan import read_plan
    from ..protocol.device import check_learning_rate
    from ..target.connect import connect, takes_image
    from ..training.results import Results
    from ..training.trainer import Trainer
    from .console import print_json, wide_console

    check_learning_rate(learning_rate)
    description = load_board(board)
    schedule = read_plan(plan)
    if schedule.documents and description.kind != "linux":
        raise UserError(f"{plan}: is for a Linux board, under PyTorch; plan with a profile of {description.name}")
    options = by_epochs.EpochOptions(
        samples, epochs, shuffle, rate_schedule, warmup, every, factor, scale, shift, folder, to_card, validate
    )
    over_epochs = by_epochs.asked_for(options, steps)
    if schedule.documents and (commit_every or (resume and not over_epochs)):
        raise UserError(
            f"{'--resume' if resume else '--commit-every'}: {description.name} keeps no weights; --trained writes them "
            "at the end"
        )
    for option, given in (("--weights", weights), ("--state", state)):
        if given is not None and resume and not over_epochs:
            raise UserError(f"{option}: a run that is resumed begins with what the card has; leave one of the two out")
    if weights is not None and not weights.is_file():
        raise UserError(f"{weights}: no such file; the trained weights are written by --trained")
    count = 0 if over_epochs else steps or 1
    batches = read_training_data(data, schedule, count if schedule.card is None else None, weights, state)
    training = (
        by_epochs.training_over_epochs(options, schedule, batches, learning_rate, resume) if over_epochs else None
    )
    steps = training.steps if training else count
    batches.state.check_steps(steps)
    results = Results(schedule, out, save, trained)
    results.check(steps, resume, [data, card, weights, state, *(plan / name for name in PLAN_FILES)])
    card_stays = card is not None or not takes_image(description, port, emulate)
    image = None
    with ExitStack() as opening:
        if training:
            opening.enter_context(training.held())
        if takes_image(description, port, emulate):
            image = flashed_image(plan, description)
            card = opening.enter_context(prepared_image(card, schedule, batches, steps))
        target = opening.enter_context(
            connect(
                description,
                port,
                image=image,
                emulate=emulate,
                meter=meter,
                card=card,
                card_pauses=card_pauses,
                threads=threads,
            )
        )
        if description.kind != "program":
            _warn_of_stale_costs(schedule, target.device.hello.build)
        trainer = Trainer(target.device, target.meter, schedule, gradients=save is not None)
        if target.fresh_card:
            target.device.format()
        if training and training.on_card is not None:
            by_epochs.send_samples(training.on_card, target.device)
        source, senses, identity = target.meter.source, target.meter.senses, target.meter.identity
        on_card = card if image is not None and schedule.card is not None else None
        read = trainer.weights if on_card is None else partial(weights_in, on_card, schedule)
        try:
            if training:
                by_epochs.train_with_progress(training, trainer, commit_every, source)
            else:
                _with_progress(trainer, batches, learning_rate, commit_every, resume, steps, card_stays)
        finally:
            # The trained weights are on the board alone: only a second signal ends the command before they are read.
            with finishing():
                with undisturbed():
                    results.write(trainer, source)
                results.write_weights(trainer, read, batches.state, learning_rate)
        observed, stack_bytes = trainer.observed, target.device.stack()
    if not observed:
        raise UserError("the board trained, and was reset before it could tell anything of it", NO_DEVICE)
    if as_json:
        print_json(_document(schedule, trainer, source, stack_bytes, training.rows if training else ()))
        return
    console = wide_console()
    if training and training.rows:
        console.print(by_epochs.epochs_table(training.rows))
    if description.kind == "program":
        # The plan's costs are another board's: there is nothing to hold them against here.
        console.print(_host_summary(observed))
        return
    console.print(_steps_table(schedule, observed, source))
    for step in observed:
        if step.actions:
            console.print(_actions_table(schedule, step, source))
    if (difference := _difference(schedule, observed[-1])) > MOST_DIFFERENCE:
        console.print(
            f"the last step is {difference:.1%} off its prediction; "
            + (
                "let nothing else run, and profile again, with as many threads"
                if schedule.documents
                else "a profile on this data predicts better: poet-harness profile "
                f"--board {board}{' --emulate' if emulate else ''} --plan {plan} --data {data}"
            ),
            soft_wrap=True,
        )
    idle = f"energies are those above the idle power, {trainer.idle_power_w * 1e3:.4g} mW{target.meter.steps}"
    console.print(idle if senses else f"{idle}; {identity}")
    if trainer.unmetered:
        console.print(f"energy unknown in {len(trainer.unmetered)} places, the first: {trainer.unmetered[0]}")
    if stack_bytes:
        console.print(f"most stack used: {stack_bytes} bytes")


def _warn_of_stale_costs(plan: plans.Plan, firmware: str) -> None:
    """A build's identity is that of its sources, with or without a model: any other may have other kernels."""
    others = [build for build in plan.firmware if build != firmware]
    if others:
        typer.echo(
            f"the plan's costs were profiled with firmware {', '.join(others)}, the board runs {firmware}: predictions "
            "may be stale; profile again and plan again",
            err=True,
        )


def _difference(schedule: plans.Plan, step: ObservedStep) -> float:
    """How far a step's time or energy, whichever is worse, is off what was predicted."""
    pairs = ((step.report.work_s, schedule.time_s), (step.energy_j, schedule.energy_j))
    return max((abs(seen / told - 1) for seen, told in pairs if seen is not None and told), default=0.0)


def _with_progress(
    trainer: Trainer,
    data: TrainingData,
    learning_rate: float,
    commit_every: int,
    resume: bool,
    steps: int,
    card_stays: bool,
) -> None:
    from poet_profiles.errors import UserError
    from poet_profiles.stopping import Stopped, acted_upon
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=steps)

        def done(step: ObservedStep) -> None:
            progress.update(task, advance=1, description=f"loss {step.loss:.4f}")

        try:
            trainer.train(data, learning_rate, commit_every, resume, done, steps=steps)
        except Stopped as stopped:
            acted_upon()
            kept = card_stays and trainer.kept is not None
            words = f"; --resume goes on behind step {trainer.kept}" if kept else ""
            raise UserError(f"{stopped} after {len(trainer.observed)} steps{words}", stopped.exit_code) from None


def _document(
    plan: plans.Plan, trainer: Trainer, source: str, stack_bytes: int, epochs: Sequence[EpochRow]
) -> dict[str, object]:
    """What --out has, row by row, and what the tables say besides."""
    from dataclasses import asdict

    from ..training.comparison import compare

    return {
        "source": source,
        "graph_hash": plan.graph_hash,
        "schedule_hash": plan.schedule_hash,
        "idle_power_w": trainer.idle_power_w,
        "stack_bytes": stack_bytes,
        "unmetered": trainer.unmetered,
        "rows": [asdict(row) for row in compare(plan, trainer, source)],
        **({"epochs": [asdict(row) for row in epochs]} if epochs else {}),
    }


def _steps_table(plan: plans.Plan, steps: Sequence[ObservedStep], source: str) -> Table:
    from rich.table import Table

    table = Table("", "loss", "energy, mJ", "", "time, s", "", "peak RAM", title=f"Training steps ({source})")
    table.add_row("predicted", "", f"{plan.energy_j * 1e3:.4f}", "", f"{plan.time_s:.5f}", "", f"{plan.peak_bytes:,}")
    shown = list(steps)
    if len(shown) > MOST_STEPS_SHOWN:
        shown = [*shown[: MOST_STEPS_SHOWN - 1], shown[-1]]
    for step in shown:
        table.add_row(
            f"step {step.number}" + (", traced" if step.actions else ""),
            f"{step.loss:.4f}",
            "" if step.energy_j is None else f"{step.energy_j * 1e3:.4f}",
            "" if step.energy_j is None else _relative(step.energy_j, plan.energy_j),
            f"{step.report.work_s:.5f}",
            _relative(step.report.work_s, plan.time_s),
            f"{step.report.peak_bytes:,}{_peak_remark(plan, step.report.peak_bytes)}",
        )
    return table


def _peak_remark(plan: plans.Plan, peak_bytes: int) -> str:
    """Firmware keeps a plan's peak to the byte; PyTorch's allocator has its own mind."""
    if peak_bytes == plan.peak_bytes:
        return ""
    return f" ({_relative(peak_bytes, plan.peak_bytes)})" if plan.documents else " (differs)"


def _actions_table(plan: plans.Plan, step: ObservedStep, source: str) -> Table:
    """Predicted and observed cost by operator over all its runs in the traced step, and the highest of their peaks."""
    from rich.table import Table

    table = Table(
        *(
            "operator",
            "runs",
            "predicted\nms",
            "observed\nms",
            "predicted\nmJ",
            "observed\nmJ",
            "difference",
            "predicted\npeak RAM",
            "observed\npeak RAM",
        ),
        title=f"Traced step ({source})",
    )
    table.columns[0].no_wrap = True
    sums: dict[str, list[float]] = {}
    peaks: dict[str, tuple[int, int]] = {}
    for action, seen in zip(plan.actions, step.actions, strict=True):
        if action.is_marked:
            entry = sums.setdefault(action.op, [0.0] * 5)
            for place, value in enumerate((1, action.time_s, seen.time_s, action.energy_j, seen.energy_j or 0.0)):
                entry[place] += value
            highest = peaks.get(action.op, (0, 0))
            peaks[action.op] = (max(highest[0], action.peak_bytes), max(highest[1], seen.peak_bytes))
    for op, (runs, expected_s, seen_s, expected_j, seen_j) in sorted(sums.items(), key=lambda item: -item[1][4]):
        table.add_row(
            *(op, f"{runs:.0f}", f"{expected_s * 1e3:.3f}", f"{seen_s * 1e3:.3f}"),
            *(f"{expected_j * 1e3:.4f}", f"{seen_j * 1e3:.4f}", _relative(seen_j, expected_j)),
            *(f"{peak:,}" for peak in peaks[op]),
        )
    return table


def _host_summary(steps: Sequence[ObservedStep]) -> str:
    losses = f"loss {steps[0].loss:.4f} to {steps[-1].loss:.4f}"
    return f"{len(steps)} steps on this computer: {losses}, peak RAM {steps[0].report.peak_bytes:,} bytes"


def _relative(observed: float, predicted: float) -> str:
    return f"{observed / predicted - 1:+.1%}" if predicted else ""
