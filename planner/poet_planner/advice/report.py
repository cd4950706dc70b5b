# SPDX-License-Identifier: Apache-2.0
"""An advice as people and programs read it: tables, sentences, records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from poet_planner.graph.optimizer import Optimizer
from poet_planner.report.quantities import bytes_text, energy_text, time_text

if TYPE_CHECKING:
    from rich.table import Table

    from poet_planner.advice.candidates import Step

OF_A_STEP = ("trained", "batch", "optimizer", "RAM", "flash", "energy", "time", "form, or why there is none")


def optimizer_text(optimizer: Optimizer) -> str:
    """In a word: sgd, momentum, adam."""
    return "momentum" if optimizer.momentum else optimizer.method.value


def table_of_steps(steps: Sequence[Step]) -> Table:
    """What each step takes, or why it cannot be."""
    from rich.table import Table

    table = Table(*OF_A_STEP, box=None)
    for step in steps:
        table.add_row(step.trained.name, str(step.batch), optimizer_text(step.optimizer), *_costs(step))
    return table


def _costs(step: Step) -> tuple[str, ...]:
    cost = step.cost
    if cost is None:
        return *[""] * 4, step.why_none
    least = "at least " if cost.is_bound else ""
    form = cost.form
    if cost.feature_j:
        form += f"; features {energy_text(cost.feature_j)} a sample, once if there are no more than {cost.room}"
    return (
        *("" if cost.is_bound else bytes_text(cost.ram_bytes), bytes_text(cost.flash_bytes)),
        *(f"{least}{energy_text(cost.energy_j)}", f"{least}{time_text(cost.time_s)}", form),
    )


def step_record(step: Step) -> dict[str, Any]:
    """For programs: energies in joules, times in seconds."""
    from dataclasses import asdict

    cost = {} if step.cost is None else asdict(step.cost)
    named = {"trained": step.trained.name, "parameters": sorted(step.trained.learns), "batch": step.batch}
    return {**named, "optimizer": optimizer_text(step.optimizer), **cost, "why_none": step.why_none}
