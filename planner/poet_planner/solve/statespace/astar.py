# SPDX-License-Identifier: Apache-2.0
"""A cheapest schedule as a shortest path over memory states, found by A* (Hart, Nilsson and Raphael 1968).

The path leads backwards in time over the whole graph. A hierarchy of abstractions is searched, the coarsest first. The
costs that remain to be paid from the states of one guide A* in the next. If RAM is tight, few values fit at once, and
there are few states.

See docs/optimiser/state_space.md for the moves and the proofs.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from poet_planner.solve.engine import Flag, Float, Function, Int, Ref, Struct, floats, ints, struct
from poet_planner.solve.instance import Flags, Floats, Ints, Problem, graph_size
from poet_planner.solve.statespace.abstraction import Abstraction, build_hierarchy
from poet_planner.solve.statespace.bitset import bits_of, has, slots_of, words_of
from poet_planner.solve.statespace.path_search import PathSearch, new_search, no_open_states
from poet_planner.solve.time_budget import TimeBudget, in_steps

ENOUGH = 0.3  # an abstraction is explored beyond its goal up to this fraction of the states allowed
EDGES_PER_STATE = 16  # edges of an abstraction at most, for each state allowed
# A step, and what each node, value and edge of the graph adds: reference seconds.
STEP_S = 5e-7
STEP_S_PER_SIZE = 4e-9
FIRST, AGAIN, PAGE = 0, 1, 2  # kinds of moves: first compute, recomputation, page-in


@struct
class PatternDatabase(Struct):
    """The states of an abstraction that were met, and the costs that remain from them."""

    abstraction: Abstraction
    rows: Ints  # (states, words) memory states: bits of N, then of W, then of P
    to_go: Floats  # (states,) lower bound on the cost that remains to be paid from the state, in joules above E0
    slots: Ints  # hash table of the numbers of states, -1: free
    coarser: PatternDatabase | None  # asked for what was not met


class PathResult(NamedTuple):
    """The search of one abstraction."""

    complete: bool  # whether the search ended by itself
    # Joules above E0. If complete, the cost of a cheapest path, or the limit if none costs less.
    lower_bound: float
    goal: int  # the state in which a cheapest path ends; -1: none was found
    # The states that were met. A state was arrived at by three times a node or value, and `FIRST`, `AGAIN` or `PAGE`.
    search: PathSearch
    arriving: Ints  # (states,) the last edge that arrives at a state; -1: none
    # (edges, 2) the state that an edge leads from, and the edge before that arrives at the same state; -1: none.
    edges: Ints
    edge_energy: Floats  # (edges,) joules

    def path(self) -> list[int]:
        """The states of the path, from the goal on; the last of them is the state in which it began."""
        states = [self.goal]
        while states[-1] != 0:
            states.append(int(self.search.parent[states[-1]]))
        return states

    def paged(self) -> set[int]:
        """The values that the path pages in."""
        moves = self.search.arrived_by[self.path()[:-1]]
        return {*(moves[moves % 3 == PAGE] // 3).tolist()}


class StateSpaceResult(NamedTuple):
    """What a search of the state space proved and found. The deadline is ignored."""

    bound_j: float  # a lower bound on the energy of every schedule, in joules
    events: Ints | None  # events (see `evaluation`) of a cheapest schedule, if one was found


def search_memory_states(
    problem: Problem,
    representative: Ints,
    bound_j: float,
    cutoff_j: float,
    most_states: int,
    budget: TimeBudget,
) -> StateSpaceResult:
    """A lower bound of up to ``cutoff_j``, or a cheapest schedule.

    The deadline and the overlap of transfers and computes are ignored. Neither makes a schedule cheaper.
    ``representative`` is the first value of each value's group in all abstractions but the last (see `aggregation`).
    ``bound_j`` is a lower bound known already: E0 at least; ``cutoff_j`` is the energy of the best schedule known. The
    search ends if one abstraction has more than ``most_states``. The budget is asked every few hundredths of a second.
    """
    store_all_j = float(problem.node_energy.sum())
    limit = cutoff_j - store_all_j
    if bound_j >= cutoff_j:
        return StateSpaceResult(bound_j, None)
    problem = without_dear_pages(problem, limit)
    hierarchy = build_hierarchy(problem, representative)
    everything = np.ones(len(problem.node_time), dtype=np.bool_)
    found = search_hierarchy(hierarchy, Stretch(everything, everything), limit, most_states, budget)
    whole = found.path is not None and found.level is hierarchy[-1]
    events = _events_of(problem, found.path) if found.path is not None and whole else None
    return StateSpaceResult(max(bound_j, store_all_j + found.bound), events)


def without_dear_pages(problem: Problem, limit: float) -> Problem:
    """``problem`` in which no value is paged whose transfers cost ``limit`` joules or more."""
    return replace(problem, pageable=problem.pageable & (problem.in_energy + problem.out_energy < limit))


class Stretch(NamedTuple):
    """A stretch of the schedule, backwards: where a path begins and ends."""

    start: Flags  # (n,) the nodes in N at its beginning
    goal: Flags  # (n,) the path ends once none of these is in N


class HierarchyResult(NamedTuple):
    """The search of a hierarchy of abstractions."""

    bound: float  # joules above E0, up to the limit
    level: Abstraction | None  # the finest abstraction of which a cheapest path was found
    path: PathResult | None  # that path


def search_hierarchy(
    hierarchy: list[Abstraction], stretch: Stretch, limit: float, most_states: int, budget: TimeBudget
) -> HierarchyResult:
    """What is paid in a stretch at least."""
    found, database = HierarchyResult(0.0, None, None), None
    for abstraction in hierarchy:
        finest = abstraction is hierarchy[-1]
        ended = _explore(abstraction, database, stretch, limit, most_states, not finest, budget)
        bound = max(found.bound, ended.lower_bound)
        found = found._replace(bound=bound) if ended.goal < 0 else HierarchyResult(bound, abstraction, ended)
        if not ended.complete or bound >= limit or finest:
            break
        database = _database(abstraction, database, ended, stretch, limit)
    return found


@struct
class _Exploration(Struct):
    """The search of one abstraction: what it is given, and the room that it has."""

    abstraction: Abstraction
    database: PatternDatabase | None  # for the lower bounds
    # start, goal: (words of nodes,) as of `Stretch`.
    start: Ints
    goal: Ints
    search: PathSearch
    limit: float
    keeps_edges: bool
    enough: int  # states up to which the search goes on beyond its goal
    # arriving, edges, edge_energy: as of `PathResult`; none unless ``keeps_edges``.
    arriving: Ints
    edges: Ints
    edge_energy: Floats
    key: Ints  # (words,) scratch


class _Explored(ctypes.Structure):
    _fields_ = (("complete", Flag), ("lower_bound", Float), ("goal", Int), ("edges", Int))


_explore_states = Function("explore_states", Ref, Ref, returns=_Explored)
_settle_to_go = Function("settle_to_go", Ref, Ref, Ref, Ref, Ref, Int, Float, Ref)


def _explore(
    abstraction: Abstraction,
    database: PatternDatabase | None,
    stretch: Stretch,
    limit: float,
    most_states: int,
    keeps_edges: bool,
    budget: TimeBudget,
) -> PathResult:
    """Explore states up to the first goal, or until no path may cost less than ``limit``."""
    words = words_of(len(stretch.start)) + 2 * words_of(len(abstraction.problem.size))
    search = new_search(most_states, words)
    start, goal = bits_of(np.array(stretch))
    most_edges = EDGES_PER_STATE * most_states if keeps_edges else 0
    exploration = _Exploration(
        abstraction,
        database,
        start,
        goal,
        search,
        limit,
        keeps_edges,
        int(ENOUGH * most_states) if keeps_edges else 0,
        arriving=np.full(most_states if keeps_edges else 0, -1, dtype=np.int64),
        edges=np.empty((most_edges, 2), dtype=np.int64),
        edge_energy=np.empty(most_edges),
        key=np.zeros(words, dtype=np.int64),
    )
    ended = in_steps(
        lambda tally: _explore_states(exploration, ints(tally)),
        budget,
        STEP_S + STEP_S_PER_SIZE * graph_size(abstraction.problem),
    )
    edges, energy = exploration.edges[: ended.edges], exploration.edge_energy[: ended.edges]
    return PathResult(ended.complete, ended.lower_bound, ended.goal, search, exploration.arriving, edges, energy)


def _database(
    abstraction: Abstraction, coarser: PatternDatabase | None, found: PathResult, stretch: Stretch, limit: float
) -> PatternDatabase:
    """The costs that remain from each state at least: exact where each path from it leads to a goal that was met."""
    search, states = found.search, int(found.search.count[0])
    rows, floor = search.rows[:states], search.to_go[:states]
    to_go = np.where(np.isfinite(search.closed[:states]), limit, np.minimum(limit, floor))
    left = bits_of(stretch.goal[None])[0]
    to_go = np.where((rows[:, : len(left)] & left).any(axis=1), to_go, 0.0)
    room = no_open_states(states + len(found.edges))
    edges, energy = ints(found.edges), floats(found.edge_energy)
    _settle_to_go(ints(found.arriving), edges, energy, floats(floor), floats(to_go), states, limit, room)
    return PatternDatabase(abstraction, rows, to_go, slots_of(rows), coarser)


def _events_of(problem: Problem, found: PathResult) -> Ints:
    """The path as events: for each state its forced moves, then the move that led to it."""
    n, rows = len(problem.node_time), found.search.rows
    events: list[int] = []
    states = found.path()
    for state, parent in pairwise(states):
        what, kind = divmod(int(found.search.arrived_by[state]), 3)
        gone = [j for j in range(n) if has(rows[parent], j) and not has(rows[state], j)]
        events += [j for j in gone if j != what or kind != FIRST]
        events.append(n + what if kind == PAGE else what)
    events += [j for j in range(n) if not has(rows[0], j)]
    return np.array(events, dtype=np.int64)
