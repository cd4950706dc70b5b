# SPDX-License-Identifier: Apache-2.0
"""Training over epochs of a data set: each step's batch, a row an epoch, and what is kept to go on from."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.files.whole_file import folder_held

from .best_epoch import is_best
from .features import KeptSamples, KeptSet
from .feeding import FromCard, OverTheLine
from .metering import Metering
from .run_folder import BEST_FILE, EpochRow, Progress, RunFolder, SeenStep

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ..data.batches import TrainingData
    from ..protocol.device import Hello
    from .course import Course
    from .evaluation import Evaluation
    from .observed import ObservedStep
    from .trainer import Trainer

UNSEEN = SeenStep(math.nan, math.nan, math.nan)  # the card has a step that a reset kept from being told


def _of_validation(found: Evaluation) -> dict[str, Any]:
    return {
        "right": found.correct,
        "labels": None if found.correct is None else found.labels,
        "validated": found.count,
        "validation_loss": found.loss,
        "inference_time_s": found.time_s,
        "inference_energy_j": found.energy_j,
    }


def _tell(words: str) -> None:
    print(f"poet-harness: {words}", file=sys.stderr)


def _seen(step: ObservedStep) -> SeenStep:
    """With the features that were made for it."""
    energy_j, features_j = (math.nan if one is None else one for one in (step.energy_j, step.features.energy_j))
    features_s = step.features.time_s
    return SeenStep(step.loss, energy_j + features_j, step.report.work_s + features_s, features_j, features_s)


class _EnoughError(Exception):
    """Patience has ended: the board is given no more batches."""


class Epochs:
    """A training under way.

    Parameters
    ----------
    course : Course
    folder : Path or None
        Where it is kept, so that another command can go on; None: nowhere.
    resume : bool
        Go on from what the folder holds.

    Attributes
    ----------
    begins : TrainingData
        What this command begins with.
    kept : int
        How many steps made the weights that the folder holds.
    rows : list of EpochRow
        Of the epochs that are complete.
    ended : str or None
        Why no epoch follows, if patience says so.
    """

    def __init__(self, course: Course, folder: Path | None, resume: bool) -> None:
        self.course = course
        self._folder = RunFolder(folder, course.plan, course.settings()) if folder else None
        self._resume = resume
        self.rows: list[EpochRow] = []
        self._validation_kept_as: int | None = None
        self._begin(Progress(course.data, ()))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the folder, if there is one, to oneself, and begin where it says, for as long as the context lasts.

        Raises
        ------
        UserError
            If another run has it, it says otherwise (:meth:`RunFolder.begin`), or nothing is left to do.
        """
        if self._folder is None:
            yield
            return
        with folder_held(self._folder.path):
            begins, self.rows = self._folder.begin(self.course.data, self._resume)
            if begins.data.step >= self.course.steps:
                raise UserError(f"{self.folder}: has {begins.data.step} steps already; ask for more --epochs")
            if self.ended:
                raise UserError(f"{self.folder}: has ended: {self.ended}; ask for more --patience")
            self._begin(begins)
            yield

    def _begin(self, begins: Progress) -> None:
        self.begins = begins.data
        first = self.begins.step - len(begins.seen)
        self._seen = {first + place: step for place, step in enumerate(begins.seen)}
        self.kept = self.begins.step

    @property
    def folder(self) -> Path | None:
        return self._folder.path if self._folder else None

    @property
    def ended(self) -> str | None:
        patience = self.course.patience
        return patience.ended(self.rows) if patience else None

    def train(self, trainer: Trainer, commit_every: int, source: str, told: Callable[[ObservedStep], None]) -> None:
        """Train to the end, or until something ends it: what :meth:`Trainer.train` raises.

        Parameters
        ----------
        told : callable
            Of every step, after its epoch's row if it is the last of one.
        """
        course = self.course
        if self._folder is not None:
            self._folder.keep_settings()
        feed: OverTheLine | FromCard = OverTheLine(
            course.samples, course.order, course.normalising, course.plan.keeps_batches
        )
        if course.on_card is not None:
            feed = FromCard(course.on_card, course.order)

        def done(step: ObservedStep) -> None:
            self._seen[step.number] = _seen(step)
            if (step.number + 1) % course.order.steps_per_epoch == 0:
                self._end_epoch(trainer, step.number, source)
            told(step)

        def asked(number: int) -> None:
            epochs, place = divmod(number, self.course.order.steps_per_epoch)
            if place == 0 and epochs and all(row.epoch != epochs for row in self.rows):
                self._end_epoch(trainer, number - 1, source)  # a reset kept its last step from being told
            if number == self.course.order.steps_per_epoch * len(self.rows) and self.ended:
                raise _EnoughError

        def fed(number: int, part: int) -> None:
            asked(number)
            feed(trainer.device, number, part)

        def of_step(number: int) -> NDArray[np.int64]:
            asked(number)
            return course.order(number)

        sets = self._kept_sets(trainer.device.hello, feed)
        self._validation_kept_as = sets[1].first if len(sets) > 1 else None

        with suppress(_EnoughError):
            trainer.train(
                self.begins,
                course.rates,
                commit_every,
                self._resume and course.plan.commits_steps,
                done,
                steps=course.steps,
                feed=fed,
                kept_samples=KeptSamples(of_step, sets) if sets else None,
            )

    def _kept_sets(self, hello: Hello, feed: OverTheLine | FromCard) -> tuple[KeptSet, ...]:
        """Samples of which the board is to keep features, those of the validation last; people are told."""
        course, extraction = self.course, self.course.plan.extraction
        if extraction is None or not course.keeps_features:
            return ()
        count, validated = course.samples.count, course.validation.count if course.validation else 0
        wanted = count + (validated if extraction.inference else 0)
        room = f"the board's RAM has room for those of {hello.room} samples of {wanted}"
        cure = f"poet-plan --features {wanted} makes it"
        sets = [KeptSet(count, feed.put)]
        on_card = extraction.read_time_s > 0
        if hello.room < count and not on_card:
            _tell(f"features are computed at each use: {room}; {cure}")
            return ()
        if course.validation is not None and extraction.inference and (hello.room >= wanted or on_card):
            line = OverTheLine(course.validation, course.order, course.normalising)
            sets.append(KeptSet(validated, line.put, count))
        kept = sum(one.count for one in sets)
        beyond = f", those of {kept - hello.room} on its card" if kept > hello.room else ""
        _tell(f"features of {kept} samples are computed once, and kept in the board's RAM{beyond}")
        if kept < wanted:
            _tell(f"a validation computes all of its samples each time: {room}; {cure}")
        return tuple(sets)

    def _end_epoch(self, trainer: Trainer, last: int, source: str) -> None:
        course = self.course
        count = course.order.steps_per_epoch
        seen = [self._seen.get(number, UNSEEN) for number in range(last + 1 - count, last + 1)]
        energy_j = math.fsum(step.energy_j for step in seen)
        features_j = math.fsum(step.features_energy_j for step in seen)
        # Before the weights are kept: a reset meanwhile begins the epoch anew, or it would have no row.
        found = self._validated(trainer)
        row = EpochRow(
            epoch=last // count + 1,
            steps=count,
            samples=count * course.order.batch,
            learning_rate=course.rates(last),
            loss=math.fsum(step.loss for step in seen) / count,
            time_s=math.fsum(step.time_s for step in seen),
            energy_j=None if math.isnan(energy_j) else energy_j,
            features_time_s=math.fsum(step.features_time_s for step in seen),
            features_energy_j=None if math.isnan(features_j) else features_j,
            source=source,
            **({} if found is None else _of_validation(found)),
        )
        data = trainer.keep_here()
        self.rows = [*(other for other in self.rows if other.epoch < row.epoch), row]
        if self._folder is not None and found is not None and is_best(self.rows, course.best_by_loss):
            weights = trainer.weights() if course.plan.commits_steps else course.weights(data)
            self._folder.keep_best(course.trained_files(self._folder.path / BEST_FILE, weights))
        self._keep(data)

    def _validated(self, trainer: Trainer) -> Evaluation | None:
        from .evaluation import evaluate

        course = self.course
        if course.validation is None:
            return None
        return evaluate(
            trainer.device,
            Metering(trainer.metering.meter, trainer.metering.idle_power_w),
            course.plan,
            course.validation,
            normalising=course.normalising,
            kept_as=self._validation_kept_as,
        )

    def keep(self, trainer: Trainer) -> None:
        """Keep what was trained since, in the middle of an epoch."""
        steps, per_epoch = trainer.held.in_ram, self.course.order.steps_per_epoch
        if self._folder is None or steps in (None, self.kept):
            return
        if steps == per_epoch * (len(self.rows) + 1):
            return  # the epoch's end was cut: without its row it is done again
        self._keep(trainer.keep_here())

    def _keep(self, data: TrainingData) -> None:
        if self._folder is None:
            return
        begin = data.step // self.course.order.steps_per_epoch * self.course.order.steps_per_epoch
        seen = tuple(self._seen.get(number, UNSEEN) for number in range(begin, data.step))
        self._folder.keep(Progress(data, seen), self.rows)
        self.kept = data.step
