# SPDX-License-Identifier: Apache-2.0
"""One segment of a schedule: from the first compute of one bottleneck node to that of the next.

The retained sets at both ends are given. A cheap lower bound adds up the nodes that have to be computed in the segment.
A cheapest path is found by A*, backwards in time over states (N, W).

See docs/optimiser/state_space.md, "Retained sets", for the proofs. There ``start`` is a, ``inside`` is M, and
``middle`` is m.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from poet_planner.solve.engine import Flag, Float, Function, Int, Ref, Struct, floats, ints, struct
from poet_planner.solve.instance import Flags, Floats, Ints, Problem, graph_size
from poet_planner.solve.statespace.bitset import has, words_of
from poet_planner.solve.statespace.path_search import new_search
from poet_planner.solve.time_budget import TimeBudget, in_steps

NOWHERE = -1
STEP_S_PER_SIZE = 5e-9  # a state, or a lower bound, for each node, value and edge of the graph: reference seconds


@struct
class Segment(Struct):
    """A segment, for any retained sets."""

    problem: Problem
    # users, made, needed: (n, words) bits: the nodes that need a value of a node; its outputs; its inputs.
    users: Ints
    made: Ints
    needed: Ints
    need: Ints  # (n,) bytes of the working set
    start: int  # the bottleneck node that the segment begins with, or ``NOWHERE``
    inside: Flags  # (n,) nodes whose first compute lies in the segment in every schedule
    deferrable: Flags  # (n,) nodes of ``inside`` whose first compute may be a forced move
    # (n,) joules of a compute in the segment: 0 if it may be the first one, infinite if it is not allowed.
    energy: Floats
    middle: int  # the node of ``inside`` with the largest working set, or ``NOWHERE``
    # before_middle, after_middle: (n,) ancestors and descendants of ``middle`` in ``inside``.
    before_middle: Flags
    after_middle: Flags
    # (words,) bits of the values that RAM can hold beside ``middle``, and of those made after ``start``.
    beside_middle: Ints
    start_values: Ints  # (words,) bits of the inputs and outputs of ``start``


@struct
class SegmentStarts(Struct):
    """A segment, for some retained sets at its start."""

    segment: Segment
    at_start: Ints  # (sets, words) bits of the values in RAM right after the start
    until_middle: Ints  # (sets, words) those of them that can stay there until the middle node
    # need, counted: (words,), (words of nodes,) scratch, for one thread at a time.
    need: Ints
    counted: Ints


class SegmentPath(NamedTuple):
    """A search of one segment between two retained sets."""

    complete: bool  # whether the search ended by itself
    # A lower bound on the cost of the segment, in joules above E0. If complete, its cost, or the limit.
    least: float
    events: list[int] | None  # computes of a cheapest path, if one below the limit was found
    states: int  # states that were met


class _SegmentPath(ctypes.Structure):
    _fields_ = (("complete", Flag), ("least", Float), ("goal", Int))


_keep_until_middle = Function("keep_until_middle", Ref)
_lower_bounds = Function("lower_bounds", Ref, Ref, Int, Ref, Ref)
_search_segment = Function("search_segment", Ref, Int, Ref, Float, Ref, Ref, returns=_SegmentPath)


def segment_starts(segment: Segment, at_start: Ints) -> SegmentStarts:
    """The retained sets at the start, ``at_start``, and what of each can stay until the middle node.

    Unless the start is computed again, its outputs that the middle node needs stay. Some nodes are surely computed in
    between. An input of the middle node that does not fit beside them and these outputs is evicted, and made again.
    All values may stay if making those again costs more than computing the start again.
    """
    need, counted = np.zeros_like(segment.start_values), np.zeros(words_of(len(segment.inside)), dtype=np.int64)
    starts = SegmentStarts(segment, at_start, at_start.copy(), need, counted)
    _keep_until_middle(starts)
    return starts


def _step_s(segment: Segment) -> float:
    """What a step of a search of the segment takes, or a lower bound: reference seconds."""
    return STEP_S_PER_SIZE * graph_size(segment.problem)


def lower_bounds(starts: SegmentStarts, ends: Ints, budget: TimeBudget) -> Floats:
    """A lower bound on the cost between each end and each start, in joules above E0. (ends, starts)

    RAM counts at the middle node alone. Where the time was not enough, the bound is 0. ``ends`` are bits of N, then of
    W: (ends, words).
    """
    least = np.zeros((len(ends), len(starts.at_start)))
    in_steps(
        lambda tally: _lower_bounds(starts, ints(ends), len(ends), floats(least), ints(tally)),
        budget,
        _step_s(starts.segment),
    )
    return least


def cheapest_path(
    starts: SegmentStarts, start: int, end: Ints, limit: float, most_states: int, budget: TimeBudget
) -> SegmentPath:
    """A* from the end of the segment to its start.

    ``start`` is the number of the retained set at the start, ``end`` the state right before the next bottleneck node. A
    path that costs ``limit``, in joules above E0, is not looked for. The search ends if there are more than
    ``most_states``.
    """
    search = new_search(most_states, len(end))
    path = in_steps(
        lambda tally: _search_segment(starts, start, ints(end), limit, search, ints(tally)),
        budget,
        _step_s(starts.segment),
    )
    rows, states = search.rows, int(search.count[0])
    if path.goal < 0:
        return SegmentPath(path.complete, path.least, None, states)
    events: list[int] = []
    n, at = len(starts.segment.inside), path.goal
    while at > 0:
        parent, move = int(search.parent[at]), int(search.arrived_by[at])
        computed = [j for j in range(n) if has(rows[parent], j) and not has(rows[at], j)]
        events += [*(j for j in computed if j != move), move % n]
        at = parent
    events += [j for j in range(n) if has(end, j) and not has(rows[0], j)]
    return SegmentPath(True, path.least, events, states)
