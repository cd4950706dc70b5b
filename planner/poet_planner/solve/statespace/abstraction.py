# SPDX-License-Identifier: Apache-2.0
"""Coarser views of a problem: some values take no RAM, and some are taken together.

What is to be paid from a state of a coarser view on is a lower bound for all states of a finer one that look the same
in it (pattern databases: Culberson and Schaeffer 1998).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem, node_need
from poet_planner.solve.params import DEFAULTS, StateSpaceParams
from poet_planner.solve.statespace.aggregation import merged


class View(NamedTuple):
    """A problem in which some values are not looked at: they take no RAM but where a node needs or makes them.

    Attributes
    ----------
    problem : Problem
        Values that are not looked at have no bytes and are not paged.
    users : (n, words of 64 bits) those of the nodes that need a value of a node
    prompt : (n,) first computes that may be put as late as they can be: all of them
    paid : (m,) whether the page-out of a value counts
    first : (m,) of the values that each is taken together with (see `merging`), the first made
    """

    problem: Problem
    users: Ints
    prompt: Flags
    paid: Flags
    first: Ints


def views(problem: Problem, first: Ints, params: StateSpaceParams = DEFAULTS.state_space) -> list[View]:
    """The coarsest first: the largest values, whose page-outs are free at first; the last is the problem itself.

    The others come in the order of their sizes; of equal ones the first made come first, for they stay longest. Values
    are taken together as ``first`` says in all but the last.
    """
    alone = np.arange(len(first))
    ladder = _by_size(merged(problem, first), first, params)
    if (first != alone).any():
        ladder.append(whole_view(problem, alone))
    return ladder


def whole_view(problem: Problem, first: Ints, little: int = 0) -> View:
    """All values of more than ``little`` bytes are looked at, taken together as ``first`` says."""
    smaller = merged(problem, first)
    return _view(smaller, np.nonzero(smaller.size > little)[0], True, first)


def blind_view(problem: Problem) -> View:
    """No value is looked at."""
    nothing = np.zeros(0, dtype=np.int64)
    return _view(problem, nothing, False, np.arange(len(problem.size)))


def _by_size(problem: Problem, first: Ints, params: StateSpaceParams) -> list[View]:
    order = np.argsort(-problem.size, kind="stable")[: int((problem.size > 0).sum())]
    counts, most = [], min(params.first_values, int((problem.size == problem.size.max(initial=0)).sum()))
    while most < len(order):
        counts.append(most)
        most = max(most + 1, int(params.growth * most))
    counts.append(len(order))
    found = [_view(problem, order[:count], True, first) for count in counts]
    if problem.pageable.any():
        found.insert(0, _view(problem, order[: counts[0]], False, first))
    return found


def _view(problem: Problem, values: Ints, outs: bool, first: Ints) -> View:
    """Only ``values`` are looked at; ``outs``: with the energy of page-outs."""
    seen = np.zeros(len(problem.size), dtype=np.bool_)
    seen[values] = True
    pageable = problem.pageable & seen
    viewed = problem._replace(size=np.where(seen, problem.size, 0), pageable=pageable)
    viewed = viewed._replace(workspace=viewed.workspace + node_need(problem) - node_need(viewed))
    return View(
        viewed,
        _users(problem),
        np.ones(len(problem.node_time), dtype=np.bool_),
        pageable & (problem.out_energy > 0) & outs,
        first,
    )


def _users(problem: Problem) -> Ints:
    """Bits of the nodes that need a value of each node. (n, words)"""
    n = len(problem.node_time)
    users = np.zeros((n, (n + 63) // 64), dtype=np.int64)
    maker = np.repeat(problem.producer, np.diff(problem.use_start))
    np.bitwise_or.at(users, (maker, problem.use_node // 64), np.int64(1) << problem.use_node % 64)
    return users
