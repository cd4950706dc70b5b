"""Predicted against observed, as rows: one a training step, and one an action of the traced step."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from .plan import Plan
from .trainer import ObservedStep


@dataclass(frozen=True)
class ComparisonRow:
    """``do`` is ``step`` for a whole training step; empty fields are what was not observed or not predicted."""

    training_step: int
    index: int | None
    do: str
    name: str
    op: str
    predicted_time_s: float
    observed_time_s: float
    predicted_energy_j: float
    observed_energy_j: float | None
    predicted_peak_bytes: int | None
    observed_peak_bytes: int | None
    loss: float | None
    source: str


def compare(plan: Plan, steps: Sequence[ObservedStep], source: str) -> list[ComparisonRow]:
    """Rows for every training step, and for the actions of those that were traced."""
    rows = []
    for step in steps:
        rows.append(
            ComparisonRow(
                *(step.number, None, "step", "", ""),
                *(plan.time_s, step.report.work_s, plan.energy_j, step.energy_j),
                *(plan.peak_bytes, step.report.peak_bytes, step.loss, source),
            )
        )
        for index, seen in enumerate(step.actions):
            action = plan.actions[index]
            rows.append(
                ComparisonRow(
                    *(step.number, index, action.do, action.name, action.op),
                    *(action.time_s, seen.time_s, action.energy_j, seen.energy_j),
                    *(None, None, None, source),
                )
            )
    return rows


def as_csv(rows: Sequence[ComparisonRow]) -> str:
    """CSV with a header line, for ``pandas.read_csv``."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(ComparisonRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
