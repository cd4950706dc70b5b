# SPDX-License-Identifier: Apache-2.0
"""Paging that little RAM forces: values that cannot come to be in RAM together, unless one is paged in.

Of two values in RAM at once, one came later, while the other was there already. If each of them can be computed only in
more RAM than that leaves, one of the two was paged in. docs/optimiser/relaxation.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem, inputs_of, node_need

MOST_VALUES = 1500


@dataclass(frozen=True)
class Explanation:
    """A page-in of ``value`` when both of ``pair`` have been computed."""

    value: int
    pair: tuple[int, int]


class Conflicts:
    """Which values conflict. There are none for graphs of very many values.

    Parameters
    ----------
    look : bool
        False: none are known.

    Attributes
    ----------
    pairs : (m, m) flags, symmetric
    """

    def __init__(self, problem: Problem, look: bool = True) -> None:
        self._pageable = problem.pageable
        m = len(problem.size)
        if look and m <= MOST_VALUES and problem.pageable.any():
            self.pairs, self._way = _closure(problem)
        else:
            self.pairs = np.zeros((m, m), dtype=np.bool_)
        self._known: dict[tuple[int, int], frozenset[Explanation]] = {}

    def explanations(self, u: int, v: int) -> frozenset[Explanation]:
        """Of which one has happened before u and v, which conflict, are in RAM together."""
        pair = _ordered(u, v)
        if pair not in self._known:
            pairs = {pair}
            waiting = [pair]
            while waiting:
                u, v = waiting.pop()
                for a, b in ((u, v), (v, u)):
                    why = _ordered(int(self._way[a, b]), b)
                    if self._way[a, b] >= 0 and why not in pairs:
                        pairs.add(why)
                        waiting.append(why)
            self._known[pair] = frozenset(Explanation(x, each) for each in pairs for x in each if self._pageable[x])
        return self._known[pair]


def _ordered(u: int, v: int) -> tuple[int, int]:
    return (u, v) if u < v else (v, u)


def _closure(problem: Problem) -> tuple[Flags, Ints]:
    """(m, m): which values conflict; and, where u cannot be computed beside v because an input of u conflicts with v,
    which input, else -1.
    """
    m = len(problem.size)
    inputs = [inputs_of(problem, int(node)) for node in problem.producer]
    need = node_need(problem)[problem.producer]
    together: Flags = problem.producer[:, None] == problem.producer[None, :]
    computable: Flags = together | (need[:, None] + problem.size[None, :] <= problem.budget)
    for u in range(m):
        computable[u, inputs[u]] = True
    way: Ints = np.full((m, m), -1, dtype=np.int64)
    while True:
        conflict: Flags = ~computable & ~computable.T
        before = int(computable.sum())
        for u in range(m):
            for w in inputs[u]:
                lost = computable[u] & conflict[w] & ~together[u]
                computable[u, lost] = False
                way[u, lost] = w
        if int(computable.sum()) == before:
            return conflict, way
