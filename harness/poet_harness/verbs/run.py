# SPDX-License-Identifier: Apache-2.0
"""``poet-harness run``: training steps on the board, predicted against observed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from poet_profiles.amounts import loss_text

from .option_groups import Beginning, Connection, ResultFiles
from .options import training_option
from .session import session

if TYPE_CHECKING:
    from ..data.batches import TrainingData
    from ..target.connect import Target
    from ..training.observed import ObservedStep
    from ..training.trainer import Trainer

NAME = "run"


def command(
    connection: Connection,
    given: Beginning,
    files: ResultFiles,
    steps: Annotated[int, typer.Option(min=1, help="Training steps, one batch each.")] = 1,
    resume: Annotated[bool, training_option("--resume", help="Go on from the weights kept on the card.")] = False,
) -> None:
    """Run training steps under a plan, and compare energy and time with the prediction.

    The first step is traced: every operator and every page transfer is timed and metered for itself. What was observed
    is written to --out and --save however the training ends. Ctrl-C, or SIGTERM, ends it after the step under way; a
    second one at once. Training over epochs of a data set is poet-harness train.

    Where a plan keeps parameters and batches on the card, the card has to be prepared (poet-harness card). That of a
    board that runs here is, where --card names no file; that of a real one as well, where it is empty and the model is
    small. Every step commits; --resume goes on after the last one.

    For experiments there are --card-pauses SEED (docs/emulation.md) and --threads N (docs/linux_boards.md), too.

        poet-harness run -b nrf52840 --emulate --plan plan --data data.npz --steps 20 --out observed.csv
        poet-harness run -b nrf52840 --plan plan --data data.npz --weights w.npz --trained w.safetensors
    """
    from poet_profiles.errors import UserError
    from poet_profiles.program.json_output import print_json

    from .steps_report import document, print_steps

    asked = session(connection, given, files)
    if resume and asked.plan.documents:
        raise UserError(f"--resume: {asked.board.name} keeps no weights; --trained writes them at the end")
    for option, file in (("--weights", given.weights), ("--state", given.state)):
        if file is not None and resume:
            raise UserError(f"{option}: a run that is resumed begins with what the card has; leave one of the two out")
    data = asked.read_data(steps)
    results = asked.results(data, steps, resume)
    card_stays = connection.card is not None or not connection.takes_image(asked.board)
    trained = asked.train(
        data, steps, results, partial(_with_progress, given, data, resume=resume, steps=steps, card_stays=card_stays)
    )
    if files.as_json:
        print_json(document(trained))
    else:
        print_steps(asked, trained)


def _with_progress(
    given: Beginning,
    data: TrainingData,
    _target: Target,
    trainer: Trainer,
    *,
    resume: bool,
    steps: int,
    card_stays: bool,
) -> None:
    from poet_profiles.errors import UserError
    from poet_profiles.program.stopping import Stopped, acted_upon
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("training", total=steps)

        def done(step: ObservedStep) -> None:
            progress.update(task, advance=1, description=f"loss {loss_text(step.loss)}")

        try:
            trainer.train(data, given.learning_rate, given.commit_every, resume, done, steps=steps)
        except Stopped as stopped:
            acted_upon()
            kept = card_stays and trainer.held.kept is not None
            words = f"; --resume goes on after step {trainer.held.kept}" if kept else ""
            raise UserError(f"{stopped} after {len(trainer.observed)} steps{words}", stopped.exit_code) from None
