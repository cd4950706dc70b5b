# SPDX-License-Identifier: Apache-2.0
"""Memory states as rows of bits, and what a move backwards in time changes.

A row holds N, the nodes whose first compute lies before the state, then W, the values that RAM must hold.
``values_at`` is the word of the row at which W begins. See docs/optimiser/state_space.md, "Memory states".
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem
from poet_planner.solve.jit import compiled, inlined
from poet_planner.solve.statespace.bitset import has, put, slot_of, words_of


@inlined
def is_goal(row: Ints, node_words: int) -> bool:
    """Whether N is empty: the beginning of the schedule."""
    return not row[:node_words].any()


@compiled
def can_leave(users: Ints, row: Ints, j: int) -> bool:
    """Whether no node in N needs a value of node j: then the first compute of j may come right before."""
    left = np.int64(0)
    for word in range(users.shape[1]):
        left |= users[j, word] & row[word]
    none_left: bool = left == 0
    return none_left


@compiled
def is_output_held(output_start: Ints, held: Ints, j: int) -> bool:
    """Whether RAM must hold any value of node j."""
    found = False
    for v in range(output_start[j], output_start[j + 1]):
        found = found or has(held, v)
    return found


@inlined
def bytes_held(p: Problem, row: Ints, values_at: int) -> int:
    """Bytes of the values in W."""
    held = 0
    for v in range(p.size.size):
        if has(row[values_at:], v):
            held += p.size[v]
    return held


@inlined
def swapped_bytes(p: Problem, row: Ints, values_at: int, j: int) -> tuple[int, int]:
    """Bytes that W gains before node j is computed, and bytes that it loses."""
    added, freed = 0, 0
    for k in range(p.input_start[j], p.input_start[j + 1]):
        if not has(row[values_at:], p.input_value[k]):
            added += p.size[p.input_value[k]]
    for v in range(p.output_start[j], p.output_start[j + 1]):
        if has(row[values_at:], v):
            freed += p.size[v]
    return added, freed


@compiled
def keeps_taken(p: Problem, row: Ints, values_at: int, j: int) -> bool:
    """Whether W, after node j, holds an input that j takes over: then j is not what was computed."""
    found = False
    for k in range(p.input_start[j], p.input_start[j + 1]):
        v = p.input_value[k]
        found = found or (p.taken[v] and has(row[values_at:], v))
    return found


@inlined
def pageable_bytes(p: Problem, row: Ints, values_at: int, j: int) -> int:
    """Bytes of the pageable values of node j in W. They may have been on the card, where they take no RAM."""
    size = 0
    for v in range(p.output_start[j], p.output_start[j + 1]):
        if has(row[values_at:], v) and p.pageable[v]:
            size += p.size[v]
    return size


@compiled
def fits(p: Problem, held: int, j: int) -> bool:
    """Whether node j can be computed while RAM holds ``held`` bytes, its inputs included."""
    made = 0
    for v in range(p.output_start[j], p.output_start[j + 1]):
        made += p.size[v]
    enough: bool = held + made + p.workspace[j] <= p.budget
    return enough


@inlined
def uncompute(p: Problem, row: Ints, values_at: int, j: int) -> None:
    """Turn W into what RAM must hold before node j is computed."""
    for v in range(p.output_start[j], p.output_start[j + 1]):
        put(row[values_at:], v, False)
    for k in range(p.input_start[j], p.input_start[j + 1]):
        if p.size[p.input_value[k]] > 0:
            put(row[values_at:], p.input_value[k], True)


@compiled
def force_moves(p: Problem, users: Ints, deferrable: Flags, row: Ints, values_at: int) -> None:
    """Make the forced moves: first computes of ``deferrable`` nodes that may come right before without loss.

    A first compute is forced if it adds no more bytes to W than it frees of unpageable values.
    """
    held = bytes_held(p, row, values_at)
    for j in range(p.node_time.size - 1, -1, -1):
        if deferrable[j] and has(row, j) and can_leave(users, row, j) and not keeps_taken(p, row, values_at, j):
            added, freed = swapped_bytes(p, row, values_at, j)
            if added <= freed - pageable_bytes(p, row, values_at, j) and fits(p, held + added - freed, j):
                held += added - freed
                uncompute(p, row, values_at, j)
                put(row, j, False)


@compiled
def dominating_state(p: Problem, table: Ints, rows: Ints, energy: Floats, row: Ints, spent: float) -> np.int64:
    """A known state that dominates ``row``: one value less in W and no more energy spent. -1: none."""
    held = row[words_of(p.node_time.size) :]
    for v in range(p.size.size):
        if p.size[v] > 0 and has(held, v):
            put(held, v, False)
            other = np.int64(table[slot_of(table, rows, row)])
            put(held, v, True)
            if other >= 0 and energy[other] <= spent:
                return other
    return np.int64(-1)
