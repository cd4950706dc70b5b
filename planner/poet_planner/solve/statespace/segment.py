# SPDX-License-Identifier: Apache-2.0
"""One segment of a schedule: from the first compute of one bottleneck node to that of the next.

The retained sets at both ends are given. A cheap lower bound adds up the nodes that have to be computed in the segment.
A cheapest path is found by A*, backwards in time over states (N, W).

See docs/optimiser/state_space.md, "Retained sets", for the proofs. There ``start`` is a, ``inside`` is M, and
``middle`` is m.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled, inlined
from poet_planner.solve.statespace.bitset import copy, empty_slots, has, put, slot_of, words_of
from poet_planner.solve.statespace.memory_state import (
    bytes_held,
    can_leave,
    dominating_state,
    fits,
    force_moves,
    is_output_held,
    keeps_taken,
    swapped_bytes,
    uncompute,
)
from poet_planner.solve.time_budget import TimeBudget, interruptible

NOWHERE = -1


class Segment(NamedTuple):
    """A segment, for any retained sets.

    Attributes
    ----------
    problem : Problem
    users, made, needed : (n, words) bits: the nodes that need a value of a node; its outputs; its inputs
    need : (n,) bytes of the working set
    start : the bottleneck node that the segment begins with, or ``NOWHERE``
    inside : (n,) nodes whose first compute lies in the segment in every schedule
    deferrable : (n,) nodes of ``inside`` whose first compute may be a forced move
    energy : (n,) joules of a compute in the segment: 0 if it may be the first one, infinite if it is not allowed
    middle : the node of ``inside`` with the largest working set, or ``NOWHERE``
    before_middle, after_middle : (n,) ancestors and descendants of ``middle`` in ``inside``
    beside_middle : (words,) bits of the values that RAM can hold beside ``middle``, and of those made after ``start``
    start_values : (words,) bits of the inputs and outputs of ``start``
    """

    problem: Problem
    users: Ints
    made: Ints
    needed: Ints
    need: Ints
    start: int
    inside: Flags
    deferrable: Flags
    energy: Floats
    middle: int
    before_middle: Flags
    after_middle: Flags
    beside_middle: Ints
    start_values: Ints


class SegmentPath(NamedTuple):
    """A search of one segment between two retained sets.

    Attributes
    ----------
    complete : bool
        Whether the search ended by itself.
    least : float
        A lower bound on the cost of the segment, in joules above E0. If complete, its cost, or the limit.
    events : computes of a cheapest path, if one below the limit was found
    states : int
        States that were met.
    """

    complete: bool
    least: float
    events: list[int] | None
    states: int


def cheapest_path(
    segment: Segment, end: Ints, at_start: Ints, until_middle: Ints, limit: float, most_states: int, budget: TimeBudget
) -> SegmentPath:
    """A* from the end of the segment to its start.

    Parameters
    ----------
    end : (words,) the state right before the next bottleneck node
    at_start, until_middle : (words,) as of `lower_bound`
    limit : float
        Joules above E0. A path that costs as much is not looked for.
    most_states : int
        The search ends if there are more.
    """
    work = partial(_astar, segment, end, at_start, until_middle, limit, most_states)
    complete, least, goal, rows, parent, arrived_by = interruptible(work, budget)
    if goal < 0:
        return SegmentPath(bool(complete), float(least), None, len(rows))
    events: list[int] = []
    n, at = len(segment.inside), goal
    while at > 0:
        computed = [j for j in range(n) if has(rows[parent[at]], j) and not has(rows[at], j)]
        events += [*(j for j in computed if j != arrived_by[at]), int(arrived_by[at]) % n]
        at = parent[at]
    events += [j for j in range(n) if has(end, j) and not has(rows[0], j)]
    return SegmentPath(True, float(least), events, len(rows))


@compiled
def lower_bounds(
    s: Segment, ends: Ints, at_start: Ints, until_middle: Ints, need: Ints, counted: Ints, least: Floats, stop: Flags
) -> None:
    """Write `lower_bound` for each end and each start into ``least``, until ``stop`` is set."""
    for i in range(ends.shape[0]):
        if stop[0]:
            return
        for k in range(at_start.shape[0]):
            least[i, k] = lower_bound(s, ends[i], at_start[k], until_middle[k], need, counted)


@compiled
def keep_until_middle(s: Segment, at_start: Ints, kept: Ints, need: Ints, counted: Ints) -> None:
    """Write into ``kept`` which of the values ``at_start`` can stay in RAM until the middle node.

    Unless the start is computed again, its outputs that the middle node needs stay. Some nodes are surely computed in
    between. An input of the middle node that does not fit beside them and these outputs is evicted, and made again.
    All values may stay if making those again costs more than computing the start again.
    """
    copy(at_start, kept)
    if s.start < 0 or s.middle < 0:
        return
    p = s.problem
    copy(s.needed[s.middle], need)
    for j in range(s.middle - 1, -1, -1):
        if _surely_computed(s, j, need, at_start):
            _uncompute(s, need, j)
            for k in range(p.input_start[s.middle], p.input_start[s.middle + 1]):
                v = p.input_value[k]
                if p.size[v] > 0 and p.producer[v] != s.start and has(kept, v) and _exceeds_ram(s, j, v):
                    put(kept, v, False)
    if _to_middle(s, kept, need, counted) - _to_middle(s, at_start, need, counted) > s.energy[s.start]:
        copy(at_start, kept)


@inlined
def _to_middle(s: Segment, at_start: Ints, need: Ints, counted: Ints) -> float:
    """Joules of the nodes of X: those computed again for the middle node. They are marked in ``counted``."""
    paid = 0.0
    copy(s.needed[s.middle], need)
    for j in range(s.middle - 1, -1, -1):
        if s.before_middle[j]:
            _uncompute(s, need, j)
        elif _is_missing(s, j, need, at_start):
            paid += s.energy[j]
            put(counted, j, True)
            _uncompute(s, need, j)
    return paid


@inlined
def _surely_computed(s: Segment, j: int, need: Ints, at_start: Ints) -> bool:
    """Whether node j is surely computed between the start and the middle node."""
    return s.before_middle[j] or _is_missing(s, j, need, at_start)


@inlined
def _is_missing(s: Segment, j: int, need: Ints, in_ram: Ints) -> bool:
    """Whether node j makes a value that is needed and not in RAM."""
    missing = False
    for v in range(s.problem.output_start[j], s.problem.output_start[j + 1]):
        missing = missing or (has(need, v) and not has(in_ram, v))
    return missing


@inlined
def _exceeds_ram(s: Segment, j: int, v: int) -> bool:
    """Whether node j does not fit beside value v and those outputs of the start that the middle node needs."""
    p = s.problem
    held = s.need[j] if has(s.needed[j], v) else s.need[j] + p.size[v]
    for u in range(p.output_start[s.start], p.output_start[s.start + 1]):
        if has(s.needed[s.middle], u) and not has(s.needed[j], u):
            held += p.size[u]
    exceeds: bool = held > p.budget
    return exceeds


@compiled
def lower_bound(s: Segment, row: Ints, at_start: Ints, until_middle: Ints, need: Ints, counted: Ints) -> float:
    """A lower bound on the cost that remains from a state, in joules above E0. RAM counts at the middle node alone.

    Parameters
    ----------
    row : (words,) bits of N, then of W
    at_start : (words,) bits of the values in RAM right after the start
    until_middle : (words,) those of them that can stay there until the middle node
    need, counted : (words,), (words of nodes,) scratch
    """
    values_at = counted.size
    paid = 0.0
    counted[:] = 0
    if s.middle >= 0 and has(row, s.middle):
        paid += _to_middle(s, until_middle, need, counted)
        copy(row[values_at:], need)
        for j in range(s.inside.size - 1, -1, -1):
            if s.after_middle[j] and has(row, j):
                _uncompute(s, need, j)
            elif _is_missing(s, j, need, s.beside_middle):
                paid += s.energy[j]
                put(counted, j, True)
                _uncompute(s, need, j)
    copy(row[values_at:], need)
    for j in range(s.inside.size - 1, -1, -1):
        if s.inside[j] and has(row, j):
            _uncompute(s, need, j)
        elif _is_missing(s, j, need, at_start):
            if not has(counted, j):
                paid += s.energy[j]
            _uncompute(s, need, j)
    return paid


@inlined
def _uncompute(s: Segment, need: Ints, j: int) -> None:
    """Turn what is needed after node j into what is needed before it."""
    for word in range(need.size):
        need[word] = (need[word] & ~s.made[j, word]) | s.needed[j, word]


@inlined
def _is_goal(s: Segment, row: Ints, at_start: Ints) -> bool:
    """Whether N is empty and W in RAM right after the start."""
    values_at = words_of(s.inside.size)
    left = np.int64(0)
    for word in range(values_at):
        left |= row[word]
    for word in range(at_start.size):
        left |= row[values_at + word] & ~at_start[word]
    none_left: bool = left == 0
    return none_left


@allocating
def _astar(
    s: Segment, end: Ints, at_start: Ints, until_middle: Ints, limit: float, most_states: int, stop: Flags
) -> tuple[bool, float, np.int64, Ints, Ints, Ints]:
    """A* from ``end``: whether it ended by itself, a lower bound, the goal or -1, rows, parents, moves.

    A move is the number of a node for a first compute, and n more for a recomputation.
    """
    p = s.problem
    n, values_at = p.node_time.size, words_of(p.node_time.size)
    table = empty_slots(most_states)
    rows = np.zeros((most_states, end.size), dtype=np.int64)
    energy = np.full(most_states, np.inf)
    closed = np.full(most_states, np.inf)
    to_go = np.zeros(most_states)
    parent = np.full(most_states, -1, dtype=np.int64)
    arrived_by = np.full(most_states, -1, dtype=np.int64)
    need, counted = np.zeros(at_start.size, dtype=np.int64), np.zeros(values_at, dtype=np.int64)
    copy(end, rows[0])
    force_moves(p, s.users, s.deferrable, rows[0], values_at)
    table[slot_of(table, rows, rows[0])] = 0
    energy[0] = 0.0
    to_go[0] = lower_bound(s, rows[0], at_start, until_middle, need, counted)
    count = 1
    open_states = [(to_go[0], 0.0, np.int64(0))]
    if to_go[0] >= limit:
        open_states.pop()
    while len(open_states) > 0:
        least, _, at = heappop(open_states)
        if energy[at] >= closed[at]:
            continue
        closed[at] = energy[at]
        if _is_goal(s, rows[at], at_start):
            return True, least, at, rows[:count], parent[:count], arrived_by[:count]
        held = bytes_held(p, rows[at], values_at)
        for move in range(2 * n):
            j, again = move % n, move >= n
            row = rows[at]
            if again:
                may = (has(row, j) or not s.inside[j]) and is_output_held(p.output_start, row[values_at:], j)
            else:
                may = has(row, j) and can_leave(s.users, row, j)
            if may:
                added, freed = swapped_bytes(p, row, values_at, j)
                may = fits(p, held + added - freed, j) and not keeps_taken(p, row, values_at, j)
            if not may:
                continue
            if count == most_states or stop[0]:
                return False, least, np.int64(-1), rows[:count], parent[:count], arrived_by[:count]
            copy(row, rows[count])
            uncompute(p, rows[count], values_at, j)
            spent = energy[at]
            if again:
                spent += s.energy[j]
            else:
                put(rows[count], j, False)
            force_moves(p, s.users, s.deferrable, rows[count], values_at)
            slot = slot_of(table, rows, rows[count])
            to = np.int64(table[slot])
            if to < 0:
                to = dominating_state(p, table, rows, energy, rows[count], spent)
            if to < 0:
                lower = max(least - spent, lower_bound(s, rows[count], at_start, until_middle, need, counted))
                if spent + lower >= limit:
                    continue
                to = np.int64(count)
                count += 1
                table[slot] = to
                to_go[to] = lower
            if spent < energy[to]:
                energy[to] = spent
                parent[to] = at
                arrived_by[to] = move
                if spent + to_go[to] < limit:
                    heappush(open_states, (spent + to_go[to], -spent, to))
    return True, limit, np.int64(-1), rows[:count], parent[:count], arrived_by[:count]
