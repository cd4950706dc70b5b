# SPDX-License-Identifier: Apache-2.0
"""Delta evaluation: what a few edits change in an evaluated sequence (docs/optimiser/search.md).

An *edit* leaves an event out or puts one in. A backward pass goes from the last edit towards the first event, like the
full evaluation (`evaluation`). It visits only the edits, and the events that make or use a *changed* value: one whose
presence in RAM differs from the old sequence. Between two visited events the RAM differs by the same number of bytes.
The pass ends when no edit is left and no value is changed any more.

A *key* is a position in the edited sequence: ``place * PER_PLACE + LAST`` is the old event at a place, and
``place * PER_PLACE + k`` is the k-th event put in right before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Flags, Ints, Problem
from poet_planner.solve.jit import compiled, inlined
from poet_planner.solve.search.evaluation import UNCOUNTED, Evaluation, Workspace, capacity

PER_PLACE = 64  # keys for each place
LAST = PER_PLACE - 1  # the last of them, that of the old event
MOST_EDITS = 256  # edits of one move
MOST_CHANGES = 1024  # changes of the presence of values in RAM
NO_KEY = 1 << 60  # larger than all keys
LEFT_OUT = -1  # stands for the event of an edit that leaves out the event at its place
DROPPED = -(1 << 60)  # stands for the RAM at an event that nothing needs


class DeltaEvaluation(NamedTuple):
    """Edits of a sequence, and their consequences. All arrays are allocated once.

    Attributes
    ----------
    edit_place, edit_event, edit_key : the edits in the order of the sequence: the place before which an event is put
        in, that event (or `LEFT_OUT`), and its key
    edit_memory : bytes of RAM at each event put in, or `DROPPED`
    memory : bytes of RAM at each old event, or `DROPPED`
    change_value, change_sign, change_open, change_close : changes: a value that is in RAM now (1) or not any more (-1),
        from the key ``change_open`` back to the key ``change_close`` (-1: still open)
    changed : the values that are changed where the pass is
    slot : (m,) position of a changed value in ``changed``
    sign, change, touch : (m,) sign of the change of each value; for each position in ``changed``, the number of the
        change, and the value's next touch to the left
    computes, pages : (n,), (m,) how many more computes of each node, and page-ins of each value, the pass has met
    nodes, listed : the nodes whose number of computes or page-ins has changed, and (n,) whether a node is one of them
    pending : keys of the first computes of such nodes that the pass has not visited yet
    values, value_at : the values whose number of page-ins has changed, and (m,) their position in ``values``, or -1
    counters : number of edits and changes; in the pass, numbers of changed values, ``nodes``, ``pending`` and
        ``values``, the bytes by which the RAM differs, and how often a value that is taken over would have to stay
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
    slot: Ints
    computes: Ints
    pages: Ints
    nodes: Ints
    listed: Flags
    pending: Ints
    values: Ints
    value_at: Ints
    counters: Ints


# Entries of DeltaEvaluation.counters.
EDITS, CHANGES, CHANGED, NODES, PENDING, VALUES, BYTES, KEPT = range(8)


def new_delta_evaluation(problem: Problem) -> DeltaEvaluation:
    """Without edits, for sequences of up to `capacity` events."""
    n, m = len(problem.node_time), len(problem.size)
    changes = MOST_CHANGES + int(
        np.diff(problem.output_start).max(initial=0) + np.diff(problem.input_start).max(initial=0)
    )

    def ints(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return DeltaEvaluation(
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
        slot=ints(m),
        computes=ints(n),
        pages=ints(m),
        nodes=ints(n),
        listed=np.zeros(n, dtype=np.bool_),
        pending=ints(n),
        values=ints(m),
        value_at=np.full(m, -1, dtype=np.int64),
        counters=ints(8),
    )


@compiled
def clear_edits(work: Workspace, delta: DeltaEvaluation, length: int) -> None:
    """Remove all edits; the old sequence is the one in ``work``."""
    delta.counters[EDITS] = 0
    delta.counters[CHANGES] = 0
    for k in range(length):
        delta.memory[k] = work.memory[k]


@compiled
def leave_out(delta: DeltaEvaluation, place: int) -> bool:
    """Add an edit: leave out the event at ``place``. False if there are too many edits."""
    return _add_edit(delta, place * PER_PLACE + LAST, place, LEFT_OUT)


@compiled
def put_in(delta: DeltaEvaluation, key: int, event: int) -> bool:
    """Add an edit: put in ``event`` right before ``key``. False if there are too many edits."""
    return _add_edit(delta, key, key // PER_PLACE, event)


@compiled
def take_back(delta: DeltaEvaluation, edit: int) -> None:
    """Remove one edit."""
    delta.counters[EDITS] -= 1
    for e in range(edit, delta.counters[EDITS]):
        delta.edit_place[e] = delta.edit_place[e + 1]
        delta.edit_event[e] = delta.edit_event[e + 1]
        delta.edit_key[e] = delta.edit_key[e + 1]
    _assign_keys(delta, edit)


@compiled
def copy_edits(delta: DeltaEvaluation, other: DeltaEvaluation) -> None:
    """Give ``other`` the edits of ``delta``."""
    other.counters[EDITS] = delta.counters[EDITS]
    for e in range(delta.counters[EDITS]):
        other.edit_place[e] = delta.edit_place[e]
        other.edit_event[e] = delta.edit_event[e]
        other.edit_key[e] = delta.edit_key[e]


@compiled
def _add_edit(delta: DeltaEvaluation, key: int, place: int, event: int) -> bool:
    count = delta.counters[EDITS]
    if count == MOST_EDITS:
        return False
    e = count
    while e > 0 and delta.edit_key[e - 1] >= key:
        delta.edit_place[e] = delta.edit_place[e - 1]
        delta.edit_event[e] = delta.edit_event[e - 1]
        delta.edit_key[e] = delta.edit_key[e - 1]
        e -= 1
    delta.edit_place[e] = place
    delta.edit_event[e] = event
    delta.counters[EDITS] = count + 1
    return _assign_keys(delta, e)


@compiled
def _assign_keys(delta: DeltaEvaluation, edit: int) -> bool:
    """Assign keys to ``edit`` and the later edits at its place. False if they are too many for one place."""
    count = delta.counters[EDITS]
    if edit == count:
        return True
    place = delta.edit_place[edit]
    e = edit
    while e < count and delta.edit_place[e] == place:
        if delta.edit_event[e] == LEFT_OUT:
            delta.edit_key[e] = place * PER_PLACE + LAST
        elif e > 0 and delta.edit_place[e - 1] == place:
            delta.edit_key[e] = delta.edit_key[e - 1] + 1
            if delta.edit_key[e] == place * PER_PLACE + LAST:
                return False
        else:
            delta.edit_key[e] = place * PER_PLACE
        e += 1
    return True


@compiled
def write_edited(work: Workspace, delta: DeltaEvaluation, length: int, candidate: Ints) -> int:
    """Write the edited sequence to ``candidate``; returns its length, or -1 if it is too long."""
    count = delta.counters[EDITS]
    at = 0
    k = 0
    for e in range(count):
        place = delta.edit_place[e]
        if at + place - k + 1 > candidate.size:
            return -1
        while k < place:
            candidate[at] = work.kept[k]
            at += 1
            k += 1
        if delta.edit_event[e] == LEFT_OUT:
            k += 1
        else:
            candidate[at] = delta.edit_event[e]
            at += 1
    if at + length - k > candidate.size:
        return -1
    while k < length:
        candidate[at] = work.kept[k]
        at += 1
        k += 1
    return at


@compiled
def live_before(work: Workspace, delta: DeltaEvaluation, key: int, v: int) -> bool:
    """Whether v is in RAM just before ``key``, in the edited sequence."""
    live = _live(work, v, key // PER_PLACE)
    for c in range(delta.counters[CHANGES]):
        if delta.change_value[c] == v and delta.change_close[c] < key <= delta.change_open[c]:
            live += delta.change_sign[c]
    return live > 0


@compiled
def next_use(problem: Problem, work: Workspace, delta: DeltaEvaluation, key: int, v: int) -> int:
    """Key of the first event after ``key`` that uses v, in the edited sequence; -1 if there is none."""
    n = problem.node_time.size
    found = -1
    for at in range(work.touch_start[v], work.touch_start[v + 1]):
        place = work.touch_place[at]
        if place * PER_PLACE + LAST > key and delta.memory[place] != DROPPED:
            found = place * PER_PLACE + LAST
            break
    for e in range(delta.counters[EDITS]):
        event = delta.edit_event[e]
        if found >= 0 and delta.edit_key[e] > found:
            break
        if delta.edit_key[e] > key and 0 <= event < n and delta.edit_memory[e] != DROPPED:
            for k in range(problem.input_start[event], problem.input_start[event + 1]):
                if problem.input_value[k] == v:
                    return delta.edit_key[e]
    return found


@compiled
def room_for(problem: Problem, work: Workspace, delta: DeltaEvaluation, place: int) -> bool:
    """Whether the extra event at ``place`` seems unnecessary: RAM has room to keep its values since their last use.

    Only old events are examined. Inputs that are read last by this event are taken to be free before it.
    """
    if delta.memory[place] == DROPPED:
        return False
    n = problem.node_time.size
    event = work.kept[place]
    if event >= n:
        return _room(problem, work, delta, event - n, place, np.int64(0))
    freed = np.int64(0)
    for k in range(problem.input_start[event], problem.input_start[event + 1]):
        if _live(work, problem.input_value[k], place + 1) == 0:
            freed += problem.size[problem.input_value[k]]
    for v in range(problem.output_start[event], problem.output_start[event + 1]):
        if _live(work, v, place + 1) > 0 and not _room(problem, work, delta, v, place, freed):
            return False
    return True


@compiled
def _room(problem: Problem, work: Workspace, delta: DeltaEvaluation, v: int, place: int, freed: np.int64) -> bool:
    at = _last_touch(work, v, place)
    if at < work.touch_start[v]:
        return False
    if problem.taken[v] and work.kept[work.touch_place[at]] == problem.use_node[problem.use_start[v]]:
        return False
    most = problem.budget - problem.size[v] + freed
    k = place - 1
    while k > work.touch_place[at]:
        if delta.memory[k] > most:
            return False
        k -= 1
    return True


@compiled
def _last_touch(work: Workspace, v: int, place: int) -> int:
    """Index of v's last touch before ``place``; one less than that of its first touch if there is none."""
    low = work.touch_start[v]
    high = work.touch_start[v + 1]
    while low < high:
        middle = (low + high) >> 1
        if work.touch_place[middle] < place:
            low = middle + 1
        else:
            high = middle
    return low - 1


@compiled
def _live(work: Workspace, v: int, place: int) -> int:
    """1 if v is in RAM just before ``place`` in the old sequence, else 0."""
    at = _last_touch(work, v, place)
    return work.touch_live[at] if at >= work.touch_start[v] else 0


@compiled
def _excess(problem: Problem, memory: int) -> int:
    return memory - problem.budget if memory > problem.budget else 0


@compiled
def _add_memory(problem: Problem, memory: Ints, more: int) -> np.int64:
    """Add ``more`` bytes to the RAM at some events; returns the increase of the overflow."""
    over = np.int64(0)
    for k in range(memory.size):
        over += max(memory[k] + more, problem.budget) - max(memory[k], problem.budget)
        memory[k] += more
    return over


@compiled
def evaluate_edits(
    problem: Problem, work: Workspace, length: int, energy: float, time: float, overflow: float, delta: DeltaEvaluation
) -> Evaluation:
    """Evaluate the edited sequence.

    ``energy``, ``time`` and ``overflow`` are those of the old sequence. The length is -1 if the edited sequence is no
    schedule, else 1. With DMA the time is 0: only the full evaluation gives the makespan.
    """
    n = problem.node_time.size
    for k in range(length):
        delta.memory[k] = work.memory[k]
    counters = delta.counters
    for counter in (CHANGES, CHANGED, NODES, PENDING, VALUES, BYTES, KEPT):
        counters[counter] = 0
    over = np.int64(0)
    e = counters[EDITS] - 1
    frontier = length
    while counters[CHANGES] < MOST_CHANGES:
        key = _next_key(work, delta, e)
        if key < 0:
            break
        place = key // PER_PLACE
        old = key % PER_PLACE == LAST
        if counters[BYTES] != 0:
            over += _add_memory(problem, delta.memory[place + old : frontier], counters[BYTES])
        frontier = place
        if old:
            event, before, more = work.kept[place], delta.memory[place], -1
            removed = e >= 0 and delta.edit_key[e] == key
            e -= removed
            now = delta.memory[place] = _visit_old(problem, work, delta, event, key, e, removed)
        else:
            event, before, more = delta.edit_event[e], DROPPED, 1
            now = delta.edit_memory[e] = _visit_new(problem, work, delta, event, key, e - 1)
            e -= 1
        over += _excess(problem, now) - _excess(problem, before)
        if (now == DROPPED) != (before == DROPPED):
            energy += more * (problem.node_energy[event] if event < n else problem.in_energy[event - n])
            time += more * (problem.node_time[event] if event < n else problem.in_time[event - n])
    for k in range(counters[VALUES]):
        v = delta.values[k]
        more = (work.paged[v] + delta.pages[v] > 0) - (work.paged[v] > 0)
        energy += more * problem.out_energy[v]
        time += more * problem.out_time[v]
    possible = counters[CHANGED] == 0 and e < 0 and counters[CHANGES] < MOST_CHANGES and counters[KEPT] == 0
    _reset(delta)
    return Evaluation(1 if possible else -1, energy, 0.0 if problem.dma else time, overflow + over)


@inlined
def _reset(delta: DeltaEvaluation) -> None:
    """Clear the counts and the changed values of a pass."""
    for k in range(delta.counters[VALUES]):
        delta.pages[delta.values[k]] = 0
        delta.value_at[delta.values[k]] = -1
    for k in range(delta.counters[NODES]):
        delta.computes[delta.nodes[k]] = 0
        delta.listed[delta.nodes[k]] = False
    for k in range(delta.counters[CHANGED]):
        delta.sign[delta.changed[k]] = 0


@compiled
def _next_key(work: Workspace, delta: DeltaEvaluation, e: int) -> int:
    """Key of the next visit: an edit, a touch of a changed value, or a pending first compute; -1 if there is none."""
    key = delta.edit_key[e] if e >= 0 else -1
    for k in range(delta.counters[CHANGED]):
        v = delta.changed[k]
        if delta.touch[k] >= work.touch_start[v]:
            key = max(key, work.touch_place[delta.touch[k]] * PER_PLACE + LAST)
    for k in range(delta.counters[PENDING]):
        key = max(key, delta.pending[k])
    return key


@inlined
def _visit_old(
    problem: Problem, work: Workspace, delta: DeltaEvaluation, event: int, key: int, e: int, removed: bool
) -> int:
    """Visit an old event; returns its RAM, or `DROPPED` if it is left out or not needed any more."""
    n = problem.node_time.size
    place = key // PER_PLACE
    if event >= n:
        v = event - n
        if not removed and delta.sign[v] == 0:
            return delta.memory[place] + delta.counters[BYTES]
        _count_page(problem, work, delta, v, -1, key)
        _set_change(problem, work, delta, v, delta.sign[v] + 1, key)
        return DROPPED
    counted = delta.memory[place] > UNCOUNTED // 2
    memory = work.live[place + 1] + delta.counters[BYTES] + problem.workspace[event]
    needed = False
    for v in range(problem.output_start[event], problem.output_start[event + 1]):
        if _live(work, v, place + 1) + delta.sign[v] > 0:
            needed = True
        else:
            memory += problem.size[v]
    if delta.listed[event] and key == _first_key(work, event):
        _visited(delta, key)
    stays = not removed and (needed or _is_required(problem, work, delta, event, key, e))
    for k in range(problem.input_start[event], problem.input_start[event + 1]):
        u = problem.input_value[k]
        after = _live(work, u, place + 1) + delta.sign[u]
        if after == 0:
            memory += problem.size[u]
        elif stays and problem.taken[u]:
            delta.counters[KEPT] += 1
        _set_change(problem, work, delta, u, 0 if stays else after - 1, key)
    for v in range(problem.output_start[event], problem.output_start[event + 1]):
        _set_change(problem, work, delta, v, 0 if stays else _live(work, v, place + 1) + delta.sign[v], key)
    if not stays:
        _count_compute(problem, work, delta, event, -1, key)
        return DROPPED
    return memory if counted else UNCOUNTED


@inlined
def _visit_new(problem: Problem, work: Workspace, delta: DeltaEvaluation, event: int, key: int, e: int) -> int:
    """Visit an event that is put in; returns its RAM, or `DROPPED` if nothing needs it."""
    n = problem.node_time.size
    place = key // PER_PLACE
    memory = work.live[place] + delta.counters[BYTES]
    if event >= n:
        v = event - n
        was = _live(work, v, place)
        if was + delta.sign[v] == 0:
            return DROPPED
        _count_page(problem, work, delta, v, 1, key)
        _set_change(problem, work, delta, v, -was, key)
        return UNCOUNTED if problem.is_event_point.size > 0 else memory
    memory += problem.workspace[event]
    needed = False
    for v in range(problem.output_start[event], problem.output_start[event + 1]):
        if _live(work, v, place) + delta.sign[v] > 0:
            needed = True
        else:
            memory += problem.size[v]
    only = not needed and _is_required(problem, work, delta, event, key, e)
    if not needed and not only:
        return DROPPED
    for k in range(problem.input_start[event], problem.input_start[event + 1]):
        u = problem.input_value[k]
        was = _live(work, u, place)
        if was + delta.sign[u] == 0:
            memory += problem.size[u]
        elif problem.taken[u]:
            delta.counters[KEPT] += 1
        _set_change(problem, work, delta, u, 1 - was, key)
    for v in range(problem.output_start[event], problem.output_start[event + 1]):
        _set_change(problem, work, delta, v, -_live(work, v, place), key)
    _count_compute(problem, work, delta, event, 1, key)
    if problem.is_event_point.size > 0 and not (
        problem.is_event_point[event] and _computes_before(problem, work, delta, event, key, e) == 0
    ):
        return UNCOUNTED
    return memory


@compiled
def _set_change(problem: Problem, work: Workspace, delta: DeltaEvaluation, v: int, sign: int, key: int) -> None:
    """To the left of ``key``, the presence of v in RAM differs by ``sign``."""
    now = delta.sign[v]
    if now == 0 and sign == 0:
        return
    counters = delta.counters
    place = key // PER_PLACE
    if now == 0:
        k = counters[CHANGED]
        counters[CHANGED] += 1
        delta.changed[k] = v
        delta.slot[v] = k
    k = delta.slot[v]
    if now != sign:
        counters[BYTES] += (sign - now) * problem.size[v]
        delta.sign[v] = sign
        if now != 0:
            delta.change_close[delta.change[k]] = key
        if sign != 0:
            c = counters[CHANGES]
            counters[CHANGES] += 1
            delta.change_value[c] = v
            delta.change_sign[c] = sign
            delta.change_open[c] = key
            delta.change_close[c] = -1
            delta.change[k] = c
    if sign == 0:
        counters[CHANGED] -= 1
        last = counters[CHANGED]
        moved = delta.changed[last]
        delta.changed[k] = moved
        delta.change[k] = delta.change[last]
        delta.touch[k] = delta.touch[last]
        delta.slot[moved] = k
    else:
        delta.touch[k] = _last_touch(work, v, place)


@compiled
def _count_compute(problem: Problem, work: Workspace, delta: DeltaEvaluation, j: int, more: int, key: int) -> None:
    """Count ``more`` further computes of node j."""
    delta.computes[j] += more
    _watch(work, delta, j, key)


@compiled
def _count_page(problem: Problem, work: Workspace, delta: DeltaEvaluation, v: int, more: int, key: int) -> None:
    """Count ``more`` further page-ins of value v."""
    if delta.value_at[v] < 0:
        delta.value_at[v] = delta.counters[VALUES]
        delta.values[delta.counters[VALUES]] = v
        delta.counters[VALUES] += 1
    delta.pages[v] += more
    _watch(work, delta, problem.producer[v], key)


@compiled
def _watch(work: Workspace, delta: DeltaEvaluation, j: int, key: int) -> None:
    """Let the pass visit the first compute of node j, if it is before ``key``."""
    if delta.listed[j]:
        return
    delta.listed[j] = True
    delta.nodes[delta.counters[NODES]] = j
    delta.counters[NODES] += 1
    if _first_key(work, j) < key:
        delta.pending[delta.counters[PENDING]] = _first_key(work, j)
        delta.counters[PENDING] += 1


@compiled
def _first_key(work: Workspace, j: int) -> int:
    """Key of the first compute of node j."""
    return work.first[j] * PER_PLACE + LAST


@compiled
def _visited(delta: DeltaEvaluation, key: int) -> None:
    """The first compute at ``key`` is visited now."""
    for k in range(delta.counters[PENDING]):
        if delta.pending[k] == key:
            delta.counters[PENDING] -= 1
            delta.pending[k] = delta.pending[delta.counters[PENDING]]
            return


@inlined
def _is_required(problem: Problem, work: Workspace, delta: DeltaEvaluation, j: int, key: int, e: int) -> bool:
    """Whether a compute of j at ``key`` is kept though nothing reads it: the only one, or the source of page-ins."""
    if _computes_before(problem, work, delta, j, key, e) > 0:
        return False
    if problem.output_start[j] == problem.output_start[j + 1]:
        return True
    if delta.computes[j] + _occurrences(work, problem.output_start[j], j, key, NO_KEY) == 0:
        return True
    n = problem.node_time.size
    pages = 0
    for v in range(problem.output_start[j], problem.output_start[j + 1]):
        pages += delta.pages[v] + _occurrences(work, v, n + v, key, NO_KEY)
    return pages > 0


@compiled
def _computes_before(problem: Problem, work: Workspace, delta: DeltaEvaluation, j: int, key: int, e: int) -> int:
    """Number of computes of j before ``key`` in the edited sequence; ``e`` is the last edit before it."""
    made = problem.output_start[j + 1] > problem.output_start[j]
    count = (
        _occurrences(work, problem.output_start[j], j, -1, key) if made else int(work.first[j] * PER_PLACE + LAST < key)
    )
    for k in range(e + 1):
        if delta.edit_event[k] == j:
            count += 1
        elif delta.edit_event[k] == LEFT_OUT and work.kept[delta.edit_place[k]] == j:
            count -= 1
    return count


@compiled
def _occurrences(work: Workspace, v: int, event: int, after: int, before: int) -> int:
    """How often ``event``, which touches v, is in the old sequence between two keys."""
    count = 0
    for at in range(work.touch_start[v], work.touch_start[v + 1]):
        place = work.touch_place[at]
        count += work.kept[place] == event and after < place * PER_PLACE + LAST < before
    return count
