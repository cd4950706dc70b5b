"""Simulated annealing over the contract's own schedules, in compiled code.

A state is a sequence of events (see `evaluation`). Any whose first computes stand in a topological order is a schedule,
so a move can insert events anywhere behind those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.compiled import compiled
from poet_planner.solve.evaluation import EXTRAS, LIVES, STAMP, evaluate
from poet_planner.solve.problem import Floats, Ints

COMPUTE_TRIES = 24
REPAIRS = 4
UNPAGE_TRIES = 4
EXCHANGE_TRIES = 8
PRUNE_TRIES = 8


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
def _mark_live(p, w, place):  # type: ignore[no-untyped-def]
    """Stamp the values in RAM just before the event at ``place``; returns the stamp."""
    w.counters[STAMP] += 1
    stamp = w.counters[STAMP]
    for k in range(w.counters[LIVES]):
        if w.life_start[k] < place and w.life_end[k] >= place:
            w.stamp[w.life_value[k]] = stamp
    return stamp


@compiled
def _restoration(p, w, place, v, paged):  # type: ignore[no-untyped-def]
    """Events that bring v back at ``place``, last one first, in ``w.inserted``; returns how many.

    Inputs that are not in RAM there are restored too, or simply kept until then, at random.
    """
    n = p.node_time.size
    stamp = _mark_live(p, w, place)
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
            if count >= COMPUTE_TRIES or _random(w) < 0.3:
                continue
            if _pages(p, w, u):
                w.inserted[count] = n + u
                count += 1
            elif p.recomputable[p.producer[u]]:
                w.inserted[count] = p.producer[u]
                count += 1
    return count


@compiled
def _insert(events, length, place, count, w):  # type: ignore[no-untyped-def]
    """Candidate = ``events`` with the restoration put in at ``place``; -1 if it grows too long."""
    if length + count > w.candidate.size:
        return -1
    for k in range(place):
        w.candidate[k] = events[k]
    for k in range(count):
        w.candidate[place + k] = w.inserted[count - 1 - k]
    for k in range(place, length):
        w.candidate[count + k] = events[k]
    return length + count


@compiled
def _next_use(p, events, place, v):  # type: ignore[no-untyped-def]
    """First event from ``place`` on that needs v."""
    n = p.node_time.size
    k = place
    while True:
        event = events[k]
        if event < n:
            for k_in in range(p.input_start[event], p.input_start[event + 1]):
                if p.input_value[k_in] == v:
                    return k
        k += 1


@compiled
def _split_overflow(p, w, length):  # type: ignore[no-untyped-def]
    """At an overflow of the evaluated state, drop a value idle there and restore it before its next use."""
    n = p.node_time.size
    place = -1
    found = 0
    worst = -1
    for k in range(length):
        if w.memory[k] > p.budget:
            found += 1
            if _below(w, found) == 0:
                place = k
            if worst < 0 or w.memory[k] > w.memory[worst]:
                worst = k
    if place < 0:
        return -1
    if _random(w) < 0.3:
        place = worst
    w.counters[STAMP] += 1
    busy = w.counters[STAMP]
    event = w.kept[place]
    if event < n:
        for k in range(p.input_start[event], p.input_start[event + 1]):
            w.stamp[p.input_value[k]] = busy
    tries = 1 + _below(w, 4)
    life = -1
    best = -1.0
    found = 0
    for k in range(w.counters[LIVES]):
        v = w.life_value[k]
        if w.life_start[k] < place and w.life_end[k] > place and w.stamp[v] != busy and p.size[v] > 0:
            found += 1
            if found <= tries or _below(w, found) < tries:
                score = p.size[v] / (_restore_energy(p, w, v) + 1e-12) * (0.5 + _random(w))
                if score > best:
                    best = score
                    life = k
    if life < 0:
        return -1
    v = w.life_value[life]
    use = _next_use(p, w.kept, place + 1, v)
    paged = _pages(p, w, v)
    if not paged and not p.recomputable[p.producer[v]]:
        return -1
    count = _restoration(p, w, use, v, paged)
    return _insert(w.kept, length, use, count, w)


@compiled
def _split_anywhere(p, w, events, length):  # type: ignore[no-untyped-def]
    """Restore a random input of a random node just before it."""
    n = p.node_time.size
    use = _below(w, length)
    event = events[use]
    if event >= n or p.input_start[event] == p.input_start[event + 1]:
        return -1
    v = p.input_value[p.input_start[event] + _below(w, p.input_start[event + 1] - p.input_start[event])]
    paged = _pages(p, w, v)
    if not paged and not p.recomputable[p.producer[v]]:
        return -1
    count = _restoration(p, w, use, v, paged)
    return _insert(events, length, use, count, w)


@compiled
def _delete(w, events, length, most):  # type: ignore[no-untyped-def]
    """Leave out up to ``most`` neighbouring extra events."""
    extras = w.counters[EXTRAS]
    if extras == 0:
        return -1
    start = _below(w, extras)
    stop = min(extras, start + 1 + _below(w, most))
    # w.extra holds places in falling order
    at = 0
    k = stop - 1
    for place in range(length):
        if k >= start and w.extra[k] == place:
            k -= 1
            continue
        w.candidate[at] = events[place]
        at += 1
    return at


@compiled
def _flip(p, w, events, length):  # type: ignore[no-untyped-def]
    """Turn an extra compute into page-ins of its values, or a page-in into a compute."""
    extras = w.counters[EXTRAS]
    if extras == 0:
        return -1
    return _flipped(p, w, events, length, w.extra[_below(w, extras)])


@compiled
def _exchange(p, w, events, length, other):  # type: ignore[no-untyped-def]
    """Two flips, one each way: where RAM and time are both short, either alone breaks a limit. ``other`` is scratch."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    if extras < 2:
        return -1
    one = _below(w, extras)
    for _ in range(EXCHANGE_TRIES):
        two = _below(w, extras)
        if (events[w.extra[one]] < n) != (events[w.extra[two]] < n):
            # The later one first: what is before it keeps its place.
            new = _flipped(p, w, events, length, w.extra[min(one, two)])
            for k in range(new):
                other[k] = w.candidate[k]
            return -1 if new < 0 else _flipped(p, w, other, new, w.extra[max(one, two)])
    return -1


@compiled
def _flipped(p, w, events, length, place):  # type: ignore[no-untyped-def]
    """Turn the extra event at ``place``: a compute into page-ins of its values, a page-in into a compute."""
    n = p.node_time.size
    event = events[place]
    count = 0
    if event < n:
        for v in range(p.own[event], p.own[event + 1]):
            if p.pageable[v]:
                w.inserted[count] = n + v
                count += 1
        if count == 0:
            return -1
    else:
        j = p.producer[event - n]
        if not p.recomputable[j]:
            return -1
        count = _restoration(p, w, place, event - n, False)
    longer = _insert(events, length, place, count, w)
    if longer < 0:
        return -1
    for k in range(place + count, longer - 1):
        w.candidate[k] = w.candidate[k + 1]
    return longer - 1


@compiled
def _unpage(p, w, events, length):  # type: ignore[no-untyped-def]
    """Compute a paged value again wherever it is paged in: only all of that together saves the page-out."""
    n = p.node_time.size
    extras = w.counters[EXTRAS]
    event = -1
    for _ in range(min(extras, UNPAGE_TRIES)):
        event = events[w.extra[_below(w, extras)]]
        if event >= n:
            break
    if event < n or not p.recomputable[p.producer[event - n]]:
        return -1
    at = 0
    for k in range(length):
        if at + COMPUTE_TRIES >= w.candidate.size:
            return -1
        if events[k] != event:
            w.candidate[at] = events[k]
            at += 1
            continue
        count = _restoration(p, w, k, event - n, False)
        for back in range(count):
            w.candidate[at + back] = w.inserted[count - 1 - back]
        at += count
    return at


@compiled
def _shift(p, w, events, length):  # type: ignore[no-untyped-def]
    """Move an event, or a block of up to six, by a log-uniform distance as far as precedence allows."""
    n = p.node_time.size
    size = 1 if _random(w) < 0.5 else 1 + _below(w, 6)
    if length <= size:
        return -1
    begin = _below(w, length - size + 1)
    if _random(w) < 0.5 and w.counters[EXTRAS] > 0:
        begin = min(w.extra[_below(w, w.counters[EXTRAS])], length - size)
    distance = int(np.exp(_random(w) * np.log(length)))
    for j in range(n):
        w.first[j] = length
    for k in range(length - 1, -1, -1):
        if events[k] < n:
            w.first[events[k]] = k
    end = begin + size
    if _random(w) < 0.5:
        target = max(0, begin - distance)
        for k in range(begin, end):
            event = events[k]
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
            return -1
        for k in range(length):
            w.candidate[k] = events[k]
        for k in range(size):
            w.candidate[target + k] = events[begin + k]
        for k in range(target, begin):
            w.candidate[size + k] = events[k]
    else:
        target = min(length - size, begin + distance)
        w.counters[STAMP] += 1
        stamp = w.counters[STAMP]
        moved_first = False
        for k in range(begin, end):
            event = events[k]
            if event < n and w.first[event] == k:
                moved_first = True
                for v in range(p.own[event], p.own[event + 1]):
                    w.stamp[v] = stamp
        if moved_first:
            for k in range(end, target + size):
                event = events[k]
                blocked = False
                if event >= n:
                    blocked = w.stamp[event - n] == stamp
                else:
                    for k_in in range(p.input_start[event], p.input_start[event + 1]):
                        if w.stamp[p.input_value[k_in]] == stamp:
                            blocked = True
                if blocked:
                    target = k - size
                    break
        if target <= begin:
            return -1
        for k in range(length):
            w.candidate[k] = events[k]
        for k in range(begin, target):
            w.candidate[k] = events[size + k]
        for k in range(size):
            w.candidate[target + k] = events[begin + k]
    return length


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
CURRENT_LENGTH, BEST_LENGTH, MOVES, OVER_BUDGET, LATE, SPLIT_REPAIRS = range(6)


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
def anneal(p, w, trial, spare, state, moves):  # type: ignore[no-untyped-def]
    """Try ``moves`` moves at falling temperature.

    ``w`` holds the evaluation of the current state and ``trial`` that of the one tried; they change places when it is
    accepted. ``spare`` holds what may take the place of ``trial``.
    """
    f = state.figures
    evaluate(p, state.current, state.lengths[CURRENT_LENGTH], w)
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
        if f[OVERFLOW] > 0.0 and _random(w) < f[SPLITTING]:
            new = _split_overflow(p, w, length)
            repairs = state.lengths[SPLIT_REPAIRS]
        else:
            draw = _random(w)
            if draw < 0.3:
                new = _delete(w, state.current, length, 1)
            elif draw < 0.65:
                new = _shift(p, w, state.current, length)
            elif draw < 0.67:
                new = _unpage(p, w, state.current, length)
            elif draw < 0.71:
                new = _exchange(p, w, state.current, length, trial.candidate)
            elif draw < 0.75:
                new = _flip(p, w, state.current, length)
            elif draw < 0.9:
                new = _split_anywhere(p, w, state.current, length)
                prune = draw < 0.8
            else:
                new = _delete(w, state.current, length, 4)
        if new < 0:
            continue
        result = evaluate(p, w.candidate, new, trial)
        now = f[ENERGY] + f[PER_BYTE] * f[OVERFLOW] + f[PER_SECOND] * _late(p, f[TIME])
        # The Metropolis test turned round: what the new state may cost. Repairs hardly ever save energy.
        wanted = now - f[TEMPERATURE] * np.log(_random(w) + 1e-300)
        while result.length >= 0 and result.overflow > 0.0 and repairs > 0 and result.energy <= wanted:
            repairs -= 1
            new = _split_overflow(p, trial, result.length)
            if new < 0:
                break
            result = evaluate(p, trial.candidate, new, trial)
        if result.length < 0:
            continue
        if prune:
            result, trial, spare = _pruned(p, f, result, trial, spare)
        if _cost(p, f, result) <= wanted:
            _accept(p, trial, state, result)
            w, trial = trial, w


@compiled
def _pruned(p, f, result, w, spare):  # type: ignore[no-untyped-def]
    """Leave out what the state in ``w`` can do without, as far as a few tries show.

    Together with an event put in, this exchanges a large value for some small ones. Returns the evaluation, the
    workspace that holds it, and the other one.
    """
    for _ in range(PRUNE_TRIES):
        new = _delete(w, w.kept, result.length, 1)
        if new < 0:
            break
        fewer = evaluate(p, w.candidate, new, spare)
        if fewer.length >= 0 and fewer.overflow <= result.overflow and _cost(p, f, fewer) < _cost(p, f, result):
            result = fewer
            w, spare = spare, w
    return result, w, spare


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
