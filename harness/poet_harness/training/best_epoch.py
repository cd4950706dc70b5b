# SPDX-License-Identifier: Apache-2.0
"""Which epoch of a training is its best, and when it gets no better: told from the rows of its epochs alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from poet_profiles.amounts import loss_text

from .run_folder import EpochRow


@dataclass(frozen=True)
class Patience:
    """Ends a training whose loss has not fallen by more than ``min_delta`` for so many epochs.

    The loss is that of the validation, or without one that of the training.
    """

    epochs: int
    min_delta: float = 0.0

    def ended(self, rows: Sequence[EpochRow]) -> str | None:
        """Why the training ends after these epochs; None if it goes on."""
        best, of_epoch, since = math.inf, 0, 0
        for row in rows:
            loss = row.loss if row.validation_loss is None else row.validation_loss
            if loss < best - self.min_delta:
                best, of_epoch, since = loss, row.epoch, 0
            else:
                since += 1
        if since < self.epochs:
            return None
        which = "loss" if rows[-1].validation_loss is None else "validation loss"
        more = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"the {which} has not fallen{more} since epoch {of_epoch}, where it was {loss_text(best)}"


def is_best(rows: Sequence[EpochRow], by_loss: bool) -> bool:
    """Whether the last of these epochs, which was validated, is better than all before it.

    It is by right answers, the more the better, or by validation loss where that is wanted or nothing is counted.
    """
    *before, last = rows
    if by_loss or last.right is None:
        figures = [math.inf if row.validation_loss is None else row.validation_loss for row in (*before, last)]
    else:
        figures = [0.0 if row.right is None else -row.right - 1 for row in (*before, last)]
    return figures[-1] < min(figures[:-1], default=math.inf)
