# SPDX-License-Identifier: Apache-2.0
"""``poet-harness train``: epochs of a data set on the board."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.amounts import PRECISE, energy_text, loss_text, time_text

from .option_groups import Beginning, Connection, ResultFiles
from .options import Scale, Shift, data_set_option, rate_option, results_option, training_option, validation_option
from .session import session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poet_profiles.samples import Samples
    from rich.table import Table

    from ..card.sample_set import SampleSet
    from ..data.batches import TrainingData
    from ..plan_folder.plan import Plan
    from ..protocol.device import Device
    from ..target.connect import Target
    from ..training.epochs import Epochs
    from ..training.observed import ObservedStep
    from ..training.run_folder import EpochRow
    from ..training.trainer import Trainer

NAME = "train"
KEPT, EACH_STEP = "kept", "each-step"
MOST_EPOCHS_SHOWN = 20


@dataclass(frozen=True)
class EpochOptions:
    """Options of training over epochs."""

    samples: Annotated[
        str,
        data_set_option(
            help="Data set: .npz with x and y (or x_train, x_val, …), a folder with x.npy and y.npy, or "
            "module:callable. Only the parameters of --data are used."
        ),
    ]
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")]
    shuffle: Annotated[
        int | None, data_set_option(min=0, metavar="SEED", help="Seed of the order; omit to keep it.")
    ] = None
    schedule: Annotated[str, rate_option(help="constant, step or cosine.")] = "constant"
    warmup: Annotated[int, rate_option(min=0, help="Steps at the beginning that lead up to the rate.")] = 0
    every: Annotated[int, rate_option(min=1, help="With --schedule step: epochs between two changes.")] = 10
    factor: Annotated[float, rate_option(min=0.0, help="With --schedule step: multiplies the rate.")] = 0.1
    scale: Scale = None
    shift: Shift = None
    folder: Annotated[
        Path | None, results_option(help="Where the training is kept, epoch by epoch; --resume goes on from it.")
    ] = None
    to_card: Annotated[
        bool, data_set_option("--to-card", help="Send the data set to the board's card once, then sample numbers.")
    ] = False
    features: Annotated[
        str, data_set_option(help="Of a plan on features: kept by the board over the epochs, or made for each-step.")
    ] = KEPT
    validate: Annotated[
        bool, validation_option("--validate", help="Loss and accuracy on x_val, y_val after each epoch.")
    ] = False
    best: Annotated[
        str | None,
        validation_option(metavar="right|loss", help="What --folder's best epoch is. [right; loss without classes]"),
    ] = None
    patience: Annotated[
        int | None,
        validation_option(min=1, help="End after N epochs without a lower validation loss (loss, if none is known)."),
    ] = None
    min_delta: Annotated[float | None, validation_option(min=0.0, help="By how much a loss has to be lower. [0]")] = (
        None
    )


def command(
    connection: Connection,
    given: Beginning,
    options: EpochOptions,
    files: ResultFiles,
    resume: Annotated[bool, training_option("--resume", help="Go on from what --folder keeps.")] = False,
) -> None:
    """Train over epochs of a data set of any size under a plan.

    --folder keeps weights and a row of figures after each epoch, and --resume goes on from there with the same bits as
    if nothing had been in between. Weights that a plan keeps on the card stay there, and it goes on from those.
    Otherwise as poet-harness run: the first step is traced, and what was observed is written however the training ends.

        poet-harness train -b nrf52840 --emulate --plan plan --data data.npz --samples set.npz --epochs 9
        poet-harness train -b nrf52840 --plan plan --data data.npz --samples set.npz --epochs 9 --validate
    """
    from poet_profiles.errors import UserError
    from poet_profiles.program.json_output import print_json

    from ..training.best_epoch import is_best
    from ..training.run_folder import BEST_FILE
    from .console import wide_console
    from .steps_report import document, print_steps

    asked = session(connection, given, files)
    if options.folder and asked.plan.commits_steps and connection.takes_image(asked.board) and connection.card is None:
        raise UserError(
            "--folder: the plan keeps its weights on the card, and the card of an emulated board is gone with this "
            "command; name one that stays with --card FILE"
        )
    data = asked.read_data(0)
    training = training_over_epochs(options, asked.plan, data, given.learning_rate, resume)
    results = asked.results(data, training.course.steps, resume)
    with training.held():
        trained = asked.train(data, training.course.steps, results, partial(_train, training, given.commit_every))
    if files.trained and options.validate and not is_best(training.rows, options.best == "loss"):
        which = f"; the best one's are in {options.folder / BEST_FILE}" if options.folder else ", which is not the best"
        print(f"poet-harness: {files.trained}: has the weights of the last epoch{which}", file=sys.stderr)
    if files.as_json:
        print_json(document(trained, training.rows))
        return
    if training.rows:
        wide_console().print(epochs_table(training.rows))
    print_steps(asked, trained)


def _train(training: Epochs, commit_every: int, target: Target, trainer: Trainer) -> None:
    if training.course.on_card is not None:
        send_samples(training.course.on_card, target.device)
    train_with_progress(training, trainer, commit_every, target.meter.source)


def training_over_epochs(
    options: EpochOptions, plan: Plan, data: TrainingData, learning_rate: float, resume: bool
) -> Epochs:
    """The training that is asked for, where it begins."""
    from poet_profiles.errors import UserError
    from poet_profiles.quantised import read_normalising

    from ..card.sample_set import SampleSet
    from ..data.class_order import words_on_order
    from ..data.samples import batch_tensors, read_samples
    from ..training.best_epoch import Patience
    from ..training.course import Course
    from ..training.epochs import Epochs
    from ..training.features import refuse_changing
    from ..training.feeding import Order
    from ..training.rates import Rates

    if options.to_card and plan.keeps_batches:
        raise UserError("--to-card: the plan has its batch on the card, where each step's is sent; leave it out")
    if options.to_card and plan.documents:
        raise UserError("--to-card: a Linux board has no card of poet's; leave it out, the samples go over the line")
    if resume and options.folder is None:
        raise UserError("--resume: training over epochs goes on from a folder; name it with --folder")
    _refuse_without_validation(options)
    if options.features not in (KEPT, EACH_STEP):
        raise UserError(f"--features {options.features}: there are {KEPT}, {EACH_STEP}")
    normalising = read_normalising(options.scale, options.shift)
    sets = read_samples(options.samples, plan, normalising)
    if plan.extraction is not None and options.features == KEPT:
        refuse_changing(sets.train, options.samples)
    order = Order(sets.train.count, batch_tensors(plan)[1], options.shuffle, plan.micro_batches)
    rates = Rates(
        base=learning_rate,
        schedule=options.schedule,
        warmup=options.warmup,
        steps=options.epochs * order.steps_per_epoch,
        steps_per_epoch=order.steps_per_epoch,
        every=options.every,
        factor=options.factor,
    )
    if order.left_out:
        which = "others in each" if options.shuffle is not None else "always the last ones; --shuffle takes turns"
        print(
            f"poet-harness: {options.samples}: {order.count} samples are {order.steps_per_epoch} batches of "
            f"{order.batch}; {order.left_out} are left out in each epoch, {which}",
            file=sys.stderr,
        )
    on_card = SampleSet(plan, sets.train, normalising) if options.to_card else None
    in_order = options.shuffle is None and order.steps_per_epoch > 1
    held_back = sets.validation if options.validate else None
    for words in words_on_order(batch_tensors(plan)[0], sets.train, held_back, in_order):
        print(f"poet-harness: {options.samples}: {words}", file=sys.stderr)
    validation = _validation(options, plan, sets.validation) if options.validate else None
    course = Course(
        *(plan, data, sets.train, order, options.epochs, rates, normalising, on_card, validation),
        best_by_loss=options.best == "loss",
        patience=Patience(options.patience, options.min_delta or 0.0) if options.patience else None,
        keeps_features=options.features == KEPT,
    )
    return Epochs(course, options.folder, resume)


def _refuse_without_validation(options: EpochOptions) -> None:
    from poet_profiles.errors import UserError

    if options.min_delta is not None and options.patience is None:
        raise UserError("--min-delta: says nothing without --patience; leave it out")
    if options.best not in (None, "right", "loss"):
        raise UserError(f"--best {options.best}: there are right, loss")
    if options.best is not None and not (options.validate and options.folder):
        raise UserError(f"--best {options.best}: says nothing without --validate and --folder; leave it out")


def _validation(options: EpochOptions, plan: Plan, samples: Samples | None) -> Samples:
    from poet_profiles.errors import UserError

    from ..training.evaluation import counts_right_answers

    if plan.inference is None:
        raise UserError("--validate: the plan has no inference; poet-plan says why when it plans")
    counts, loss = counts_right_answers(plan), plan.inference.loss
    if not counts and loss is None:
        raise UserError(
            "--validate: the targets are no classes, and the plan does not say what its loss is (it draws random "
            "numbers, or is written for one size of a batch); leave it out, or plan again with another"
        )
    if (options.best == "right" and not counts) or (options.best == "loss" and loss is None):
        missing = "no answer is right or wrong" if options.best == "right" else "the plan does not say what its loss is"
        raise UserError(f"--best {options.best}: {missing}; leave it out")
    if loss is None:
        print("poet-harness: the plan does not say what its loss is: the validation has no loss", file=sys.stderr)
    if samples is None or not samples.count:
        raise UserError(f"--validate: {options.samples} has nothing to validate with; add x_val and y_val")
    return samples


def send_samples(samples: SampleSet, device: Device) -> None:
    """Send a data set to the card in the board, unless it is there already."""
    from poet_profiles.errors import NO_DEVICE, UserError
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    from ..protocol.link import DeviceError
    from ..training.trainer import CURES

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    try:
        if samples.is_on(device):
            return
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("data set to the card", total=samples.total_bytes)
            samples.send(device, lambda count: progress.advance(task, count))
    except DeviceError as error:
        cure = next((cure for words, cure in CURES.items() if words in error.text), "")
        raise UserError(f"{device.link.name}: the data set is not on the card: {error}{cure}", NO_DEVICE) from None


def train_with_progress(epochs: Epochs, trainer: Trainer, commit_every: int, source: str) -> None:
    """Train, and show on standard error how far it is: the step's loss, and a line an epoch.

    Raises
    ------
    UserError
        As :meth:`Trainer.train`; or on a signal, with its exit code, once what was trained is kept.
    """
    from poet_profiles.errors import UserError
    from poet_profiles.program.stopping import Stopped, acted_upon, finishing
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..training.finite import NotFiniteError

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    begin, per_epoch = epochs.begins.step, epochs.course.order.steps_per_epoch
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=epochs.course.steps, completed=begin)

        def told(step: ObservedStep) -> None:
            number = step.number + 1
            words = f"epoch {step.number // per_epoch + 1} of {epochs.course.epochs}, loss {loss_text(step.loss)}"
            progress.update(task, completed=number, description=words)
            if number % per_epoch == 0:
                progress.console.print(_line(epochs.rows[-1]), highlight=False)
                if epochs.ended:
                    progress.console.print(f"ended: {epochs.ended}", highlight=False)

        try:
            epochs.train(trainer, commit_every, source, told)
        except Stopped as stopped:
            acted_upon()
            words = f"{stopped} after {len(trainer.observed)} steps"
            try:
                with finishing():
                    epochs.keep(trainer)
            except UserError as error:
                words += f"; those since step {epochs.kept} are not kept: {error}"
            if epochs.folder is not None:
                words += f"; --resume goes on after step {epochs.kept}"
            raise UserError(words, stopped.exit_code) from None
        except NotFiniteError:
            raise  # the folder has the last epoch; what came after it has led here
        except UserError:
            with suppress(UserError):  # the first one says why it ended
                epochs.keep(trainer)
            raise


def _line(row: EpochRow) -> str:
    energy = "energy unknown" if row.energy_j is None else energy_text(row.energy_j, 4)
    known = "" if row.validation_loss is None else f", validation loss {loss_text(row.validation_loss)}"
    known += "" if row.accuracy is None else f", {row.right} of {row.labels} right ({row.accuracy:.1%})"
    return f"epoch {row.epoch}: loss {loss_text(row.loss)}{known}, {energy}, {time_text(row.time_s, 4)} on the board"


def epochs_table(rows: Sequence[EpochRow]) -> Table:
    """A row an epoch, the first and the last ones."""
    from rich.table import Table

    counted, weighed = rows[-1].right is not None, rows[-1].validation_loss is not None
    known = (*(("validation\nloss",) if weighed else ()), *(("right",) if counted else ()))
    columns = ("epoch", "loss", *known, "learning rate", "energy", "time")
    table = Table(*columns, title=f"Epochs ({rows[-1].source})")
    shown = list(rows)
    if len(shown) > MOST_EPOCHS_SHOWN:
        shown = [*shown[: MOST_EPOCHS_SHOWN // 2], *shown[-MOST_EPOCHS_SHOWN // 2 :]]
    for row in shown:
        energy = "" if row.energy_j is None else energy_text(row.energy_j, PRECISE)
        loss = ("" if row.validation_loss is None else loss_text(row.validation_loss),) if weighed else ()
        known = (*loss, *((f"{row.right} of {row.labels}",) if counted else ()))
        figures = (f"{row.learning_rate:.4g}", energy, time_text(row.time_s, PRECISE))
        table.add_row(str(row.epoch), loss_text(row.loss), *known, *figures)
    return table
