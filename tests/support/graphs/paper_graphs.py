# SPDX-License-Identifier: Apache-2.0
"""The paper's graphs, as the benchmarks ship them."""

from dataclasses import replace

from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule import Schedule

from tests.support import ROOT

FOLDER = ROOT / "benchmarks" / "planner" / "paper-graphs"


def paper_graph(name: str, dma: bool = False, speed: float = 1.0) -> tuple[Graph, Schedule]:
    """The graph, and its store-all schedule; ``dma`` moves pages beside the computing.

    With a ``speed`` above 1, computes take so much less time, as on a board whose transfers are what takes long.
    """
    graph = replace(read_graph(FOLDER / f"{name}.json"), dma=dma)
    if speed != 1.0:
        graph = replace(graph, nodes=tuple(replace(node, time_s=node.time_s / speed) for node in graph.nodes))
    return graph, store_all_schedule(graph)
