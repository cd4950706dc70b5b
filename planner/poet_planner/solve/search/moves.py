# SPDX-License-Identifier: Apache-2.0
"""Moves of the annealing: edits of the current state, drawn at random, in compiled code.

What comes back in a restore and what does not is decided by what it costs: energy, and time at the price that the
annealer puts on a second over the deadline just then.
"""

from __future__ import annotations

import numpy as np

from poet_planner.solve.jit import compiled
from poet_planner.solve.search.delta_evaluation import (
    CHANGES,
    EDITS,
    LAST,
    LEFT_OUT,
    PER_PLACE,
    leave_out,
    live_before,
    next_use,
    put_in,
)
from poet_planner.solve.search.evaluation import EXTRAS, LIVES, STAMP

COMPUTE_TRIES = 48
# How often an input is kept rather than restored, and how often a value comes back the cheaper way.
KEPT = 0.3
CHEAPER = 0.75
# How often a restore brings everything back, all of it the cheaper way: a long chain hardly ever comes about else.
WHOLE = 0.25
UNPAGE_TRIES = 4
EXCHANGE_TRIES = 8
MOST_LIVES = 500
# Draws of `random_move` from here to there change how something is brought back, which may make room for more.
MAKES_ROOM = (0.71, 0.8)


@compiled
def random(w):  # type: ignore[no-untyped-def]
    """Uniform in [0, 1): xorshift64*."""
    x = w.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    w.random[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@compiled
def below(w, count):  # type: ignore[no-untyped-def]
    return min(count - 1, int(random(w) * count))


@compiled
def _restore_cost(p, w, per_second, v):  # type: ignore[no-untyped-def]
    """Cost of bringing v back the cheaper way, its own inputs being at hand; infinite where there is no way."""
    j = p.producer[v]
    cost = _compute_cost(p, per_second, j) if p.recomputable[j] else np.inf
    if p.pageable[v]:
        cost = min(cost, _page_cost(p, w, per_second, v))
    return cost


@compiled
def _compute_cost(p, per_second, j):  # type: ignore[no-untyped-def]
    return p.node_energy[j] + per_second * p.node_time[j]


@compiled
def _page_cost(p, w, per_second, v):  # type: ignore[no-untyped-def]
    cost = p.in_energy[v] + per_second * p.in_time[v]
    return cost if w.paged[v] else cost + p.out_energy[v] + per_second * p.out_time[v]


@compiled
def _pages(p, w, per_second, v, cheaper):  # type: ignore[no-untyped-def]
    """Whether to restore v from the card and not by its producer: so often the cheaper of the two."""
    j = p.producer[v]
    if not p.pageable[v]:
        return False
    if not p.recomputable[j]:
        return True
    return (_page_cost(p, w, per_second, v) <= _compute_cost(p, per_second, j)) == (random(w) < cheaper)


@compiled
def _restore(p, w, per_second, t, key, v, paged):  # type: ignore[no-untyped-def]
    """Bring v back right before what is at ``key``; False if that takes too many edits.

    Inputs that would not be in RAM there are restored too, or simply kept until then, at random.
    """
    n = p.node_time.size
    w.counters[STAMP] += 1
    stamp = w.counters[STAMP]
    w.inserted[0] = n + v if paged else p.producer[v]
    w.stamp[v] = stamp
    count = 1
    looked_at = 0
    kept, cheaper = KEPT, CHEAPER
    if random(w) < WHOLE:
        kept, cheaper = 0.0, 1.0
    while looked_at < count and count < COMPUTE_TRIES:
        event = w.inserted[looked_at]
        looked_at += 1
        if event >= n:
            continue
        for own in range(p.own[event], p.own[event + 1]):
            w.stamp[own] = stamp
        for k in range(p.input_start[event], p.input_start[event + 1]):
            u = p.input_value[k]
            if w.stamp[u] == stamp:
                continue
            w.stamp[u] = stamp
            if count >= COMPUTE_TRIES or live_before(w, t, key, u) or random(w) < kept:
                continue
            if _pages(p, w, per_second, u, cheaper):
                w.inserted[count] = n + u
                count += 1
            elif p.recomputable[p.producer[u]]:
                w.inserted[count] = p.producer[u]
                count += 1
    for k in range(count):
        if not put_in(t, key, w.inserted[count - 1 - k]):
            return False
        # What was put in there itself has moved on by one.
        key += key % PER_PLACE != LAST
    return True


@compiled
def split_overflow(p, w, per_second, t, length, changed_first):  # type: ignore[no-untyped-def]
    """At an overflow, drop a value idle there and restore it before its next use.

    ``changed_first``: always rather one that is there because of the edits; else every second time.
    """
    key = _overflow(p, w, t, length)
    if key < 0:
        return False
    v = _idle(p, w, per_second, t, key, changed_first)
    if v < 0:
        return False
    paged = _pages(p, w, per_second, v, CHEAPER)
    if not paged and not p.recomputable[p.producer[v]]:
        return False
    use = next_use(p, w, t, key, v)
    return use >= 0 and _restore(p, w, per_second, t, use, v, paged)


@compiled
def _overflow(p, w, t, length):  # type: ignore[no-untyped-def]
    """Key of an event whose RAM is over the budget, the worst or any; -1 if there is none."""
    key = -1
    found = 0
    worst = -1
    most = p.budget
    for k in range(length):
        if t.memory[k] > p.budget:
            found += 1
            if below(w, found) == 0:
                key = k * PER_PLACE + LAST
            if t.memory[k] > most:
                worst, most = k * PER_PLACE + LAST, t.memory[k]
    for e in range(t.counters[EDITS]):
        if t.edit_event[e] != LEFT_OUT and t.edit_memory[e] > p.budget:
            found += 1
            if below(w, found) == 0:
                key = t.edit_key[e]
            if t.edit_memory[e] > most:
                worst, most = t.edit_key[e], t.edit_memory[e]
    return worst if found > 0 and random(w) < 0.3 else key


@compiled
def _idle(p, w, per_second, t, key, changed_first):  # type: ignore[no-untyped-def]
    """A value in RAM at ``key`` that is not used there, rather a large one that is cheap to restore; -1 if none is."""
    n = p.node_time.size
    w.counters[STAMP] += 1
    busy = w.counters[STAMP]
    place = key // PER_PLACE
    event = w.kept[place]
    if key % PER_PLACE != LAST:
        for e in range(t.counters[EDITS]):
            if t.edit_key[e] == key:
                event = t.edit_event[e]
    if event < n:
        for k in range(p.input_start[event], p.input_start[event + 1]):
            w.stamp[p.input_value[k]] = busy
        for v in range(p.own[event], p.own[event + 1]):
            w.stamp[v] = busy
    else:
        w.stamp[event - n] = busy
    changes = t.counters[CHANGES]
    for c in range(changes):
        if t.change_sign[c] < 0 and t.change_close[c] < key < t.change_open[c]:
            w.stamp[t.change_value[c]] = busy
    tries = 1 + below(w, 4)
    idle = -1
    best = -1.0
    found = 0
    # Of very many lives only every so-many-th, where that comes to something.
    stride = 1 + w.counters[LIVES] // MOST_LIVES
    count = w.counters[LIVES] + changes
    # The first are chosen rather than the last.
    offset = 0 if changed_first or random(w) < 0.5 else changes
    while idle < 0 and stride > 0:
        for k in range(below(w, stride), count, stride):
            v = _live_at(w, t, key, k + offset if k + offset < count else k + offset - count)
            if v >= 0 and w.stamp[v] != busy and p.size[v] > 0:
                found += 1
                if found <= tries or below(w, found) < tries:
                    score = p.size[v] / (_restore_cost(p, w, per_second, v) + 1e-12) * (0.5 + random(w))
                    if score > best:
                        best = score
                        idle = v
        stride = 1 if stride > 1 else 0
    return idle


@compiled
def _live_at(w, t, key, k):  # type: ignore[no-untyped-def]
    """The value whose change, or life, has number k, if it is in RAM at ``key`` and neither made nor used last there.

    -1 if it is not.
    """
    changes = t.counters[CHANGES]
    if k < changes:
        return t.change_value[k] if t.change_sign[k] > 0 and t.change_close[k] < key < t.change_open[k] else -1
    k -= changes
    place = key // PER_PLACE
    earliest = place + (key % PER_PLACE == LAST)
    return w.life_value[k] if w.life_start[k] < place and w.life_end[k] >= earliest else -1


@compiled
def _split_anywhere(p, w, per_second, t, length):  # type: ignore[no-untyped-def]
    """Restore a random input of a random node just before it."""
    n = p.node_time.size
    place = below(w, length)
    event = w.kept[place]
    if event >= n or p.input_start[event] == p.input_start[event + 1]:
        return False
    v = p.input_value[p.input_start[event] + below(w, p.input_start[event + 1] - p.input_start[event])]
    paged = _pages(p, w, per_second, v, CHEAPER)
    if not paged and not p.recomputable[p.producer[v]]:
        return False
    return _restore(p, w, per_second, t, place * PER_PLACE + LAST, v, paged)


@compiled
def _delete(w, t, most):  # type: ignore[no-untyped-def]
    """Leave out up to ``most`` neighbouring extra events."""
    extras = w.counters[EXTRAS]
    if extras == 0:
        return False
    start = below(w, extras)
    for k in range(start, min(extras, start + 1 + below(w, most))):
        leave_out(t, w.extra[k])
    return True


@compiled
def _flip(p, w, per_second, t, place):  # type: ignore[no-untyped-def]
    """Turn the extra event at ``place``: a compute into page-ins of its values, a page-in into a compute."""
    n = p.node_time.size
    event = w.kept[place]
    key = place * PER_PLACE + LAST
    if event < n:
        count = 0
        for v in range(p.own[event], p.own[event + 1]):
            if p.pageable[v]:
                count += put_in(t, key, n + v)
        return count > 0 and leave_out(t, place)
    v = event - n
    return p.recomputable[p.producer[v]] and _restore(p, w, per_second, t, key, v, False) and leave_out(t, place)


@compiled
def _exchange(p, w, per_second, t):  # type: ignore[no-untyped-def]
    """Two flips, one each way: where RAM and time are both short, either alone breaks a limit."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    if extras < 2:
        return False
    one = w.extra[below(w, extras)]
    for _ in range(EXCHANGE_TRIES):
        two = w.extra[below(w, extras)]
        if (w.kept[one] < n) != (w.kept[two] < n):
            return _flip(p, w, per_second, t, one) and _flip(p, w, per_second, t, two)
    return False


@compiled
def _unpage(p, w, per_second, t):  # type: ignore[no-untyped-def]
    """Compute a paged value again wherever it is paged in: only all of that together saves the page-out."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    event = -1
    for _ in range(min(extras, UNPAGE_TRIES)):
        event = w.kept[w.extra[below(w, extras)]]
        if event >= n:
            break
    if event < n:
        return False
    v = event - n
    for at in range(w.touch_start[v], w.touch_start[v + 1]):
        place = w.touch_place[at]
        if w.kept[place] == event and not _flip(p, w, per_second, t, place):
            return False
    return True


@compiled
def shift(p, w, t, length):  # type: ignore[no-untyped-def]
    """Move an event, or a block of up to six, by a log-uniform distance as far as precedence allows."""
    n = p.node_time.size
    size = 1 if random(w) < 0.5 else 1 + below(w, 6)
    if length <= size:
        return False
    begin = below(w, length - size + 1)
    if random(w) < 0.5 and w.counters[EXTRAS] > 0:
        begin = min(w.extra[below(w, w.counters[EXTRAS])], length - size)
    distance = int(np.exp(random(w) * np.log(length)))
    end = begin + size
    if random(w) < 0.5:
        target = max(0, begin - distance)
        for k in range(begin, end):
            event = w.kept[k]
            if event >= n:
                first = w.first[p.producer[event - n]]
                if first < begin:
                    target = max(target, first + 1)
            else:
                for k_in in range(p.input_start[event], p.input_start[event + 1]):
                    first = w.first[p.producer[p.input_value[k_in]]]
                    if first < begin:
                        target = max(target, first + 1)
        if target >= begin:
            return False
    else:
        target = min(length, end + distance)
        for k in range(begin, end):
            event = w.kept[k]
            if event < n and w.first[event] == k:
                for v in range(p.own[event], p.own[event + 1]):
                    for at in range(w.touch_start[v], w.touch_start[v + 1]):
                        if w.touch_place[at] >= end:
                            target = min(target, w.touch_place[at])
                            break
        if target <= end:
            return False
    made = True
    for k in range(begin, end):
        made = made and put_in(t, target * PER_PLACE + LAST, w.kept[k]) and leave_out(t, k)
    return made


@compiled
def random_move(p, w, per_second, t, length, draw):  # type: ignore[no-untyped-def]
    """A move that has nothing to do with overflow; False if it comes to nothing."""
    extras = w.counters[EXTRAS]
    if draw < 0.3:
        return _delete(w, t, 1)
    if draw < 0.65:
        return shift(p, w, t, length)
    if draw < 0.67:
        return _unpage(p, w, per_second, t)
    if draw < 0.71:
        return _exchange(p, w, per_second, t)
    if draw < 0.75:
        return extras > 0 and _flip(p, w, per_second, t, w.extra[below(w, extras)])
    if draw < 0.9:
        return _split_anywhere(p, w, per_second, t, length)
    return _delete(w, t, 4)
