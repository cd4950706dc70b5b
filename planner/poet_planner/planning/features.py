# SPDX-License-Identifier: Apache-2.0
"""Whether a step is cut in two, and where: what its frozen part makes of a sample is computed once and kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from poet_profiles.graph import Graph
from poet_profiles.graph.kept import BATCH_KINDS

from poet_planner.features.cut import Cut, least_cut
from poet_planner.features.fixed import fixed_nodes
from poet_planner.graph.layout import GRADIENTS_RESIDENT
from poet_planner.planning.bench import Bench

WORD_BYTES = 4  # a sample's part of what is kept begins at a word
LEAST_SHARE = 0.1  # of a step's energy that has to be the same in every epoch, for keeping it to be worth its rules


@dataclass(frozen=True)
class Division:
    """Where a step is ``cut``; None: it stays whole, where a ``graph`` is named for the nodes that are ``mixing``."""

    cut: Cut | None = None
    graph: Graph | None = None
    mixing: frozenset[str] = frozenset()


def where_to_cut(bench: Bench) -> Division:
    """The cut with which an epoch takes the least energy, if the frozen part takes a tenth of a step's at least.

    Raises
    ------
    UserError
        If the model cannot be traced, or the profile lacks rows that are needed.
    """
    step = bench.training_step
    if step is None or bench.costs is None or not bench.is_for_a_microcontroller or not step.traced.frozen:
        return Division()
    graph = bench.step(GRADIENTS_RESIDENT).graph
    if not _has_samples(graph):
        return Division()
    fixed = fixed_nodes(graph)
    if _energy_j(graph, fixed) < LEAST_SHARE * _energy_j(graph, {node.id for node in graph.nodes}):
        return Division()
    from poet_planner.features.independent import independent_values  # PyTorch: a costed graph needs none

    inputs = {one.id for one in graph.residents if one.kind == "input"}
    alone = independent_values(step.model, step.traced) | inputs

    def read_j(id: str, size: int) -> float:
        return 0.0 if id in alone and size % (WORD_BYTES * step.samples) == 0 else inf

    cut = least_cut(graph, fixed, read_j)
    return Division(cut) if cut.once else Division(graph=graph, mixing=fixed - alone)


def _has_samples(graph: Graph) -> bool:
    """Whether all inputs and targets have the same number of samples, along their first axes."""
    counts = {one.shape[:1] for one in graph.residents if one.kind in BATCH_KINDS}
    return len(counts) == 1 and counts != {()}


def _energy_j(graph: Graph, nodes: Iterable[str]) -> float:
    chosen = set(nodes)
    return sum(node.energy_j for node in graph.nodes if node.id in chosen)
