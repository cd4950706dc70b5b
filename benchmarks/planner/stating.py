# SPDX-License-Identifier: Apache-2.0
"""What it takes to state the models of exact methods and to hand them to HiGHS: `python -m benchmarks.planner stating`.

Seconds are of processor time, so that they do not depend on what else the computer does.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from poet_planner.comparison.methods import algorithm_1
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve.instance import build_problem
from poet_planner.solve.milp import highs
from poet_profiles.graph.file import read_graph

from benchmarks.planner.instances import PAPER_GRAPHS

GRAPHS = ("resnet18_cifar.m4", "bert.m4", "resnet50.m4")
COLUMNS = ("graph", "method", "nodes", "free columns", "rows", "coefficients", "stated, s", "handed over, s")


def stating(graphs: Annotated[list[str] | None, typer.Argument(help=f"Default {' '.join(GRAPHS)}.")] = None) -> None:
    """State Algorithm 1 and Checkmate in half of the store-all schedule's RAM."""
    print(f"| {' | '.join(COLUMNS)} |")
    print("|" + " --- |" * len(COLUMNS))
    for name in graphs or GRAPHS:
        for method, pages in (("checkmate", False), ("poet_ilp", True)):
            print(f"| {' | '.join((name, method, *row(name, pages)))} |", flush=True)


def row(name: str, pages: bool) -> Sequence[str]:
    """Of a graph of the paper."""
    graph = read_graph(PAPER_GRAPHS / f"{name}.json")
    problem = build_problem(graph, store_all_schedule(graph).peak_bytes // 2, None, pages)
    highs.load()
    began_s = time.process_time()
    model = algorithm_1.stated(problem).model
    stated_s = time.process_time()
    highs.given(model)
    given_s = time.process_time()
    counts = len(graph.nodes), int((model.lower < model.upper).sum()), len(model.row_lower), len(model.columns)
    return (*(f"{count:,}" for count in counts), f"{stated_s - began_s:.2f}", f"{given_s - stated_s:.2f}")
