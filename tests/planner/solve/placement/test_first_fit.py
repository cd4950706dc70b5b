# SPDX-License-Identifier: Apache-2.0
"""Offsets: no two live blocks overlap, and the budget is met where it can be."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_planner.solve.placement.first_fit import place
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph, Node, Value
from poet_profiles.schedule import Action, Step

from tests.support.levels import examples

WORD = 4


class Piece(NamedTuple):
    """So many words, from one time to another."""

    start: int
    end: int
    words: int


def schedule(pieces: Sequence[Piece]) -> tuple[Graph, list[Step]]:
    """A graph and steps under which value k lives as piece k does."""
    nodes = tuple(Node(f"n{k}", 1.0, 1.0, (Value(f"v{k}", WORD * p.words),)) for k, p in enumerate(pieces))
    steps = []
    for moment in sorted({p.start for p in pieces} | {p.end for p in pieces}):
        steps += [Step(Action.FREE, f"v{k}") for k, p in enumerate(pieces) if p.end == moment]
        steps += [Step(Action.COMPUTE, f"n{k}") for k, p in enumerate(pieces) if p.start == moment]
    return Graph("pieces", nodes), steps


def height_without_overlaps(graph: Graph, steps: Iterable[Step]) -> int:
    """Bytes that the steps' offsets use, each byte owned by one block at a time."""
    nodes = {node.id: node for node in graph.nodes}
    size = {value.id: value.bytes for node in graph.nodes for value in node.values}
    owner: dict[int, str] = {}
    held: dict[str, range] = {}
    height = 0

    def take(name: str, offset: int, count: int) -> None:
        nonlocal height
        held[name] = range(offset, offset + count)
        assert name not in owner.values()
        for byte in held[name]:
            assert owner.setdefault(byte, name) == name
        height = max(height, offset + count)

    def give(name: str) -> None:
        for byte in held.pop(name):
            del owner[byte]

    for step in steps:
        if step.do is Action.COMPUTE:
            node = nodes[step.target]
            for value in node.values:
                take(value.id, step.offsets[value.id], value.bytes)
            if node.workspace_bytes:
                assert step.workspace_offset is not None
                take("workspace", step.workspace_offset, node.workspace_bytes)
                give("workspace")
        elif step.do is Action.PAGE_IN:
            take(step.target, step.offsets[step.target], size[step.target])
        elif step.do is Action.FREE:
            give(step.target)
    return height


def least_height(pieces: Sequence[Piece]) -> int:
    """By brute force: some order, each piece as low as those before it let it lie, gives the least."""
    least = sum(p.words for p in pieces)
    for order in permutations(pieces):
        lying: list[tuple[Piece, int]] = []
        for p in order:
            alive = [(q, at) for q, at in lying if q.start < p.end and p.start < q.end]
            offsets = sorted({0} | {at + q.words for q, at in alive})
            lowest = next(o for o in offsets if all(o + p.words <= at or at + q.words <= o for q, at in alive))
            lying.append((p, lowest))
        least = min(least, max(at + p.words for p, at in lying))
    return WORD * least


def cut(rng: random.Random, duration: int, words: int, pieces: int) -> list[Piece]:
    """A full rectangle of time and words cut into so many pieces, along lines that reach across what they cut."""
    uncut = [Piece(0, duration, words)]
    while len(uncut) < pieces:
        p = uncut.pop(rng.randrange(len(uncut)))
        if rng.random() < 0.5 and p.end - p.start > 1:
            at = rng.randrange(p.start + 1, p.end)
            uncut += [Piece(p.start, at, p.words), Piece(at, p.end, p.words)]
        elif p.words > 1:
            at = rng.randrange(1, p.words)
            uncut += [Piece(p.start, p.end, at), Piece(p.start, p.end, p.words - at)]
        else:
            uncut.append(p)
    rng.shuffle(uncut)
    return uncut


a_piece = st.builds(
    lambda start, length, words: Piece(start, start + length, words),
    st.integers(0, 7), st.integers(1, 5), st.integers(1, 6),
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.lists(a_piece, min_size=1, max_size=6))
def test_the_least_height_of_brute_force_is_met(pieces: list[Piece]) -> None:
    graph, steps = schedule(pieces)
    least = least_height(pieces)
    placement = place(graph, steps, least)
    assert height_without_overlaps(graph, placement.steps) == placement.arena_bytes == least


@settings(max_examples=examples(50), deadline=None, derandomize=True)
@given(st.lists(a_piece, min_size=1, max_size=40), st.integers(1, 60))
def test_whatever_the_budget_nothing_overlaps(pieces: list[Piece], budget_words: int) -> None:
    graph, steps = schedule(pieces)
    placement = place(graph, steps, WORD * budget_words, TimeBudget(0.0), lowest=False)
    assert height_without_overlaps(graph, placement.steps) == placement.arena_bytes
    assert [step.target for step in placement.steps] == [step.target for step in steps]


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_a_full_rectangle_fit_into_it(seed: int) -> None:
    rng = random.Random(seed)
    graph, steps = schedule(cut(rng, 60, 80, 30 + 3 * seed))
    placement = place(graph, steps, WORD * 80)
    assert height_without_overlaps(graph, placement.steps) == placement.arena_bytes == WORD * 80


def test_a_small_piece_gives_way_where_two_large_ones_eject_each_other() -> None:
    """From the least energy of random graph 1334 of `benchmarks/planner/exhaustive.py`: 25 words, all of them taken."""
    pieces = [
        *(Piece(0, 1, 2), Piece(0, 2, 14), Piece(3, 4, 2), Piece(1, 4, 11), Piece(5, 6, 13), Piece(7, 8, 10)),
        *(Piece(5, 9, 4), Piece(3, 10, 8), Piece(11, 12, 15), Piece(13, 14, 12)),
    ]
    graph, steps = schedule(pieces)
    placement = place(graph, steps, WORD * 25)
    assert height_without_overlaps(graph, placement.steps) == placement.arena_bytes == WORD * 25


def test_too_small_a_budget_gets_the_least_height_found() -> None:
    pieces = [Piece(0, 3, 2), Piece(1, 4, 3), Piece(5, 6, 4)]
    graph, steps = schedule(pieces)
    assert place(graph, steps, WORD).arena_bytes == WORD * 5


def test_equal_calls_give_equal_offsets() -> None:
    graph, steps = schedule(cut(random.Random(7), 30, 40, 30))
    assert place(graph, steps, WORD * 40) == place(graph, steps, WORD * 40)


def test_what_is_computed_or_paged_in_again_may_lie_elsewhere() -> None:
    """All six words are in use but at moments: `a` comes back to where `b` lay, and then to where `d` lay."""
    sizes = {"a": 2, "b": 2, "c": 4, "d": 2, "e": 4}
    nodes = tuple(
        Node(name, 1.0, 1.0, (Value(name, WORD * words),), workspace_bytes=2 * WORD if name == "b" else 0)
        for name, words in sizes.items()
    )
    graph = Graph("moves", nodes)
    compute, free, page_in = Action.COMPUTE, Action.FREE, Action.PAGE_IN
    steps = [
        Step(do, name)
        for do, name in (
            (compute, "a"), (compute, "b"), (free, "a"), (compute, "c"), (free, "b"), (page_in, "a"), (free, "c"),
            (compute, "d"), (free, "a"), (compute, "e"), (free, "d"), (compute, "a"),
        )
    ]  # fmt: skip
    placement = place(graph, steps, 6 * WORD)
    assert height_without_overlaps(graph, placement.steps) == placement.arena_bytes == 6 * WORD
    lies_at = [step.offsets["a"] for step in placement.steps if "a" in step.offsets]
    assert lies_at[0] != lies_at[1] != lies_at[2]
