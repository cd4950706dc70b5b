# SPDX-License-Identifier: Apache-2.0
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
    """``do`` is ``step`` for a whole training step; empty fields are what was not observed or not predicted.

    Energies are those above ``idle_power_w``, predicted as well as observed.
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
    observed_peak_bytes: int
    idle_power_w: float
    loss: float | None
    source: str


def compare(plan: Plan, steps: Sequence[ObservedStep], idle_power_w: float, source: str) -> list[ComparisonRow]:
    """Rows for every training step, and for the actions of those that were traced."""
    rows = []
    for step in steps:
        rows.append(
            ComparisonRow(
                training_step=step.number,
                index=None,
                do="step",
                name="",
                op="",
                predicted_time_s=plan.time_s,
                observed_time_s=step.report.work_s,
                predicted_energy_j=plan.energy_j,
                observed_energy_j=step.energy_j,
                predicted_peak_bytes=plan.peak_bytes,
                observed_peak_bytes=step.report.peak_bytes,
                idle_power_w=idle_power_w,
                loss=step.loss,
                source=source,
            )
        )
        for index, seen in enumerate(step.actions):
            action = plan.actions[index]
            rows.append(
                ComparisonRow(
                    training_step=step.number,
                    index=index,
                    do=action.do,
                    name=action.name,
                    op=action.op,
                    predicted_time_s=action.time_s,
                    observed_time_s=seen.time_s,
                    predicted_energy_j=action.energy_j,
                    observed_energy_j=seen.energy_j,
                    predicted_peak_bytes=action.peak_bytes,
                    observed_peak_bytes=seen.peak_bytes,
                    idle_power_w=idle_power_w,
                    loss=None,
                    source=source,
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
