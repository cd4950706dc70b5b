# SPDX-License-Identifier: Apache-2.0
"""Abstractions of a problem: only some values are relevant, and some are aggregated.

The cost that remains to be paid from a state of an abstraction is a lower bound for all states of a finer problem that
look like it (pattern databases, Culberson and Schaeffer 1998). See docs/optimiser/state_space.md, "Abstractions".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from poet_planner.solve.engine import Struct, struct
from poet_planner.solve.instance import Flags, Ints, Problem, working_set_bytes
from poet_planner.solve.statespace.aggregation import aggregated_problem
from poet_planner.solve.statespace.bitset import words_of

GROWTH = 1.25  # values of an abstraction, relative to the coarser one before
FIRST_VALUES = 12  # values of the coarsest abstraction at most


@struct
class Abstraction(Struct):
    """A problem in which some values are irrelevant: they take RAM only while a node needs or makes them."""

    problem: Problem  # irrelevant values have no bytes and are not paged
    users: Ints  # (n, words of 64 bits) the nodes that need a value of a node
    deferrable: Flags  # (n,) nodes whose first compute may be a forced move: all of them
    counts_page_out: Flags  # (m,) whether the page-out of a value costs energy
    representative: Ints  # (m,) the first value of the group of each value (see `aggregation`)


def build_hierarchy(problem: Problem, representative: Ints) -> list[Abstraction]:
    """The hierarchy of abstractions, the coarsest first. The last is the problem itself.

    The first has the values of the largest size. Values are added by size. Of equal ones those
    made first are added first, because they stay longest. All abstractions but the last aggregate values.
    """
    separate = np.arange(len(representative))
    everything = np.ones(len(problem.node_time), dtype=np.bool_)
    hierarchy = hierarchy_by_size(aggregated_problem(problem, representative), representative, everything)
    if (representative != separate).any():
        hierarchy.append(whole_abstraction(problem, separate))
    return hierarchy


def whole_abstraction(problem: Problem, representative: Ints, little: int = 0) -> Abstraction:
    """The abstraction in which all values of more than ``little`` bytes are relevant."""
    smaller = aggregated_problem(problem, representative)
    return _abstraction(smaller, _users(smaller), np.nonzero(smaller.size > little)[0], representative)


def hierarchy_by_size(problem: Problem, representative: Ints, nodes: Flags) -> list[Abstraction]:
    """Abstractions in which more and more values of some nodes are relevant, at last all of them."""
    size = np.where(nodes[problem.producer], problem.size, 0)
    order = np.argsort(-size, kind="stable")[: int((size > 0).sum())]
    counts, most = [], min(FIRST_VALUES, int((size == size.max(initial=0)).sum()))
    while most < len(order):
        counts.append(most)
        most = max(most + 1, int(GROWTH * most))
    counts.append(len(order))
    users = _users(problem)
    return [_abstraction(problem, users, order[:count], representative) for count in counts]


def _abstraction(problem: Problem, users: Ints, values: Ints, representative: Ints) -> Abstraction:
    """The abstraction in which only ``values`` are relevant."""
    relevant = np.zeros(len(problem.size), dtype=np.bool_)
    relevant[values] = True
    pageable = problem.pageable & relevant
    abstract = replace(problem, size=np.where(relevant, problem.size, 0), pageable=pageable)
    abstract = replace(
        abstract, workspace=abstract.workspace + working_set_bytes(problem) - working_set_bytes(abstract)
    )
    return Abstraction(
        abstract,
        users,
        np.ones(len(problem.node_time), dtype=np.bool_),
        pageable & (problem.out_energy > 0),
        representative,
    )


def _users(problem: Problem) -> Ints:
    """Bits of the nodes that need a value of each node. (n, words)"""
    n = len(problem.node_time)
    users = np.zeros((n, words_of(n)), dtype=np.int64)
    maker = np.repeat(problem.producer, np.diff(problem.use_start))
    np.bitwise_or.at(users, (maker, problem.use_node // 64), np.int64(1) << problem.use_node % 64)
    return users
