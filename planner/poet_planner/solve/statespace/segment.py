# SPDX-License-Identifier: Apache-2.0
"""One segment of a schedule, from the first compute of one checkpoint to that of the next, where both leave little RAM.

What stays in RAM beside either of them is given. What the segment takes at least is a sum over what has to be made
anew; the cheapest way, a shortest path backwards in time over what RAM has to hold.
docs/optimiser/state_space.md has the proofs.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled, inlined
from poet_planner.solve.statespace.bitset import copy, empty_slots, has, put, slot_of, words_of
from poet_planner.solve.statespace.memory_state import (
    better_state,
    bytes_held,
    fits,
    is_removable,
    is_wanted,
    settle,
    swapped,
    uncompute,
)

NOWHERE = -1


class Segment(NamedTuple):
    """What does not depend on what stays in RAM.

    Attributes
    ----------
    problem : Problem
    users, made, needed : (n, words) bits: nodes that need a value of a node; values of a node; values it needs
    need : (n,) bytes that a node takes by itself
    start : the checkpoint that the segment begins with, or ``NOWHERE``
    first : (n,) computed for the first time within the segment, in every schedule
    prompt : (n,) those of them that no other node needs that may be computed within the segment
    energy : (n,) joules of computing a node again; nothing where it may be the first time, infinite where it cannot be
    middle : node of those in ``first`` whose first compute takes most RAM, or ``NOWHERE``
    ahead, behind : (n,) those in ``first`` that ``middle`` needs, at one remove or more, and that need it
    small : (words,) bits of the values that RAM can hold beside ``middle``, and of all that are newer than ``start``
    taken : (words,) bits of the values that ``start`` needs or makes
    """

    problem: Problem
    users: Ints
    made: Ints
    needed: Ints
    need: Ints
    start: int
    first: Flags
    prompt: Flags
    energy: Floats
    middle: int
    ahead: Flags
    behind: Flags
    small: Ints
    taken: Ints


class Way(NamedTuple):
    """``least``: joules above plain training of the segment at least; exactly, where ``complete``, or the limit.

    ``events``: of a cheapest way, where there is one below the limit. ``states``: that were met.
    """

    complete: bool
    least: float
    events: list[int] | None
    states: int


def cheapest_way(segment: Segment, end: Ints, there: Ints, there_first: Ints, limit: float, most_states: int) -> Way:
    """A* from the end of the segment to its start.

    Parameters
    ----------
    end : state right before the next checkpoint
    there, there_first : (words,) of `least_to_pay`
    limit : float
        Joules above plain training; a way that takes as much is not looked for.
    most_states : int
        More of them end the work.
    """
    complete, least, goal, rows, before, via = _walked(segment, end, there, there_first, limit, most_states)
    if goal < 0:
        return Way(bool(complete), float(least), None, len(rows))
    events: list[int] = []
    n, at = len(segment.first), goal
    while at > 0:
        computed = [j for j in range(n) if has(rows[before[at]], j) and not has(rows[at], j)]
        events += [*(j for j in computed if j != via[at]), int(via[at]) % n]
        at = before[at]
    events += [j for j in range(n) if has(end, j) and not has(rows[0], j)]
    return Way(True, float(least), events, len(rows))


@compiled
def least_of_all(s, ends, there, there_first, need, counted, least):  # type: ignore[no-untyped-def]
    """`least_to_pay` for each end and each of what is there, into ``least``."""
    for i in range(ends.shape[0]):
        for k in range(there.shape[0]):
            least[i, k] = least_to_pay(s, ends[i], there[k], there_first[k], need, counted)


@compiled
def keep_until_middle(s, there, kept, need, counted):  # type: ignore[no-untyped-def]
    """Which of the values that are ``there`` after the start may stay until the middle node, into ``kept``.

    What the start makes for the middle node stays, unless the start is computed again; and some nodes are computed
    before the middle node in any case. Where those do not fit beside a value that the middle node needs, that value has
    to be made again; nothing is said where that costs more than to compute the start again.
    """
    copy(there, kept)
    if s.start < 0 or s.middle < 0:
        return
    p = s.problem
    copy(s.needed[s.middle], need)
    for j in range(s.middle - 1, -1, -1):
        if _in_between(s, j, need, there):
            _uncompute(s, need, j)
            for k in range(p.input_start[s.middle], p.input_start[s.middle + 1]):
                v = p.input_value[k]
                if p.size[v] > 0 and p.producer[v] != s.start and has(kept, v) and _too_much(s, j, v):
                    put(kept, v, False)
    if _to_middle(s, kept, need, counted) - _to_middle(s, there, need, counted) > s.energy[s.start]:
        copy(there, kept)


@inlined
def _to_middle(s, there, need, counted):  # type: ignore[no-untyped-def]
    """Joules of making anew what the middle node needs and is not there; marks what is computed for that."""
    paid = 0.0
    copy(s.needed[s.middle], need)
    for j in range(s.middle - 1, -1, -1):
        if s.ahead[j]:
            _uncompute(s, need, j)
        elif _is_missing(s, j, need, there):
            paid += s.energy[j]
            put(counted, j, True)
            _uncompute(s, need, j)
    return paid


@inlined
def _in_between(s, j, need, there):  # type: ignore[no-untyped-def]
    """Whether node j is computed between start and middle node in any case."""
    return s.ahead[j] or _is_missing(s, j, need, there)


@inlined
def _is_missing(s, j, need, there):  # type: ignore[no-untyped-def]
    """Whether node j makes a value that is needed and not there."""
    missing = False
    for v in range(s.problem.own[j], s.problem.own[j + 1]):
        missing = missing or (has(need, v) and not has(there, v))
    return missing


@inlined
def _too_much(s, j, v):  # type: ignore[no-untyped-def]
    """Whether node j does not fit beside value v and what the start makes for the middle node."""
    p = s.problem
    held = s.need[j] if has(s.needed[j], v) else s.need[j] + p.size[v]
    for u in range(p.own[s.start], p.own[s.start + 1]):
        if has(s.needed[s.middle], u) and not has(s.needed[j], u):
            held += p.size[u]
    return held > p.budget


@compiled
def least_to_pay(s, row, there, there_first, need, counted):  # type: ignore[no-untyped-def]
    """Joules above plain training that a state has to be paid for at least, if RAM counts at the middle node alone.

    Parameters
    ----------
    there : (words,) bits of the values in RAM right after the start
    there_first : (words,) those of them that may stay there until the middle node
    need, counted : (words,), (words of nodes,) scratch
    """
    contents = counted.size
    paid = 0.0
    counted[:] = 0
    if s.middle >= 0 and has(row, s.middle):
        paid += _to_middle(s, there_first, need, counted)
        copy(row[contents:], need)
        for j in range(s.first.size - 1, -1, -1):
            if s.behind[j] and has(row, j):
                _uncompute(s, need, j)
            elif _is_missing(s, j, need, s.small):
                paid += s.energy[j]
                put(counted, j, True)
                _uncompute(s, need, j)
    copy(row[contents:], need)
    for j in range(s.first.size - 1, -1, -1):
        if s.first[j] and has(row, j):
            _uncompute(s, need, j)
        elif _is_missing(s, j, need, there):
            if not has(counted, j):
                paid += s.energy[j]
            _uncompute(s, need, j)
    return paid


@inlined
def _uncompute(s, need, j):  # type: ignore[no-untyped-def]
    for word in range(need.size):
        need[word] = (need[word] & ~s.made[j, word]) | s.needed[j, word]


@inlined
def _arrived(s, row, there):  # type: ignore[no-untyped-def]
    """Whether a state is one right after the start, or the beginning of all."""
    contents = words_of(s.first.size)
    left = np.int64(0)
    for word in range(contents):
        left |= row[word]
    for word in range(there.size):
        left |= row[contents + word] & ~there[word]
    return left == 0


@allocating
def _walked(s, end, there, there_first, limit, most_states):  # type: ignore[no-untyped-def]
    """Whether all was looked at; the least to pay; the state at the start, or -1; rows, the states before, moves.

    A move is the node that is computed, for the first time, or n more, again.
    """
    p = s.problem
    n, contents = p.node_time.size, words_of(p.node_time.size)
    table = empty_slots(most_states)
    rows = np.zeros((most_states, end.size), dtype=np.int64)
    energy = np.full(most_states, np.inf)
    closed = np.full(most_states, np.inf)
    to_go = np.zeros(most_states)
    before = np.full(most_states, -1, dtype=np.int64)
    via = np.full(most_states, -1, dtype=np.int64)
    need, counted = np.zeros(there.size, dtype=np.int64), np.zeros(contents, dtype=np.int64)
    copy(end, rows[0])
    settle(p, s.users, s.prompt, rows[0], contents)
    table[slot_of(table, rows, rows[0])] = 0
    energy[0] = 0.0
    to_go[0] = least_to_pay(s, rows[0], there, there_first, need, counted)
    count = 1
    waiting = [(to_go[0], 0.0, np.int64(0))]
    if to_go[0] >= limit:
        waiting.pop()
    while len(waiting) > 0:
        least, _, at = heappop(waiting)
        if energy[at] >= closed[at]:
            continue
        closed[at] = energy[at]
        if _arrived(s, rows[at], there):
            return True, least, at, rows[:count], before[:count], via[:count]
        held = bytes_held(p, rows[at], contents)
        for move in range(2 * n):
            j, again = move % n, move >= n
            row = rows[at]
            if again:
                may = (has(row, j) or not s.first[j]) and is_wanted(p.own, row[contents:], j)
            else:
                may = has(row, j) and is_removable(s.users, row, j)
            if may:
                added, freed = swapped(p, row, contents, j)
                may = fits(p, held + added - freed, j)
            if not may:
                continue
            if count == most_states:
                return False, least, np.int64(-1), rows[:count], before[:count], via[:count]
            copy(row, rows[count])
            uncompute(p, rows[count], contents, j)
            spent = energy[at]
            if again:
                spent += s.energy[j]
            else:
                put(rows[count], j, False)
            settle(p, s.users, s.prompt, rows[count], contents)
            slot = slot_of(table, rows, rows[count])
            to = np.int64(table[slot])
            if to < 0:
                to = better_state(p, table, rows, energy, rows[count], spent)
            if to < 0:
                lower = max(least - spent, least_to_pay(s, rows[count], there, there_first, need, counted))
                if spent + lower >= limit:
                    continue
                to = np.int64(count)
                count += 1
                table[slot] = to
                to_go[to] = lower
            if spent < energy[to]:
                energy[to] = spent
                before[to] = at
                via[to] = move
                if spent + to_go[to] < limit:
                    heappush(waiting, (spent + to_go[to], -spent, to))
    return True, limit, np.int64(-1), rows[:count], before[:count], via[:count]
