# SPDX-License-Identifier: Apache-2.0
"""Offsets for the blocks of a schedule: dynamic storage allocation (docs/optimiser/placement.md).

The problem is NP-hard (Garey and Johnson 1979, problem SR2). First fit in several orders comes first, then a few runs
of the complete search (`canonical`), then the ejection search (`ejection`). A *block* is a value from its compute or
page-in to its free, or the workspace of one compute. A value that takes over another lies in the same block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import aligned
from poet_profiles.schedule import Action, Step

from poet_planner.solve.engine import Flag, Function, Int, Ref, ints
from poet_planner.solve.instance import Ints
from poet_planner.solve.placement.canonical import SearchVerdict, search
from poet_planner.solve.placement.ejection import eject
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import MOST_STEPS, UNLIMITED, TimeBudget, in_steps

CANONICAL_RUNS = 128  # of the complete search
# It is left out where so many blocks take more than such a multiple of the capacity by first fit.
MANY_BLOCKS = 1000
FAR_ABOVE = 1.1
EJECTION_MOVES = 20_000  # of a round of the ejection search at least
EJECTION_MOVES_PER_BLOCK = 20  # the same
EJECTION_ROUNDS = 75  # rounds of a search
GROWTHS = (0.1, 0.3, 0.03)  # growth of a block's weight when it ejects, by rounds: fraction of it
DISTURBANCE = 0.2  # of the order of sizes that rounds begin with: standard deviation of log(size)
HALVINGS = 5  # of the interval of capacities, where the budget does not do
HALVING_ROUNDS = 3  # of the ejection search at each capacity

_in_order = Function("first_fit", Int, Ref, Ref, Ref, Ref, Flag, Ref, Ref, Ref, returns=Int)


class Life(NamedTuple):
    """A block of ``size`` bytes from step ``start`` to step ``end``, the latter excluded."""

    start: int
    end: int
    size: int


@dataclass(frozen=True)
class Placement:
    """Steps with offsets, and the bytes of the arena that they need.

    If these exceed the capacity, ``unplaced`` are the blocks without an offset in the fullest placement within it, and
    ``impossible`` says whether it is proven that there is none within the capacity.
    """

    steps: tuple[Step, ...]
    arena_bytes: int
    unplaced: tuple[Life, ...] = ()
    impossible: bool = False


@dataclass(frozen=True)
class _Block:
    """What lies in a block until step ``end``, which is excluded: values, one after the other, each from a step on.

    A workspace has None in the place of a value.
    """

    values: tuple[tuple[int, str | None], ...]
    end: int
    size: int

    @property
    def start(self) -> int:
        return self.values[0][0]


def place(
    graph: Graph,
    steps: Sequence[Step],
    capacity: int,
    budget: TimeBudget = UNLIMITED,
    lowest: bool = True,
    seed: int = 0,
    context: Context | None = None,
) -> Placement:
    """Give every block of ``steps`` an offset, within ``capacity`` bytes if possible.

    Parameters
    ----------
    capacity : int
        Bytes of the arena. The search ends when the blocks fit.
    budget : TimeBudget
        No round of the ejection search starts once it has expired.
    lowest : bool
        Whether to search for the least arena, if the blocks do not fit the capacity.
    seed : int
        Another seed gives another search.
    context : Context or None
        Switches and statistics; None: all parts are on.
    """
    context = context or Context()
    blocks = _blocks(graph, steps)
    if not blocks:
        return Placement(tuple(steps), 0)
    start, end, size = _arrays(blocks)
    offsets, height = best_first_fit(start, end, size, capacity, budget)
    unplaced = np.zeros(0, dtype=np.int64)
    too_late = budget.left() < _seconds_to_fit(len(size))
    impossible = False
    is_hopeless = len(size) >= MANY_BLOCKS and height > FAR_ABOVE * capacity
    if height > capacity and not too_late and not is_hopeless and context.has(Component.CANONICAL):
        with context.timed(Component.CANONICAL):
            answer, found = search(start, end, size, capacity, seed, budget.share(0.5), CANONICAL_RUNS)
        impossible = answer is SearchVerdict.FAILS
        if answer is SearchVerdict.FITS:
            offsets, height = found, int((found + size).max())
    if height > capacity and (too_late or not context.has(Component.EJECTION)):
        unplaced = np.nonzero(offsets + size > capacity)[0]
    elif height > capacity:
        # A few rounds, where none can place all blocks, show which of them lack room.
        rounds = HALVING_ROUNDS if impossible else EJECTION_ROUNDS
        with context.timed(Component.EJECTION):
            offsets, height, unplaced = _by_ejection(start, end, size, capacity, offsets, rounds, budget, lowest, seed)
    missing = tuple(Life(int(start[block]), int(end[block]), int(size[block])) for block in unplaced)
    return Placement(_with_offsets(steps, blocks, offsets), height, missing, impossible)


def lives(graph: Graph, steps: Sequence[Step]) -> tuple[Ints, Ints, Ints]:
    """First step, the step after the last, and bytes of each block that needs an offset."""
    return _arrays(_blocks(graph, steps))


def alive_bytes(graph: Graph, steps: Sequence[Step]) -> Ints:
    """Bytes alive at each step. (steps,)"""
    return _alive(*lives(graph, steps), len(steps))


def _blocks(graph: Graph, steps: Sequence[Step]) -> list[_Block]:
    nodes = {node.id: node for node in graph.nodes}
    sizes = {value.id: aligned(value.bytes) for node in graph.nodes for value in node.values}
    opened: dict[str, tuple[tuple[int, str], ...]] = {}
    blocks: list[_Block] = []

    def close(value: str, end: int) -> None:
        if value in opened and sizes[value]:
            blocks.append(_Block(opened.pop(value), end, sizes[value]))

    for number, step in enumerate(steps):
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            before = {value: opened.pop(taken) for value, taken in node.takes_over.items()}
            opened |= {value.id: (*before.get(value.id, ()), (number, value.id)) for value in node.values}
            if node.workspace_bytes:
                blocks.append(_Block(((number, None),), number + 1, aligned(node.workspace_bytes)))
        elif step.do is Action.PAGE_IN:
            opened[step.target] = ((number, step.target),)
        elif step.do is Action.FREE:
            close(step.target, number)
    for value in list(opened):
        close(value, len(steps))
    return blocks


def _with_offsets(steps: Sequence[Step], blocks: list[_Block], offsets: Ints) -> tuple[Step, ...]:
    placed = list(steps)
    for block, offset in zip(blocks, offsets.tolist(), strict=True):
        for number, value in block.values:
            step = placed[number]
            if value is None:
                placed[number] = replace(step, workspace_offset=offset)
            else:
                placed[number] = replace(step, offsets={**step.offsets, value: offset})
    return tuple(placed)


def _seconds_to_fit(blocks: int) -> float:
    """Estimated seconds of first fit, in any order but that of the starts."""
    return 1e-9 * blocks**2


def best_first_fit(start: Ints, end: Ints, size: Ints, capacity: int, budget: TimeBudget) -> tuple[Ints, int]:
    """Offsets by first fit in the best of several orders.

    If time is short, only the order of the starts is tried, which compares each block only with those alive. Once a
    budget by another clock than that of work has expired, that is given up, too, and the height is the largest number.
    """
    length = end - start
    best, lowest = np.zeros_like(size), np.iinfo(np.int64).max
    for keys in ((start, -size), (start, -length), (-length, -size), (-size, -length * size), (start,)):
        by_start = len(keys) == 1
        if not by_start and budget.left() < _seconds_to_fit(len(size)):
            continue
        offsets = np.zeros_like(size)
        height = _first_fit(np.lexsort(keys), start, end, size, offsets, by_start, budget)
        budget.spend(_seconds_to_fit(len(size)))
        if 0 <= height < lowest:
            best, lowest = offsets, height
        if lowest <= capacity:
            break
    return best, int(lowest)


def _first_fit(
    order: Ints,
    start: Ints,
    end: Ints,
    size: Ints,
    offsets: Ints,
    by_start: bool = False,
    budget: TimeBudget = UNLIMITED,
) -> int:
    """Place blocks in ``order``, each at the lowest offset that is free during its life; returns the height.

    ``by_start``: whether ``order`` is that of the starts, so that blocks that have ended need not be compared any more.
    Once a budget by another clock than that of work has expired it is given up, and -1 returned.
    """
    blocks, placed = (ints(order), ints(start), ints(end), ints(size)), ints(np.empty_like(order))

    def fit(tally: Ints) -> int:
        return int(_in_order(len(order), *blocks, by_start, ints(offsets), placed, ints(tally)))

    if budget.counts_work:
        return fit(np.array([0, MOST_STEPS]))
    return in_steps(fit, budget, 1e-9 * len(order))


def _least_arena(
    start: Ints, end: Ints, size: Ints, capacity: int, known: Ints, budget: TimeBudget
) -> tuple[Ints, int]:
    """Offsets within the least capacity at which a few rounds of the ejection search succeed.

    ``known`` are offsets without overlaps, higher than the capacity.
    """
    best, height = known, int((known + size).max())
    low = max(capacity, most_alive(start, end, size) - 1)
    for _ in range(HALVINGS):
        if budget.expired:
            break
        middle = (low + height) // 2
        found = within(start, end, size, middle, HALVING_ROUNDS, budget, 0)
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
    rounds: int,
    budget: TimeBudget,
    lowest: bool,
    seed: int,
) -> tuple[Ints, int, Ints]:
    """Offsets, their height, and the blocks that are unplaced within the capacity.

    ``known`` are offsets without overlaps, higher than the capacity; ``rounds`` is the most within the capacity. The
    rest is as of `place`.
    """
    offsets, height = known, int((known + size).max())
    unplaced = np.zeros(0, dtype=np.int64)
    if most_alive(start, end, size) <= capacity:
        found = within(start, end, size, capacity, rounds, budget, seed)
        unplaced = np.nonzero(found < 0)[0]
        if len(unplaced) == 0:
            offsets, height = found, int((found + size).max())
    if height > capacity and lowest:
        offsets, height = _least_arena(start, end, size, capacity, offsets, budget)
    return offsets, height, unplaced


def within(
    start: Ints,
    end: Ints,
    size: Ints,
    capacity: int,
    rounds: int,
    budget: TimeBudget,
    seed: int,
) -> Ints:
    """Offsets within ``capacity``. If this fails: the fullest placement found, with -1 for unplaced blocks."""
    fullest, fewest = np.full_like(size, -1), np.iinfo(np.int64).max
    for number in range(rounds):
        round_seed = EJECTION_ROUNDS * seed + number
        # Rounds from the best of several orders hardly ever succeed, nor do several rounds from the same order.
        order = _largest_first(start, end, size, DISTURBANCE if number > 0 else 0.0, round_seed)
        offsets = np.zeros_like(size)
        if _first_fit(order, start, end, size, offsets, budget=budget) < 0:
            break
        growth = GROWTHS[number % len(GROWTHS)]
        budget.spend(_seconds_to_fit(len(size)))
        moves = max(EJECTION_MOVES, EJECTION_MOVES_PER_BLOCK * len(size))
        if eject(start, end, size, capacity, offsets, moves, growth, round_seed, budget):
            return offsets
        unplaced = int(size[offsets < 0].sum())
        if unplaced < fewest:
            fullest, fewest = offsets, unplaced
        if budget.expired:
            break
    return fullest


def _largest_first(start: Ints, end: Ints, size: Ints, disturbed: float, seed: int) -> Ints:
    """The blocks by bytes times steps, the largest first, disturbed at random."""
    area = ((end - start) * size) * np.exp(disturbed * np.random.default_rng(seed).standard_normal(len(size)))
    return np.argsort(-area, kind="stable")


def most_alive(start: Ints, end: Ints, size: Ints) -> int:
    """The most bytes alive at once, in any unit of time: a lower bound on the height."""
    change = np.concatenate((-size, size))
    order = np.lexsort((change, np.concatenate((end, start))))  # at equal times ends come first
    return int(change[order].cumsum().max())


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
