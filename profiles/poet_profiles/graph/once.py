# SPDX-License-Identifier: Apache-2.0
"""What is computed once for each graph and kept with it: a graph never changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from poet_profiles.graph.model import Graph

Fact = TypeVar("Fact")


def once_a_graph(fact: Callable[[Graph], Fact]) -> Callable[[Graph], Fact]:
    """Compute a fact about a graph when it is first asked for; a graph made by `dataclasses.replace` has none yet."""
    name = f"{fact.__module__}.{fact.__qualname__}"

    @wraps(fact)
    def known(graph: Graph) -> Fact:
        facts = vars(graph)
        if name not in facts:
            facts[name] = fact(graph)
        kept: Fact = facts[name]
        return kept

    return known
