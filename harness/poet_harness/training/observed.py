# SPDX-License-Identifier: Apache-2.0
"""What board and meter saw of a training step, and the micro-batches of one, added up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..protocol.device import StepReport


@dataclass(frozen=True)
class Made:
    """Time and energy of making features: 0 where they were kept.

    ``energy_j`` is None where it is not known.
    """

    time_s: float = 0.0
    energy_j: float | None = 0.0


NOTHING_MADE = Made()


@dataclass(frozen=True)
class ObservedAction:
    """Time, energy and RAM of one action.

    ``energy_j`` is that above the idle power, None where the board marks no window or the meter failed; ``peak_bytes``
    the most in RAM during it, None of firmware, which allocates nothing.
    """

    time_s: float
    energy_j: float | None
    peak_bytes: int | None


@dataclass(frozen=True)
class ObservedStep:
    """One training step as board and meter saw it, or a micro-batch of one.

    ``energy_j`` is that above the idle power, ``features`` what it took to make those that it read. ``actions`` is
    empty for a step that was not traced.
    """

    number: int
    loss: float
    report: StepReport
    energy_j: float | None
    actions: tuple[ObservedAction, ...]
    gradients: dict[str, NDArray[Any]]
    features: Made = NOTHING_MADE


def added(parts: Sequence[ObservedStep]) -> ObservedStep:
    """Times, energies and transfers in all, and the loss that the board has added up."""
    reports = [part.report for part in parts]
    report = replace(
        reports[-1],
        work_s=math.fsum(one.work_s for one in reports),
        page_ins=sum(one.page_ins for one in reports),
        page_outs=sum(one.page_outs for one in reports),
        host_start_s=reports[0].host_start_s,
    )
    actions = tuple(
        replace(runs[-1], time_s=math.fsum(run.time_s for run in runs), energy_j=total([run.energy_j for run in runs]))
        for runs in zip(*(part.actions for part in parts), strict=True)
    )
    return replace(parts[-1], report=report, energy_j=total([part.energy_j for part in parts]), actions=actions)


def total(energies_j: Sequence[float | None]) -> float | None:
    """Their sum, None where one is not known."""
    known = [energy_j for energy_j in energies_j if energy_j is not None]
    return math.fsum(known) if len(known) == len(energies_j) else None
