# SPDX-License-Identifier: Apache-2.0
"""Static offsets for every tensor of a schedule: dynamic storage allocation with known lifetimes.

Lowest fit in several orders; where that falls short, an ejection search within the budget (`ejection`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Step

from poet_planner.solve.instance import Ints
from poet_planner.solve.jit import allocating
from poet_planner.solve.params import PlacementParams
from poet_planner.solve.placement.ejection import eject, insert
from poet_planner.solve.statistics import Context, Part
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget


class Life(NamedTuple):
    """So many bytes from one step to another, the first included, the second not."""

    start: int
    end: int
    size: int


@dataclass(frozen=True)
class Placement:
    """Steps with addresses, and the bytes of the arena that they need.

    Where those are more than the capacity: what found no place in the fullest placement within it.
    """

    steps: tuple[Step, ...]
    arena_bytes: int
    without_place: tuple[Life, ...] = ()


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


def place(
    graph: Graph,
    steps: Sequence[Step],
    capacity: int,
    budget: TimeBudget = UNLIMITED,
    lowest: bool = True,
    seed: int = 0,
    context: Context | None = None,
) -> Placement:
    """Give every block of ``steps`` an offset, if it can be within ``capacity`` bytes; if not, as low as was found.

    Parameters
    ----------
    capacity : int
        Bytes of the arena; the search for offsets stops when they fit.
    budget : TimeBudget
        No round of the search within the capacity starts once it has expired.
    lowest : bool
        Whether it is searched for how low the blocks could lie where they do not fit.
    seed : int
        With another, the search goes other ways.
    context : Context or None
        None: there is a search, and nobody asks how long it took.
    """
    context = context or Context()
    blocks = _blocks(graph, steps)
    if not blocks:
        return Placement(tuple(steps), 0)
    start, end, size = _arrays(blocks)
    offsets, height = _greedy(start, end, size, capacity, budget)
    without = np.zeros(0, dtype=np.int64)
    too_late = budget.left() < _seconds_to_fit(len(size))
    if height > capacity and (too_late or not context.has(Part.EJECTION)):
        without = np.nonzero(offsets + size > capacity)[0]
    elif height > capacity:
        with context.timed(Part.EJECTION):
            params = context.params.placement
            offsets, height, without = _by_ejection(start, end, size, capacity, offsets, budget, lowest, seed, params)
    lives = tuple(Life(int(start[block]), int(end[block]), int(size[block])) for block in without)
    return Placement(_with_offsets(steps, blocks, offsets), height, lives)


def alive_bytes(graph: Graph, steps: Sequence[Step]) -> Ints:
    """Bytes alive at each step. (steps,)"""
    return _alive(*_arrays(_blocks(graph, steps)), len(steps))


def _blocks(graph: Graph, steps: Sequence[Step]) -> list[_Block]:
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
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
                blocks.append(_Block(number, None, number, number + 1, aligned(node.workspace_bytes)))
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


def _seconds_to_fit(blocks: int) -> float:
    """About how long lowest fit takes, in any order but that of the starts."""
    return 1e-9 * blocks**2


def _greedy(start: Ints, end: Ints, size: Ints, capacity: int, budget: TimeBudget) -> tuple[Ints, int]:
    """Offsets by lowest fit in the best of several orders; where there is little time, in that of the starts alone.

    There each block is compared only with those that are alive.
    """
    length = end - start
    best, lowest = np.zeros_like(size), np.iinfo(np.int64).max
    for keys in ((start, -size), (start, -length), (-length, -size), (-size, -length * size), (start,)):
        by_start = len(keys) == 1
        if not by_start and budget.left() < _seconds_to_fit(len(size)):
            continue
        offsets = np.zeros_like(size)
        height = _lowest_fit(np.lexsort(keys), start, end, size, offsets, by_start)
        if height < lowest:
            best, lowest = offsets, height
        if lowest <= capacity:
            break
    return best, int(lowest)


@allocating
def _lowest_fit(order, start, end, size, offsets, by_start=False):  # type: ignore[no-untyped-def]
    """Place blocks in ``order``, each at the lowest offset free over its life; returns the height.

    ``by_start``: whether the order is that of the starts. Then what has ended is in the way of nothing more.
    """
    lying = np.empty(order.size, dtype=np.int64)  # by their offsets
    count = 0
    height = 0
    for block in order:
        if by_start:
            alive = 0
            for at in range(count):
                lying[alive] = lying[at]
                alive += end[lying[at]] > start[block]
            count = alive
        offset = 0
        for at in range(count):
            other = lying[at]
            if offset + size[block] <= offsets[other]:
                break
            if start[other] < end[block] and start[block] < end[other]:
                offset = max(offset, offsets[other] + size[other])
        offsets[block] = offset
        insert(lying, count, block, offsets)
        count += 1
        height = max(height, offset + size[block])
    return height


def _lowest(
    start: Ints, end: Ints, size: Ints, capacity: int, known: Ints, budget: TimeBudget, params: PlacementParams
) -> tuple[Ints, int]:
    """Offsets within the least capacity at which a few rounds of search succeed.

    Parameters
    ----------
    known : Ints
        Offsets without overlaps, higher than the capacity.
    """
    best, height = known, int((known + size).max())
    low = max(capacity, _most_alive(start, end, size) - 1)
    for _ in range(params.halvings):
        if budget.expired:
            break
        middle = (low + height) // 2
        found = _within(start, end, size, middle, params.halving_rounds, budget, 0, params)
        if (found < 0).any():
            low = middle
        else:
            best, height = found, int((found + size).max())
    return best, height


def _by_ejection(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    known: Ints,
    budget: TimeBudget,
    lowest: bool,
    seed: int,
    params: PlacementParams,
) -> tuple[Ints, int, Ints]:
    """Offsets, their height, and the blocks that found no place within the capacity.

    Parameters
    ----------
    known : Ints
        Offsets without overlaps, higher than the capacity.
    budget, lowest, seed : as of `place`
    """
    offsets, height = known, int((known + size).max())
    without = np.zeros(0, dtype=np.int64)
    if _most_alive(start, end, size) <= capacity:
        found = _within(start, end, size, capacity, params.ejection_rounds, budget, seed, params)
        without = np.nonzero(found < 0)[0]
        if len(without) == 0:
            offsets, height = found, int((found + size).max())
    if height > capacity and lowest:
        offsets, height = _lowest(start, end, size, capacity, offsets, budget, params)
    return offsets, height, without


def _within(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    rounds: int,
    budget: TimeBudget,
    seed: int,
    params: PlacementParams,
) -> Ints:
    """Offsets within ``capacity``; -1 for what found no place, if it was not found for all: the fewest bytes seen."""
    fullest, fewest = np.full_like(size, -1), np.iinfo(np.int64).max
    for number in range(rounds):
        way = params.ejection_rounds * seed + number
        # From the lowest of several orders a round hardly ever ends well, nor from one order again and again.
        offsets = _largest_lowest(start, end, size, params.disturbance if number > 0 else 0.0, way)
        growth = params.growths[number % len(params.growths)]
        if eject(start, end, size, capacity, offsets, params.ejection_moves, growth, way, budget):
            return offsets
        without = int(size[offsets < 0].sum())
        if without < fewest:
            fullest, fewest = offsets, without
        if budget.expired:
            break
    return fullest


def _largest_lowest(start: Ints, end: Ints, size: Ints, disturbed: float, seed: int) -> Ints:
    """Offsets by lowest fit of the largest in bytes times steps first, in an order that is disturbed."""
    area = ((end - start) * size) * np.exp(disturbed * np.random.default_rng(seed).standard_normal(len(size)))
    offsets = np.zeros_like(size)
    _lowest_fit(np.argsort(-area, kind="stable"), start, end, size, offsets)
    return offsets


def _most_alive(start: Ints, end: Ints, size: Ints) -> int:
    """The most bytes alive at once: no height is less."""
    return int(_alive(start, end, size, int(end.max())).max())


def _alive(start: Ints, end: Ints, size: Ints, steps: int) -> Ints:
    """Bytes alive at each step. (steps,)"""
    change = np.zeros(steps + 1, dtype=np.int64)
    np.add.at(change, start, size)
    np.add.at(change, end, -size)
    return change.cumsum()[:-1]


def _arrays(blocks: list[_Block]) -> tuple[Ints, Ints, Ints]:
    """Start, end and size of each block."""
    return (
        np.array([block.start for block in blocks], dtype=np.int64),
        np.array([block.end for block in blocks], dtype=np.int64),
        np.array([block.size for block in blocks], dtype=np.int64),
    )
