"""Static offsets for every tensor of a schedule: dynamic storage allocation with known lifetimes.

Greedy lowest fit in several orders, then a hill climb over orders, then, where those fall short, exactly by a MILP.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from poet_planner.graph import Graph
from poet_planner.schedule import Action, Step
from poet_planner.solve.compiled import compiled
from poet_planner.solve.problem import Ints, whole_words

CLIMB_MOVES = 10_000
EXACT_PAIRS = 2_000


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


def place(graph: Graph, steps: Sequence[Step], budget: int, exact_s: float = 10.0) -> Placement:
    """Give every block of ``steps`` an offset, if it can be within ``budget`` bytes; if not, as low as was found.

    Parameters
    ----------
    budget : int
        Bytes of the arena; the search for offsets stops when they fit.
    exact_s : float
        Time limit of the exact assignment; 0 leaves it out.
    """
    blocks = _blocks(graph, steps)
    if not blocks:
        return Placement(tuple(steps), 0)
    start = np.array([block.start for block in blocks], dtype=np.int64)
    end = np.array([block.end for block in blocks], dtype=np.int64)
    size = np.array([block.size for block in blocks], dtype=np.int64)
    offsets, height = _greedy(start, end, size, budget)
    if height > budget:
        offsets, height = _climb(start, end, size, budget, offsets, np.argsort(offsets), CLIMB_MOVES)
    if height > budget and exact_s > 0:
        offsets, height = _exact(start, end, size, budget, offsets, exact_s)
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


@compiled
def _climb(start, end, size, budget, first, order, moves):  # type: ignore[no-untyped-def]
    """Hill climb over orders: a block that sticks out goes forward, or two blocks change places."""
    np.random.seed(1)
    count = size.size
    offsets = np.empty_like(first)
    height = _lowest_fit(order, start, end, size, offsets)
    best = first.copy()
    lowest = (first + size).max()
    trial = order.copy()
    moved = np.empty_like(first)
    for _ in range(moves * 50 // (count + 50)):
        if lowest <= budget:
            break
        trial[:] = order
        if np.random.random() < 0.5:
            sticking = 0
            pick = 0
            for k in range(count):
                if offsets[order[k]] + size[order[k]] > budget:
                    sticking += 1
                    if np.random.randint(0, sticking) == 0:
                        pick = k
            to = np.random.randint(0, pick + 1)
            block = trial[pick]
            for k in range(pick, to, -1):
                trial[k] = trial[k - 1]
            trial[to] = block
        else:
            a = np.random.randint(0, count)
            b = np.random.randint(0, count)
            trial[a], trial[b] = trial[b], trial[a]
        new = _lowest_fit(trial, start, end, size, moved)
        if new <= height or np.random.random() < 0.01:
            height = new
            order[:] = trial
            offsets[:] = moved
            if new < lowest:
                lowest = new
                best[:] = moved
    return best, lowest


def _exact(start: Ints, end: Ints, size: Ints, budget: int, known: Ints, time_s: float) -> tuple[Ints, int]:
    """Offsets within ``budget`` from a MILP, or the known ones if it finds none.

    Two blocks that live at once lie one above the other: one binary for each such pair.
    """
    import pyomo.environ as pyo

    from poet_planner.solve.solvers import solver_named

    pairs = [
        (a, b) for a in range(len(size)) for b in range(a + 1, len(size)) if start[a] < end[b] and start[b] < end[a]
    ]
    height = int((known + size).max())
    if len(pairs) > EXACT_PAIRS:
        return known, height
    model = pyo.ConcreteModel()
    model.pair = pyo.Set(initialize=pairs)
    model.offset = pyo.Var(range(len(size)), bounds=lambda _, k: (0, max(0.0, (budget - size[k]) / budget)))
    model.above = pyo.Var(model.pair, domain=pyo.Binary)
    model.below_rule = pyo.Constraint(
        model.pair,
        rule=lambda m, a, b: m.offset[a] + size[a] / budget <= m.offset[b] + (1 - m.above[a, b]),
    )
    model.above_rule = pyo.Constraint(
        model.pair,
        rule=lambda m, a, b: m.offset[b] + size[b] / budget <= m.offset[a] + m.above[a, b],
    )
    model.nothing = pyo.Objective(expr=model.offset[0])
    solutions = solver_named("highs").solve(model, time_s, absolute_gap=1.0).solutions
    if not solutions:
        return known, height
    # Rounding may leave the solver's offsets a little apart; the order they give is what counts.
    order = np.argsort([solutions[-1][model.offset[k].name] for k in range(len(size))], kind="stable")
    offsets = np.zeros_like(size)
    found = int(_lowest_fit(order, start, end, size, offsets))
    return (offsets, found) if found < height else (known, height)
