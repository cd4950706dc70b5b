# SPDX-License-Identifier: Apache-2.0
"""A smaller problem for bounds: its optimum costs no more above E0 than that of the problem.

Little values take RAM only while a node needs or makes them, as in an abstraction. What a node makes and its one reader
takes over is one value with what that makes of it, and both are one node. What is left without a value goes. See
docs/optimiser/state_space.md, "Reduction", for the proof.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Problem, inputs_of, ragged, working_set_bytes
from poet_planner.solve.topology import ancestors


def reduced(problem: Problem, little: int) -> Problem:
    """``problem`` without values of up to ``little`` bytes, without pairs and idle nodes.

    Where the order of two nodes is known, and no value of the one leads to the other, a value of no bytes does.
    """
    inputs = [[u for u in inputs_of(problem, j).tolist() if problem.size[u] > little] for j in _nodes(problem)]
    chains = [
        chain for chain in _chains(problem, inputs, little) if inputs[chain[0]] or _made(problem, chain[0], little)
    ]
    order = _order(problem, chains, inputs)
    members: list[list[int]] = []  # of each value of the smaller problem: those that it stands for
    made: list[int] = []  # the node that makes it
    for number, chain in enumerate(chains):
        outputs = [_made(problem, j, little) for j in chain]
        values = [[v] for v in outputs[0]] if len(chain) == 1 else [[v for (v,) in outputs]]
        values += [[]] * bool(order[number].any())
        members += values
        made += [number] * len(values)
    place = {v: number for number, values in enumerate(members) for v in values}
    follows = {number: value for value, number in enumerate(made) if not members[value]}
    needed = [
        sorted([*(place[u] for u in inputs[chain[0]]), *(follows[a] for a in np.nonzero(order[:, number])[0].tolist())])
        for number, chain in enumerate(chains)
    ]
    users: list[list[int]] = [[] for _ in members]
    for number, read in enumerate(needed):
        for value in read:
            users[value].append(number)
    no_time = np.zeros(len(members))
    first = np.array([chain[0] for chain in chains], dtype=np.int64)
    input_start, input_value = ragged(needed)
    use_start, use_node = ragged(users)
    smaller = replace(
        problem,
        node_time=problem.node_time[first],
        node_energy=np.array([problem.node_energy[chain].sum() for chain in chains]),
        workspace=np.zeros(len(chains), dtype=np.int64),
        recomputable=np.array([problem.recomputable[chain].all() for chain in chains], dtype=np.bool_),
        uses_cpu=problem.uses_cpu[first],
        uses_bus=problem.uses_bus[first],
        output_start=np.searchsorted(made, np.arange(len(chains) + 1)),
        producer=np.array(made, dtype=np.int64),
        size=np.array([problem.size[values[:1]].sum() for values in members], dtype=np.int64),
        taken=np.array([len(values) == 1 and problem.taken[values[0]] for values in members], dtype=np.bool_),
        pageable=np.array([problem.pageable[values].any() for values in members], dtype=np.bool_),
        in_time=no_time,
        out_time=no_time,
        in_energy=_least(problem.in_energy, problem.pageable, members),
        out_energy=_least(problem.out_energy, problem.pageable, members),
        input_start=input_start,
        input_value=input_value,
        use_start=use_start,
        use_node=use_node,
    )
    return replace(smaller, workspace=working_set_bytes(problem)[first] - working_set_bytes(smaller))


def _nodes(problem: Problem) -> range:
    return range(len(problem.node_time))


def _made(problem: Problem, node: int, little: int) -> list[int]:
    """The values of a node that are not little."""
    return [v for v in range(problem.output_start[node], problem.output_start[node + 1]) if problem.size[v] > little]


def _chains(problem: Problem, inputs: list[list[int]], little: int) -> list[list[int]]:
    """The nodes of the problem, those together of which each takes over what the one before made, and nothing else."""
    chains: list[list[int]] = []
    ending: dict[int, list[int]] = {}  # the chain that ends with a node
    for j in _nodes(problem):
        taken = [u for u in inputs[j] if problem.taken[u]]
        chain = ending.get(int(problem.producer[taken[0]])) if taken else None
        pair = [chain[-1], j] if chain else []
        if (
            chain
            and inputs[j] == taken[:1]
            and [len(_made(problem, one, little)) for one in pair] == [1, 1]
            and problem.size[_made(problem, j, little)[0]] == problem.size[taken[0]]
            and problem.recomputable[pair].all()
        ):
            chain.append(j)
        else:
            chain = [j]
            chains.append(chain)
        ending[j] = chain
    return chains


def _order(problem: Problem, chains: list[list[int]], inputs: list[list[int]]) -> Flags:
    """Which nodes of the smaller problem come before which, unless others or a value say it. (chains, chains)"""
    first, last = [chain[0] for chain in chains], [chain[-1] for chain in chains]
    before = ancestors(problem)[np.ix_(last, first)]
    steps = before.astype(np.float32)
    order: Flags = before & (steps @ steps == 0)
    number = {j: k for k, j in enumerate(last)}
    for k, j in enumerate(first):
        order[[number[int(problem.producer[u])] for u in inputs[j]], k] = False
    return order


def _least(cost: Floats, pageable: Flags, members: list[list[int]]) -> Floats:
    """The least cost of those that can be paged; 0 where none can."""
    return np.array([min((float(cost[v]) for v in values if pageable[v]), default=0.0) for values in members])
