# SPDX-License-Identifier: Apache-2.0
"""Sets as rows of bits, 64 to a word, and hash tables of such rows (open addressing, linear probing).

The engine has the same in `native/bitset.h`.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Function, Int, Ref, ints
from poet_planner.solve.instance import Flags, Ints

_fill_slots = Function("fill_slots", Ref, Int, Int, Ref, Int)


def words_of(bits: int) -> int:
    """Words that a row of ``bits`` bits takes."""
    return (bits + 63) >> 6


def has(row: Ints, bit: int) -> bool:
    """Whether the set contains ``bit``."""
    return bool(row[bit >> 6] >> (bit & 63) & 1)


def put(row: Ints, bit: int) -> None:
    """Add ``bit`` to the set."""
    row[bit >> 6] |= np.int64(1) << (bit & 63)


def bits_of(flags: Flags) -> Ints:
    """Rows of flags as rows of bits."""
    rows = np.zeros((len(flags), words_of(flags.shape[1])), dtype=np.int64)
    for row, bit in zip(*np.nonzero(flags), strict=True):
        put(rows[row], bit)
    return rows


def slots_of(rows: Ints) -> Ints:
    """Hash table of the numbers of ``rows``, which are all different."""
    table = empty_slots(len(rows))
    _fill_slots(ints(rows), *rows.shape, ints(table), len(table))
    return table


def empty_slots(most: int) -> Ints:
    """Hash table for up to ``most`` rows; -1: free."""
    slots = 4
    while slots < 2 * most:
        slots *= 2
    return np.full(slots, -1, dtype=np.int64)
