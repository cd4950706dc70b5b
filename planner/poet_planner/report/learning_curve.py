# SPDX-License-Identifier: Apache-2.0
"""The learning curve of a training: loss, validation loss and right answers by epoch, from its epochs.csv."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_table, refuse_missing

from poet_planner.report.figures import BUDGET, COLOURS, INK, new_figure
from poet_planner.schedule.timeline import CostTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_MARKED = 40
TRAINING, VALIDATION = COLOURS[CostTerm.COMPUTE], BUDGET


@dataclass(frozen=True)
class Epoch:
    """What is drawn of an epoch; NaN is what it has not."""

    number: int
    loss: float
    validation_loss: float
    accuracy: float
    source: str


def read_epochs(path: Path) -> list[Epoch]:
    """The rows of a training's epochs.csv (docs/SPEC.md, section 8).

    Raises
    ------
    UserError
        If it is no such table, or has no row.
    """
    try:
        table = csv.DictReader(StringIO(read_table(path)))
        refuse_missing(path, table.fieldnames or (), ("epoch", "loss", "source"), "train --folder writes an epochs.csv")
        rows = [_epoch(cells) for cells in table]
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: is no epochs.csv of poet-harness train --folder ({error})") from None
    if not rows:
        raise UserError(f"{path}: has no epoch to draw")
    return rows


def _epoch(cells: dict[str, str]) -> Epoch:
    right, labels = _number(cells, "right"), _number(cells, "labels")
    accuracy = right / labels if labels > 0 else math.nan
    loss = float(cells["loss"])
    return Epoch(int(cells["epoch"]), loss, _number(cells, "validation_loss"), accuracy, cells["source"])


def _number(cells: dict[str, str], name: str) -> float:
    """Blank where nobody validated; older files lack columns of it."""
    return float(cells.get(name) or math.nan)


def learning_curve(epochs: Sequence[Epoch]) -> Figure:
    """Both losses on one axis, since they are compared, and below them the share of right answers, if there are any."""
    from matplotlib.ticker import MaxNLocator

    validated = [epoch for epoch in epochs if not math.isnan(epoch.validation_loss)]
    counted = [epoch for epoch in epochs if not math.isnan(epoch.accuracy)]
    figure, axes = new_figure(6.4, 4.8 if counted else 3.2, rows=2 if counted else 1, sharex=True)
    sources = " and ".join(dict.fromkeys(epoch.source for epoch in epochs))
    title = f"Training over {len(epochs)} epochs ({sources})"
    axes[0].set_title(title, fontsize=10, color=INK, loc="left", parse_math=False)
    _curve(axes[0], epochs, [epoch.loss for epoch in epochs], TRAINING, "o", "training, mean of the epoch's steps")
    if validated:
        losses = [epoch.validation_loss for epoch in validated]
        _curve(axes[0], validated, losses, VALIDATION, "s", "validation, after the epoch")
        lowest = min(validated, key=lambda epoch: epoch.validation_loss)
        best = f"lowest: {lowest.validation_loss:.4g}, epoch {lowest.number}"
        axes[0].plot(lowest.number, lowest.validation_loss, "o", markersize=11, fillstyle="none", color=INK, label=best)
    axes[0].legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("loss", fontsize=9, color=INK)
    if counted:
        _curve(axes[1], counted, [100 * epoch.accuracy for epoch in counted], VALIDATION, "s", "")
        axes[1].set_ylabel("right answers to the\nvalidation set, %", fontsize=9, color=INK)
    axes[-1].set_xlabel("epoch", fontsize=9, color=INK)
    axes[-1].set_xlim(epochs[0].number - 0.5, epochs[-1].number + 0.5)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


def _curve(axis: Axes, epochs: Sequence[Epoch], figures: Sequence[float], colour: str, marker: str, label: str) -> None:
    shown = marker if len(epochs) <= MOST_MARKED else ""
    line = "-" if colour == TRAINING else "--"
    axis.plot([epoch.number for epoch in epochs], figures, line, marker=shown, markersize=4, color=colour, label=label)
