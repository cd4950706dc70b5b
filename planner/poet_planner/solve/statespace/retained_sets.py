# SPDX-License-Identifier: Apache-2.0
"""The least energy where hardly more fits than the hungriest nodes take: what stays in RAM at each of them.

These checkpoints lie on a path, and every schedule passes them in that order. Beside each of them few values fit, so
few different sets of values may stay there. A shortest path leads from set to set, checkpoint after checkpoint; what a
segment between two sets takes is found out only where the shortest path so far uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Floats, Ints, Problem, node_need, others
from poet_planner.solve.params import DEFAULTS, RetainedSetParams
from poet_planner.solve.statespace.abstraction import View, whole_view
from poet_planner.solve.statespace.aggregation import made_apart, taken_together
from poet_planner.solve.statespace.astar import Contents
from poet_planner.solve.statespace.bitset import bits_of, put, words_of
from poet_planner.solve.statespace.bottleneck_heuristic import hungriest, made_and_needed
from poet_planner.solve.statespace.segment import NOWHERE, Segment, cheapest_way, keep_until_middle, least_of_all
from poet_planner.solve.time_budget import TimeBudget
from poet_planner.solve.topology import ancestors, producers

SETTLED = -1


class Step(NamedTuple):
    """From all sets at one checkpoint to all at the next.

    Attributes
    ----------
    ends : (sets after, words of nodes and values) what is before the checkpoint: all of the segment is to be computed
    there, there_first : (sets before, words), as of `least_to_pay`
    least : (sets after, sets before) joules above plain training of the segment at least
    tried : the same, how many of the numbers of states did not do; `SETTLED`: ``least`` is exact
    """

    segment: Segment
    ends: Ints
    there: Ints
    there_first: Ints
    least: Floats
    tried: Ints


def search_what_stays(
    problem: Problem,
    known_j: float,
    budget: TimeBudget,
    apart: bool = False,
    params: RetainedSetParams = DEFAULTS.retained_sets,
) -> Contents | None:
    """A lower bound, up to ``known_j``; or a cheapest way that it allows.

    Values that are cheap to get from one another are taken together (see `merging`). The deadline is not looked at, and
    neither is what takes hardly any RAM. Where too many states are met, only a bound is the answer. The events make
    what is taken together anew as soon as the first of it: RAM may not hold that, nor need they be in time.

    Parameters
    ----------
    known_j : float
        Energy of the best schedule known, in joules; infinite where there is none.
    budget : TimeBudget
        Asked every few hundredths of a second.
    apart : bool
        Take no values together.

    Returns
    -------
    Contents or None
        None where too much may stay, or be paged.
    """
    if problem.pageable.any():
        return None
    plain_j = float(problem.node_energy.sum())
    cheap_j = 0.0 if apart else params.cheap * min(plain_j, known_j - plain_j)
    first = taken_together(problem, cheap_j, closely=True)
    view = whole_view(problem, first, int(params.little * problem.budget))
    before = ancestors(problem)
    steps = steps_between(view, before, params)
    if steps is None:
        return None
    found = _shortest(steps, known_j - plain_j, budget, params)
    events = None if found.events is None else made_apart(problem, first, _completed(problem, before, found.events))
    return Contents(plain_j + found.bound_j, events)


def steps_between(view: View, before: Flags, params: RetainedSetParams = DEFAULTS.retained_sets) -> list[Step] | None:
    """From the sets at each checkpoint to those at the next; None where there are too many."""
    problem = view.problem
    checkpoints = hungriest(problem).tolist()
    nothing = np.zeros((1, words_of(len(problem.size))), dtype=np.int64)
    stays = [nothing]
    pairs_left = params.most_pairs
    for node in checkpoints:
        most = min(params.most_sets, pairs_left // len(stays[-1]))
        sets = list(islice(_sets(problem, node, before), most + 1))
        if len(sets) > most:
            return None
        pairs_left -= len(stays[-1]) * len(sets)
        stays.append(np.array(sets))
    stays.append(nothing)
    ends = pairwise([NOWHERE, *checkpoints, NOWHERE])
    whole = _whole(view)
    return [_step(whole, before, *end, *pair) for end, pair in zip(ends, pairwise(stays), strict=True)]


def _sets(problem: Problem, node: int, before: Flags) -> Iterator[Ints]:
    """Bits of what may stay in RAM at the first compute of ``node``, beside what that takes by itself."""
    older = ~before[node, problem.producer] & (problem.producer != node)
    may_stay = np.nonzero(older & others(problem, node) & (problem.size > 0))[0].tolist()
    room = problem.budget - int(node_need(problem)[node])
    waiting = [(np.zeros(words_of(len(problem.size)), dtype=np.int64), 0, room)]
    while waiting:
        chosen, next_one, left = waiting.pop()
        yield chosen
        for number in range(next_one, len(may_stay)):
            if problem.size[may_stay[number]] <= left:
                more = chosen.copy()
                put(more, may_stay[number], True)
                waiting.append((more, number + 1, left - int(problem.size[may_stay[number]])))


def _step(whole: Segment, before: Flags, start: int, end: int, stays: Ints, stay_after: Ints) -> Step:
    segment = _segment(whole, before, start, end)
    there = stays | segment.taken
    there_first = np.empty_like(there)
    need, counted = np.empty_like(segment.taken), np.empty(words_of(len(before)), dtype=np.int64)
    for k in range(len(there)):
        keep_until_middle(segment, there[k], there_first[k], need, counted)
    taken = segment.needed[end] if end != NOWHERE else np.zeros_like(need)
    nodes = np.repeat(bits_of(segment.first[np.newaxis]), len(stay_after), axis=0)
    ends = np.hstack([nodes, stay_after | taken])
    least = np.empty((len(ends), len(there)))
    least_of_all(segment, ends, there, there_first, need, counted, least)
    return Step(segment, ends, there, there_first, least, np.zeros(least.shape, dtype=np.int64))


def _whole(view: View) -> Segment:
    """From the beginning to the end, without a checkpoint."""
    problem = view.problem
    n, m = len(problem.node_time), len(problem.size)
    made, needed = made_and_needed(problem)
    return Segment(
        problem=problem,
        users=view.users,
        made=bits_of(made),
        needed=bits_of(needed),
        need=node_need(problem),
        start=NOWHERE,
        first=np.ones(n, dtype=np.bool_),
        prompt=view.prompt,
        energy=np.where(problem.recomputable, problem.node_energy, np.inf),
        middle=NOWHERE,
        ahead=np.zeros(n, dtype=np.bool_),
        behind=np.zeros(n, dtype=np.bool_),
        small=bits_of(np.ones((1, m), dtype=np.bool_))[0],
        taken=np.zeros(words_of(m), dtype=np.int64),
    )


def _segment(whole: Segment, before: Flags, start: int, end: int) -> Segment:
    problem = whole.problem
    nodes = np.arange(len(problem.node_time))
    nobody = np.zeros(len(nodes), dtype=np.bool_)
    older = before[:, start] | (nodes == start) if start != NOWHERE else nobody
    later = before[end] | (nodes == end) if end != NOWHERE else nobody
    first = (before[start] if start != NOWHERE else ~nobody) & (before[:, end] if end != NOWHERE else ~nobody)
    elsewhere = ~older & ~first & ~later
    needs = np.repeat(nodes, np.diff(problem.input_start))
    prompt = first.copy()
    prompt[problem.producer[problem.input_value[elsewhere[needs]]]] = False
    energy = np.where(older | first, whole.energy, 0.0)
    segment = whole._replace(first=first, prompt=prompt, energy=energy)
    if start == NOWHERE:
        return segment
    segment = segment._replace(start=start, taken=whole.made[start] | whole.needed[start])
    if not first.any():
        return segment
    middle = int(np.where(first, whole.need, -1).argmax())
    fits = (problem.size <= problem.budget - whole.need[middle]) | ~older[problem.producer]
    return segment._replace(
        middle=middle,
        ahead=first & before[:, middle],
        behind=first & before[middle],
        small=bits_of(fits[np.newaxis])[0] | whole.made[middle] | whole.needed[middle],
    )


class _Shortest(NamedTuple):
    """Joules above plain training, up to a limit; events of a shortest path, where it is found."""

    bound_j: float
    events: list[int] | None


def _shortest(steps: list[Step], limit: float, budget: TimeBudget, params: RetainedSetParams) -> _Shortest:
    """A shortest path; what a segment takes is found out where the shortest so far uses it, the earliest first."""
    to_pay = [np.zeros(1) for _ in range(len(steps) + 1)]
    events: dict[tuple[int, int, int], list[int]] = {}
    states_left = params.most_states
    changed = 0
    while True:
        for t in range(changed, len(steps)):
            to_pay[t + 1] = (steps[t].least + to_pay[t]).min(axis=1)
        bound = float(to_pay[-1][0])
        path = _path(steps, to_pay)
        unsettled = [(t, i, k) for t, i, k in path if steps[t].tried[i, k] != SETTLED]
        if bound >= limit or states_left <= 0 or budget.expired:
            return _Shortest(min(bound, limit), None)
        if not unsettled:
            nodes = [[step.segment.start] if step.segment.start != NOWHERE else [] for step in steps]
            return _Shortest(bound, [j for t, i, k in path for j in (*nodes[t], *events[t, i, k])])
        t, i, k = unsettled[0]
        step = steps[t]
        if step.tried[i, k] == len(params.segment_states):
            return _Shortest(bound, None)
        most = params.segment_states[step.tried[i, k]]
        way = cheapest_way(step.segment, step.ends[i], step.there[k], step.there_first[k], limit - to_pay[t][k], most)
        step.least[i, k] = max(step.least[i, k], way.least if way.events is not None or not way.complete else np.inf)
        step.tried[i, k] = SETTLED if way.complete else step.tried[i, k] + 1
        if way.events is not None:
            events[t, i, k] = way.events
        states_left -= way.states
        changed = t


def _path(steps: list[Step], to_pay: list[Floats]) -> list[tuple[int, int, int]]:
    """Of a shortest path: the step, the set after it, the set before it."""
    path = []
    after = 0
    for t in range(len(steps) - 1, -1, -1):
        before = int((steps[t].least[after] + to_pay[t]).argmin())
        path.append((t, after, before))
        after = before
    return path[::-1]


def _completed(problem: Problem, before: Flags, events: list[int]) -> Ints:
    """``events`` as a schedule that takes no notice of the RAM.

    What takes no RAM in the view may come too late there: it is computed right before what needs it first. Nodes that
    are lacking are computed right after what makes their inputs.
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
