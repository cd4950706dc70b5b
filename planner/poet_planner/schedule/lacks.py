# SPDX-License-Identifier: Apache-2.0
"""What a plan loses whose trained parameters lie on the card."""

from __future__ import annotations

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import commits_each_step

ON_THE_CARD = ("momentum", "Adam", "epochs", "library")
WORDS = f"trained parameters lie on the card: no {', '.join(ON_THE_CARD)}"
CURE = "more --ram, a smaller --batch or frozen layers leave room for them in RAM"


def lacks(graph: Graph) -> tuple[str, ...]:
    """What there is not of a plan of this graph, though a plan in RAM has it."""
    return ON_THE_CARD if commits_each_step(graph) else ()
