# SPDX-License-Identifier: Apache-2.0
"""Aggregation: values that are cheap to get from one another form a group, which is treated as one value.

A group is in RAM if any of its values is. It has the bytes of its first value. The schedules of this smaller problem
cost no more than those of the problem. See docs/optimiser/state_space.md, "Aggregation", for the proof.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, inputs_of, ragged, working_set_bytes


def representatives(problem: Problem, cheap_j: float, tightly: bool = False) -> Ints:
    """The first value of the group of each value. (m,)

    A value of a node of at most ``cheap_j`` joules joins a group that the node needs and whose first value is no
    larger. The node must need nothing else; unless ``tightly``, it may also need what the node of the first value
    needs, if that is as cheap.
    """
    representative = np.arange(len(problem.size))
    cheap = problem.recomputable & (problem.node_energy <= cheap_j)

    def needed(node: int) -> set[int]:
        return {int(u) for u in representative[inputs_of(problem, node)] if problem.size[u] > 0}

    for j in np.nonzero(cheap)[0].tolist():
        joined = []
        for u in sorted(needed(j)):
            maker = int(problem.producer[u])
            if needed(j) - {u} <= (needed(maker) if cheap[maker] and not tightly else set()):
                joined.append(u)
        for v in range(problem.output_start[j], problem.output_start[j + 1]):
            representative[v] = next((u for u in joined if problem.size[u] <= problem.size[v]), v)
    return representative


def aggregated_problem(problem: Problem, representative: Ints) -> Problem:
    """``problem`` with groups in the place of values. All values of a group but the first have no bytes.

    Working sets keep their bytes. What a node takes over may be in one group with what it makes, and the group stays:
    nothing counts as taken over.
    """
    separate = representative == np.arange(len(representative))
    inputs = [sorted({*representative[inputs_of(problem, j)].tolist()}) for j in range(len(problem.node_time))]
    input_start, input_value = ragged(inputs)
    smaller = replace(
        problem,
        size=np.where(separate, problem.size, 0),
        taken=problem.taken & separate.all(),
        pageable=np.bincount(representative, problem.pageable, len(representative)) > 0,
        in_energy=_least(problem.in_energy, problem.pageable, representative),
        out_energy=_least(problem.out_energy, problem.pageable, representative),
        input_start=input_start,
        input_value=input_value,
    )
    return replace(smaller, workspace=smaller.workspace + working_set_bytes(problem) - working_set_bytes(smaller))


def disaggregated(problem: Problem, representative: Ints, events: Ints) -> Ints:
    """``events`` in which the other values of a group are made again right after the first of it is.

    ``events`` are of a schedule of the aggregated problem (see `evaluation`).
    """
    n = len(problem.node_time)
    joined: dict[int, set[int]] = {}
    for v in np.nonzero(representative != np.arange(len(representative)))[0]:
        joined.setdefault(int(representative[v]), set()).add(int(problem.producer[v]))
    computed: set[int] = set()
    separate: list[int] = []
    for event in events.tolist():
        separate.append(event)
        again = event >= n or event in computed
        computed.add(event)
        made = [event - n] if event >= n else range(problem.output_start[event], problem.output_start[event + 1])
        if again:
            separate += [j for v in made for j in sorted(joined.get(v, ())) if j in computed]
    return np.array(separate, dtype=np.int64)


def _least(energy: Floats, pageable: Flags, representative: Ints) -> Floats:
    """The least energy of a transfer of any value of each group, at the first of them."""
    least = np.full(len(representative), np.inf)
    np.minimum.at(least, representative[pageable], energy[pageable])
    return np.where(np.isfinite(least), least, 0.0)
