# SPDX-License-Identifier: Apache-2.0
"""What a few edits of an evaluated sequence would change, without evaluating all of it anew.

A pass from the last edit towards the first event, as `evaluation` makes one, but only through what it must look at: the
edits, and the events that make or use a *changed* value, one that would be in RAM there and was not, or the other way
round. Where no value is changed any more and no edit is left, all before is as it was; between two events that are
looked at, the RAM differs by the same number of bytes everywhere.

*Keys* say where in the edited sequence something is: ``place * PER_PLACE + LAST`` is the event at a place of the
sequence as it was, ``place * PER_PLACE + k`` the k-th that is put in right before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem
from poet_planner.solve.jit import compiled, inlined
from poet_planner.solve.search.evaluation import UNCOUNTED, Evaluation, capacity

PER_PLACE = 64
LAST = PER_PLACE - 1
MOST_EDITS = 256
MOST_CHANGES = 1024
# Behind all keys.
NO_KEY = 1 << 60
# An edit that takes the event at its place away.
LEFT_OUT = -1
# The RAM at an event that nothing would need.
DROPPED = -(1 << 60)


class Trial(NamedTuple):
    """Edits of a sequence, and what they would change: arrays made once.

    Attributes
    ----------
    edit_place, edit_event, edit_key : what is put in before which place, or `LEFT_OUT`; in the order of the sequence
    edit_memory : bytes of RAM at what is put in; `DROPPED` where nothing would need it
    memory : bytes of RAM at each event that was there
    change_value, change_sign, change_open, change_close : which value is changed from the key ``change_open`` back to
        ``change_close`` (-1: still): in RAM (1) or no longer in RAM (-1)
    changed, sign, change, touch, at : the values changed where the pass is; of each how, its number among the changes,
        its next event to the left, and its place in ``changed``
    computes, pages : (n,), (m,) how many more of a node's computes and of a value's page-ins lie behind the pass
    nodes, listed : the nodes of which some do, and (n,) whether a node is among them
    pending : keys of the first computes of such nodes that have still to be looked at
    values, value_at : the values of which some do, and their place in ``values``, or -1
    counters : `EDITS`, `CHANGES`, and of the pass `CHANGED`, `NODES`, `PENDING`, `VALUES`, `BYTES` (by which the RAM
        differs)
    """

    edit_place: Ints
    edit_event: Ints
    edit_key: Ints
    edit_memory: Ints
    memory: Ints
    change_value: Ints
    change_sign: Ints
    change_open: Ints
    change_close: Ints
    changed: Ints
    sign: Ints
    change: Ints
    touch: Ints
    at: Ints
    computes: Ints
    pages: Ints
    nodes: Ints
    listed: Flags
    pending: Ints
    values: Ints
    value_at: Ints
    counters: Ints


EDITS, CHANGES, CHANGED, NODES, PENDING, VALUES, BYTES = range(7)


def new_trial(problem: Problem) -> Trial:
    """For edits of sequences of up to `capacity` events."""
    n, m = len(problem.node_time), len(problem.size)
    changes = MOST_CHANGES + int(np.diff(problem.own).max(initial=0) + np.diff(problem.input_start).max(initial=0))

    def ints(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return Trial(
        edit_place=ints(MOST_EDITS),
        edit_event=ints(MOST_EDITS),
        edit_key=ints(MOST_EDITS),
        edit_memory=ints(MOST_EDITS),
        memory=ints(capacity(problem)),
        change_value=ints(changes),
        change_sign=ints(changes),
        change_open=ints(changes),
        change_close=ints(changes),
        changed=ints(m),
        sign=ints(m),
        change=ints(m),
        touch=ints(m),
        at=ints(m),
        computes=ints(n),
        pages=ints(m),
        nodes=ints(n),
        listed=np.zeros(n, dtype=np.bool_),
        pending=ints(n),
        values=ints(m),
        value_at=np.full(m, -1, dtype=np.int64),
        counters=ints(7),
    )


@compiled
def unedited(w, t, length):  # type: ignore[no-untyped-def]
    """Begin: no edits of the sequence in ``w``."""
    t.counters[EDITS] = 0
    t.counters[CHANGES] = 0
    for k in range(length):
        t.memory[k] = w.memory[k]


@compiled
def leave_out(t, place):  # type: ignore[no-untyped-def]
    """One edit more: without the event at ``place``; False if there are too many."""
    return _edit(t, place * PER_PLACE + LAST, place, LEFT_OUT)


@compiled
def put_in(t, key, event):  # type: ignore[no-untyped-def]
    """One edit more: ``event`` right before what is at ``key``; False if there are too many."""
    return _edit(t, key, key // PER_PLACE, event)


@compiled
def take_back(t, edit):  # type: ignore[no-untyped-def]
    """One edit less."""
    t.counters[EDITS] -= 1
    for e in range(edit, t.counters[EDITS]):
        t.edit_place[e] = t.edit_place[e + 1]
        t.edit_event[e] = t.edit_event[e + 1]
        t.edit_key[e] = t.edit_key[e + 1]
    _number(t, edit)


@compiled
def copy_edits(t, other):  # type: ignore[no-untyped-def]
    """Let ``other`` have the edits of ``t``."""
    other.counters[EDITS] = t.counters[EDITS]
    for e in range(t.counters[EDITS]):
        other.edit_place[e] = t.edit_place[e]
        other.edit_event[e] = t.edit_event[e]
        other.edit_key[e] = t.edit_key[e]


@compiled
def _edit(t, key, place, event):  # type: ignore[no-untyped-def]
    count = t.counters[EDITS]
    if count == MOST_EDITS:
        return False
    e = count
    while e > 0 and t.edit_key[e - 1] >= key:
        t.edit_place[e] = t.edit_place[e - 1]
        t.edit_event[e] = t.edit_event[e - 1]
        t.edit_key[e] = t.edit_key[e - 1]
        e -= 1
    t.edit_place[e] = place
    t.edit_event[e] = event
    t.counters[EDITS] = count + 1
    return _number(t, e)


@compiled
def _number(t, edit):  # type: ignore[no-untyped-def]
    """Give the edits from ``edit`` on at its place their keys; False if they are too many for one."""
    count = t.counters[EDITS]
    if edit == count:
        return True
    place = t.edit_place[edit]
    e = edit
    while e < count and t.edit_place[e] == place:
        if t.edit_event[e] == LEFT_OUT:
            t.edit_key[e] = place * PER_PLACE + LAST
        elif e > 0 and t.edit_place[e - 1] == place:
            t.edit_key[e] = t.edit_key[e - 1] + 1
            if t.edit_key[e] == place * PER_PLACE + LAST:
                return False
        else:
            t.edit_key[e] = place * PER_PLACE
        e += 1
    return True


@compiled
def edited(w, t, length, candidate):  # type: ignore[no-untyped-def]
    """Write the edited sequence; returns its length, or -1 if it is too long."""
    count = t.counters[EDITS]
    at = 0
    k = 0
    for e in range(count):
        place = t.edit_place[e]
        if at + place - k + 1 > candidate.size:
            return -1
        while k < place:
            candidate[at] = w.kept[k]
            at += 1
            k += 1
        if t.edit_event[e] == LEFT_OUT:
            k += 1
        else:
            candidate[at] = t.edit_event[e]
            at += 1
    if at + length - k > candidate.size:
        return -1
    while k < length:
        candidate[at] = w.kept[k]
        at += 1
        k += 1
    return at


@compiled
def live_before(w, t, key, v):  # type: ignore[no-untyped-def]
    """Whether value v would be in RAM just before what is at ``key``."""
    live = _live(w, v, key // PER_PLACE)
    for c in range(t.counters[CHANGES]):
        if t.change_value[c] == v and t.change_close[c] < key <= t.change_open[c]:
            live += t.change_sign[c]
    return live > 0


@compiled
def next_use(p, w, t, key, v):  # type: ignore[no-untyped-def]
    """Key of the first event behind ``key`` that would use v; -1 if there is none."""
    n = p.node_time.size
    found = -1
    for at in range(w.touch_start[v], w.touch_start[v + 1]):
        place = w.touch_place[at]
        if place * PER_PLACE + LAST > key and t.memory[place] != DROPPED:
            found = place * PER_PLACE + LAST
            break
    for e in range(t.counters[EDITS]):
        event = t.edit_event[e]
        if found >= 0 and t.edit_key[e] > found:
            break
        if t.edit_key[e] > key and 0 <= event < n and t.edit_memory[e] != DROPPED:
            for k in range(p.input_start[event], p.input_start[event + 1]):
                if p.input_value[k] == v:
                    return t.edit_key[e]
    return found


@compiled
def room_for(p, w, t, place):  # type: ignore[no-untyped-def]
    """Whether RAM seems to have room for what the event at ``place`` brings back, kept from its last use on instead.

    As far as the events that were there tell; what a compute's inputs take until then is taken for free.
    """
    if t.memory[place] == DROPPED:
        return False
    n = p.node_time.size
    event = w.kept[place]
    if event >= n:
        return _room(p, w, t, event - n, place, 0)
    freed = np.int64(0)
    for k in range(p.input_start[event], p.input_start[event + 1]):
        if _live(w, p.input_value[k], place + 1) == 0:
            freed += p.size[p.input_value[k]]
    for v in range(p.own[event], p.own[event + 1]):
        if _live(w, v, place + 1) > 0 and not _room(p, w, t, v, place, freed):
            return False
    return True


@compiled
def _room(p, w, t, v, place, freed):  # type: ignore[no-untyped-def]
    at = _last_touch(w, v, place)
    if at < w.touch_start[v]:
        return False
    most = p.budget - p.size[v] + freed
    k = place - 1
    while k > w.touch_place[at]:
        if t.memory[k] > most:
            return False
        k -= 1
    return True


@compiled
def _last_touch(w, v, place):  # type: ignore[no-untyped-def]
    """The last of v's touches that is before ``place``; one before its first if there is none."""
    low = w.touch_start[v]
    high = w.touch_start[v + 1]
    while low < high:
        middle = (low + high) >> 1
        if w.touch_place[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def _live(w, v, place):  # type: ignore[no-untyped-def]
    """1 if v was in RAM just before the event at ``place``, or 0."""
    at = _last_touch(w, v, place)
    return w.touch_live[at] if at >= w.touch_start[v] else 0


@compiled
def _over(p, memory):  # type: ignore[no-untyped-def]
    return memory - p.budget if memory > p.budget else 0


@compiled
def _add(p, memory, more):  # type: ignore[no-untyped-def]
    """Add to the RAM at some events; returns how much more is over the budget."""
    over = np.int64(0)
    for k in range(memory.size):
        over += max(memory[k] + more, p.budget) - max(memory[k], p.budget)
        memory[k] += more
    return over


@compiled
def estimate(p, w, length, energy, time, overflow, t):  # type: ignore[no-untyped-def]
    """Energy, time and overflow with the edits of ``t``, from those without; length is -1 where it is no schedule.

    With DMA the time is left at 0: only a whole evaluation says how long transfers take beside computes.
    """
    n = p.node_time.size
    for k in range(length):
        t.memory[k] = w.memory[k]
    counters = t.counters
    for counter in (CHANGES, CHANGED, NODES, PENDING, VALUES, BYTES):
        counters[counter] = 0
    over = np.int64(0)
    e = counters[EDITS] - 1
    frontier = length
    while counters[CHANGES] < MOST_CHANGES:
        key = _next_key(w, t, e)
        if key < 0:
            break
        place = key // PER_PLACE
        old = key % PER_PLACE == LAST
        if counters[BYTES] != 0:
            over += _add(p, t.memory[place + old : frontier], counters[BYTES])
        frontier = place
        if old:
            event, before, more = w.kept[place], t.memory[place], -1
            removed = e >= 0 and t.edit_key[e] == key
            e -= removed
            now = t.memory[place] = _looked_at(p, w, t, event, key, e, removed)
        else:
            event, before, more = t.edit_event[e], DROPPED, 1
            now = t.edit_memory[e] = _put(p, w, t, event, key, e - 1)
            e -= 1
        over += _over(p, now) - _over(p, before)
        if (now == DROPPED) != (before == DROPPED):
            energy += more * (p.node_energy[event] if event < n else p.in_energy[event - n])
            time += more * (p.node_time[event] if event < n else p.in_time[event - n])
    for k in range(counters[VALUES]):
        v = t.values[k]
        more = (w.paged[v] + t.pages[v] > 0) - (w.paged[v] > 0)
        energy += more * p.out_energy[v]
        time += more * p.out_time[v]
    possible = counters[CHANGED] == 0 and e < 0 and counters[CHANGES] < MOST_CHANGES
    _forget(t)
    return Evaluation(1 if possible else -1, energy, 0.0 if p.dma else time, overflow + over)


@inlined
def _forget(t):  # type: ignore[no-untyped-def]
    """Leave no count and no changed value behind a pass."""
    for k in range(t.counters[VALUES]):
        t.pages[t.values[k]] = 0
        t.value_at[t.values[k]] = -1
    for k in range(t.counters[NODES]):
        t.computes[t.nodes[k]] = 0
        t.listed[t.nodes[k]] = False
    for k in range(t.counters[CHANGED]):
        t.sign[t.changed[k]] = 0


@compiled
def _next_key(w, t, e):  # type: ignore[no-untyped-def]
    """What to look at next, to the left: an edit, an event of a changed value, or a first compute; -1: nothing."""
    key = t.edit_key[e] if e >= 0 else -1
    for k in range(t.counters[CHANGED]):
        v = t.changed[k]
        if t.touch[k] >= w.touch_start[v]:
            key = max(key, w.touch_place[t.touch[k]] * PER_PLACE + LAST)
    for k in range(t.counters[PENDING]):
        key = max(key, t.pending[k])
    return key


@inlined
def _looked_at(p, w, t, event, key, e, removed):  # type: ignore[no-untyped-def]
    """RAM at an event that was there, `DROPPED` if it is not needed any more or taken away."""
    n = p.node_time.size
    place = key // PER_PLACE
    if event >= n:
        v = event - n
        if not removed and t.sign[v] == 0:
            return t.memory[place] + t.counters[BYTES]
        _count_page(p, w, t, v, -1, key)
        _change(p, w, t, v, t.sign[v] + 1, key)
        return DROPPED
    counted = t.memory[place] > UNCOUNTED // 2
    memory = w.live[place + 1] + t.counters[BYTES] + p.workspace[event]
    needed = False
    for v in range(p.own[event], p.own[event + 1]):
        if _live(w, v, place + 1) + t.sign[v] > 0:
            needed = True
        else:
            memory += p.size[v]
    if t.listed[event] and key == _first_key(w, event):
        _no_longer_pending(t, key)
    stays = not removed and (needed or _only(p, w, t, event, key, e))
    for k in range(p.input_start[event], p.input_start[event + 1]):
        u = p.input_value[k]
        after = _live(w, u, place + 1) + t.sign[u]
        if after == 0:
            memory += p.size[u]
        _change(p, w, t, u, 0 if stays else after - 1, key)
    for v in range(p.own[event], p.own[event + 1]):
        _change(p, w, t, v, 0 if stays else _live(w, v, place + 1) + t.sign[v], key)
    if not stays:
        _count_compute(p, w, t, event, -1, key)
        return DROPPED
    return memory if counted else UNCOUNTED


@inlined
def _put(p, w, t, event, key, e):  # type: ignore[no-untyped-def]
    """RAM at an event that is put in, `DROPPED` if nothing needs it."""
    n = p.node_time.size
    place = key // PER_PLACE
    memory = w.live[place] + t.counters[BYTES]
    if event >= n:
        v = event - n
        was = _live(w, v, place)
        if was + t.sign[v] == 0:
            return DROPPED
        _count_page(p, w, t, v, 1, key)
        _change(p, w, t, v, -was, key)
        return UNCOUNTED if p.is_event_point.size > 0 else memory
    memory += p.workspace[event]
    needed = False
    for v in range(p.own[event], p.own[event + 1]):
        if _live(w, v, place) + t.sign[v] > 0:
            needed = True
        else:
            memory += p.size[v]
    only = not needed and _only(p, w, t, event, key, e)
    if not needed and not only:
        return DROPPED
    for k in range(p.input_start[event], p.input_start[event + 1]):
        u = p.input_value[k]
        was = _live(w, u, place)
        if was + t.sign[u] == 0:
            memory += p.size[u]
        _change(p, w, t, u, 1 - was, key)
    for v in range(p.own[event], p.own[event + 1]):
        _change(p, w, t, v, -_live(w, v, place), key)
    _count_compute(p, w, t, event, 1, key)
    if p.is_event_point.size > 0 and not (p.is_event_point[event] and _earlier(p, w, t, event, key, e) == 0):
        return UNCOUNTED
    return memory


@compiled
def _change(p, w, t, v, sign, key):  # type: ignore[no-untyped-def]
    """To the left of ``key``, v is changed so."""
    now = t.sign[v]
    if now == 0 and sign == 0:
        return
    counters = t.counters
    place = key // PER_PLACE
    if now == 0:
        k = counters[CHANGED]
        counters[CHANGED] += 1
        t.changed[k] = v
        t.at[v] = k
    k = t.at[v]
    if now != sign:
        counters[BYTES] += (sign - now) * p.size[v]
        t.sign[v] = sign
        if now != 0:
            t.change_close[t.change[k]] = key
        if sign != 0:
            c = counters[CHANGES]
            counters[CHANGES] += 1
            t.change_value[c] = v
            t.change_sign[c] = sign
            t.change_open[c] = key
            t.change_close[c] = -1
            t.change[k] = c
    if sign == 0:
        counters[CHANGED] -= 1
        last = counters[CHANGED]
        moved = t.changed[last]
        t.changed[k] = moved
        t.change[k] = t.change[last]
        t.touch[k] = t.touch[last]
        t.at[moved] = k
    else:
        t.touch[k] = _last_touch(w, v, place)


@compiled
def _count_compute(p, w, t, j, more, key):  # type: ignore[no-untyped-def]
    """So many more computes of node j are behind."""
    t.computes[j] += more
    _watch(w, t, j, key)


@compiled
def _count_page(p, w, t, v, more, key):  # type: ignore[no-untyped-def]
    """So many more page-ins of value v are behind."""
    if t.value_at[v] < 0:
        t.value_at[v] = t.counters[VALUES]
        t.values[t.counters[VALUES]] = v
        t.counters[VALUES] += 1
    t.pages[v] += more
    _watch(w, t, p.producer[v], key)


@compiled
def _watch(w, t, j, key):  # type: ignore[no-untyped-def]
    """The first compute of node j, where it is before ``key``, is to be looked at."""
    if t.listed[j]:
        return
    t.listed[j] = True
    t.nodes[t.counters[NODES]] = j
    t.counters[NODES] += 1
    if _first_key(w, j) < key:
        t.pending[t.counters[PENDING]] = _first_key(w, j)
        t.counters[PENDING] += 1


@compiled
def _first_key(w, j):  # type: ignore[no-untyped-def]
    """Key of the first compute of node j."""
    return w.first[j] * PER_PLACE + LAST


@compiled
def _no_longer_pending(t, key):  # type: ignore[no-untyped-def]
    """The first compute at ``key`` is looked at."""
    for k in range(t.counters[PENDING]):
        if t.pending[k] == key:
            t.counters[PENDING] -= 1
            t.pending[k] = t.pending[t.counters[PENDING]]
            return


@inlined
def _only(p, w, t, j, key, e):  # type: ignore[no-untyped-def]
    """Whether a compute of j at ``key`` stays though nothing needs it: the only one, or the source of page-ins."""
    if _earlier(p, w, t, j, key, e) > 0:
        return False
    if p.own[j] == p.own[j + 1]:
        return True
    if t.computes[j] + _times(w, p.own[j], j, key, NO_KEY) == 0:
        return True
    n = p.node_time.size
    pages = 0
    for v in range(p.own[j], p.own[j + 1]):
        pages += t.pages[v] + _times(w, v, n + v, key, NO_KEY)
    return pages > 0


@compiled
def _earlier(p, w, t, j, key, e):  # type: ignore[no-untyped-def]
    """How many computes of node j there would be before ``key``; the edits from ``e`` down are before it."""
    made = p.own[j + 1] > p.own[j]
    count = _times(w, p.own[j], j, -1, key) if made else int(w.first[j] * PER_PLACE + LAST < key)
    for k in range(e + 1):
        if t.edit_event[k] == j:
            count += 1
        elif t.edit_event[k] == LEFT_OUT and w.kept[t.edit_place[k]] == j:
            count -= 1
    return count


@compiled
def _times(w, v, event, after, before):  # type: ignore[no-untyped-def]
    """How often an event that touches v was there between two keys."""
    count = 0
    for at in range(w.touch_start[v], w.touch_start[v + 1]):
        place = w.touch_place[at]
        count += w.kept[place] == event and after < place * PER_PLACE + LAST < before
    return count
