"""Simulated annealing over the contract's own schedules, in compiled code.

A state is a sequence of events (see `evaluation`). Any whose first computes stand in a topological order is a schedule,
so a move can insert events anywhere behind those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.compiled import compiled
from poet_planner.solve.evaluation import EXTRAS, LIVES, STAMP, evaluate, index
from poet_planner.solve.problem import Floats, Ints
from poet_planner.solve.trial import (
    CHANGES,
    DROPPED,
    EDITS,
    LAST,
    LEFT_OUT,
    PER_PLACE,
    copy_edits,
    edited,
    estimate,
    leave_out,
    live_before,
    next_use,
    put_in,
    take_back,
    unedited,
)

COMPUTE_TRIES = 24
REPAIRS = 4
UNPAGE_TRIES = 4
EXCHANGE_TRIES = 8
PRUNE_TRIES = 8
MOST_LIVES = 500


@compiled
def _random(w):  # type: ignore[no-untyped-def]
    """Uniform in [0, 1): xorshift64*."""
    x = w.random[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    w.random[0] = x
    return np.float64((x * np.uint64(2685821657736338717)) >> np.uint64(11)) / 9007199254740992.0


@compiled
def _below(w, count):  # type: ignore[no-untyped-def]
    return min(count - 1, int(_random(w) * count))


@compiled
def _restore_energy(p, w, v):  # type: ignore[no-untyped-def]
    """Energy of bringing v back the cheaper way, its own inputs being at hand; infinite where there is no way."""
    j = p.producer[v]
    cost = p.node_energy[j] if p.recomputable[j] else np.inf
    if p.pageable[v]:
        cost = min(cost, p.in_energy[v] + (0.0 if w.paged[v] else p.out_energy[v]))
    return cost


@compiled
def _pages(p, w, v):  # type: ignore[no-untyped-def]
    """Whether to restore v from the card and not by its producer: mostly the cheaper of the two."""
    j = p.producer[v]
    if not p.pageable[v]:
        return False
    if not p.recomputable[j]:
        return True
    page = p.in_energy[v] + (0.0 if w.paged[v] else p.out_energy[v])
    return (page <= p.node_energy[j]) == (_random(w) < 0.75)


@compiled
def _restore(p, w, t, key, v, paged):  # type: ignore[no-untyped-def]
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
            if count >= COMPUTE_TRIES or live_before(w, t, key, u) or _random(w) < 0.3:
                continue
            if _pages(p, w, u):
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
def _split_overflow(p, w, t, length, changed_first):  # type: ignore[no-untyped-def]
    """At an overflow, drop a value idle there and restore it before its next use.

    ``changed_first``: rather one that is there because of the edits.
    """
    key = _overflow(p, w, t, length)
    if key < 0:
        return False
    v = _idle(p, w, t, key, changed_first)
    if v < 0:
        return False
    paged = _pages(p, w, v)
    if not paged and not p.recomputable[p.producer[v]]:
        return False
    use = next_use(p, w, t, key, v)
    return use >= 0 and _restore(p, w, t, use, v, paged)


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
            if _below(w, found) == 0:
                key = k * PER_PLACE + LAST
            if t.memory[k] > most:
                worst, most = k * PER_PLACE + LAST, t.memory[k]
    for e in range(t.counters[EDITS]):
        if t.edit_event[e] != LEFT_OUT and t.edit_memory[e] > p.budget:
            found += 1
            if _below(w, found) == 0:
                key = t.edit_key[e]
            if t.edit_memory[e] > most:
                worst, most = t.edit_key[e], t.edit_memory[e]
    return worst if found > 0 and _random(w) < 0.3 else key


@compiled
def _idle(p, w, t, key, changed_first):  # type: ignore[no-untyped-def]
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
    tries = 1 + _below(w, 4)
    idle = -1
    best = -1.0
    found = 0
    # Of very many lives only every so-many-th, where that comes to something.
    stride = 1 + w.counters[LIVES] // MOST_LIVES
    count = w.counters[LIVES] + changes
    # The first are chosen rather than the last.
    offset = 0 if changed_first else changes
    while idle < 0 and stride > 0:
        for k in range(_below(w, stride), count, stride):
            v = _live_at(w, t, key, k + offset if k + offset < count else k + offset - count)
            if v >= 0 and w.stamp[v] != busy and p.size[v] > 0:
                found += 1
                if found <= tries or _below(w, found) < tries:
                    score = p.size[v] / (_restore_energy(p, w, v) + 1e-12) * (0.5 + _random(w))
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
def _split_anywhere(p, w, t, length):  # type: ignore[no-untyped-def]
    """Restore a random input of a random node just before it."""
    n = p.node_time.size
    place = _below(w, length)
    event = w.kept[place]
    if event >= n or p.input_start[event] == p.input_start[event + 1]:
        return False
    v = p.input_value[p.input_start[event] + _below(w, p.input_start[event + 1] - p.input_start[event])]
    paged = _pages(p, w, v)
    if not paged and not p.recomputable[p.producer[v]]:
        return False
    return _restore(p, w, t, place * PER_PLACE + LAST, v, paged)


@compiled
def _delete(w, t, most):  # type: ignore[no-untyped-def]
    """Leave out up to ``most`` neighbouring extra events."""
    extras = w.counters[EXTRAS]
    if extras == 0:
        return False
    start = _below(w, extras)
    for k in range(start, min(extras, start + 1 + _below(w, most))):
        leave_out(t, w.extra[k])
    return True


@compiled
def _flip(p, w, t, place):  # type: ignore[no-untyped-def]
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
    return p.recomputable[p.producer[v]] and _restore(p, w, t, key, v, False) and leave_out(t, place)


@compiled
def _exchange(p, w, t):  # type: ignore[no-untyped-def]
    """Two flips, one each way: where RAM and time are both short, either alone breaks a limit."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    if extras < 2:
        return False
    one = w.extra[_below(w, extras)]
    for _ in range(EXCHANGE_TRIES):
        two = w.extra[_below(w, extras)]
        if (w.kept[one] < n) != (w.kept[two] < n):
            return _flip(p, w, t, one) and _flip(p, w, t, two)
    return False


@compiled
def _unpage(p, w, t):  # type: ignore[no-untyped-def]
    """Compute a paged value again wherever it is paged in: only all of that together saves the page-out."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    event = -1
    for _ in range(min(extras, UNPAGE_TRIES)):
        event = w.kept[w.extra[_below(w, extras)]]
        if event >= n:
            break
    if event < n:
        return False
    v = event - n
    for at in range(w.touch_start[v], w.touch_start[v + 1]):
        place = w.touch_place[at]
        if w.kept[place] == event and not _flip(p, w, t, place):
            return False
    return True


@compiled
def _shift(p, w, t, length):  # type: ignore[no-untyped-def]
    """Move an event, or a block of up to six, by a log-uniform distance as far as precedence allows."""
    n = p.node_time.size
    size = 1 if _random(w) < 0.5 else 1 + _below(w, 6)
    if length <= size:
        return False
    begin = _below(w, length - size + 1)
    if _random(w) < 0.5 and w.counters[EXTRAS] > 0:
        begin = min(w.extra[_below(w, w.counters[EXTRAS])], length - size)
    distance = int(np.exp(_random(w) * np.log(length)))
    end = begin + size
    if _random(w) < 0.5:
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


class State(NamedTuple):
    """Where one annealer stands; it changes in place.

    ``figures`` holds, in the order of the constants below, the current energy, time and overflow, the penalties per
    byte over the budget and per second over the deadline, the temperature, its factor per move, the best energy since
    the last start, and the share of the moves of a state over the budget that split an overflow (the repairs after such
    a move are among ``lengths``).
    """

    current: Ints
    best: Ints
    figures: Floats
    lengths: Ints


ENERGY, TIME, OVERFLOW, PER_BYTE, PER_SECOND, TEMPERATURE, COOLING, BEST, SPLITTING = range(9)
CURRENT_LENGTH, BEST_LENGTH, MOVES, OVER_BUDGET, LATE, SPLIT_REPAIRS, CHANGED_FIRST = range(7)


@compiled
def _late(p, time):  # type: ignore[no-untyped-def]
    over = time - p.deadline * (1.0 + 1e-10)
    return over if over > 0.0 else 0.0


@compiled
def _accept(p, w, state, result):  # type: ignore[no-untyped-def]
    for k in range(result.length):
        state.current[k] = w.kept[k]
    state.lengths[CURRENT_LENGTH] = result.length
    f = state.figures
    f[ENERGY] = result.energy
    f[TIME] = result.time
    f[OVERFLOW] = result.overflow
    if result.overflow == 0.0 and _late(p, result.time) == 0.0 and result.energy < f[BEST]:
        f[BEST] = result.energy
        for k in range(result.length):
            state.best[k] = w.kept[k]
        state.lengths[BEST_LENGTH] = result.length


@compiled
def start_from(p, w, state, events, length):  # type: ignore[no-untyped-def]
    """Make ``events`` the current state; False if it is no schedule."""
    result = evaluate(p, events, length, w)
    if result.length < 0:
        return False
    state.figures[BEST] = np.inf
    _accept(p, w, state, result)
    return True


@compiled
def anneal(p, w, other, t, spare, state, moves):  # type: ignore[no-untyped-def]
    """Try ``moves`` moves at falling temperature.

    ``w`` holds the evaluation of the current state, ``t`` the edits that are tried; what is accepted is evaluated in
    ``other``, and they change places. ``spare`` holds what may take the place of ``t``.
    """
    f = state.figures
    changed_first = state.lengths[CHANGED_FIRST] > 0
    evaluate(p, state.current, state.lengths[CURRENT_LENGTH], w)
    if not index(p, w, state.lengths[CURRENT_LENGTH]):
        return
    for _ in range(moves):
        state.lengths[MOVES] += 1
        f[TEMPERATURE] *= f[COOLING]
        if state.lengths[MOVES] % 100 == 0:
            _adapt(f, PER_BYTE, state.lengths, OVER_BUDGET)
            _adapt(f, PER_SECOND, state.lengths, LATE)
        state.lengths[OVER_BUDGET] += f[OVERFLOW] > 0.0
        state.lengths[LATE] += _late(p, f[TIME]) > 0.0
        length = state.lengths[CURRENT_LENGTH]
        repairs = REPAIRS
        prune = False
        unedited(w, t, length)
        if f[OVERFLOW] > 0.0 and _random(w) < f[SPLITTING]:
            made = _split_overflow(p, w, t, length, changed_first)
            repairs = state.lengths[SPLIT_REPAIRS]
        else:
            draw = _random(w)
            prune = 0.75 <= draw < 0.8
            made = _edited(p, w, t, length, draw)
        if not made:
            continue
        result = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], t)
        now = f[ENERGY] + f[PER_BYTE] * f[OVERFLOW] + f[PER_SECOND] * _late(p, f[TIME])
        # The Metropolis test turned round: what the new state may cost. Repairs hardly ever save energy.
        wanted = now - f[TEMPERATURE] * np.log(_random(w) + 1e-300)
        while result.length >= 0 and result.overflow > 0.0 and repairs > 0 and result.energy <= wanted:
            repairs -= 1
            if not _split_overflow(p, w, t, length, changed_first):
                break
            result = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], t)
        if result.length < 0:
            continue
        if prune:
            result, t, spare = _pruned(p, w, f, result, length, t, spare)
        if _cost(p, f, result) > wanted:
            continue
        result = evaluate(p, w.candidate, edited(w, t, length, w.candidate), other)
        if result.length >= 0 and _cost(p, f, result) <= wanted and index(p, other, result.length):
            _accept(p, other, state, result)
            w, other = other, w


@compiled
def _edited(p, w, t, length, draw):  # type: ignore[no-untyped-def]
    """A move that has nothing to do with overflow; False if it comes to nothing."""
    extras = w.counters[EXTRAS]
    if draw < 0.3:
        return _delete(w, t, 1)
    if draw < 0.65:
        return _shift(p, w, t, length)
    if draw < 0.67:
        return _unpage(p, w, t)
    if draw < 0.71:
        return _exchange(p, w, t)
    if draw < 0.75:
        return extras > 0 and _flip(p, w, t, w.extra[_below(w, extras)])
    if draw < 0.9:
        return _split_anywhere(p, w, t, length)
    return _delete(w, t, 4)


@compiled
def _pruned(p, w, f, result, length, t, spare):  # type: ignore[no-untyped-def]
    """Leave out what the edited state can do without, as far as a few tries show.

    Together with an event put in, this exchanges a large value for some small ones. Returns the evaluation, the
    edits, and the other ones.
    """
    for _ in range(PRUNE_TRIES):
        copy_edits(t, spare)
        choice = _below(w, w.counters[EXTRAS] + t.counters[EDITS])
        if choice >= w.counters[EXTRAS]:
            if t.edit_event[choice - w.counters[EXTRAS]] == LEFT_OUT:
                continue
            take_back(spare, choice - w.counters[EXTRAS])
        elif t.memory[w.extra[choice]] == DROPPED:
            continue
        else:
            leave_out(spare, w.extra[choice])
        fewer = estimate(p, w, length, f[ENERGY], f[TIME], f[OVERFLOW], spare)
        if fewer.length >= 0 and fewer.overflow <= result.overflow and _cost(p, f, fewer) < _cost(p, f, result):
            result = fewer
            t, spare = spare, t
    return result, t, spare


@compiled
def _cost(p, f, result):  # type: ignore[no-untyped-def]
    """Energy, and penalties for what is over the limits."""
    return result.energy + f[PER_BYTE] * result.overflow + f[PER_SECOND] * _late(p, result.time)


@compiled
def _adapt(figures, penalty, lengths, counter):  # type: ignore[no-untyped-def]
    """Keep about half of the states within the limit."""
    if lengths[counter] > 60:
        figures[penalty] *= 1.1
    elif lengths[counter] < 40:
        figures[penalty] /= 1.1
    lengths[counter] = 0
