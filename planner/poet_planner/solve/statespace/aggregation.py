# SPDX-License-Identifier: Apache-2.0
"""Values that are cheap to get from one another, taken together: a smaller problem, whose schedules cost no more.

To hold one of them is then to hold all, in the RAM of the smallest. docs/optimiser/state_space.md has the proof.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, inputs_of, node_need, ragged


def taken_together(problem: Problem, cheap_j: float, closely: bool = False) -> Ints:
    """The first made of the values that each value is taken together with. (m,)

    Those of a node of at most ``cheap_j`` joules join a value that it needs and that is no larger: where it needs
    nothing else, or (but not ``closely``) nothing but what that value, as cheap, is made of.
    """
    first = np.arange(len(problem.size))
    cheap = problem.recomputable & (problem.node_energy <= cheap_j)

    def needed(node: int) -> set[int]:
        return {int(u) for u in first[inputs_of(problem, node)] if problem.size[u] > 0}

    for j in np.nonzero(cheap)[0].tolist():
        joined = []
        for u in sorted(needed(j)):
            maker = int(problem.producer[u])
            if needed(j) - {u} <= (needed(maker) if cheap[maker] and not closely else set()):
                joined.append(u)
        for v in range(problem.own[j], problem.own[j + 1]):
            first[v] = next((u for u in joined if problem.size[u] <= problem.size[v]), v)
    return first


def merged(problem: Problem, first: Ints) -> Problem:
    """``problem`` with values taken together; all but the first of them have no bytes.

    What computing a node takes by itself is as before.
    """
    inputs = [np.unique(first[inputs_of(problem, j)]).tolist() for j in range(len(problem.node_time))]
    input_start, input_value = ragged(inputs)
    smaller = problem._replace(
        size=np.where(first == np.arange(len(first)), problem.size, 0),
        pageable=np.bincount(first, problem.pageable, len(first)) > 0,
        in_energy=_least(problem.in_energy, problem.pageable, first),
        out_energy=_least(problem.out_energy, problem.pageable, first),
        input_start=input_start,
        input_value=input_value,
    )
    return smaller._replace(workspace=smaller.workspace + node_need(problem) - node_need(smaller))


def made_apart(problem: Problem, first: Ints, events: Ints) -> Ints:
    """``events`` with all that is taken together made anew right after the first of it is.

    Parameters
    ----------
    events : of a schedule of the merged problem (see `evaluation`)
    """
    n = len(problem.node_time)
    joined: dict[int, set[int]] = {}
    for v in np.nonzero(first != np.arange(len(first)))[0]:
        joined.setdefault(int(first[v]), set()).add(int(problem.producer[v]))
    computed: set[int] = set()
    apart: list[int] = []
    for event in events.tolist():
        apart.append(event)
        again = event >= n or event in computed
        computed.add(event)
        made = [event - n] if event >= n else range(problem.own[event], problem.own[event + 1])
        if again:
            apart += [j for v in made for j in sorted(joined.get(v, ())) if j in computed]
    return np.array(apart, dtype=np.int64)


def _least(energy: Floats, pageable: Flags, first: Ints) -> Floats:
    """The least energy of a transfer of any of the values that are taken together, at the first of them."""
    least = np.full(len(first), np.inf)
    np.minimum.at(least, first[pageable], energy[pageable])
    return np.where(np.isfinite(least), least, 0.0)
