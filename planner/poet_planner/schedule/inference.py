# SPDX-License-Identifier: Apache-2.0
"""The inference beside a training step: a plan of its own in the same RAM, on the same parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from poet_profiles.graph import Graph, Resident
from poet_profiles.losses import Loss
from poet_profiles.schedule import Schedule

from poet_planner.schedule.beside import PlanBeside
from poet_planner.schedule.extraction import Extraction, plans_beside

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Inference(PlanBeside):
    """A forward pass of one sample in evaluation mode.

    Attributes
    ----------
    constants : mapping of str to array
        The data of those constants that the training lacks, by id.
    loss : Loss or None
        How the training's loss reads the output; None if there is no name for it.
    classes : tuple of str
        Names of what the output has scores for; empty: they have none.
    """

    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    loss: Loss | None = None
    classes: tuple[str, ...] = ()

    def own(self, training: Graph) -> tuple[Resident, ...]:
        """Its inputs, and its output after them."""
        return self.graph.residents[len(training.residents) :]


def ram_bytes(
    graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction | None = None
) -> int:
    """Of a training step and of what may be beside it: the largest of them, which never run at once."""
    beside = (plan.ram_bytes for plan in plans_beside(inference, extraction).values())
    return max((graph.resident_bytes + schedule.arena_bytes, *beside))
