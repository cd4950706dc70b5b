# SPDX-License-Identifier: Apache-2.0
"""States of what RAM has to hold, backwards in time, as rows of bits; and what a compute changes.

A row has the nodes that are yet to be computed for the first time, then the values; ``contents`` is where these begin.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.jit import compiled, inlined
from poet_planner.solve.statespace.bitset import has, put, slot_of, words_of


@inlined
def is_begun(row, node_words):  # type: ignore[no-untyped-def]
    """Whether nothing is computed before."""
    return not row[:node_words].any()


@compiled
def is_removable(users, row, j):  # type: ignore[no-untyped-def]
    """Whether all that needs a value of node j is computed for the first time later."""
    left = np.int64(0)
    for word in range(users.shape[1]):
        left |= users[j, word] & row[word]
    return left == 0


@compiled
def is_wanted(own, held, j):  # type: ignore[no-untyped-def]
    """Whether any value of node j has to be in RAM."""
    wanted = False
    for v in range(own[j], own[j + 1]):
        wanted = wanted or has(held, v)
    return wanted


@inlined
def bytes_held(p, row, contents):  # type: ignore[no-untyped-def]
    """Bytes of the values in RAM."""
    held = 0
    for v in range(p.size.size):
        if has(row[contents:], v):
            held += p.size[v]
    return held


@inlined
def swapped(p, row, contents, j):  # type: ignore[no-untyped-def]
    """Bytes that have to be in RAM before node j is computed and need not be after it, and the other way round."""
    added, freed = 0, 0
    for k in range(p.input_start[j], p.input_start[j + 1]):
        if not has(row[contents:], p.input_value[k]):
            added += p.size[p.input_value[k]]
    for v in range(p.own[j], p.own[j + 1]):
        if has(row[contents:], v):
            freed += p.size[v]
    return added, freed


@inlined
def paged_in(p, row, contents, j):  # type: ignore[no-untyped-def]
    """Bytes of values of node j in RAM that may have come from the card: further back RAM is free of them."""
    size = 0
    for v in range(p.own[j], p.own[j + 1]):
        if has(row[contents:], v) and p.pageable[v]:
            size += p.size[v]
    return size


@compiled
def fits(p, held, j):  # type: ignore[no-untyped-def]
    """Whether node j can be computed with so many bytes in RAM, its inputs with them."""
    made = 0
    for v in range(p.own[j], p.own[j + 1]):
        made += p.size[v]
    return held + made + p.workspace[j] <= p.budget


@inlined
def uncompute(p, row, contents, j):  # type: ignore[no-untyped-def]
    """What has to be in RAM before node j is computed."""
    for v in range(p.own[j], p.own[j + 1]):
        put(row[contents:], v, False)
    for k in range(p.input_start[j], p.input_start[j + 1]):
        if p.size[p.input_value[k]] > 0:
            put(row[contents:], p.input_value[k], True)


@compiled
def settle(p, users, prompt, row, contents):  # type: ignore[no-untyped-def]
    """Put first computes right before a state that would gain no RAM by being earlier, of the nodes in ``prompt``."""
    held = bytes_held(p, row, contents)
    for j in range(p.node_time.size - 1, -1, -1):
        if prompt[j] and has(row, j) and is_removable(users, row, j):
            added, freed = swapped(p, row, contents, j)
            if added <= freed - paged_in(p, row, contents, j) and fits(p, held + added - freed, j):
                held += added - freed
                uncompute(p, row, contents, j)
                put(row, j, False)


@compiled
def better_state(p, table, rows, energy, row, spent):  # type: ignore[no-untyped-def]
    """A state with one value less in RAM that took no more energy: what follows ``row`` is no cheaper. Or -1."""
    held = row[words_of(p.node_time.size) :]
    for v in range(p.size.size):
        if p.size[v] > 0 and has(held, v):
            put(held, v, False)
            other = np.int64(table[slot_of(table, rows, row)])
            put(held, v, True)
            if other >= 0 and energy[other] <= spent:
                return other
    return np.int64(-1)
