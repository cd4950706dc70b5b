# SPDX-License-Identifier: Apache-2.0
"""A cheapest schedule as a shortest path over memory states, found by A* (Hart, Nilsson and Raphael 1968).

The path leads backwards in time over the whole graph. A hierarchy of abstractions is searched, the coarsest first. The
costs that remain to be paid from the states of one guide A* in the next. If RAM is tight, few values fit at once, and
there are few states.

See docs/optimiser/state_space.md for the moves and the proofs.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.params import DEFAULTS, StateSpaceParams
from poet_planner.solve.statespace.abstraction import Abstraction, blind_abstraction, build_hierarchy
from poet_planner.solve.statespace.bitset import copy, empty_slots, has, put, slot_of, slots_of, words_of
from poet_planner.solve.statespace.memory_state import (
    bytes_held,
    can_leave,
    dominating_state,
    fits,
    force_moves,
    is_goal,
    is_output_held,
    keeps_taken,
    swapped_bytes,
    uncompute,
)
from poet_planner.solve.time_budget import TimeBudget, interruptible

EDGES_PER_STATE = 16  # edges of an abstraction at most, for each state allowed
FIRST, AGAIN, PAGE = 0, 1, 2  # moves: first compute, recomputation, page-in


class MemoryStates(NamedTuple):
    """Memory states (N, W, P) that were met.

    Attributes
    ----------
    rows : (states, words) bits of N, then of W, then of P
    to_go : (states,) lower bound on the cost that remains to be paid from the state, in joules above E0
    """

    rows: Ints
    to_go: Floats


class PatternDatabase(NamedTuple):
    """The states of an abstraction and the costs that remain from them.

    They are grouped by the part of N that is relevant to the abstraction.

    Attributes
    ----------
    rows, to_go : as of `MemoryStates`
    slots : hash table of the numbers of states, -1: free
    relevant : (words of nodes,) bits of the nodes that make a relevant value
    nodes : (groups, words of nodes) bits of the relevant nodes in N
    node_slots : hash table of the numbers of groups
    group_start : (groups + 1,) the states of group g, the dearest first, are ``group_start[g]:group_start[g + 1]``
    """

    rows: Ints
    to_go: Floats
    slots: Ints
    relevant: Ints
    nodes: Ints
    node_slots: Ints
    group_start: Ints


class PathResult(NamedTuple):
    """The search of one abstraction.

    Attributes
    ----------
    complete : bool
        Whether the search ended by itself.
    lower_bound : float
        Joules above E0. If complete, the cost of a cheapest path, or the limit if none costs less.
    goal : int64
        The state in which a cheapest path ends; -1 if there is none, or if all states were asked for.
    states : MemoryStates
        With the lower bounds known when they were met.
    opened : (states,) whether the state was expanded
    parent, arrived_by : (states,) the state before on the cheapest path, and the move from there (see `_code`)
    edges : (edges, 2) pairs of states
    edge_energy : (edges,) joules
    """

    complete: bool
    lower_bound: float
    goal: np.int64
    states: MemoryStates
    opened: Flags
    parent: Ints
    arrived_by: Ints
    edges: Ints
    edge_energy: Floats


class StateSpaceResult(NamedTuple):
    """What a search of the state space proved and found. The deadline is ignored.

    Attributes
    ----------
    bound_j : float
        A lower bound on the energy of every schedule, in joules.
    events : events (see `evaluation`) of a cheapest schedule, if one was found
    """

    bound_j: float
    events: Ints | None


def search_memory_states(
    problem: Problem,
    representative: Ints,
    bound_j: float,
    cutoff_j: float,
    most_states: int,
    budget: TimeBudget,
    params: StateSpaceParams = DEFAULTS.state_space,
) -> StateSpaceResult:
    """A lower bound of up to ``cutoff_j``, or a cheapest schedule.

    The deadline and the overlap of transfers and computes are ignored. Neither makes a schedule cheaper.

    Parameters
    ----------
    representative : (m,) the first value of each value's group in all abstractions but the last (see `aggregation`)
    bound_j : float
        A lower bound known already, in joules: E0 at least.
    cutoff_j : float
        Energy of the best schedule known, in joules.
    most_states : int
        Of one abstraction. The search ends if it has more.
    budget : TimeBudget
        Asked every few hundredths of a second.
    """
    store_all_j = float(problem.node_energy.sum())
    limit = cutoff_j - store_all_j
    if bound_j >= cutoff_j:
        return StateSpaceResult(bound_j, None)
    worth = problem.in_energy + problem.out_energy < limit
    problem = replace(problem, pageable=problem.pageable & worth)
    hierarchy = build_hierarchy(problem, representative, params)
    coarsest = _explore(hierarchy[0], _empty_database(problem), limit, most_states, True, budget)
    bound = max(bound_j - store_all_j, coarsest.lower_bound)
    step = params.limit_step
    while bound < limit:
        raised_limit = min(limit, bound + max(step * (limit - bound), params.least_limit_step * limit))
        found = _search_hierarchy(problem, hierarchy, raised_limit, most_states, budget)
        bound = max(bound, found.bound)
        if found.events is not None:
            return StateSpaceResult(store_all_j + bound, found.events)
        if bound < raised_limit and (step == params.limit_step or budget.expired):
            break
        easy = bound >= raised_limit and found.states <= params.easy * most_states
        step = 1.0 if easy else params.limit_step
    return StateSpaceResult(store_all_j + bound, None)


class _HierarchyResult(NamedTuple):
    """One search of the hierarchy.

    Attributes
    ----------
    bound : float
        Joules above E0, up to the limit.
    events : events of a cheapest schedule, if one was found
    states : int
        Of the abstraction that had most.
    """

    bound: float
    events: Ints | None
    states: int


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


def _explore(
    abstraction: Abstraction,
    database: tuple[Abstraction, PatternDatabase],
    limit: float,
    most_states: int,
    first_goal: bool,
    budget: TimeBudget,
) -> PathResult:
    """Explore all states of paths that may cost less than ``limit``, or those up to the first goal."""
    work = partial(_astar, abstraction, *database, limit, most_states, first_goal)
    return PathResult(*interruptible(work, budget))


def _empty_database(problem: Problem) -> tuple[Abstraction, PatternDatabase]:
    abstraction = blind_abstraction(problem)
    words = words_of(len(problem.node_time)) + 2 * words_of(len(problem.size))
    return abstraction, _database(abstraction, MemoryStates(np.zeros((0, words), dtype=np.int64), np.zeros(0)))


def _database(abstraction: Abstraction, states: MemoryStates) -> PatternDatabase:
    problem = abstraction.problem
    relevant = np.zeros(words_of(len(problem.node_time)), dtype=np.int64)
    for j in problem.producer[problem.size > 0]:
        put(relevant, j, True)
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
        what, kind = _decoded(int(found.arrived_by[state]))
        gone = [j for j in range(n) if has(found.states.rows[parent], j) and not has(found.states.rows[state], j)]
        events += [j for j in gone if j != what or kind != FIRST]
        events.append(n + what if kind == PAGE else what)
        state = parent
    events += [j for j in range(n) if not has(found.states.rows[0], j)]
    return np.array(events, dtype=np.int64)


@compiled
def _code(what: int, kind: int) -> int:
    """A move as one number: its node or value, and ``FIRST``, ``AGAIN`` or ``PAGE``."""
    return what * 3 + kind


@compiled
def _decoded(code: int) -> tuple[int, int]:
    return code // 3, code % 3


@compiled
def _abstracted(abstraction: Abstraction, row: Ints, into: Ints) -> None:
    """Write the state of ``abstraction`` that a state looks like."""
    p = abstraction.problem
    values_at = words_of(p.node_time.size)
    paid = values_at + words_of(p.size.size)
    copy(row, into)
    for v in range(p.size.size):
        first = abstraction.representative[v]
        if p.size[v] == 0 and has(row[values_at:], v):
            put(into[values_at:], v, False)
            if p.size[first] > 0:
                put(into[values_at:], first, True)
        if not abstraction.counts_page_out[v] and has(row[paid:], v):
            put(into[paid:], v, False)
            if abstraction.counts_page_out[first]:
                put(into[paid:], first, True)
    force_moves(p, abstraction.users, abstraction.deferrable, into, values_at)


@compiled
def _lower_bound(
    abstraction: Abstraction,
    database: PatternDatabase,
    row: Ints,
    key: Ints,
    nodes: Ints,
    best: float,
    enough: float,
) -> float:
    """A lower bound on the cost that remains from a state, by a coarser abstraction; ``best`` if that is larger.

    If the abstraction never met the state, states (N', W', P') within (N, W, P) are tried, the dearest first, until
    one gives ``enough``. ``key`` and ``nodes`` are scratch.
    """
    if database.to_go.size == 0:
        return best
    p = abstraction.problem
    node_words = database.relevant.size
    paid = node_words + words_of(p.size.size)
    _abstracted(abstraction, row, key)
    state = database.slots[slot_of(database.slots, database.rows, key)]
    if state >= 0:
        best = max(best, database.to_go[state])
        return best
    for word in range(node_words):
        nodes[word] = key[word] & database.relevant[word]
    group = database.node_slots[slot_of(database.node_slots, database.nodes, nodes)]
    if group < 0:
        return best
    for state in range(database.group_start[group], database.group_start[group + 1]):
        least = database.to_go[state]
        if least <= best or best >= enough:
            break
        within = True
        for word in range(key.size):
            if database.rows[state, word] & ~key[word] != 0:
                within = False
                break
        if within:
            for v in range(p.size.size):
                if has(key[paid:], v) and not has(database.rows[state, paid:], v):
                    least -= p.out_energy[v]
            best = max(best, least)
    return best


@allocating
def _astar(
    abstraction: Abstraction,
    coarser: Abstraction,
    database: PatternDatabase,
    limit: float,
    most_states: int,
    first_goal: bool,
    stop: Flags,
) -> tuple[bool, float, np.int64, MemoryStates, Flags, Ints, Ints, Ints, Floats]:
    """A* over all states of paths that cost less than ``limit``, or up to the first goal: the fields of `PathResult`.

    ``stop[0]`` ends the search; another thread may set it.
    """
    p = abstraction.problem
    n, m = p.node_time.size, p.size.size
    values_at = words_of(n)
    paid = values_at + words_of(m)
    width = paid + words_of(m)
    table = empty_slots(most_states)
    rows = np.zeros((most_states, width), dtype=np.int64)
    energy = np.full(most_states, np.inf)
    closed = np.full(most_states, np.inf)
    to_go = np.zeros(most_states)
    opened = np.zeros(most_states, dtype=np.bool_)
    parent = np.full(most_states, -1, dtype=np.int64)
    arrived_by = np.zeros(most_states, dtype=np.int64)
    most_edges = 1 if first_goal else EDGES_PER_STATE * most_states
    edges = np.empty((most_edges, 2), dtype=np.int64)
    edge_energy = np.empty(most_edges)
    edge_count = 0
    key = np.zeros(width, dtype=np.int64)
    nodes = np.zeros(values_at, dtype=np.int64)
    complete = True
    lower_bound = 0.0
    cheapest = limit
    goal = np.int64(-1)
    for j in range(n):
        put(rows[0], j, True)
    force_moves(p, abstraction.users, abstraction.deferrable, rows[0], values_at)
    table[slot_of(table, rows, rows[0])] = 0
    energy[0] = 0.0
    to_go[0] = _lower_bound(coarser, database, rows[0], key, nodes, 0.0, limit)
    count = 1
    open_states = [(to_go[0], 0.0, np.int64(0))]
    while len(open_states) > 0 and complete and goal < 0:
        if stop[0]:
            complete = False
            break
        least, _, at = heappop(open_states)
        if energy[at] >= closed[at]:
            continue
        lower_bound = max(lower_bound, least)
        closed[at] = energy[at]
        new = not opened[at]
        opened[at] = True
        if is_goal(rows[at], values_at):
            cheapest = min(cheapest, energy[at])
            if first_goal:
                goal = at
            continue
        held = bytes_held(p, rows[at], values_at)
        for move in range(2 * n + m):
            what, kind = (move % n, move // n) if move < 2 * n else (move - 2 * n, PAGE)
            row = rows[at]
            if kind == PAGE:
                may = p.pageable[what] and has(row[values_at:], what)
            elif kind == FIRST:
                may = has(row, what) and can_leave(abstraction.users, row, what)
            else:
                may = has(row, what) and p.recomputable[what] and is_output_held(p.output_start, row[values_at:], what)
            if may and kind != PAGE:
                added, freed = swapped_bytes(p, row, values_at, what)
                may = fits(p, held + added - freed, what) and not keeps_taken(p, row, values_at, what)
            if not may:
                continue
            if count == most_states or (edge_count == most_edges and not first_goal) or stop[0]:
                complete = False
                break
            cost = _apply_move(abstraction, rows[at], rows[count], what, kind)
            if cost >= limit:
                continue
            slot = slot_of(table, rows, rows[count])
            to = np.int64(table[slot])
            if to < 0:
                to = dominating_state(p, table, rows, energy, rows[count], energy[at] + cost)
            if to < 0:
                enough = limit - energy[at] - cost
                least = _lower_bound(coarser, database, rows[count], key, nodes, max(0.0, to_go[at] - cost), enough)
                if first_goal and energy[at] + cost + least >= limit:
                    continue
                to = np.int64(count)
                count += 1
                table[slot] = to
                to_go[to] = least
            if new and not first_goal:
                edges[edge_count, 0], edges[edge_count, 1] = at, to
                edge_energy[edge_count] = cost
                edge_count += 1
            if energy[at] + cost < energy[to]:
                energy[to] = energy[at] + cost
                parent[to] = at
                arrived_by[to] = _code(what, kind)
                if energy[to] + to_go[to] < limit:
                    heappush(open_states, (energy[to] + to_go[to], -energy[to], to))
    lower_bound = cheapest if complete else min(lower_bound, cheapest)
    met = MemoryStates(rows[:count], to_go[:count])
    links = edges[:edge_count], edge_energy[:edge_count]
    return complete, lower_bound, goal, met, opened[:count], parent[:count], arrived_by[:count], links[0], links[1]


@compiled
def _apply_move(abstraction: Abstraction, row: Ints, into: Ints, what: int, kind: int) -> float:
    """Write the state before a move; returns its cost in joules above E0."""
    p = abstraction.problem
    values_at = words_of(p.node_time.size)
    copy(row, into)
    cost = 0.0
    if kind == PAGE:
        paid = values_at + words_of(p.size.size)
        cost = p.in_energy[what]
        if abstraction.counts_page_out[what] and not has(into[paid:], what):
            cost += p.out_energy[what]
            put(into[paid:], what, True)
        put(into[values_at:], what, False)
    else:
        uncompute(p, into, values_at, what)
        if kind == FIRST:
            put(into, what, False)
        else:
            cost = p.node_energy[what]
    force_moves(p, abstraction.users, abstraction.deferrable, into, values_at)
    return cost


@allocating
def _to_go(found: PathResult, limit: float, node_words: int) -> Floats:
    """The cost that remains from each state at least. It is exact if no path from it leads beyond the limit."""
    edges, edge_energy = found.edges, found.edge_energy
    count = found.opened.size
    first = np.zeros(count + 1, dtype=np.int64)
    for k in range(edge_energy.size):
        first[edges[k, 1] + 1] += 1
    for state in range(count):
        first[state + 1] += first[state]
    free = first[:-1].copy()
    arriving = np.empty(edge_energy.size, dtype=np.int64)
    for k in range(edge_energy.size):
        arriving[free[edges[k, 1]]] = k
        free[edges[k, 1]] += 1
    to_go = np.full(count, limit)
    open_states = [(0.0, np.int64(0))]
    open_states.pop()
    for state in range(count):
        if is_goal(found.states.rows[state], node_words):
            to_go[state] = 0.0
        elif not found.opened[state]:
            to_go[state] = min(limit, found.states.to_go[state])
        if to_go[state] < limit:
            heappush(open_states, (to_go[state], np.int64(state)))
    while len(open_states) > 0:
        least, at = heappop(open_states)
        if least > to_go[at]:
            continue
        for k in range(first[at], first[at + 1]):
            earlier = edges[arriving[k], 0]
            if least + edge_energy[arriving[k]] < to_go[earlier]:
                to_go[earlier] = least + edge_energy[arriving[k]]
                heappush(open_states, (to_go[earlier], earlier))
    return to_go
