# SPDX-License-Identifier: Apache-2.0
"""The least energy by a shortest path over what RAM and card hold, in coarser views of the problem first.

Backwards in time over the whole graph: what is yet to be computed for the first time, what has to be in RAM, which
page-outs are paid. What is to be paid from each state of a coarser view on leads the search of the next finer one.
Where the RAM is tight few values fit at once, and the views have few states.
docs/optimiser/state_space.md has the proof.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.params import DEFAULTS, StateSpaceParams
from poet_planner.solve.statespace.abstraction import View, blind_view, views, whole_view
from poet_planner.solve.statespace.aggregation import made_apart
from poet_planner.solve.statespace.bitset import copy, empty_slots, has, put, slot_of, slots_of, words_of
from poet_planner.solve.statespace.bottleneck_heuristic import (
    Checkpoints,
    checkpoints,
    least_to_pay,
    no_checkpoints,
    table_full,
)
from poet_planner.solve.statespace.memory_state import (
    better_state,
    bytes_held,
    fits,
    is_begun,
    is_removable,
    is_wanted,
    settle,
    swapped,
    uncompute,
)
from poet_planner.solve.time_budget import TimeBudget

# Of a table that holds all states of an abstraction.
EDGES_PER_STATE = 16
# Rows of the table of what is to be paid between checkpoints, at least and for each state.
LEAST_ROWS = 500_000
ROWS_PER_STATE = 2
WAIT_S = 0.02  # between two looks at the budget: seconds
FIRST, AGAIN, PAGE = 0, 1, 2


class States(NamedTuple):
    """States met, a row each: bits of nodes yet to be computed first, of values in RAM, of page-outs paid.

    Attributes
    ----------
    rows : (states, words)
    to_go : (states,) joules above plain training that are to be paid from there on at least
    """

    rows: Ints
    to_go: Floats


class Bounds(NamedTuple):
    """What is known of the states of a coarser view, in groups of the same nodes to do of those that matter in it.

    Attributes
    ----------
    rows, to_go : as of `States`
    slots : hash table of their numbers, -1: free
    loud : (words of nodes,) bits of the nodes that make a value that the view looks at
    nodes : (groups, words of nodes), bits of those of them that are yet to be computed
    node_slots : hash table of the groups' numbers
    first : (groups + 1,) states ``first[g]:first[g + 1]`` are of group g, the dearest first
    """

    rows: Ints
    to_go: Floats
    slots: Ints
    loud: Ints
    nodes: Ints
    node_slots: Ints
    first: Ints


class Found(NamedTuple):
    """What exploring a view came to.

    Attributes
    ----------
    complete : bool
        Whether it got to the end; if not, ``lowest`` is a lower bound.
    lowest : float
        Joules above plain training: of a cheapest path, or the limit where there is none below it.
    goal : int
        The state that a cheapest path ends in; -1 where there is none, or where all paths were wanted.
    states : States
        With lower bounds that held when they were met.
    opened : (states,) whether what follows them was looked at
    before, via : (states,) the state from which the cheapest way came, and its move (see `_code`)
    edges : (edges, 2) of states
    edge_energy : (edges,)
    """

    complete: bool
    lowest: float
    goal: int
    states: States
    opened: Flags
    before: Ints
    via: Ints
    edges: Ints
    edge_energy: Floats


class Contents(NamedTuple):
    """``bound_j``: joules that every schedule costs at least; ``events`` (see `evaluation`): of a cheapest one, if any.

    Neither knows of a deadline.
    """

    bound_j: float
    events: Ints | None


def search_contents(
    problem: Problem,
    first: Ints,
    bound_j: float,
    known_j: float,
    most_states: int,
    budget: TimeBudget,
    params: StateSpaceParams = DEFAULTS.state_space,
) -> Contents:
    """A lower bound, up to ``known_j``; or a cheapest schedule.

    Neither deadline nor transfers beside compute are looked at: both make schedules dearer at most.

    Parameters
    ----------
    first : (m,) the values that are taken together in the coarser views (see `merging`)
    bound_j : float
        A lower bound that is known already, in joules: plain training's energy at least.
    known_j : float
        Energy of the best schedule known, in joules.
    most_states : int
        Of a view; one that has more ends the work.
    budget : TimeBudget
        Asked every few hundredths of a second.
    """
    plain_j = float(problem.node_energy.sum())
    limit = known_j - plain_j
    if bound_j >= known_j:
        return Contents(bound_j, None)
    worth = problem.in_energy + problem.out_energy < limit
    problem = problem._replace(pageable=problem.pageable & worth)
    ladder = views(problem, first, params)
    nowhere = no_checkpoints(problem)
    coarsest = _explore(ladder[0], _nothing_known(problem), nowhere, limit, most_states, True, budget)
    bound = max(bound_j - plain_j, coarsest.lowest)
    step = params.limit_step
    while bound < limit:
        trial = min(limit, bound + max(step * (limit - bound), params.least_limit_step * limit))
        within = _within(problem, ladder, nowhere, trial, most_states, budget)
        bound = max(bound, within.bound)
        if within.events is not None:
            return Contents(plain_j + bound, within.events)
        if bound < trial and (step == params.limit_step or budget.expired):
            break
        easy = bound >= trial and within.states <= params.easy * most_states
        step = 1.0 if easy else params.limit_step
    return Contents(plain_j + bound, None)


def search_between_checkpoints(
    problem: Problem, first: Ints, closely: Ints, known_j: float, most_states: int, budget: TimeBudget
) -> Contents:
    """The same in one view, led by what is to be paid where the RAM counts at checkpoints alone.

    The events make what is taken together anew as soon as the first of it: RAM may not hold that, nor need they be in
    time.

    Parameters
    ----------
    first, closely : (m,) the values that are taken together at the checkpoints, and in the view: no others than those
    known_j, most_states, budget : as of `search_contents`
    """
    plain_j = float(problem.node_energy.sum())
    view = whole_view(problem, closely)
    known = checkpoints(problem, first, LEAST_ROWS + ROWS_PER_STATE * most_states)
    found = _explore(view, _nothing_known(problem), known, known_j - plain_j, most_states, True, budget)
    events = made_apart(problem, closely, _events(problem, view, found)) if found.goal >= 0 else None
    return Contents(plain_j + found.lowest, events)


class _Within(NamedTuple):
    """Joules above plain training, up to a limit; events of a cheapest schedule; states of the largest view."""

    bound: float
    events: Ints | None
    states: int


def _within(
    problem: Problem,
    ladder: list[View],
    nowhere: Checkpoints,
    limit: float,
    most_states: int,
    budget: TimeBudget,
) -> _Within:
    bound, states = 0.0, 0
    bounds = _nothing_known(problem)
    for view in ladder:
        finest = view is ladder[-1]
        found = _explore(view, bounds, nowhere, limit, most_states, finest, budget)
        states = max(states, len(found.opened))
        if not found.complete or finest:
            events = _events(problem, view, found) if found.goal >= 0 else None
            return _Within(max(bound, found.lowest), events, states)
        to_go = _to_go(found, limit, words_of(len(problem.node_time)))
        bound = max(bound, float(to_go[0]))
        if bound >= limit:
            break
        bounds = view, _bounds(view, found.states._replace(to_go=to_go))
    return _Within(bound, None, states)


def _explore(
    view: View,
    bounds: tuple[View, Bounds],
    known: Checkpoints,
    limit: float,
    most_states: int,
    first_goal: bool,
    budget: TimeBudget,
) -> Found:
    """All states from which less than ``limit`` may be paid in all, or those up to the first goal."""
    stop = np.zeros(1, dtype=np.bool_)
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(_explored, view, *bounds, known, limit, most_states, first_goal, stop)
        try:
            while not wait_for([work], WAIT_S).done and not budget.expired:
                pass
        finally:
            stop[0] = True
        return Found(*work.result())


def _nothing_known(problem: Problem) -> tuple[View, Bounds]:
    view = blind_view(problem)
    words = words_of(len(problem.node_time)) + 2 * words_of(len(problem.size))
    return view, _bounds(view, States(np.zeros((0, words), dtype=np.int64), np.zeros(0)))


def _bounds(view: View, states: States) -> Bounds:
    problem = view.problem
    loud = np.zeros(words_of(len(problem.node_time)), dtype=np.int64)
    for j in problem.producer[problem.size > 0]:
        put(loud, j, True)
    nodes = states.rows[:, : len(loud)] & loud
    order = np.lexsort((-states.to_go, *nodes.T))
    rows, to_go, nodes = states.rows[order], states.to_go[order], nodes[order]
    new = np.append(True, (nodes[1:] != nodes[:-1]).any(axis=1))[: len(nodes)]
    first = np.append(np.nonzero(new)[0], len(nodes))
    return Bounds(rows, to_go, slots_of(rows), loud, nodes[new], slots_of(nodes[new]), first)


def _events(problem: Problem, view: View, found: Found) -> Ints:
    """The path as events: of each state what is settled there, then the move that led to it."""
    n = len(problem.node_time)
    events: list[int] = []
    state = found.goal
    while state != 0:
        before = int(found.before[state])
        what, kind = _decoded(int(found.via[state]))
        gone = [j for j in range(n) if has(found.states.rows[before], j) and not has(found.states.rows[state], j)]
        events += [j for j in gone if j != what or kind != FIRST]
        events.append(n + what if kind == PAGE else what)
        state = before
    events += [j for j in range(n) if not has(found.states.rows[0], j)]
    return np.array(events, dtype=np.int64)


@compiled
def _code(what, kind):  # type: ignore[no-untyped-def]
    """A move: which node is computed, for the first time or again, or which value is paged in."""
    return what * 3 + kind


@compiled
def _decoded(code):  # type: ignore[no-untyped-def]
    return code // 3, code % 3


@compiled
def _seen(view, row, into):  # type: ignore[no-untyped-def]
    """What a state looks like in ``view``."""
    p = view.problem
    contents = words_of(p.node_time.size)
    paid = contents + words_of(p.size.size)
    copy(row, into)
    for v in range(p.size.size):
        first = view.first[v]
        if p.size[v] == 0 and has(row[contents:], v):
            put(into[contents:], v, False)
            if p.size[first] > 0:
                put(into[contents:], first, True)
        if not view.paid[v] and has(row[paid:], v):
            put(into[paid:], v, False)
            if view.paid[first]:
                put(into[paid:], first, True)
    settle(p, view.users, view.prompt, into, contents)


@compiled
def _known(view, bounds, row, key, nodes, best, enough):  # type: ignore[no-untyped-def]
    """What a coarser view says is to be paid from a state on at least, where that is more than ``best``.

    Where it does not know the state itself: what it says of those with less to do, less in RAM and fewer page-outs
    paid, the dearest first, until one says ``enough``. ``key`` and ``nodes`` are scratch.
    """
    if bounds.to_go.size == 0:
        return best
    p = view.problem
    node_words = bounds.loud.size
    paid = node_words + words_of(p.size.size)
    _seen(view, row, key)
    state = bounds.slots[slot_of(bounds.slots, bounds.rows, key)]
    if state >= 0:
        return max(best, bounds.to_go[state])
    for word in range(node_words):
        nodes[word] = key[word] & bounds.loud[word]
    group = bounds.node_slots[slot_of(bounds.node_slots, bounds.nodes, nodes)]
    if group < 0:
        return best
    for state in range(bounds.first[group], bounds.first[group + 1]):
        least = bounds.to_go[state]
        if least <= best or best >= enough:
            break
        within = True
        for word in range(key.size):
            if bounds.rows[state, word] & ~key[word] != 0:
                within = False
                break
        if within:
            for v in range(p.size.size):
                if has(key[paid:], v) and not has(bounds.rows[state, paid:], v):
                    least -= p.out_energy[v]
            best = max(best, least)
    return best


@allocating
def _explored(view, coarser, bounds, known, limit, most_states, first_goal, stop):  # type: ignore[no-untyped-def]
    """All that costs less than ``limit``, or up to the first goal. Returns what `Found` holds."""
    p = view.problem
    n, m = p.node_time.size, p.size.size
    contents = words_of(n)
    paid = contents + words_of(m)
    width = paid + words_of(m)
    table = empty_slots(most_states)
    rows = np.zeros((most_states, width), dtype=np.int64)
    energy = np.full(most_states, np.inf)
    closed = np.full(most_states, np.inf)
    to_go = np.zeros(most_states)
    opened = np.zeros(most_states, dtype=np.bool_)
    before = np.full(most_states, -1, dtype=np.int64)
    via = np.zeros(most_states, dtype=np.int64)
    most_edges = 1 if first_goal else EDGES_PER_STATE * most_states
    edges = np.empty((most_edges, 2), dtype=np.int64)
    edge_energy = np.empty(most_edges)
    edge_count = 0
    key = np.zeros(width, dtype=np.int64)
    nodes = np.zeros(contents, dtype=np.int64)
    complete = True
    lowest = 0.0
    cheapest = limit
    goal = np.int64(-1)
    for j in range(n):
        put(rows[0], j, True)
    settle(p, view.users, view.prompt, rows[0], contents)
    table[slot_of(table, rows, rows[0])] = 0
    energy[0] = 0.0
    to_go[0] = max(_known(coarser, bounds, rows[0], key, nodes, 0.0, limit), least_to_pay(known, rows[0], limit))
    count = 1
    waiting = [(to_go[0], 0.0, np.int64(0))]
    while len(waiting) > 0 and complete and goal < 0:
        if stop[0] or table_full(known):
            complete = False
            break
        least, _, at = heappop(waiting)
        if energy[at] >= closed[at]:
            continue
        lowest = max(lowest, least)
        closed[at] = energy[at]
        new = not opened[at]
        opened[at] = True
        if is_begun(rows[at], contents):
            cheapest = min(cheapest, energy[at])
            if first_goal:
                goal = at
            continue
        held = bytes_held(p, rows[at], contents)
        for move in range(2 * n + m):
            what, kind = (move % n, move // n) if move < 2 * n else (move - 2 * n, PAGE)
            row = rows[at]
            if kind == PAGE:
                may = p.pageable[what] and has(row[contents:], what)
            elif kind == FIRST:
                may = has(row, what) and is_removable(view.users, row, what)
            else:
                may = has(row, what) and p.recomputable[what] and is_wanted(p.own, row[contents:], what)
            if may and kind != PAGE:
                added, freed = swapped(p, row, contents, what)
                may = fits(p, held + added - freed, what)
            if not may:
                continue
            if count == most_states or (edge_count == most_edges and not first_goal):
                complete = False
                break
            cost = _moved(view, rows[at], rows[count], what, kind)
            if cost >= limit:
                continue
            slot = slot_of(table, rows, rows[count])
            to = np.int64(table[slot])
            if to < 0:
                to = better_state(p, table, rows, energy, rows[count], energy[at] + cost)
            if to < 0:
                enough = limit - energy[at] - cost
                least = _known(coarser, bounds, rows[count], key, nodes, max(0.0, to_go[at] - cost), enough)
                if least < enough:
                    least = max(least, least_to_pay(known, rows[count], enough))
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
                before[to] = at
                via[to] = _code(what, kind)
                if energy[to] + to_go[to] < limit:
                    heappush(waiting, (energy[to] + to_go[to], -energy[to], to))
    lowest = cheapest if complete else min(lowest, cheapest)
    met = States(rows[:count], to_go[:count])
    links = edges[:edge_count], edge_energy[:edge_count]
    return complete, lowest, goal, met, opened[:count], before[:count], via[:count], links[0], links[1]


@compiled
def _moved(view, row, into, what, kind):  # type: ignore[no-untyped-def]
    """Writes the state before a move; joules above plain training that this costs."""
    p = view.problem
    contents = words_of(p.node_time.size)
    copy(row, into)
    cost = 0.0
    if kind == PAGE:
        paid = contents + words_of(p.size.size)
        cost = p.in_energy[what]
        if view.paid[what] and not has(into[paid:], what):
            cost += p.out_energy[what]
            put(into[paid:], what, True)
        put(into[contents:], what, False)
    else:
        uncompute(p, into, contents, what)
        if kind == FIRST:
            put(into, what, False)
        else:
            cost = p.node_energy[what]
    settle(p, view.users, view.prompt, into, contents)
    return cost


@allocating
def _to_go(found, limit, node_words):  # type: ignore[no-untyped-def]
    """What is to be paid from each state on at least: exactly, where no path from it leads beyond the limit."""
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
    waiting = [(0.0, np.int64(0))]
    waiting.pop()
    for state in range(count):
        if is_begun(found.states.rows[state], node_words):
            to_go[state] = 0.0
        elif not found.opened[state]:
            to_go[state] = min(limit, found.states.to_go[state])
        if to_go[state] < limit:
            heappush(waiting, (to_go[state], np.int64(state)))
    while len(waiting) > 0:
        least, at = heappop(waiting)
        if least > to_go[at]:
            continue
        for k in range(first[at], first[at + 1]):
            earlier = edges[arriving[k], 0]
            if least + edge_energy[arriving[k]] < to_go[earlier]:
                to_go[earlier] = least + edge_energy[arriving[k]]
                heappush(waiting, (to_go[earlier], earlier))
    return to_go
