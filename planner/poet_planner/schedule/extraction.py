# SPDX-License-Identifier: Apache-2.0
"""What makes features, beside the head's step that reads them: a plan of its own in the same RAM."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS
from poet_profiles.schedule import Schedule

FEATURE = "feature"
CRC_BYTES = 4


@dataclass(frozen=True)
class Extraction:
    """Features of some samples of a batch, and the verified schedule that computes them.

    Attributes
    ----------
    graph : Graph
        Its residents are the head's, in their places; so are its constants.
    schedule : Schedule
    samples : int
        In a batch of the head's step.
    at_once : int
        Of how many samples it makes the features: those of the first places of the batch.
    """

    graph: Graph
    schedule: Schedule
    samples: int
    at_once: int

    @property
    def ram_bytes(self) -> int:
        """Of residents and arena."""
        return self.graph.resident_bytes + self.schedule.arena_bytes

    @property
    def sample_bytes(self) -> int:
        """Features of one sample."""
        return sum(one.bytes for one in self.graph.residents if one.kind == FEATURE) // self.samples


def stored_bytes(head: Graph) -> int:
    """What the firmware stores of a sample in RAM: what the head's step reads of it, and a CRC-32."""
    read = {id for node in head.nodes for id in (node.operation.operands if node.operation else ())}
    batch = [one for one in head.residents if one.kind == FEATURE or (one.kind in BATCH_KINDS and one.id in read)]
    return sum(one.bytes // one.shape[0] for one in batch) + CRC_BYTES
