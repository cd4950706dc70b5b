# SPDX-License-Identifier: Apache-2.0
"""What a plan loses whose trained parameters lie on the card."""

from __future__ import annotations

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS, commits_each_step

CURE = "more --ram, a smaller --batch or frozen layers leave room for them in RAM"


def lacks(graph: Graph) -> tuple[str, ...]:
    """What there is not of a plan of this graph, though a plan in RAM has it."""
    if not commits_each_step(graph):
        return ()
    given = any(tensor.kind in BATCH_KINDS for tensor in graph.kept)  # batches, once, in the place of samples
    return ("library",) if given else ()


def lost_words(graph: Graph, cure: str = "") -> str:
    """The same, in words; empty where nothing is lost."""
    lost = ", ".join(lacks(graph))
    return f"trained parameters lie on the card: no {lost}{cure}" if lost else ""
