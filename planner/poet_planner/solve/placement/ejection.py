# SPDX-License-Identifier: Apache-2.0
"""The ejection search: offsets within a fixed capacity (docs/optimiser/placement.md).

It is the ejection pool of vehicle routing (Nagata and Bräysy 2009), on offsets. Some blocks are placed without overlap,
the others wait. A waiting block goes to the offset where the blocks in its way weigh least. Those are ejected and wait
in turn. A block that had to eject others gains weight, so that the search learns which blocks are hard to place.

Weights are integers: the sweep over the offsets adds and subtracts them, and the result must be exact.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.engine import Flag, Function, Int, Ref, Struct, ints, struct
from poet_planner.solve.instance import Bits, Ints
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget, in_steps

MEAN_WEIGHT = 1000  # of the blocks at first

# A move, and what each block adds, and each of those alive with it: reference seconds.
MOVE_S = 2e-6
MOVE_S_PER_BLOCK = 4e-9
MOVE_S_PER_NEIGHBOUR = 2.3e-8


@struct
class _Ejection(Struct):
    """One instance and the state of its search."""

    # start, end, size: (n,) of each block.
    start: Ints
    end: Ints
    size: Ints
    capacity: int
    offsets: Ints  # (n,) of the fullest placement; -1 if a block is not placed
    weight: Ints  # (n,) of each block
    growth: float  # fraction of its weight that a block gains when it ejects others
    random: Bits  # (1,) state of the random number generator
    # bottom, top: (n,) of each block where it lies, or lay last.
    bottom: Ints
    top: Ints
    # by_bottom, by_top: (n,) the placed blocks by their bottoms, and by their tops; then room for the others.
    by_bottom: Ints
    by_top: Ints
    # below, above: (n,) those of them that live while a certain block does.
    below: Ints
    above: Ints
    waiting: Ints  # (n,) the blocks that are not placed; then room for the others


_eject = Function("eject", Ref, Int, Int, Ref, returns=Flag)


def eject(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    offsets: Ints,
    moves: int,
    growth: float,
    seed: int,
    budget: TimeBudget = UNLIMITED,
) -> bool:
    """Whether all blocks are placed within ``capacity`` after at most ``moves`` moves, before the budget expires.

    ``offsets`` receives their offsets; if not all are placed, the fullest placement, with -1 for unplaced blocks. The
    search starts from the blocks that lie within the capacity by ``offsets``, which have no overlaps. A block that
    ejects others gains ``growth`` of its weight.
    """
    weight = np.sqrt(end - start) * size
    weight = 1 + (MEAN_WEIGHT * (weight / weight.mean())).astype(np.int64)
    top = offsets + size
    lies_within = top <= capacity
    placed, waiting = np.nonzero(lies_within)[0], np.nonzero(~lies_within)[0]
    search = _Ejection(
        start=start,
        end=end,
        size=size,
        capacity=capacity,
        offsets=offsets,
        weight=weight,
        growth=growth,
        random=np.array([(seed + 1) * 0x9E3779B97F4A7C15 % 2**64], dtype=np.uint64),
        bottom=offsets.copy(),
        top=top,
        by_bottom=np.concatenate((placed[np.argsort(offsets[placed], kind="stable")], waiting)),
        by_top=np.concatenate((placed[np.argsort(top[placed], kind="stable")], waiting)),
        below=np.empty_like(size),
        above=np.empty_like(size),
        waiting=np.concatenate((waiting, placed)),
    )
    neighbours = np.searchsorted(np.sort(start), end) - np.searchsorted(np.sort(end), start, "right")
    move_s = MOVE_S + MOVE_S_PER_BLOCK * len(size) + MOVE_S_PER_NEIGHBOUR * float(neighbours.mean())
    return in_steps(lambda tally: bool(_eject(search, len(placed), moves, ints(tally))), budget, move_s)
