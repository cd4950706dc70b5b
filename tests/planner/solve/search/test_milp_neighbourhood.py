# SPDX-License-Identifier: Apache-2.0
"""What a schedule brings back, chosen anew: against every choice there is, made one by one."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
from poet_planner.baselines.store_all import store_all_schedule
from poet_planner.solve.instance import Ints, Problem, build_problem
from poet_planner.solve.milp.solvers import solver_named
from poet_planner.solve.search.annealer import Annealer
from poet_planner.solve.search.evaluation import evaluate, new_workspace
from poet_planner.solve.search.incumbent import measured
from poet_planner.solve.search.milp_neighbourhood import cheapest_choice, with_alternatives
from poet_planner.solve.time_budget import TimeBudget

from tests.support.graphs.paper_graphs import paper_graph
from tests.support.graphs.random_graphs import random_graph

HIGHS = solver_named("highs")
MOST_NODES = 8
MOST_OPTIONAL = 8


def bounded_problem(seed: int) -> Problem:
    rng = random.Random(seed)
    graph = random_graph(seed, MOST_NODES)
    plain = store_all_schedule(graph)
    ram = graph.resident_bytes + int(rng.uniform(0.75, 1.0) * (plain.peak_bytes - graph.resident_bytes))
    late = rng.choice((math.inf, 1.2, 1.4))
    return build_problem(graph, max(ram, graph.resident_bytes + 4), None if late == math.inf else late * plain.time_s)


def random_sequence(problem: Problem, rng: random.Random) -> tuple[Ints, list[int]]:
    """Plain training with events put in between, and their places."""
    n = len(problem.node_time)
    ways = [(node, j) for node in range(n) for j in range(node) if problem.recomputable[j]]
    ways += [(node, n + v) for node in range(n) for v in range(problem.own[node]) if problem.pageable[v]]
    put_in = rng.sample(ways, min(len(ways), MOST_OPTIONAL))
    sequence: list[int] = []
    optional: list[int] = []
    for node in range(n):
        for event in [event for before, event in put_in if before == node]:
            optional.append(len(sequence))
            sequence.append(event)
        sequence.append(node)
    return np.array(sequence, dtype=np.int64), optional


def least_of_all_choices(problem: Problem, sequence: Ints, optional: list[int]) -> tuple[float, float]:
    """Least energy where each node is first computed in its place, and wherever it is.

    An evaluation drops a first compute if nothing needs it before the second.
    """
    in_place = anywhere = math.inf
    for left_out in itertools.product((False, True), repeat=len(optional)):
        places = [place for place, out in zip(optional, left_out, strict=True) if out]
        found = measured(problem, np.delete(sequence, places))
        if found is not None and found.peak <= problem.budget and found.time <= problem.deadline:
            anywhere = min(anywhere, found.energy)
            order = list(dict.fromkeys(event for event in found.events.tolist() if event < len(problem.node_time)))
            in_place = min(in_place, found.energy if order == sorted(order) else math.inf)
    return in_place, anywhere


def choose(problem: Problem, sequence: Ints, energy_j: float = math.inf, seconds: float = 60.0) -> Ints | None:
    return cheapest_choice(problem, sequence, energy_j, HIGHS, TimeBudget(seconds))


def test_the_cheapest_of_all_choices() -> None:
    equal = dearer = 0
    for seed in range(250):
        problem = bounded_problem(seed)
        sequence, optional = random_sequence(problem, random.Random(seed))
        in_place, anywhere = least_of_all_choices(problem, sequence, optional)
        chosen = choose(problem, sequence)
        if chosen is None:
            assert in_place == math.inf, seed
            continue
        found = measured(problem, chosen)
        assert found is not None
        assert found.peak <= problem.budget, seed
        assert found.time <= problem.deadline * (1 + 1e-6), seed
        assert anywhere * (1 - 1e-6) <= found.energy <= in_place * (1 + 1e-6), seed
        equal += found.energy >= in_place * (1 - 1e-6)
        dearer += found.energy > problem.node_energy.sum() * (1 + 1e-6)
        assert choose(problem, sequence, found.energy) is None, seed
    assert equal > 20
    assert dearer > 10


def test_no_time_no_choice() -> None:
    problem = bounded_problem(0)
    assert cheapest_choice(problem, np.arange(len(problem.node_time)), math.inf, HIGHS, TimeBudget(0.1)) is None


def check_alternatives(seed: int) -> int:
    """How many there are for a schedule of a random graph; they leave it as it is, and are events of the contract."""
    graph = random_graph(seed, 40)
    problem = build_problem(graph, int(0.7 * store_all_schedule(graph).peak_bytes), None)
    n = len(problem.node_time)
    search = Annealer(problem, seed)
    search.run(2_000)
    events = np.arange(n) if search.incumbent is None else search.incumbent.events

    sequence = with_alternatives(problem, events)

    rest = iter(sequence.tolist())
    assert all(event in rest for event in events.tolist())
    assert evaluate(problem, sequence, len(sequence), new_workspace(problem, np.ones(1, dtype=np.uint64))).length > 0
    made: set[int] = set()
    for event in sequence.tolist():
        if event >= n:
            assert problem.pageable[event - n]
            assert problem.producer[event - n] in made
        else:
            assert event not in made or problem.recomputable[event]
            made.add(event)
    return len(sequence) - len(events)


def test_alternatives_leave_the_schedule_and_are_events_of_the_contract() -> None:
    assert sum(check_alternatives(seed) > 0 for seed in range(20)) > 5


def test_a_few_large_transfers_in_place_of_many_small_ones() -> None:
    """`resnet18_cifar.a72` at 50 %, where annealing alone leaves one transfer more than are needed."""
    graph, plain = paper_graph("resnet18_cifar.a72")
    problem = build_problem(graph, plain.peak_bytes // 2, 1.5 * plain.time_s)
    search = Annealer(problem, 0)
    search.run(200_000)
    best = search.incumbent
    assert best is not None
    assert best.energy > (1 + 0.11127e-2) * plain.energy_j
    chosen = choose(problem, with_alternatives(problem, best.events), best.energy, 10.0)
    assert chosen is not None
    found = measured(problem, chosen)
    assert found is not None
    assert found.peak <= problem.budget
    assert found.time <= problem.deadline
    assert found.energy <= (1 + 0.11124e-2) * plain.energy_j
