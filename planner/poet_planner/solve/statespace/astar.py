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
from typing import NamedTuple

import numpy as np

from poet_planner.solve.engine import Flag, Float, Function, Int, Ref, Struct, floats, ints, struct
from poet_planner.solve.instance import Flags, Floats, Ints, Problem, graph_size
from poet_planner.solve.statespace.abstraction import Abstraction, blind_abstraction, build_hierarchy
from poet_planner.solve.statespace.bitset import has, put, slots_of, words_of
from poet_planner.solve.statespace.path_search import PathSearch, new_search, no_open_states
from poet_planner.solve.time_budget import TimeBudget, in_steps

LIMIT_STEP = 0.34  # the limit on the energy rises by this fraction of the bound's gap
LEAST_LIMIT_STEP = 0.02  # and by no less than this fraction of the overhead
EASY = 0.25  # it rises all at once if no abstraction had more states: fraction of those allowed
EDGES_PER_STATE = 16  # edges of an abstraction at most, for each state allowed
# A step, and what each node, value and edge of the graph adds: reference seconds.
STEP_S = 5e-7
STEP_S_PER_SIZE = 4e-9
FIRST, AGAIN, PAGE = 0, 1, 2  # kinds of moves: first compute, recomputation, page-in


class MemoryStates(NamedTuple):
    """Memory states (N, W, P) that were met."""

    rows: Ints  # (states, words) bits of N, then of W, then of P
    to_go: Floats  # (states,) lower bound on the cost that remains to be paid from the state, in joules above E0


@struct
class PatternDatabase(Struct):
    """The states of an abstraction and the costs that remain from them.

    They are grouped by the part of N that is relevant to the abstraction.
    """

    # rows, to_go: as of `MemoryStates`.
    rows: Ints
    to_go: Floats
    slots: Ints  # hash table of the numbers of states, -1: free
    relevant: Ints  # (words of nodes,) bits of the nodes that make a relevant value
    nodes: Ints  # (groups, words of nodes) bits of the relevant nodes in N
    node_slots: Ints  # hash table of the numbers of groups
    # (groups + 1,) the states of group g, most expensive first, are ``group_start[g]:group_start[g + 1]``.
    group_start: Ints


class PathResult(NamedTuple):
    """The search of one abstraction."""

    complete: bool  # whether the search ended by itself
    # Joules above E0. If complete, the cost of a cheapest path, or the limit if none costs less.
    lower_bound: float
    goal: int  # the state in which a cheapest path ends; -1 if there is none, or if all states were asked for
    states: MemoryStates  # with the lower bounds known when they were met
    opened: Flags  # (states,) whether the state was expanded
    # parent, arrived_by: (states,) the state before on the cheapest path, and the move from there: three times its node
    # or value, and ``FIRST``, ``AGAIN`` or ``PAGE``.
    parent: Ints
    arrived_by: Ints
    arriving: Ints  # (states,) the last edge that arrives at a state; -1: none
    # (edges, 2) the state that an edge leads from, and the edge before that arrives at the same state; -1: none.
    edges: Ints
    edge_energy: Floats  # (edges,) joules


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
    worth = problem.in_energy + problem.out_energy < limit
    problem = replace(problem, pageable=problem.pageable & worth)
    hierarchy = build_hierarchy(problem, representative)
    coarsest = _explore(hierarchy[0], _empty_database(problem), limit, most_states, True, budget)
    bound = max(bound_j - store_all_j, coarsest.lower_bound)
    step = LIMIT_STEP
    while bound < limit:
        raised_limit = min(limit, bound + max(step * (limit - bound), LEAST_LIMIT_STEP * limit))
        found = _search_hierarchy(problem, hierarchy, raised_limit, most_states, budget)
        bound = max(bound, found.bound)
        if found.events is not None:
            return StateSpaceResult(store_all_j + bound, found.events)
        if bound < raised_limit and (step == LIMIT_STEP or budget.expired):
            break
        easy = bound >= raised_limit and found.states <= EASY * most_states
        step = 1.0 if easy else LIMIT_STEP
    return StateSpaceResult(store_all_j + bound, None)


class _HierarchyResult(NamedTuple):
    """One search of the hierarchy."""

    bound: float  # joules above E0, up to the limit
    events: Ints | None  # events of a cheapest schedule, if one was found
    states: int  # of the abstraction that had most


def _search_hierarchy(
    problem: Problem,
    hierarchy: list[Abstraction],
    limit: float,
    most_states: int,
    budget: TimeBudget,
) -> _HierarchyResult:
    bound, states = 0.0, 0
    database = _empty_database(problem)
    for abstraction in hierarchy:
        finest = abstraction is hierarchy[-1]
        found = _explore(abstraction, database, limit, most_states, finest, budget)
        states = max(states, len(found.opened))
        if not found.complete or finest:
            events = _events_of(problem, abstraction, found) if found.goal >= 0 else None
            return _HierarchyResult(max(bound, found.lower_bound), events, states)
        to_go = _to_go(found, limit, words_of(len(problem.node_time)))
        bound = max(bound, float(to_go[0]))
        if bound >= limit:
            break
        database = abstraction, _database(abstraction, found.states._replace(to_go=to_go))
    return _HierarchyResult(bound, None, states)


@struct
class _Exploration(Struct):
    """The search of one abstraction: what it is given, and the room that it has."""

    abstraction: Abstraction
    # coarser, database: for the lower bounds.
    coarser: Abstraction
    database: PatternDatabase
    search: PathSearch
    # limit, first_goal: as of `_explore`.
    limit: float
    first_goal: bool
    # arriving, edges, edge_energy: as of `PathResult`; none are kept if ``first_goal``.
    arriving: Ints
    edges: Ints
    edge_energy: Floats
    # key, nodes: (words,), (words of nodes,) scratch.
    key: Ints
    nodes: Ints


class _Explored(ctypes.Structure):
    _fields_ = (("complete", Flag), ("lower_bound", Float), ("goal", Int), ("edges", Int))


_explore_states = Function("explore_states", Ref, Ref, returns=_Explored)
_settle_to_go = Function("settle_to_go", Ref, Ref, Ref, Ref, Ref, Int, Float, Ref)


def _explore(
    abstraction: Abstraction,
    database: tuple[Abstraction, PatternDatabase],
    limit: float,
    most_states: int,
    first_goal: bool,
    budget: TimeBudget,
) -> PathResult:
    """Explore all states of paths that may cost less than ``limit``, or those up to the first goal."""
    node_words, value_words = words_of(len(abstraction.problem.node_time)), words_of(len(abstraction.problem.size))
    search = new_search(most_states, node_words + 2 * value_words)
    most_edges = 0 if first_goal else EDGES_PER_STATE * most_states
    exploration = _Exploration(
        abstraction,
        *database,
        search,
        limit,
        first_goal,
        arriving=np.full(0 if first_goal else most_states, -1, dtype=np.int64),
        edges=np.empty((most_edges, 2), dtype=np.int64),
        edge_energy=np.empty(most_edges),
        key=np.zeros(node_words + 2 * value_words, dtype=np.int64),
        nodes=np.zeros(node_words, dtype=np.int64),
    )
    ended = in_steps(
        lambda tally: _explore_states(exploration, ints(tally)),
        budget,
        STEP_S + STEP_S_PER_SIZE * graph_size(abstraction.problem),
    )
    met = slice(int(search.count[0]))
    return PathResult(
        ended.complete,
        ended.lower_bound,
        ended.goal,
        MemoryStates(search.rows[met], search.to_go[met]),
        np.isfinite(search.closed[met]),
        search.parent[met],
        search.arrived_by[met],
        exploration.arriving[met],
        exploration.edges[: ended.edges],
        exploration.edge_energy[: ended.edges],
    )


def _to_go(found: PathResult, limit: float, node_words: int) -> Floats:
    """The cost that remains from each state at least. It is exact if no path from it leads beyond the limit."""
    unopened = np.where(found.opened, limit, np.minimum(limit, found.states.to_go))
    to_go = np.where(found.states.rows[:, :node_words].any(axis=1), unopened, 0.0)
    room = no_open_states(len(to_go) + len(found.edges))
    edges, energy = ints(found.edges), floats(found.edge_energy)
    least = np.ascontiguousarray(found.states.to_go)
    _settle_to_go(ints(found.arriving), edges, energy, floats(least), floats(to_go), len(to_go), limit, room)
    return to_go


def _empty_database(problem: Problem) -> tuple[Abstraction, PatternDatabase]:
    abstraction = blind_abstraction(problem)
    words = words_of(len(problem.node_time)) + 2 * words_of(len(problem.size))
    return abstraction, _database(abstraction, MemoryStates(np.zeros((0, words), dtype=np.int64), np.zeros(0)))


def _database(abstraction: Abstraction, states: MemoryStates) -> PatternDatabase:
    problem = abstraction.problem
    relevant = np.zeros(words_of(len(problem.node_time)), dtype=np.int64)
    for j in problem.producer[problem.size > 0]:
        put(relevant, j)
    nodes = states.rows[:, : len(relevant)] & relevant
    order = np.lexsort((-states.to_go, *nodes.T))
    rows, to_go, nodes = states.rows[order], states.to_go[order], nodes[order]
    new = np.append(True, (nodes[1:] != nodes[:-1]).any(axis=1))[: len(nodes)]
    group_start = np.append(np.nonzero(new)[0], len(nodes))
    return PatternDatabase(rows, to_go, slots_of(rows), relevant, nodes[new], slots_of(nodes[new]), group_start)


def _events_of(problem: Problem, abstraction: Abstraction, found: PathResult) -> Ints:
    """The path as events: for each state its forced moves, then the move that led to it."""
    n = len(problem.node_time)
    events: list[int] = []
    state = int(found.goal)
    while state != 0:
        parent = int(found.parent[state])
        what, kind = divmod(int(found.arrived_by[state]), 3)
        gone = [j for j in range(n) if has(found.states.rows[parent], j) and not has(found.states.rows[state], j)]
        events += [j for j in gone if j != what or kind != FIRST]
        events.append(n + what if kind == PAGE else what)
        state = parent
    events += [j for j in range(n) if not has(found.states.rows[0], j)]
    return np.array(events, dtype=np.int64)
