# SPDX-License-Identifier: Apache-2.0
"""The paper's graphs, as the benchmarks ship them."""

from dataclasses import replace

from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule import Schedule

from tests.support import ROOT

FOLDER = ROOT / "benchmarks" / "planner" / "paper-graphs"


def paper_graph(name: str, dma: bool = False) -> tuple[Graph, Schedule]:
    """The graph, and its store-all schedule; ``dma`` moves pages beside the computing."""
    graph = replace(read_graph(FOLDER / f"{name}.json"), dma=dma)
    return graph, store_all_schedule(graph)
