# SPDX-License-Identifier: Apache-2.0
"""The time of a move of the search beside that of one full evaluation: `python -m benchmarks.planner.moves`.

Both are measured in one run, on one core, one after the other. About every eighth move is accepted and evaluated in
full. The others need a delta evaluation only (`delta_evaluation.c`).
"""

from __future__ import annotations

import time
import timeit

import numpy as np
from poet_planner.solve.instance import Ints, Problem
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.evaluation import evaluate, new_workspace

from benchmarks.planner.instances import Instance, load_problem

INSTANCES = (
    Instance("paper", "linear.m4", "50%", "2x", True),
    Instance("paper", "resnet18_cifar.m4", "30%", "2x", True),
    Instance("paper", "bert.m4", "20%", "2x", True),
    Instance("paper", "resnet50.a72", "60%", "1.2x", True),
    Instance("layered", "500-wide", "60%", "none", True),
    Instance("layered", "1000-wide", "60%", "none", True),
    Instance("layered", "2000-wide", "60%", "none", True),
)
MOVES_PER_NODE = 100
EVALUATIONS = 500


def evaluation_us(problem: Problem, events: Ints, length: int) -> float:
    """Of so many of the events: the least of some rounds."""
    workspace = new_workspace(problem, np.ones(1, dtype=np.uint64))
    took_s = timeit.repeat(lambda: evaluate(problem, events, length, workspace), repeat=10, number=EVALUATIONS)
    return min(took_s) / EVALUATIONS * 1e6


def report(instance: Instance) -> None:
    """Print one line."""
    problem = load_problem(instance)
    Annealer(problem, 0).run(10)
    search = Annealer(problem, 0)
    moves = MOVES_PER_NODE * len(problem.node_time)
    begun_s = time.perf_counter()
    search.run(moves)
    move_us = (time.perf_counter() - begun_s) / moves * 1e6
    events = search.incumbent.events if search.incumbent else np.arange(len(problem.node_time), dtype=np.int64)
    # An evaluation of no events takes what the call from Python does.
    whole_us = evaluation_us(problem, events, len(events)) - evaluation_us(problem, events, 0)
    print(
        f"{instance.graph:18} {instance.ram:>4} {len(events):5} events: a move {move_us:6.2f} us, "
        f"an evaluation of all {whole_us:6.2f} us, ratio {move_us / whole_us:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    for each in INSTANCES:
        report(each)
