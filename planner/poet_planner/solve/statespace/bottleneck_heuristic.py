# SPDX-License-Identifier: Apache-2.0
"""What is to be paid where the RAM counts at the hungriest nodes of a path alone.

Between two of these checkpoints anything fits, so order is of no matter: each value that is needed after one either
stays in RAM from there on, or is made anew. Which values stay at each is settled from the last checkpoint to the first,
with a table of what has been found. docs/optimiser/state_space.md has the proof that no schedule costs less.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, node_need, ragged
from poet_planner.solve.jit import compiled
from poet_planner.solve.statespace.aggregation import aggregated_problem
from poet_planner.solve.statespace.bitset import bits_of, copy, empty_slots, has, put, slot_of, words_of
from poet_planner.solve.topology import ancestors, longest_path

# Of the largest need: what a checkpoint takes by itself at least.
BOTTLENECK_SHARE = 0.9
# Decisions that lie open at once; what comes after more of them counts nothing.
MOST_OPEN = 4000
# Of a decision: the checkpoint, the value, the bytes that are kept there, which question was asked last.
AT, TOP, KEPT, STEP = range(4)
OTHERS, KEEP, COMPUTE = range(3)
ENOUGH, LEAST, PAID_FOR_OTHERS = range(3)


class Checkpoints(NamedTuple):
    """The problem at its checkpoints, and a table of what is to be paid from contents of RAM that were met.

    Attributes
    ----------
    problem : Problem
        Values that are taken together have the bytes of the first of them (see `merging`).
    first : (m,) of the values that each is taken together with, the first made
    nodes : (checkpoints,) in the order of the path
    room : (checkpoints,) bytes beside what the node takes by itself
    taken : (checkpoints, words of values) what the node needs or makes: in RAM anyway
    before, after : (checkpoints, n) whether a node is computed for the first time before, or after, in every schedule
    between_start, between : the nodes from checkpoint t to the next, the last first, are
        ``between[between_start[t]:between_start[t + 1]]``
    made, needed : (n, words of values) of a node
    keys : (most, 2 * words of values + 1), what is needed and not settled, what stays in RAM, the checkpoint
    to_pay : (most,) joules; negative: that much at least
    slots : hash table of their numbers
    filled : (1,) how many there are
    rows, frames, costs : (decisions, ...) of those that lie open: as ``keys``; what else they are about; joules
    """

    problem: Problem
    first: Ints
    nodes: Ints
    room: Ints
    taken: Ints
    before: Flags
    after: Flags
    between_start: Ints
    between: Ints
    made: Ints
    needed: Ints
    keys: Ints
    to_pay: Floats
    slots: Ints
    filled: Ints
    rows: Ints
    frames: Ints
    costs: Floats


def checkpoints(problem: Problem, first: Ints, most: int) -> Checkpoints:
    """The hungriest nodes of a longest path, and an empty table of ``most`` rows."""
    return _at(problem, first, bottleneck_nodes(problem), ancestors(problem), most)


def bottleneck_nodes(problem: Problem) -> Ints:
    """The nodes of a longest path that take most RAM by themselves, in its order."""
    path, need = longest_path(problem), node_need(problem)
    checkpoints: Ints = path[need[path] >= BOTTLENECK_SHARE * need[path].max(initial=0)]
    return checkpoints


def no_checkpoints(problem: Problem) -> Checkpoints:
    """Nothing is to be paid from anywhere."""
    n = len(problem.node_time)
    nowhere, unordered = np.zeros(0, dtype=np.int64), np.zeros((n, n), dtype=np.bool_)
    return _at(problem, np.arange(len(problem.size)), nowhere, unordered, 0)


def _at(problem: Problem, first: Ints, nodes: Ints, before: Flags, most: int) -> Checkpoints:
    smaller = aggregated_problem(problem, first)
    between = [np.nonzero(before[a] & before[:, b])[0][::-1].tolist() for a, b in pairwise(nodes)]
    between_start, listed = ragged(between)
    made, needed = made_and_needed(smaller)
    words = int(words_of(len(problem.size)))
    return Checkpoints(
        problem=smaller,
        first=first,
        nodes=nodes,
        room=smaller.budget - node_need(smaller)[nodes],
        taken=bits_of((made | needed)[nodes]),
        before=np.ascontiguousarray(before[:, nodes].T),
        after=before[nodes],
        between_start=between_start,
        between=listed,
        made=bits_of(made),
        needed=bits_of(needed),
        keys=np.zeros((most, 2 * words + 1), dtype=np.int64),
        to_pay=np.zeros(most),
        slots=empty_slots(most),
        filled=np.zeros(1, dtype=np.int64),
        rows=np.zeros((MOST_OPEN, 2 * words + 1), dtype=np.int64),
        frames=np.zeros((MOST_OPEN, 4), dtype=np.int64),
        costs=np.zeros((MOST_OPEN, 3)),
    )


def made_and_needed(problem: Problem) -> tuple[Flags, Flags]:
    """The values that each node makes, and those that it needs, of those that take RAM. (n, m)"""
    n, m = len(problem.node_time), len(problem.size)
    counted = problem.size > 0
    reads = np.repeat(np.arange(n), np.diff(problem.input_start))
    made, needed = np.zeros((n, m), dtype=np.bool_), np.zeros((n, m), dtype=np.bool_)
    made[problem.producer, np.arange(m)] = counted
    needed[reads, problem.input_value] = counted[problem.input_value]
    return made, needed


@compiled
def table_full(c):  # type: ignore[no-untyped-def]
    """Whether more is needed than the table holds."""
    return c.nodes.size > 0 and c.filled[0] == c.to_pay.size


@compiled
def least_to_pay(c, state, enough):  # type: ignore[no-untyped-def]
    """Joules above plain training that are to be paid from a state of `contents` on, at least.

    From ``enough`` on not the most that could be said.
    """
    n, m = c.problem.node_time.size, c.problem.size.size
    at = c.nodes.size - 1
    while at >= 0 and not has(state, c.nodes[at]):
        at -= 1
    if at < 0:
        return 0.0
    row = c.rows[0]
    row[:] = 0
    contents = state[words_of(n) :]
    for v in range(m):
        if has(contents, v):
            put(row, c.first[v], True)
    for j in range(n - 1, -1, -1):
        if has(state, j) and c.after[at, j]:
            _compute(c, row, j)
    return _to_pay(c, at, enough)


@compiled
def _compute(c, row, j):  # type: ignore[no-untyped-def]
    """What is needed before node j is computed, but for what stays in RAM."""
    words = c.made.shape[1]
    for word in range(words):
        row[word] = (row[word] & ~c.made[j, word]) | (c.needed[j, word] & ~row[words + word])


@compiled
def _to_pay(c, at, enough):  # type: ignore[no-untyped-def]
    """What is to be paid for what is needed after checkpoint ``at``, as ``rows[0]`` has it.

    Depth first over decisions, in frames of our own: numba cannot cache a function that calls itself.
    """
    _open(c, 0, at, c.problem.size.size - 1, 0, enough)
    depth = 0
    paid = 0.0
    entered = True
    while depth >= 0:
        if entered:
            paid = _begun(c, depth)
            entered = paid < 0
        else:
            entered, paid = _gone_on(c, depth, paid)
        depth += 1 if entered else -1
    return paid


@compiled
def _open(c, depth, at, top, kept, enough):  # type: ignore[no-untyped-def]
    """A decision to be taken.

    No value above ``top`` is unsettled; ``kept`` bytes of the checkpoint's ``room`` are taken.
    """
    c.frames[depth, AT], c.frames[depth, TOP], c.frames[depth, KEPT], c.frames[depth, STEP] = at, top, kept, OTHERS
    c.costs[depth, ENOUGH], c.costs[depth, LEAST] = enough, np.inf


@compiled
def _begun(c, depth):  # type: ignore[no-untyped-def]
    """What is to be paid where that is known; or -1, with a first question to answer in the next frame."""
    p, row, frame = c.problem, c.rows[depth], c.frames[depth]
    words = c.made.shape[1]
    while not _unsettled(c, row, frame[AT]):
        if frame[AT] == 0:
            return 0.0
        copy(row[words : 2 * words], row[:words])
        row[words:] = 0
        _compute(c, row, c.nodes[frame[AT]])
        frame[AT], frame[TOP], frame[KEPT] = frame[AT] - 1, p.size.size - 1, 0
        for k in range(c.between_start[frame[AT]], c.between_start[frame[AT] + 1]):
            _compute(c, row, c.between[k])
    row[2 * words] = frame[AT]
    enough = c.costs[depth, ENOUGH]
    known = c.slots[slot_of(c.slots, c.keys, row)]
    if known >= 0 and (c.to_pay[known] >= 0 or -c.to_pay[known] >= enough):
        return abs(c.to_pay[known])
    if depth + 1 == c.rows.shape[0]:
        return 0.0
    while not has(row, frame[TOP]):
        frame[TOP] -= 1
    # Whatever is done about this value, the others have to be paid for.
    below = c.rows[depth + 1]
    for word in range(words):
        below[word] = row[word] & ~c.made[p.producer[frame[TOP]], word]
        below[words + word] = row[words + word]
    _open(c, depth + 1, frame[AT], frame[TOP], frame[KEPT], enough)
    return -1.0


@compiled
def _gone_on(c, depth, paid):  # type: ignore[no-untyped-def]
    """With the answer to the last question: whether there is another one, or what is to be paid."""
    p, row, frame, costs = c.problem, c.rows[depth], c.frames[depth], c.costs[depth]
    words = c.made.shape[1]
    at, top, below = frame[AT], frame[TOP], c.rows[depth + 1]
    j = p.producer[top]
    again = c.before[at, j]
    energy = p.node_energy[j] if again else 0.0
    if frame[STEP] == OTHERS:
        costs[PAID_FOR_OTHERS] = paid
        if paid >= costs[ENOUGH] or table_full(c):
            return False, paid
        if p.pageable[top]:
            costs[LEAST] = paid + p.in_energy[top]
        frame[STEP] = KEEP
        if not c.after[at, j] and frame[KEPT] + p.size[top] <= c.room[at]:
            copy(row[: 2 * words], below[: 2 * words])
            put(below, top, False)
            put(below[words:], top, True)
            _open(c, depth + 1, at, top, frame[KEPT] + p.size[top], costs[ENOUGH])
            return True, -1.0
        paid = np.inf
    if frame[STEP] == KEEP:
        costs[LEAST] = min(costs[LEAST], paid)
        frame[STEP] = COMPUTE
        most = min(costs[LEAST], costs[ENOUGH])
        if not p.recomputable[j] and again:
            paid = np.inf
        elif costs[PAID_FOR_OTHERS] + energy >= most:
            paid = costs[PAID_FOR_OTHERS]
        else:
            copy(row[: 2 * words], below[: 2 * words])
            _compute(c, below, j)
            _open(c, depth + 1, at, top, frame[KEPT], most - energy)
            return True, -1.0
    least = min(costs[LEAST], energy + paid)
    _remember(c, row, least if least < costs[ENOUGH] else -least)
    return False, least


@compiled
def _remember(c, row, to_pay):  # type: ignore[no-untyped-def]
    slot = slot_of(c.slots, c.keys, row)
    if c.slots[slot] < 0 and not table_full(c):
        c.slots[slot] = c.filled[0]
        copy(row, c.keys[c.filled[0]])
        c.filled[0] += 1
    if c.slots[slot] >= 0:
        c.to_pay[c.slots[slot]] = to_pay


@compiled
def _unsettled(c, row, at):  # type: ignore[no-untyped-def]
    """Whether anything but what is in RAM anyway at the checkpoint, which stays, is not settled."""
    words = c.made.shape[1]
    left = np.int64(0)
    for word in range(words):
        row[words + word] |= row[word] & c.taken[at, word]
        row[word] &= ~c.taken[at, word]
        left |= row[word]
    return left != 0
