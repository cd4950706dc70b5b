# SPDX-License-Identifier: Apache-2.0
"""How much RAM a schedule holds from step to step (docs/SPEC.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule.model import Action, Step


class Held(NamedTuple):
    """The most bytes that are allocated during a step, and those after it; resident tensors are in both."""

    during: int
    after: int


def held_bytes(graph: Graph, steps: Iterable[Step]) -> Iterator[Held]:
    """What each step holds. Whether the steps keep the contract is not asked.

    Raises
    ------
    KeyError
        If a step names no node, or no value, of the graph.
    """
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    held = graph.resident_bytes
    for step in steps:
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            held += sum(sizes[value.id] for value in node.values if value.id not in node.takes_over)
            yield Held(held + aligned(node.workspace_bytes), held)
        elif step.do is Action.PAGE_IN:
            held += sizes[step.target]
            yield Held(held, held)
        elif step.do is Action.FREE:
            yield Held(held, held - sizes[step.target])
            held -= sizes[step.target]
        else:
            yield Held(held, held)
