# SPDX-License-Identifier: Apache-2.0
"""Plans beside a training step's, in the same RAM: inference, and features of a head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

from poet_profiles.card.layout import blocks_of
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.kept import BATCH_KINDS, FEATURE
from poet_profiles.losses import Loss
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.calls import calls_of
from poet_profiles.schedule.file import schedule_hash
from poet_profiles.traced_loss import TracedLoss

if TYPE_CHECKING:
    from numpy.typing import NDArray

CRC_BYTES = 4
TRACE_ROWS = 126  # in a block


@dataclass(frozen=True)
class Scheduled:
    """A graph with its costs, and a verified schedule of it with static offsets."""

    graph: Graph
    schedule: Schedule

    @property
    def ram_bytes(self) -> int:
        """Of residents and arena."""
        return self.graph.resident_bytes + self.schedule.arena_bytes

    @property
    def graph_hash(self) -> str:
        """The hash by which a board tells the graph."""
        return self.schedule.graph_hash

    @cached_property
    def schedule_hash(self) -> str:
        """The hash by which a board tells the schedule."""
        return schedule_hash(self.schedule)

    @cached_property
    def page_blocks(self) -> int:
        """Blocks of the card that it may write in the page area: its pages, and then a trace."""
        sizes = {value.id: value.bytes for node in self.graph.nodes for value in node.values}
        paged = {step.target for step in self.schedule.steps if step.do is Action.PAGE_OUT}
        trace = -(-len(calls_of(self.graph, self.schedule)) // TRACE_ROWS)
        return sum(blocks_of(sizes[value]) for value in paged) + trace


@dataclass(frozen=True)
class PlanBeside(Scheduled):
    """A plan whose residents and constants begin with the training's.

    The two never run at once: what is after the training's residents belongs to whichever runs.
    """


@dataclass(frozen=True)
class Stream(PlanBeside):
    """An inference that is given the newest columns of its input, and remembers what it needs of those before.

    Attributes
    ----------
    calls : int
        After so many it has heard a whole window.
    """

    calls: int


@dataclass(frozen=True)
class Inference(PlanBeside):
    """A forward pass of one sample in evaluation mode.

    Attributes
    ----------
    constants : mapping of str to array
        The data of those constants that the training lacks, by id.
    loss : Loss, TracedLoss or None
        How the training's loss reads the output, by its name or as data; None if it is neither.
    classes : tuple of str
        Names of what the output has scores for; empty: they have none.
    stream : Stream or None
        The same network over the newest columns of a stream.
    """

    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    loss: Loss | TracedLoss | None = None
    classes: tuple[str, ...] = ()
    stream: Stream | None = None

    def own(self, training: Graph) -> tuple[Resident, ...]:
        """Its inputs, and its output after them."""
        return self.graph.residents[len(training.residents) :]

    def shares_inputs(self, training: Graph) -> bool:
        """Whether it destroys the batch that was put, in whose place its inputs lie."""
        own = self.own(training)
        return not self.is_between_batches(training) and any(one.offset < training.resident_bytes for one in own)

    def is_between_batches(self, training: Graph) -> bool:
        """Whether it destroys sums of gradients, in whose place its output lies."""
        return self.output.offset < training.resident_bytes

    @property
    def output(self) -> Resident:
        """The last of its residents."""
        return self.graph.residents[-1]

    @property
    def is_lone(self) -> bool:
        """Whether a sample has one score, which says that something is there above its loss's boundary."""
        return prod(self.output.shape[1:]) == 1 and self.loss is not None and self.loss.boundary is not None

    @property
    def class_axis(self) -> int:
        """The axis of the output that has one a class, where it has classes."""
        named = None if self.loss is None else self.loss.class_axis
        return len(self.output.shape) - 1 if named is None else named

    @property
    def class_count(self) -> int:
        """How many classes there are; of a lone score two: it is not there, and it is."""
        return 2 if self.is_lone else self.output.shape[self.class_axis]


@dataclass(frozen=True)
class Extraction(PlanBeside):
    """The plan that computes features of some samples of a batch.

    Its residents and constants are the head's, in their places.

    Attributes
    ----------
    samples : int
        In a batch of the head's step.
    at_once : int
        Of how many samples it makes the features: those of the first places of the batch.
    inference : PlanBeside or None
        One sample in evaluation mode, from features of its own, which lie after all that an inference has.
    read_time_s, read_energy_j : float
        What it takes to read a sample's that lie on the card, as those beyond the RAM's room do; 0: none lies there.
    """

    samples: int
    at_once: int
    inference: PlanBeside | None = None
    read_time_s: float = 0.0
    read_energy_j: float = 0.0

    @property
    def sample_bytes(self) -> int:
        """Features of one sample."""
        return sum(one.bytes for one in self.graph.residents if one.kind == FEATURE) // self.samples


def plans_beside(inference: PlanBeside | None, extraction: Extraction | None) -> dict[str, PlanBeside]:
    """Plans that there are, by the firmware's names; the last has the longest tables."""
    plans = {
        "extraction": extraction,
        "inference": inference,
        "feature_inference": extraction.inference if extraction else None,
        "stream": inference.stream if isinstance(inference, Inference) else None,
    }
    return {name: plan for name, plan in plans.items() if plan is not None}


def ram_bytes(
    graph: Graph, schedule: Schedule, inference: Inference | None, extraction: Extraction | None = None
) -> int:
    """RAM of a training step and the plans beside it, which never run at once."""
    beside = (plan.ram_bytes for plan in plans_beside(inference, extraction).values())
    return max((graph.resident_bytes + schedule.arena_bytes, *beside))


def stored_bytes(head: Graph) -> int:
    """Bytes that the firmware stores of a sample in RAM."""
    return sum(stored_parts(head))


def stored_parts(head: Graph) -> list[int]:
    """Bytes of each tensor that the head's step reads of a sample, and of a CRC-32."""
    read = {id for node in head.nodes for id in (node.operation.operands if node.operation else ())}
    batch = [one for one in head.residents if one.kind == FEATURE or (one.kind in BATCH_KINDS and one.id in read)]
    return [*(one.bytes // one.shape[0] for one in batch), CRC_BYTES]
