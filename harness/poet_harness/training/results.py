# SPDX-License-Identifier: Apache-2.0
"""The files that a training run leaves: looked at before it begins, written however it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.files.arrays import npz
from poet_profiles.files.whole_file import check_writable, write_or_rescue
from poet_profiles.program.stopping import undisturbed

from .comparison import as_csv, compare
from .finite import NotFiniteError
from .trained_files import check_suffix, optimizer_path, trained_files

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..card.reading import Weights
    from ..data.weights import StateTable
    from ..plan_folder.plan import Plan
    from .observed import ObservedStep
    from .trainer import Trainer

ROW_BYTES = 350


def check_results(sizes: Iterable[tuple[Path | None, int]], inputs: Iterable[Path | None]) -> None:
    """Make sure that files of so many bytes can be written, and that none is read, or written twice."""
    taken = {path.resolve() for path in inputs if path is not None}
    for path, size_bytes in sizes:
        if path is None:
            continue
        if path.resolve() in taken:
            raise UserError(f"{path}: is read, or written twice; name another file for the results")
        check_writable(path, size_bytes)
        taken.add(path.resolve())


class Results:
    """Where a run's results go.

    Parameters
    ----------
    plan : Plan
        What is run.
    out : Path, optional
        CSV, predicted and observed, row by row.
    save : Path, optional
        .npz, loss and gradients of every step.
    trained : Path, optional
        .safetensors, the trained model's ``state_dict``; with an optimiser that has a state, a second file beside it.
    """

    def __init__(self, plan: Plan, out: Path | None, save: Path | None, trained: Path | None = None) -> None:
        self._plan = plan
        self._out = out
        self._save = save
        self._trained = trained
        self._optimizer = optimizer_path(trained) if trained is not None and plan.optimizer.state else None

    def check(self, steps: int, resume: bool, inputs: Iterable[Path | None]) -> None:
        """Make sure that every file can be written, and overwrites nothing that the run reads or has to leave alone."""
        if self._trained is not None:
            check_suffix(self._trained)
        sizes = [
            (self._out, (steps + len(self._plan.actions)) * ROW_BYTES),
            (self._save, steps * self._bytes("gradient")),
            *((path, self._bytes("parameter", "state")) for path in (self._trained, self._optimizer)),
        ]
        check_results(sizes, inputs)
        for path, _ in sizes:
            if resume and path is not None and path.is_file():
                raise UserError(f"{path}: exists already, with the steps before those to come; name another file")

    def _bytes(self, *kinds: str) -> int:
        return sum(tensor.bytes for tensor in self._plan.tensors if tensor.kind in kinds)

    def write(self, trainer: Trainer, source: str) -> None:
        """Write what was observed. Where a file cannot be written any more, say on standard error where it is instead.

        Raises
        ------
        UserError
            If no folder can be written; the rows are then on standard output.
        """
        steps = trainer.observed
        for number in trainer.unseen:
            _say(f"step {number} counts, but its loss is lost: the board was reset before it could tell")
        if not steps:
            return
        if self._out is not None:
            rows = as_csv(compare(self._plan, trainer, source))
            try:
                _keep(self._out, rows)
            except OSError:
                sys.stdout.write(rows)
                raise UserError(f"{self._out}: could not be written, nor any other; its rows are printed") from None
        if self._save is not None:
            _keep_binary(self._save, npz(_arrays(steps)))
            if self._plan.commits_steps and not steps[0].gradients:
                _say(f"{self._save}: has losses alone: where parameters lie on the card, no gradient is ever whole")

    def write_weights(
        self, trainer: Trainer, read: Callable[[], Weights], state: StateTable, learning_rate: float
    ) -> None:
        """Read the trained weights back and write them; say on standard error why not, where that fails."""
        if self._trained is None or not trainer.is_finite or not (trainer.observed or trainer.unseen):
            return
        try:
            weights = read()
        except NotFiniteError:
            raise
        except UserError as error:
            _say(f"{self._trained}: not written: the weights could not be read back: {error}")
            return
        if weights.fell_back:
            _say(f"{self._trained}: those of the last step are damaged on the card; these are of step {weights.step}")
        with undisturbed():
            for path, content in trained_files(self._trained, self._plan, state, weights, learning_rate).items():
                _keep_binary(path, content)
        for name in state.unkept:
            _say(f"{self._trained}: {name}: as at the beginning: only PyTorch follows how a step changes it")


def _keep_binary(path: Path, content: bytes) -> None:
    try:
        _keep(path, content)
    except OSError as error:
        raise UserError(f"{path}: could not be written, nor any other: {error.strerror}") from None


def _keep(path: Path, content: str | bytes) -> None:
    if note := write_or_rescue(path, content):
        _say(note)


def _say(words: str) -> None:
    print(f"poet-harness: {words}", file=sys.stderr)


def _arrays(steps: Sequence[ObservedStep]) -> dict[str, NDArray[Any]]:
    """``loss`` of shape (steps,), and every gradient with a leading axis over the steps; NaN for a step unseen."""
    first = steps[0].number
    observed: dict[str, NDArray[Any]] = {"loss": np.array(0, np.float32), **steps[0].gradients}
    arrays = {
        name: np.full((steps[-1].number + 1 - first, *array.shape), np.nan, array.dtype)
        for name, array in observed.items()
    }
    for step in steps:
        arrays["loss"][step.number - first] = step.loss
        for name, gradient in step.gradients.items():
            arrays[name][step.number - first] = gradient
    return arrays
