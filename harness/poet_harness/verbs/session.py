# SPDX-License-Identifier: Apache-2.0
"""A plan trained on a board, as ``run`` and ``train`` have in common: checked, opened, trained, written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from .flash import flashed_image

if TYPE_CHECKING:
    from collections.abc import Callable

    from poet_profiles.boards import Board

    from ..data.batches import TrainingData
    from ..meters.meter import Meter
    from ..plan_folder.plan import Plan
    from ..target.connect import Target
    from ..training.results import Results
    from ..training.trainer import Trainer
    from .option_groups import Beginning, Connection, ResultFiles


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    plan: Plan
    trainer: Trainer
    meter: Meter
    stack_bytes: int


@dataclass(frozen=True)
class Session:
    """A training that was asked for; nothing is opened or written yet."""

    connection: Connection
    given: Beginning
    files: ResultFiles
    board: Board
    plan: Plan

    def read_data(self, batches: int) -> TrainingData:
        """Parameters, and so many batches; all of them where they lie on the card."""
        from ..data.batches import read_training_data

        count = None if self.plan.keeps_batches and batches else batches
        return read_training_data(self.given.data, self.plan, count, self.given.weights, self.given.state)

    def results(self, data: TrainingData, steps: int, resume: bool) -> Results:
        """Where results go, once it is sure that they can."""
        from poet_profiles.plan_folder.files import PLAN_FILES

        from ..training.results import Results

        data.state.check_steps(steps)
        results = Results(self.plan, self.files.out, self.files.save, self.files.trained)
        read = [self.given.data, self.connection.card, self.given.weights, self.given.state]
        results.check(steps, resume, [*read, *(self.given.plan / name for name in PLAN_FILES)])
        return results

    def train(
        self, data: TrainingData, steps: int, results: Results, train: Callable[[Target, Trainer], None]
    ) -> Trained:
        """Open the board, let ``train`` train, and write the results however it ends."""
        from contextlib import ExitStack
        from functools import partial

        from poet_profiles.errors import NO_DEVICE, UserError
        from poet_profiles.program.stopping import finishing, undisturbed

        from ..card.image import prepared_image
        from ..card.reading import weights_in
        from ..training.trainer import Trainer

        plan, card, image = self.plan, self.connection.card, None
        with ExitStack() as opening:
            if self.connection.takes_image(self.board):
                image = flashed_image(self.given.plan, self.board)
                card = opening.enter_context(prepared_image(card, plan, data, steps))
            target = opening.enter_context(self.connection.open(self.board, image, card))
            if self.board.kind != "program":
                _warn_of_stale_costs(plan, target.device.hello.build)
            trainer = Trainer(target.device, target.meter, plan, gradients=self.files.save is not None)
            if target.fresh_card:
                target.device.format()
            on_card = card if image is not None and plan.commits_steps else None
            read = trainer.weights if on_card is None else partial(weights_in, on_card, plan)
            try:
                train(target, trainer)
            finally:
                # The trained weights are on the board alone: only a second signal ends the command before they are
                # read.
                with finishing():
                    with undisturbed():
                        results.write(trainer, target.meter.source)
                    results.write_weights(trainer, read, data.state, self.given.learning_rate)
            stack_bytes = target.device.stack()
        if not trainer.observed:
            raise UserError("the board trained, and was reset before it could tell anything of it", NO_DEVICE)
        return Trained(plan, trainer, target.meter, stack_bytes)


def session(connection: Connection, given: Beginning, files: ResultFiles) -> Session:
    """Board and plan of a training that can be one."""
    from poet_profiles.boards import load_board
    from poet_profiles.errors import UserError

    from ..plan_folder.plan import read_plan
    from ..protocol.device import check_learning_rate

    check_learning_rate(given.learning_rate)
    board = load_board(connection.board)
    plan = read_plan(given.plan)
    if plan.documents and board.kind != "linux":
        raise UserError(f"{given.plan}: is for a Linux board, under PyTorch; plan with a profile of {board.name}")
    if plan.documents and given.commit_every:
        raise UserError(f"--commit-every: {board.name} keeps no weights; --trained writes them at the end")
    if given.weights is not None and not given.weights.exists():
        raise UserError(f"{given.weights}: no such file; the trained weights are written by --trained")
    return Session(connection, given, files, board, plan)


def _warn_of_stale_costs(plan: Plan, firmware: str) -> None:
    """A build's identity is that of its sources, with or without a model: any other may have other kernels."""
    others = [build for build in (plan.summary.firmware if plan.summary else ()) if build != firmware]
    if others:
        typer.echo(
            f"the plan's costs were profiled with firmware {', '.join(others)}, the board runs {firmware}: predictions "
            "may be stale; profile again and plan again",
            err=True,
        )
