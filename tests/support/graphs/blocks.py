# SPDX-License-Identifier: Apache-2.0
"""Blocks whose lives are known: whether they fit a capacity, by exhaustive search, and a graph that has them."""

from __future__ import annotations

import random

from poet_profiles.graph import Graph, Node, PageCost, Value

Block = tuple[int, int, int]  # lower, upper, size

# Never are more than 20 bytes alive, but they do not fit 20 bytes. Found by exhausting the offsets of random blocks.
UNPLACEABLE = [(0, 4, 8), (1, 3, 12), (3, 5, 4), (3, 6, 8), (4, 6, 4), (5, 7, 8), (6, 7, 12)]


def fits(blocks: list[Block], capacity: int) -> bool:
    """By exhaustive search: each block lies on an earlier one or on the bottom, the offsets never fall."""
    steps = range(min((b[0] for b in blocks), default=0), max((b[1] for b in blocks), default=0))

    def extend(left: list[Block], placed: list[tuple[Block, int]]) -> bool:
        lowest = placed[-1][1] if placed else 0
        for step in steps:
            top = max((at + b[2] for b, at in placed if b[0] <= step < b[1]), default=0)
            if max(top, lowest) + sum(b[2] for b in left if b[0] <= step < b[1]) > capacity:
                return False
        for block in set(left):
            offset = max((at + b[2] for b, at in placed if b[0] < block[1] and block[0] < b[1]), default=0)
            further = left.copy()
            further.remove(block)
            if offset >= lowest and extend(further, [*placed, (block, offset)]):
                return True
        return not left

    return extend(blocks, [])


def full(rng: random.Random) -> tuple[list[Block], int]:
    """Seven random blocks, and one more at each step so that nothing is free."""
    blocks = []
    for _ in range(7):
        length = rng.randint(2, 3)
        lower = rng.randrange(7 - length)
        blocks.append((lower, lower + length, rng.randint(1, 9)))
    load = [sum(size for lower, upper, size in blocks if lower <= step < upper) for step in range(6)]
    return blocks + [(k, k + 1, max(load) - some) for k, some in enumerate(load) if some < max(load)], max(load)


def graph_of(blocks: list[Block], page: PageCost | None = None) -> Graph:
    """Nodes one after the other, each computed once for one joule: the schedule that pages nothing has these blocks.

    A block is read by the last node of its life alone. ``page`` is what paging the first block costs.
    """
    nodes = [
        Node(
            id=f"n{j}",
            time_s=1.0,
            energy_j=1.0,
            values=(
                *(Value(f"v{k}", size, None if k else page) for k, (lower, _, size) in enumerate(blocks) if lower == j),
                Value(f"n{j}.done", 0),
            ),
            inputs=(
                *(f"v{k}" for k, (lower, upper, _) in enumerate(blocks) if lower < j == upper - 1),
                *([f"n{j - 1}.done"] if j else []),
            ),
            recomputable=False,
        )
        for j in range(max(upper for _, upper, _ in blocks))
    ]
    return Graph("chain", tuple(nodes))
