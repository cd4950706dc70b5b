# SPDX-License-Identifier: Apache-2.0
"""The micro-batches of a training step, added up: one step for whoever looks at it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..protocol.device import StepReport
    from .trainer import ObservedAction, ObservedStep


def added(parts: Sequence[ObservedStep]) -> ObservedStep:
    """Times, energies and transfers in all, and the loss that the board has added up."""
    actions = [_action(runs) for runs in zip(*(part.actions for part in parts), strict=True)]
    return replace(
        parts[-1],
        report=_report([part.report for part in parts]),
        energy_j=total([part.energy_j for part in parts]),
        actions=tuple(actions),
    )


def total(energies_j: Sequence[float | None]) -> float | None:
    """Their sum, None where one is not known."""
    known = [energy_j for energy_j in energies_j if energy_j is not None]
    return math.fsum(known) if len(known) == len(energies_j) else None


def _report(reports: Sequence[StepReport]) -> StepReport:
    return replace(
        reports[-1],
        work_s=math.fsum(report.work_s for report in reports),
        page_ins=sum(report.page_ins for report in reports),
        page_outs=sum(report.page_outs for report in reports),
        host_start_s=reports[0].host_start_s,
    )


def _action(runs: Sequence[ObservedAction]) -> ObservedAction:
    return replace(
        runs[-1],
        time_s=math.fsum(run.time_s for run in runs),
        energy_j=total([run.energy_j for run in runs]),
    )
