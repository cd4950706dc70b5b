# SPDX-License-Identifier: Apache-2.0
"""What ``poet-harness run`` is asked for training over epochs of a data set, and what it shows of it."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ..card.sample_set import SampleSet
    from ..data.batches import TrainingData
    from ..data.samples import Samples
    from ..plan_folder.plan import Plan
    from ..protocol.device import Device
    from ..training.epochs import Epochs
    from ..training.run_folder import EpochRow
    from ..training.trainer import ObservedStep, Trainer

MOST_EPOCHS_SHOWN = 20

SamplesSource = Annotated[
    str | None,
    typer.Option(
        "--samples",
        help="Data set to train on by epochs: .npz with x and y (or x_train, x_val, …), a folder with x.npy and y.npy, "
        "or module:callable. Only the parameters of --data are used then.",
    ),
]
EpochCount = Annotated[int | None, typer.Option("--epochs", min=1, help="How often the data set is gone through.")]
Shuffle = Annotated[
    int | None,
    typer.Option(min=0, metavar="SEED", help="With --epochs: another order in each epoch; as it stands if not given."),
]
RateSchedule = Annotated[
    str, typer.Option("--schedule", help="With --epochs, of the learning rate: constant, step or cosine.")
]
Warmup = Annotated[
    int, typer.Option(min=0, help="With --epochs: so many steps at the beginning lead up to the learning rate.")
]
Every = Annotated[int, typer.Option("--every", min=1, help="With --schedule step: epochs between two changes.")]
Factor = Annotated[float, typer.Option(min=0.0, help="With --schedule step: what the rate is multiplied by.")]
Scale = Annotated[
    str | None,
    typer.Option(help="Of u8, i8 or i16 samples, (q - shift) * scale: a number, 1/255, or one a channel: 0.1,0.2."),
]
Shift = Annotated[str | None, typer.Option(help="See --scale; 0 if not given.")]
ToCard = Annotated[
    bool,
    typer.Option("--to-card", help="With --epochs: send the data set to the board's card once, then sample numbers."),
]
Validate = Annotated[
    bool,
    typer.Option("--validate", help="With --epochs: behind each one, how much of x_val and y_val the board knows."),
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", help="With --epochs: where the training is kept, epoch by epoch; --resume goes on from it."
    ),
]


@dataclass(frozen=True)
class EpochOptions:
    """Options of training over epochs, as they were given."""

    samples: str | None
    epochs: int | None
    shuffle: int | None
    schedule: str
    warmup: int
    every: int
    factor: float
    scale: str | None
    shift: str | None
    folder: Path | None
    to_card: bool
    validate: bool


def asked_for(options: EpochOptions, steps: int | None) -> bool:
    """Whether training over epochs is.

    Raises
    ------
    UserError
        If only some of it is.
    """
    from poet_profiles.errors import UserError

    if options.epochs is None:
        given = {
            "--samples": options.samples is not None,
            "--shuffle": options.shuffle is not None,
            "--schedule": options.schedule != "constant",
            "--warmup": options.warmup > 0,
            "--scale": options.scale is not None,
            "--shift": options.shift is not None,
            "--folder": options.folder is not None,
            "--to-card": options.to_card,
            "--validate": options.validate,
        }
        for option, is_given in given.items():
            if is_given:
                raise UserError(f"{option}: belongs to training over epochs; say how many with --epochs")
        return False
    if options.samples is None:
        raise UserError("--epochs: needs a data set to go through; name it with --samples")
    if steps is not None:
        raise UserError("--steps: --epochs says how many there are; leave one of them out")
    return True


def training_over_epochs(
    options: EpochOptions, plan: Plan, data: TrainingData, learning_rate: float, resume: bool
) -> Epochs:
    """The training that is asked for, where it begins.

    Raises
    ------
    UserError
        If data set, plan and options do not fit together.
    """
    from poet_profiles.errors import UserError
    from poet_profiles.quantised import read_normalising

    from ..card.sample_set import SampleSet
    from ..data.samples import batch_tensors, read_samples
    from ..training.epochs import Course, Epochs
    from ..training.feeding import Order
    from ..training.rates import Rates

    assert options.samples is not None
    assert options.epochs is not None
    if plan.card is not None:
        raise UserError(
            "--epochs: the plan keeps its batches on the card, which is prepared once (poet-harness card); plan with "
            "--parameters resident, or leave --epochs out: its batches are used again and again"
        )
    if options.to_card and plan.documents:
        raise UserError("--to-card: a Linux board has no card of poet's; leave it out, the samples go over the line")
    if resume and options.folder is None:
        raise UserError("--resume: training over epochs goes on from a folder; name it with --folder")
    normalising = read_normalising(options.scale, options.shift)
    sets = read_samples(options.samples, plan, normalising)
    order = Order(sets.train.count, batch_tensors(plan)[1], options.shuffle)
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
    validation = _validation(options, plan, sets.validation) if options.validate else None
    course = Course(plan, data, sets.train, order, options.epochs, rates, normalising, on_card, validation)
    return Epochs(course, options.folder, resume)


def _validation(options: EpochOptions, plan: Plan, samples: Samples | None) -> Samples:
    from poet_profiles.errors import UserError
    from poet_profiles.graph.kept import BATCH_KINDS

    targets = [tensor for tensor in plan.residents if tensor.kind == BATCH_KINDS[1]]
    if plan.inference is None:
        raise UserError("--validate: the plan has no inference; poet-plan says why when it plans")
    if len(targets) != 1 or targets[0].id not in plan.choices:
        raise UserError("--validate: counts right answers, and the plan's targets are no classes; leave it out")
    if samples is None or not samples.count:
        raise UserError(f"--validate: {options.samples} has nothing to validate with; add x_val and y_val")
    return samples


def send_samples(samples: SampleSet, device: Device) -> None:
    """Send a data set to the card in the board, unless it is there already.

    Raises
    ------
    UserError
        If the card has no label or no room for it.
    """
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
    from poet_profiles.stopping import Stopped, acted_upon, finishing
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..training.finite import NotFiniteError

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    begin, per_epoch = epochs.begins.step, epochs.steps_per_epoch
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=epochs.steps, completed=begin)

        def told(step: ObservedStep) -> None:
            number = step.number + 1
            words = f"epoch {step.number // per_epoch + 1} of {epochs.steps // per_epoch}, loss {step.loss:.4f}"
            progress.update(task, completed=number, description=words)
            if number % per_epoch == 0:
                progress.console.print(_line(epochs.rows[-1]), highlight=False)

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
                words += f"; --resume goes on behind step {epochs.kept}"
            raise UserError(words, stopped.exit_code) from None
        except NotFiniteError:
            raise  # the folder has the last epoch; what came after it has led here
        except UserError:
            with suppress(UserError):  # the first one says why it ended
                epochs.keep(trainer)
            raise


def _line(row: EpochRow) -> str:
    energy = "energy unknown" if row.energy_j is None else f"{row.energy_j * 1e3:.4g} mJ"
    known = "" if row.accuracy is None else f", {row.right} of {row.labels} right ({row.accuracy:.1%})"
    return f"epoch {row.epoch}: loss {row.loss:.4f}{known}, {energy}, {row.time_s:.4g} s on the board"


def epochs_table(rows: Sequence[EpochRow]) -> Table:
    """A row an epoch, the first and the last ones."""
    from rich.table import Table

    validated = rows[-1].right is not None
    columns = ("epoch", "loss", *(("right",) if validated else ()), "learning rate", "energy, mJ", "time, s")
    table = Table(*columns, title=f"Epochs ({rows[-1].source})")
    shown = list(rows)
    if len(shown) > MOST_EPOCHS_SHOWN:
        shown = [*shown[: MOST_EPOCHS_SHOWN // 2], *shown[-MOST_EPOCHS_SHOWN // 2 :]]
    for row in shown:
        energy = "" if row.energy_j is None else f"{row.energy_j * 1e3:.4f}"
        known = (f"{row.right} of {row.labels}",) if validated else ()
        figures = (f"{row.learning_rate:.4g}", energy, f"{row.time_s:.4f}")
        table.add_row(str(row.epoch), f"{row.loss:.4f}", *known, *figures)
    return table
