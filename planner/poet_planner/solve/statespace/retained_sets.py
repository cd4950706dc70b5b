# SPDX-License-Identifier: Apache-2.0
"""A lower bound, and a path near a schedule, if the RAM barely exceeds the largest working set.

The bottleneck nodes lie on one path, so every schedule computes them in the same order. Few values fit beside each of
them: the *retained sets*. A shortest path leads from retained set to retained set. Its edges are evaluated lazily
(LazySP, Dellin and Srinivasa 2016): only those on the current shortest path are solved (`segment`).

See docs/optimiser/state_space.md, "Retained sets", for the proofs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, outside_working_set, working_set_bytes
from poet_planner.solve.statespace.abstraction import Abstraction, whole_abstraction
from poet_planner.solve.statespace.aggregation import disaggregated, representatives
from poet_planner.solve.statespace.astar import StateSpaceResult
from poet_planner.solve.statespace.bitset import bits_of, put, words_of
from poet_planner.solve.statespace.segment import (
    NOWHERE,
    Segment,
    SegmentStarts,
    cheapest_path,
    lower_bounds,
    segment_starts,
)
from poet_planner.solve.time_budget import UNLIMITED, TimeBudget
from poet_planner.solve.topology import ancestors, longest_path, producers

# Working set of a bottleneck node, as a fraction of the largest on the path.
BOTTLENECK_SHARE = 0.9
LITTLE = 1e-3  # a value up to this size takes no RAM: fraction of the budget
CHEAP = 1e-4  # values of a node up to this energy are aggregated: fraction of E0, or of the overhead
MOST_SETS = 1_000  # sets at one bottleneck node
MOST_PAIRS = 500_000  # pairs of sets at neighbouring bottleneck nodes, in all
SEGMENT_STATES = (2_000, 20_000)  # states of a segment: at first, then where it matters
MOST_STATES = 100_000  # states of all segments
EXACT = -1  # as a number of attempts: the length of the edge is exact


class SegmentEdges(NamedTuple):
    """The edges of one segment: from all retained sets of its first bottleneck node to all of its last."""

    starts: SegmentStarts  # the segment, and the sets at the start
    ends: Ints  # (sets at the end, words of N and W) states right before the last node
    length: Floats  # (sets at the end, sets at the start) lower bounds on the cost of the segment, in joules above E0
    # Of the same shape, how many entries of `SEGMENT_STATES` were not enough; `EXACT`: ``length`` is exact.
    attempts: Ints


def search_retained_sets(
    problem: Problem,
    cutoff_j: float,
    budget: TimeBudget,
    separate: bool = False,
) -> StateSpaceResult | None:
    """A lower bound of up to ``cutoff_j``, and a shortest path over retained sets, if it is found.

    Cheap values are tightly aggregated, and tiny values take no RAM. The deadline is ignored. If there are too many
    states, there is only a bound. The events make the other values of a group again right after the first of it. So
    they may need more RAM than there is, and they may be late.

    Parameters
    ----------
    cutoff_j : float
        Energy of the best schedule known, in joules; infinite if there is none.
    budget : TimeBudget
        Asked every few hundredths of a second.
    separate : bool
        Aggregate no values.

    Returns
    -------
    StateSpaceResult or None
        None if there is storage, or if there are too many retained sets.
    """
    if problem.pageable.any():
        return None
    store_all_j = float(problem.node_energy.sum())
    cheap_j = 0.0 if separate else CHEAP * min(store_all_j, cutoff_j - store_all_j)
    representative = representatives(problem, cheap_j, tightly=True)
    abstraction = whole_abstraction(problem, representative, int(LITTLE * problem.budget))
    before = ancestors(problem)
    edges = segment_edges(abstraction, before, budget)
    if edges is None:
        return None
    found = _lazy_shortest_path(edges, cutoff_j - store_all_j, budget)
    if found.events is None:
        return StateSpaceResult(store_all_j + found.bound, None)
    events = disaggregated(problem, representative, _completed(problem, before, found.events))
    return StateSpaceResult(store_all_j + found.bound, events)


def segment_edges(
    abstraction: Abstraction,
    before: Flags,
    budget: TimeBudget = UNLIMITED,
) -> list[SegmentEdges] | None:
    """The edges of each segment; None if there are too many retained sets for the time.

    ``before`` is as `ancestors` gives it.
    """
    problem = abstraction.problem
    nodes = bottleneck_nodes(problem).tolist()
    nothing = np.zeros((1, words_of(len(problem.size))), dtype=np.int64)
    retained = [nothing]
    pairs_left = MOST_PAIRS
    for node in nodes:
        if budget.expired:
            return None
        most = min(MOST_SETS, pairs_left // len(retained[-1]))
        sets = list(islice(_retained_sets(problem, node, before), most + 1))
        if len(sets) > most:
            return None
        pairs_left -= len(retained[-1]) * len(sets)
        retained.append(np.array(sets))
    retained.append(nothing)
    ends = pairwise([NOWHERE, *nodes, NOWHERE])
    whole = _whole(abstraction)
    edges = []
    for end, pair in zip(ends, pairwise(retained), strict=True):
        edges.append(_edges(whole, before, *end, *pair, budget))
        if budget.expired:
            return None
    return edges


def _retained_sets(problem: Problem, node: int, before: Flags) -> Iterator[Ints]:
    """Bits of each set of values that may be in RAM beside the working set of ``node`` at its first compute."""
    older = ~before[node, problem.producer] & (problem.producer != node)
    candidates = np.nonzero(older & outside_working_set(problem, node) & (problem.size > 0))[0].tolist()
    room = problem.budget - int(working_set_bytes(problem)[node])
    waiting = [(np.zeros(words_of(len(problem.size)), dtype=np.int64), 0, room)]
    while waiting:
        chosen, next_one, left = waiting.pop()
        yield chosen
        for number in range(next_one, len(candidates)):
            if problem.size[candidates[number]] <= left:
                larger = chosen.copy()
                put(larger, candidates[number])
                waiting.append((larger, number + 1, left - int(problem.size[candidates[number]])))


def _edges(
    whole: Segment, before: Flags, start: int, end: int, retained: Ints, retained_after: Ints, budget: TimeBudget
) -> SegmentEdges:
    segment = _segment(whole, before, start, end)
    starts = segment_starts(segment, retained | segment.start_values)
    inputs = segment.needed[end] if end != NOWHERE else np.zeros_like(segment.start_values)
    nodes = np.repeat(bits_of(segment.inside[np.newaxis]), len(retained_after), axis=0)
    ends = np.hstack([nodes, retained_after | inputs])
    length = lower_bounds(starts, ends, budget)
    return SegmentEdges(starts, ends, length, np.zeros(length.shape, dtype=np.int64))


def bottleneck_nodes(problem: Problem) -> Ints:
    """The nodes of a longest path with the largest working sets, in its order."""
    path, need = longest_path(problem), working_set_bytes(problem)
    nodes: Ints = path[need[path] >= BOTTLENECK_SHARE * need[path].max(initial=0)]
    return nodes


def _made_and_needed(problem: Problem) -> tuple[Flags, Flags]:
    """The values that each node makes, and those that it needs, of those that take RAM. (n, m)"""
    n, m = len(problem.node_time), len(problem.size)
    counted = problem.size > 0
    reads = np.repeat(np.arange(n), np.diff(problem.input_start))
    made, needed = np.zeros((n, m), dtype=np.bool_), np.zeros((n, m), dtype=np.bool_)
    made[problem.producer, np.arange(m)] = counted
    needed[reads, problem.input_value] = counted[problem.input_value]
    return made, needed


def _whole(abstraction: Abstraction) -> Segment:
    """The whole schedule as one segment, without a bottleneck node."""
    problem = abstraction.problem
    n, m = len(problem.node_time), len(problem.size)
    made, needed = _made_and_needed(problem)
    return Segment(
        problem=problem,
        users=abstraction.users,
        made=bits_of(made),
        needed=bits_of(needed),
        need=working_set_bytes(problem),
        start=NOWHERE,
        inside=np.ones(n, dtype=np.bool_),
        deferrable=abstraction.deferrable,
        energy=np.where(problem.recomputable, problem.node_energy, np.inf),
        middle=NOWHERE,
        before_middle=np.zeros(n, dtype=np.bool_),
        after_middle=np.zeros(n, dtype=np.bool_),
        beside_middle=bits_of(np.ones((1, m), dtype=np.bool_))[0],
        start_values=np.zeros(words_of(m), dtype=np.int64),
    )


def _segment(whole: Segment, before: Flags, start: int, end: int) -> Segment:
    """The segment from the first compute of ``start`` to that of ``end``."""
    problem = whole.problem
    nodes = np.arange(len(problem.node_time))
    nobody = np.zeros(len(nodes), dtype=np.bool_)
    older = before[:, start] | (nodes == start) if start != NOWHERE else nobody
    later = before[end] | (nodes == end) if end != NOWHERE else nobody
    inside = (before[start] if start != NOWHERE else ~nobody) & (before[:, end] if end != NOWHERE else ~nobody)
    elsewhere = ~older & ~inside & ~later
    reader = np.repeat(nodes, np.diff(problem.input_start))
    deferrable = inside.copy()
    deferrable[problem.producer[problem.input_value[elsewhere[reader]]]] = False
    energy = np.where(older | inside, whole.energy, 0.0)
    segment = replace(whole, inside=inside, deferrable=deferrable, energy=energy)
    if start == NOWHERE:
        return segment
    segment = replace(segment, start=start, start_values=whole.made[start] | whole.needed[start])
    if not inside.any():
        return segment
    middle = int(np.where(inside, whole.need, -1).argmax())
    fits = (problem.size <= problem.budget - whole.need[middle]) | ~older[problem.producer]
    return replace(
        segment,
        middle=middle,
        before_middle=inside & before[:, middle],
        after_middle=inside & before[middle],
        beside_middle=bits_of(fits[np.newaxis])[0] | whole.made[middle] | whole.needed[middle],
    )


class _ShortestPath(NamedTuple):
    """``bound``: joules above E0, up to a limit. ``events``: of a shortest path, if it is found."""

    bound: float
    events: list[int] | None


def _lazy_shortest_path(edges: list[SegmentEdges], limit: float, budget: TimeBudget) -> _ShortestPath:
    """A shortest path over retained sets. The first inexact edge of the current one is solved until there is none."""
    distance = [np.zeros(1) for _ in range(len(edges) + 1)]
    events: dict[tuple[int, int, int], list[int]] = {}
    states_left = MOST_STATES
    changed = 0
    while True:
        for t in range(changed, len(edges)):
            distance[t + 1] = (edges[t].length + distance[t]).min(axis=1)
        bound = float(distance[-1][0])
        path = _current_path(edges, distance)
        inexact = [(t, i, k) for t, i, k in path if edges[t].attempts[i, k] != EXACT]
        if bound >= limit or states_left <= 0 or budget.expired:
            return _ShortestPath(min(bound, limit), None)
        if not inexact:
            first = [those.starts.segment.start for those in edges]
            nodes = [[start] if start != NOWHERE else [] for start in first]
            return _ShortestPath(bound, [j for t, i, k in path for j in (*nodes[t], *events[t, i, k])])
        t, i, k = inexact[0]
        those = edges[t]
        if those.attempts[i, k] == len(SEGMENT_STATES):
            return _ShortestPath(bound, None)
        most = SEGMENT_STATES[those.attempts[i, k]]
        left = limit - distance[t][k]
        found = cheapest_path(those.starts, k, those.ends[i], left, most, budget)
        length = found.least if found.events is not None or not found.complete else np.inf
        those.length[i, k] = max(those.length[i, k], length)
        those.attempts[i, k] = EXACT if found.complete else those.attempts[i, k] + 1
        if found.events is not None:
            events[t, i, k] = found.events
        states_left -= found.states
        changed = t


def _current_path(edges: list[SegmentEdges], distance: list[Floats]) -> list[tuple[int, int, int]]:
    """A shortest path for the present lengths: for each segment its number, the set at its end, that at its start."""
    path = []
    after = 0
    for t in range(len(edges) - 1, -1, -1):
        before = int((edges[t].length[after] + distance[t]).argmin())
        path.append((t, after, before))
        after = before
    return path[::-1]


def _completed(problem: Problem, before: Flags, events: list[int]) -> Ints:
    """``events`` as a schedule that ignores the RAM.

    Values without bytes may come too late in the events. Their nodes are computed right before the first reader.
    Missing nodes are computed right after the producers of their inputs.
    """
    ordered: list[int] = []
    computed: set[int] = set()
    for event in events:
        needed = [j for j in np.nonzero(before[:, event])[0].tolist() if j not in computed]
        ordered += [*needed, event]
        computed.update([*needed, event])
    for j in range(len(problem.node_time)):
        if j not in computed:
            makers = producers(problem, j).tolist()
            ordered.insert(max((ordered.index(maker) for maker in makers), default=-1) + 1, j)
    return np.array(ordered, dtype=np.int64)
