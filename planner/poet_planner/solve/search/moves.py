# SPDX-License-Identifier: Apache-2.0
"""The moves of the annealing: random edits of the current state (docs/optimiser/search.md, "Moves").

The costs that a move compares are energy plus ``per_second`` times seconds: the current penalty for a second over the
deadline.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.instance import Problem
from poet_planner.solve.jit import compiled
from poet_planner.solve.search.delta_evaluation import (
    CHANGES,
    EDITS,
    LAST,
    LEFT_OUT,
    PER_PLACE,
    DeltaEvaluation,
    leave_out,
    live_before,
    next_use,
    put_in,
)
from poet_planner.solve.search.evaluation import EXTRAS, LIVES, STAMP, Workspace

MOST_RESTORED = 48  # events of one restore
KEPT = 0.3  # probability that an input is kept in RAM instead of being restored
CHEAPER = 0.75  # probability that a value comes back the cheaper way
WHOLE = 0.25  # probability that a restore keeps nothing and always takes the cheaper way, which makes long chains
WORST = 0.3  # probability that the largest overflow is split, instead of any
UNPAGE_TRIES = 4  # extra events drawn until one is a page-in
EXCHANGE_TRIES = 8  # extra events drawn until one is of the other kind
MOST_LIVES = 500  # lifetimes examined for an idle value
MAKES_ROOM = (0.71, 0.8)  # the draws of `random_move` that change how a value is restored, which may make room


@compiled
def random(work: Workspace) -> float:
    """A number in [0, 1), uniform (xorshift64*)."""
    x = work.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    work.random[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@compiled
def below(work: Workspace, count: int) -> int:
    """A whole number from 0 to ``count - 1``, uniform."""
    return min(count - 1, int(random(work) * count))


@compiled
def _restore_cost(problem: Problem, work: Workspace, per_second: float, v: int) -> float:
    """Cost of restoring v the cheaper way if its inputs are in RAM; infinite if it cannot be restored."""
    j = problem.producer[v]
    cost = _compute_cost(problem, per_second, j) if problem.recomputable[j] else np.inf
    if problem.pageable[v]:
        cost = min(cost, _page_cost(problem, work, per_second, v))
    return cost


@compiled
def _compute_cost(problem: Problem, per_second: float, j: int) -> float:
    return problem.node_energy[j] + per_second * problem.node_time[j]


@compiled
def _page_cost(problem: Problem, work: Workspace, per_second: float, v: int) -> float:
    cost = problem.in_energy[v] + per_second * problem.in_time[v]
    return cost if work.paged[v] else cost + problem.out_energy[v] + per_second * problem.out_time[v]


@compiled
def _pages(problem: Problem, work: Workspace, per_second: float, v: int, cheaper: float) -> bool:
    """Whether to page v in instead of computing it; the cheaper way is chosen with probability ``cheaper``."""
    j = problem.producer[v]
    if not problem.pageable[v]:
        return False
    if not problem.recomputable[j]:
        return True
    return (_page_cost(problem, work, per_second, v) <= _compute_cost(problem, per_second, j)) == (
        random(work) < cheaper
    )


@compiled
def _restore(
    problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, key: int, v: int, paged: bool
) -> bool:
    """Bring v back right before ``key``, by a page-in if ``paged``. False if this takes too many edits.

    Inputs that are not in RAM there are restored too, or kept in RAM until then, at random. Those taken over cannot be
    kept.
    """
    n = problem.node_time.size
    work.counters[STAMP] += 1
    stamp = work.counters[STAMP]
    work.inserted[0] = n + v if paged else problem.producer[v]
    work.stamp[v] = stamp
    count = 1
    looked_at = 0
    kept, cheaper = KEPT, CHEAPER
    if random(work) < WHOLE:
        kept, cheaper = 0.0, 1.0
    while looked_at < count and count < MOST_RESTORED:
        event = work.inserted[looked_at]
        looked_at += 1
        if event >= n:
            continue
        for own in range(problem.output_start[event], problem.output_start[event + 1]):
            work.stamp[own] = stamp
        for k in range(problem.input_start[event], problem.input_start[event + 1]):
            u = problem.input_value[k]
            if work.stamp[u] == stamp:
                continue
            work.stamp[u] = stamp
            if count >= MOST_RESTORED or live_before(work, delta, key, u):
                continue
            if random(work) < kept and not problem.taken[u]:
                continue
            if _pages(problem, work, per_second, u, cheaper):
                work.inserted[count] = n + u
                count += 1
            elif problem.recomputable[problem.producer[u]]:
                work.inserted[count] = problem.producer[u]
                count += 1
    for k in range(count):
        if not put_in(delta, key, work.inserted[count - 1 - k]):
            return False
        # An event that was put in has a new key, one higher.
        key += key % PER_PLACE != LAST
    return True


@compiled
def split_overflow(
    problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, length: int, changed_first: bool
) -> bool:
    """At an overflow, drop a value that is idle there and restore it before its next use.

    ``changed_first``: always prefer a value that is in RAM because of the edits; else every second time.
    """
    key = _overflow(problem, work, delta, length)
    if key < 0:
        return False
    v = _idle(problem, work, per_second, delta, key, changed_first)
    if v < 0:
        return False
    paged = _pages(problem, work, per_second, v, CHEAPER)
    if not paged and not problem.recomputable[problem.producer[v]]:
        return False
    use = next_use(problem, work, delta, key, v)
    return use >= 0 and _restore(problem, work, per_second, delta, use, v, paged)


@compiled
def _overflow(problem: Problem, work: Workspace, delta: DeltaEvaluation, length: int) -> int:
    """Key of an event whose RAM exceeds the budget, the worst one or any; -1 if there is none."""
    key = -1
    found = 0
    worst = -1
    most = problem.budget
    for k in range(length):
        if delta.memory[k] > problem.budget:
            found += 1
            if below(work, found) == 0:
                key = k * PER_PLACE + LAST
            if delta.memory[k] > most:
                worst, most = k * PER_PLACE + LAST, delta.memory[k]
    for e in range(delta.counters[EDITS]):
        if delta.edit_event[e] != LEFT_OUT and delta.edit_memory[e] > problem.budget:
            found += 1
            if below(work, found) == 0:
                key = delta.edit_key[e]
            if delta.edit_memory[e] > most:
                worst, most = delta.edit_key[e], delta.edit_memory[e]
    return worst if found > 0 and random(work) < WORST else key


@compiled
def _idle(
    problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, key: int, changed_first: bool
) -> int:
    """A value that is in RAM at ``key`` but not used there, preferably large and cheap to restore; -1 if none is."""
    n = problem.node_time.size
    work.counters[STAMP] += 1
    busy = work.counters[STAMP]
    place = key // PER_PLACE
    event = work.kept[place]
    if key % PER_PLACE != LAST:
        for e in range(delta.counters[EDITS]):
            if delta.edit_key[e] == key:
                event = delta.edit_event[e]
    if event < n:
        for k in range(problem.input_start[event], problem.input_start[event + 1]):
            work.stamp[problem.input_value[k]] = busy
        for v in range(problem.output_start[event], problem.output_start[event + 1]):
            work.stamp[v] = busy
    else:
        work.stamp[event - n] = busy
    changes = delta.counters[CHANGES]
    for c in range(changes):
        if delta.change_sign[c] < 0 and delta.change_close[c] < key < delta.change_open[c]:
            work.stamp[delta.change_value[c]] = busy
    tries = 1 + below(work, 4)
    idle = -1
    best = -1.0
    found = 0
    # If there are very many lifetimes, only some are examined; all of them if those give nothing.
    stride = 1 + work.counters[LIVES] // MOST_LIVES
    count = work.counters[LIVES] + changes
    # Earlier ones have better chances: the changes, or else the lifetimes.
    offset = 0 if changed_first or random(work) < 0.5 else changes
    while idle < 0 and stride > 0:
        for k in range(below(work, stride), count, stride):
            v = _live_at(work, delta, key, k + offset if k + offset < count else k + offset - count)
            if v >= 0 and work.stamp[v] != busy and problem.size[v] > 0:
                found += 1
                if found <= tries or below(work, found) < tries:
                    score = (
                        problem.size[v] / (_restore_cost(problem, work, per_second, v) + 1e-12) * (0.5 + random(work))
                    )
                    if score > best:
                        best = score
                        idle = v
        stride = 1 if stride > 1 else 0
    return idle


@compiled
def _live_at(work: Workspace, delta: DeltaEvaluation, key: int, k: int) -> int:
    """The value of change k, or of lifetime k behind the changes, if it is in RAM before and after ``key``; else -1."""
    changes = delta.counters[CHANGES]
    if k < changes:
        return (
            delta.change_value[k]
            if delta.change_sign[k] > 0 and delta.change_close[k] < key < delta.change_open[k]
            else -1
        )
    k -= changes
    place = key // PER_PLACE
    earliest = place + (key % PER_PLACE == LAST)
    return work.life_value[k] if work.life_start[k] < place and work.life_end[k] >= earliest else -1


@compiled
def _split_anywhere(problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, length: int) -> bool:
    """Restore a random input of a random compute right before it."""
    n = problem.node_time.size
    place = below(work, length)
    event = work.kept[place]
    if event >= n or problem.input_start[event] == problem.input_start[event + 1]:
        return False
    v = problem.input_value[
        problem.input_start[event] + below(work, problem.input_start[event + 1] - problem.input_start[event])
    ]
    paged = _pages(problem, work, per_second, v, CHEAPER)
    if not paged and not problem.recomputable[problem.producer[v]]:
        return False
    return _restore(problem, work, per_second, delta, place * PER_PLACE + LAST, v, paged)


@compiled
def _delete(work: Workspace, delta: DeltaEvaluation, most: int) -> bool:
    """Leave out up to ``most`` neighbouring extra events."""
    extras = work.counters[EXTRAS]
    if extras == 0:
        return False
    start = below(work, extras)
    for k in range(start, min(extras, start + 1 + below(work, most))):
        leave_out(delta, work.extra[k])
    return True


@compiled
def _flip(problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, place: int) -> bool:
    """Flip the extra event at ``place``: a compute becomes page-ins of its values, a page-in becomes a compute."""
    n = problem.node_time.size
    event = work.kept[place]
    key = place * PER_PLACE + LAST
    if event < n:
        count = 0
        for v in range(problem.output_start[event], problem.output_start[event + 1]):
            if problem.pageable[v]:
                count += put_in(delta, key, n + v)
        return count > 0 and leave_out(delta, place)
    v = event - n
    return (
        problem.recomputable[problem.producer[v]]
        and _restore(problem, work, per_second, delta, key, v, False)
        and leave_out(delta, place)
    )


@compiled
def _exchange(problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation) -> bool:
    """Two flips, one each way: if RAM and time are both short, each flip alone breaks a limit."""
    n = problem.node_time.size
    extras = work.counters[EXTRAS]
    if extras < 2:
        return False
    one = work.extra[below(work, extras)]
    for _ in range(EXCHANGE_TRIES):
        two = work.extra[below(work, extras)]
        if (work.kept[one] < n) != (work.kept[two] < n):
            return _flip(problem, work, per_second, delta, one) and _flip(problem, work, per_second, delta, two)
    return False


@compiled
def _unpage(problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation) -> bool:
    """Compute a paged value wherever it is paged in: only all of this together saves the page-out."""
    n = problem.node_time.size
    extras = work.counters[EXTRAS]
    event = -1
    for _ in range(min(extras, UNPAGE_TRIES)):
        event = work.kept[work.extra[below(work, extras)]]
        if event >= n:
            break
    if event < n:
        return False
    v = event - n
    for at in range(work.touch_start[v], work.touch_start[v + 1]):
        place = work.touch_place[at]
        if work.kept[place] == event and not _flip(problem, work, per_second, delta, place):
            return False
    return True


@compiled
def shift(problem: Problem, work: Workspace, delta: DeltaEvaluation, length: int) -> bool:
    """Shift an event, or a block of up to six, by a log-uniform distance, as far as precedence allows."""
    n = problem.node_time.size
    size = 1 if random(work) < 0.5 else 1 + below(work, 6)
    if length <= size:
        return False
    begin = below(work, length - size + 1)
    if random(work) < 0.5 and work.counters[EXTRAS] > 0:
        begin = min(work.extra[below(work, work.counters[EXTRAS])], length - size)
    distance = int(np.exp(random(work) * np.log(length)))
    end = begin + size
    if random(work) < 0.5:
        target = max(0, begin - distance)
        for k in range(begin, end):
            event = work.kept[k]
            if event >= n:
                first = work.first[problem.producer[event - n]]
                if first < begin:
                    target = max(target, first + 1)
            else:
                for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
                    first = work.first[problem.producer[problem.input_value[k_in]]]
                    if first < begin:
                        target = max(target, first + 1)
        if target >= begin:
            return False
    else:
        target = min(length, end + distance)
        for k in range(begin, end):
            event = work.kept[k]
            if event < n and work.first[event] == k:
                for v in range(problem.output_start[event], problem.output_start[event + 1]):
                    for at in range(work.touch_start[v], work.touch_start[v + 1]):
                        if work.touch_place[at] >= end:
                            target = min(target, work.touch_place[at])
                            break
        if target <= end:
            return False
    made = True
    for k in range(begin, end):
        made = made and put_in(delta, target * PER_PLACE + LAST, work.kept[k]) and leave_out(delta, k)
    return made


@compiled
def random_move(
    problem: Problem, work: Workspace, per_second: float, delta: DeltaEvaluation, length: int, draw: float
) -> bool:
    """A move that does not look at overflow; False if there is nothing to edit."""
    extras = work.counters[EXTRAS]
    if draw < 0.3:
        return _delete(work, delta, 1)
    if draw < 0.65:
        return shift(problem, work, delta, length)
    if draw < 0.67:
        return _unpage(problem, work, per_second, delta)
    if draw < 0.71:
        return _exchange(problem, work, per_second, delta)
    if draw < 0.75:
        return extras > 0 and _flip(problem, work, per_second, delta, work.extra[below(work, extras)])
    if draw < 0.9:
        return _split_anywhere(problem, work, per_second, delta, length)
    return _delete(work, delta, 4)
