"""The files that a training run leaves: looked at before it begins, written however it ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from poet_profiles.errors import UserError
from poet_profiles.whole_file import check_writable, write_or_rescue

from .comparison import as_csv, compare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .plan import Plan
    from .trainer import ObservedStep, Trainer

ROW_BYTES = 250


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
    """

    def __init__(self, plan: Plan, out: Path | None, save: Path | None) -> None:
        self._plan = plan
        self._out = out
        self._save = save

    def check(self, steps: int, resume: bool, inputs: Iterable[Path | None]) -> None:
        """Make sure that every file can be written, and overwrites nothing that the run reads or has to leave alone.

        Raises
        ------
        UserError
            With the file that cannot, or must not, be written.
        """
        gradient_bytes = sum(resident.bytes for resident in self._plan.residents if resident.kind == "gradient")
        rows = steps + len(self._plan.actions)
        sizes = {self._out: rows * ROW_BYTES, self._save: steps * gradient_bytes}
        given = [path for path in (self._out, self._save) if path is not None]
        taken = {path.resolve() for path in inputs if path is not None}
        for path in given:
            if path.resolve() in taken:
                raise UserError(f"{path}: the run reads this file, or writes it twice; name another for its results")
            if resume and path.is_file():
                raise UserError(f"{path}: exists already, with the steps before those to come; name another file")
            check_writable(path, sizes[path])
            taken.add(path.resolve())

    def write(self, trainer: Trainer, source: str) -> None:
        """Write what was observed. Where a file cannot be written any more, say on standard error where it is instead.

        Raises
        ------
        UserError
            If no folder can be written; the rows are then on standard output.
        """
        steps = trainer.observed
        if not steps:
            return
        if self._out is not None:
            rows = as_csv(compare(self._plan, steps, trainer.idle_power_w, source))
            try:
                _keep(self._out, rows)
            except OSError:
                sys.stdout.write(rows)
                raise UserError(f"{self._out}: could not be written, nor any other; its rows are printed") from None
        if self._save is not None:
            try:
                _keep(self._save, _arrays(steps))
            except OSError as error:
                raise UserError(f"{self._save}: could not be written, nor any other: {error.strerror}") from None


def _keep(path: Path, content: str | bytes) -> None:
    if note := write_or_rescue(path, content):
        print(f"poet-harness: {note}", file=sys.stderr)


def _arrays(steps: Sequence[ObservedStep]) -> bytes:
    """The bytes of an .npz: ``loss`` of shape (steps,), and every gradient with a leading axis over the steps."""
    arrays: dict[str, NDArray[np.float32]] = {"loss": np.array([step.loss for step in steps], dtype=np.float32)}
    for name in steps[0].gradients:
        arrays[name] = np.stack([step.gradients[name] for step in steps])
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **arrays)
    return content.getvalue()
