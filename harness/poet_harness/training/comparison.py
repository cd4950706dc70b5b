# SPDX-License-Identifier: Apache-2.0
"""Predicted against observed, as rows: one a training step, and one an action of the traced step."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_frame, refuse_missing

if TYPE_CHECKING:
    import pandas as pd

    from ..plan_folder.plan import Plan
    from .trainer import Trainer


@dataclass(frozen=True)
class ComparisonRow:
    """``do`` is ``step`` for a whole training step; empty fields are what was not observed or not predicted.

    Energies are those above ``idle_power_w``, predicted as well as observed. ``graph_hash`` and ``schedule_hash`` are
    the plan's, ``firmware`` is the board's build.
    """

    training_step: int
    index: int | None
    do: str
    name: str
    op: str
    predicted_time_s: float
    observed_time_s: float
    predicted_energy_j: float
    observed_energy_j: float | None
    predicted_peak_bytes: int
    observed_peak_bytes: int | None
    idle_power_w: float
    loss: float | None
    source: str
    board: str
    firmware: str
    graph_hash: str
    schedule_hash: str


COLUMNS = tuple(field.name for field in fields(ComparisonRow))
_MAY_LACK = (
    *("index", "observed_energy_j", "observed_peak_bytes"),
    *("predicted_time_s", "predicted_energy_j", "idle_power_w", "loss"),
)
_WORDS = ("do", "source", "board", "graph_hash", "schedule_hash")
_NUMBERS = (*_MAY_LACK, "training_step", "observed_time_s", "predicted_peak_bytes")


def compare(plan: Plan, trainer: Trainer, source: str) -> list[ComparisonRow]:
    """Rows for every training step, and for the actions of those that were traced."""
    rows = []
    hello, planned = trainer.hello, plan.schedule
    shared: dict[str, Any] = {
        "idle_power_w": trainer.metering.idle_power_w,
        "source": source,
        "board": hello.board,
        "firmware": hello.build,
        "graph_hash": plan.graph_hash,
        "schedule_hash": plan.schedule_hash,
    }
    for step in trainer.observed:
        whole = step.report
        rows.append(
            ComparisonRow(
                *(step.number, None, "step", "", "", planned.time_s, whole.work_s, planned.energy_j, step.energy_j),
                *(planned.peak_bytes, whole.peak_bytes),
                loss=step.loss,
                **shared,
            )
        )
        for index, seen in enumerate(step.actions):
            one = plan.actions[index]
            rows.append(
                ComparisonRow(
                    *(step.number, index, one.do, one.name, one.op, one.time_s, seen.time_s, one.energy_j),
                    *(seen.energy_j, one.peak_bytes, seen.peak_bytes),
                    loss=None,
                    **shared,
                )
            )
    return rows


def as_csv(rows: Sequence[ComparisonRow]) -> str:
    """CSV with a header line, for ``pandas.read_csv``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def read_run(path: Path) -> pd.DataFrame:
    """Read what a run wrote.

    Returns
    -------
    pandas.DataFrame
        With the fields of :class:`ComparisonRow`; what was not observed is NaN.
    """
    import pandas as pd

    table = read_frame(path, dtype=str, keep_default_na=False)
    refuse_missing(path, table, COLUMNS, "poet-harness run --out writes them")
    for column in _WORDS:
        if (table[column] == "").any():
            line = int((table[column] == "").to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {column}: is empty")
    for column in _NUMBERS:
        numbers = pd.to_numeric(table[column].replace("", "nan"), errors="coerce")
        wrong = numbers.isna() & ~table[column].isin(["", "nan"] if column in _MAY_LACK else [])
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            raise UserError(f"{path}:{line + 2}: {column}: {table[column].iloc[line]!r} is not a number")
        table[column] = numbers
    return table
