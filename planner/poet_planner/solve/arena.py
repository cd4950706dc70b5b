"""Static offsets for every tensor of a schedule: dynamic storage allocation with known lifetimes.

Lowest fit in several orders; where that falls short, an ejection search within the budget (`ejection`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poet_planner.graph import Graph
from poet_planner.schedule import Action, Step
from poet_planner.solve.compiled import compiled
from poet_planner.solve.ejection import eject
from poet_planner.solve.problem import Ints, whole_words

ROUND_MOVES = 50_000
ROUNDS = 30
GROWTHS = (0.1, 0.3, 0.03)
HALVINGS = 5


@dataclass(frozen=True)
class Placement:
    """Steps with addresses, and the bytes of the arena that they need."""

    steps: tuple[Step, ...]
    arena_bytes: int


@dataclass(frozen=True)
class _Block:
    """Something that lies at one address from one step to another, the first included, the second not.

    ``value`` is None for a workspace.
    """

    step: int
    value: str | None
    start: int
    end: int
    size: int


def place(graph: Graph, steps: Sequence[Step], budget: int, search_s: float = 10.0) -> Placement:
    """Give every block of ``steps`` an offset, if it can be within ``budget`` bytes; if not, as low as was found.

    Parameters
    ----------
    budget : int
        Bytes of the arena; the search for offsets stops when they fit.
    search_s : float
        No round of the search within the budget starts after this; there is always one. Where it is 0 or less, how low
        the blocks could lie is not searched for.
    """
    blocks = _blocks(graph, steps)
    if not blocks:
        return Placement(tuple(steps), 0)
    start = np.array([block.start for block in blocks], dtype=np.int64)
    end = np.array([block.end for block in blocks], dtype=np.int64)
    size = np.array([block.size for block in blocks], dtype=np.int64)
    offsets, height = _greedy(start, end, size, budget)
    if height > budget:
        offsets, height = _search(start, end, size, budget, offsets, search_s)
    return Placement(_with_offsets(steps, blocks, offsets), height)


def _blocks(graph: Graph, steps: Sequence[Step]) -> list[_Block]:
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: whole_words(value.bytes) for node in graph.nodes for value in node.values}
    opened: dict[str, int] = {}
    blocks: list[_Block] = []

    def close(value: str, end: int) -> None:
        if value in opened and sizes[value]:
            blocks.append(_Block(opened.pop(value), value, 0, end, sizes[value]))

    for number, step in enumerate(steps):
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            opened.update({value.id: number for value in node.values})
            if node.workspace_bytes:
                blocks.append(_Block(number, None, number, number + 1, whole_words(node.workspace_bytes)))
        elif step.do is Action.PAGE_IN:
            opened[step.target] = number
        elif step.do is Action.FREE:
            close(step.target, number)
    for value in list(opened):
        close(value, len(steps))
    return [replace(block, start=block.step) for block in blocks]


def _with_offsets(steps: Sequence[Step], blocks: list[_Block], offsets: Ints) -> tuple[Step, ...]:
    placed = list(steps)
    for block, offset in zip(blocks, offsets.tolist(), strict=True):
        step = placed[block.step]
        if block.value is None:
            placed[block.step] = replace(step, workspace_offset=offset)
        else:
            placed[block.step] = replace(step, offsets={**step.offsets, block.value: offset})
    return tuple(placed)


def _greedy(start: Ints, end: Ints, size: Ints, budget: int) -> tuple[Ints, int]:
    length = end - start
    best, lowest = np.zeros_like(size), np.iinfo(np.int64).max
    for keys in ((start, -size), (start, -length), (-length, -size), (-size, -length * size), (start,)):
        offsets = np.zeros_like(size)
        height = _lowest_fit(np.lexsort(keys), start, end, size, offsets)
        if height < lowest:
            best, lowest = offsets, height
        if lowest <= budget:
            break
    return best, int(lowest)


@compiled
def _lowest_fit(order, start, end, size, offsets):  # type: ignore[no-untyped-def]
    """Place blocks in ``order``, each at the lowest offset free over its life; returns the height."""
    count = order.size
    gaps_at = np.empty(count, dtype=np.int64)
    height = 0
    for k in range(count):
        block = order[k]
        clashes = 0
        for earlier in range(k):
            other = order[earlier]
            if start[other] < end[block] and start[block] < end[other]:
                # insertion sort by offset
                at = clashes
                while at > 0 and offsets[gaps_at[at - 1]] > offsets[other]:
                    gaps_at[at] = gaps_at[at - 1]
                    at -= 1
                gaps_at[at] = other
                clashes += 1
        offset = 0
        for at in range(clashes):
            other = gaps_at[at]
            if offset + size[block] <= offsets[other]:
                break
            offset = max(offset, offsets[other] + size[other])
        offsets[block] = offset
        height = max(height, offset + size[block])
    return height


def _search(start: Ints, end: Ints, size: Ints, budget: int, known: Ints, search_s: float) -> tuple[Ints, int]:
    """Offsets within ``budget``, or else within the least capacity at which one round of search succeeds.

    Parameters
    ----------
    known : Ints
        Offsets without overlaps, higher than the budget.
    """
    best, height = known, int((known + size).max())
    alive = _most_alive(start, end, size)
    if alive <= budget:
        found = _within(start, end, size, budget, known, ROUNDS, search_s)
        if found is not None:
            return found, int((found + size).max())
    low = max(budget, alive - 1)
    for _ in range(HALVINGS if search_s > 0 else 0):
        capacity = (low + height) // 2
        found = _within(start, end, size, capacity, best, 1, 0.0)
        if found is None:
            low = capacity
        else:
            best, height = found, int((found + size).max())
    return best, height


def _within(
    start: Ints, end: Ints, size: Ints, capacity: int, known: Ints, rounds: int, search_s: float
) -> Ints | None:
    end_s = time.monotonic() + search_s
    for number in range(rounds):
        offsets = known.copy()
        growth = GROWTHS[number % len(GROWTHS)]
        if eject(start, end, size, capacity, offsets, ROUND_MOVES, growth, number):
            return offsets
        if time.monotonic() >= end_s:
            break
    return None


def _most_alive(start: Ints, end: Ints, size: Ints) -> int:
    """The most bytes alive at once: no height is less."""
    change = np.zeros(int(end.max()) + 1, dtype=np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    return int(change.cumsum().max())
