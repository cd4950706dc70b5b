# SPDX-License-Identifier: Apache-2.0
"""What makes features, beside the head's step that reads them: a plan of its own in the same RAM."""

from __future__ import annotations

from dataclasses import dataclass

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS

from poet_planner.schedule.beside import PlanBeside

FEATURE = "feature"
CRC_BYTES = 4


@dataclass(frozen=True)
class Extraction(PlanBeside):
    """What computes features of some samples of a batch: its residents and constants are the head's, in their places.

    Attributes
    ----------
    samples : int
        In a batch of the head's step.
    at_once : int
        Of how many samples it makes the features: those of the first places of the batch.
    inference : PlanBeside or None
        One sample in evaluation mode, from features of its own, which lie after all that an inference has.
    """

    samples: int
    at_once: int
    inference: PlanBeside | None = None

    @property
    def sample_bytes(self) -> int:
        """Features of one sample."""
        return sum(one.bytes for one in self.graph.residents if one.kind == FEATURE) // self.samples


def plans_beside(inference: PlanBeside | None, extraction: Extraction | None) -> dict[str, PlanBeside]:
    """Those that there are, by the names that the firmware has for them; the last has the longest tables."""
    plans = {
        "extraction": extraction,
        "inference": inference,
        "feature_inference": extraction.inference if extraction else None,
    }
    return {name: plan for name, plan in plans.items() if plan is not None}


def stored_bytes(head: Graph) -> int:
    """What the firmware stores of a sample in RAM: what the head's step reads of it, and a CRC-32."""
    read = {id for node in head.nodes for id in (node.operation.operands if node.operation else ())}
    batch = [one for one in head.residents if one.kind == FEATURE or (one.kind in BATCH_KINDS and one.id in read)]
    return sum(one.bytes // one.shape[0] for one in batch) + CRC_BYTES
