# SPDX-License-Identifier: Apache-2.0
"""Sets as rows of bits, 64 to a word, and hash tables of such rows (open addressing, linear probing)."""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Flags, Ints
from poet_planner.solve.jit import allocating, compiled


@compiled
def words_of(bits: int) -> int:
    """Words that a row of ``bits`` bits takes."""
    return (bits + 63) >> 6


@compiled
def has(row: Ints, bit: int) -> bool:
    """Whether the set contains ``bit``."""
    contained: bool = row[bit >> 6] >> (bit & 63) & 1 != 0
    return contained


@compiled
def put(row: Ints, bit: int, contained: bool) -> None:
    """Add ``bit`` to the set, or remove it."""
    mask = np.int64(1) << (bit & 63)
    if contained:
        row[bit >> 6] |= mask
    else:
        row[bit >> 6] &= ~mask


def bits_of(flags: Flags) -> Ints:
    """Rows of flags as rows of bits."""
    rows = np.zeros((len(flags), words_of(flags.shape[1])), dtype=np.int64)
    for row, bit in zip(*np.nonzero(flags), strict=True):
        put(rows[row], bit, True)
    return rows


@compiled
def copy(row: Ints, into: Ints) -> None:
    """Copy a row."""
    for word in range(row.size):
        into[word] = row[word]


@compiled
def slot_of(slots: Ints, rows: Ints, row: Ints) -> np.int64:
    """The slot of the hash table that holds the number of a row, or the free slot where it belongs."""
    mixed = np.int64(0)
    for word in row:
        mixed = (mixed ^ word) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
    slot = mixed & (slots.size - 1)
    while slots[slot] >= 0:
        other = rows[slots[slot]]
        same = True
        for k in range(row.size):
            if other[k] != row[k]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & (slots.size - 1)
    return slot


@allocating
def slots_of(rows: Ints) -> Ints:
    """Hash table of the numbers of ``rows``, which are all different."""
    table = empty_slots(rows.shape[0])
    for k in range(rows.shape[0]):
        table[slot_of(table, rows, rows[k])] = k
    return table


@allocating
def empty_slots(most: int) -> Ints:
    """Hash table for up to ``most`` rows; -1: free."""
    slots = 4
    while slots < 2 * most:
        slots *= 2
    return np.full(slots, -1, dtype=np.int64)
