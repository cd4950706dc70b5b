# SPDX-License-Identifier: Apache-2.0
"""What the evaluation plans: the paper's graphs on its boards and variants of these, and networks traced by poet."""

from __future__ import annotations

from dataclasses import replace

from poet_planner.comparison.compare import Subject, subject_of
from poet_planner.graph.layout import PARAMETERS_EXCLUDED
from poet_planner.planning.bench import Bench
from poet_planner.planning.request import Request
from poet_profiles.graph import Graph, Value
from poet_profiles.graph.file import read_graph

from benchmarks.planner.instances import PAPER_GRAPHS

# The TX2's compute rate was never published: its core's peak is 16 GFLOP/s, and these are a quarter and a tenth of it.
SLOWER = {"4gflops": 4.0, "1.6gflops": 10.0}


def paper_subject(model: str, board: str) -> Subject:
    """A graph of the paper on ``m0``, ``m4``, ``a72`` or ``tx2``.

    ``a72-dma`` has transfers beside computes; those of ``a72-computes`` take no time, so that a deadline counts
    computes alone, as the paper's equation (3) does; ``tx2-4gflops`` and ``tx2-1.6gflops`` compute more slowly.
    """
    base, _, variant = board.partition("-")
    graph = read_graph(PAPER_GRAPHS / f"{model}.{base}.json")
    if variant == "dma":
        graph = replace(graph, dma=True)
    elif variant == "computes":
        graph = _without_transfer_times(graph)
    elif variant:
        graph = _slower(graph, SLOWER[variant])
    return Subject(graph, model, board, "published")


def traced_subject(model: str, profile: str) -> Subject:
    """A built-in network, traced, with the costs of a shipped profile. As in the paper, parameters are not counted."""
    step = Bench(Request(model, profile)).step(PARAMETERS_EXCLUDED)
    return replace(subject_of(step, model, None), board=profile)


def _slower(graph: Graph, factor: float) -> Graph:
    nodes = (replace(node, time_s=factor * node.time_s, energy_j=factor * node.energy_j) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def _without_transfer_times(graph: Graph) -> Graph:
    """Pages take their energy, and no time."""

    def in_no_time(value: Value) -> Value:
        return replace(value, page=value.page and replace(value.page, in_time_s=0.0, out_time_s=0.0))

    nodes = (replace(node, values=tuple(map(in_no_time, node.values))) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))
