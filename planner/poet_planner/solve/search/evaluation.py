# SPDX-License-Identifier: Apache-2.0
"""What a sequence of events costs and takes, and what it can do without.

*Events*: ``j`` computes node j, ``n + v`` pages value v in. What else the contract knows follows: a value that
is ever paged in is paged out right after its producer's first compute, and a value is freed after its last use. A pass
from the last event to the first finds all that, and drops every event that nothing needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import compiled


class Workspace(NamedTuple):
    """The sequence that was evaluated last, and scratch: arrays made once.

    Attributes
    ----------
    kept, memory : the events that are needed, and the bytes of RAM at each
    live : the bytes of the values in RAM just before each
    extra : places of the events that plain training lacks, the last one first
    life_value, life_start, life_end : which value is in RAM, after which place and up to which; the last start first
    paged : (m,) how often each value is paged in
    touch_start, touch_place, touch_live : by value, the places of the events that make or use it, and whether it is in
        RAM just after them; filled by `index`
    first : (n,) the place of each node's first compute; filled by `index`
    candidate : the sequence to be evaluated next
    inserted : what a move puts in, the last one first
    counters : `EXTRAS`, `LIVES` and `STAMP`, the number of the marks in ``stamp``
    random : (1,) state of the generator
    """

    candidate: Ints
    kept: Ints
    memory: Ints
    live: Ints
    touch_start: Ints
    touch_place: Ints
    touch_live: Ints
    extra: Ints
    life_value: Ints
    life_start: Ints
    life_end: Ints
    last_use: Ints
    total: Ints
    seen: Ints
    source: Ints
    paged: Ints
    stamp: Ints
    first: Ints
    inserted: Ints
    ending: Ints
    next_ending: Ints
    leaving: Ints
    arrives: Floats
    let_go: Floats
    counters: Ints
    random: np.ndarray[tuple[int], np.dtype[np.uint64]]


# RAM where it does not count.
UNCOUNTED = -(1 << 50)

# Entries of Workspace.counters
EXTRAS, LIVES, STAMP = 0, 1, 2


class Evaluation(NamedTuple):
    """A sequence's figures: joules, seconds, bytes over the budget. ``length`` is -1 where it is no schedule."""

    length: int
    energy: float
    time: float
    overflow: float


def new_workspace(
    problem: Problem, random: np.ndarray[tuple[int], np.dtype[np.uint64]], most_inserted: int = 0, events: int = 0
) -> Workspace:
    """For sequences of up to `capacity` events, or up to ``events``; a move puts in up to ``most_inserted``."""
    n, m = len(problem.node_time), len(problem.size)
    events = max(events, capacity(problem))
    width = int(np.diff(problem.own).max(initial=1))
    touches = -(-(m + len(problem.input_value)) // max(n, 1)) + 1

    def ints(count: int) -> Ints:
        return np.zeros(count, dtype=np.int64)

    return Workspace(
        candidate=ints(events),
        kept=ints(events),
        memory=ints(events),
        live=ints(events + 1),
        touch_start=ints(m + 2),
        touch_place=ints(events * touches),
        touch_live=ints(events * touches),
        extra=ints(events),
        life_value=ints(events * width),
        life_start=ints(events * width),
        life_end=ints(events * width),
        last_use=ints(m),
        total=ints(n),
        seen=ints(n),
        source=ints(n),
        paged=ints(m),
        stamp=ints(m),
        first=ints(n),
        inserted=ints(most_inserted + width),
        ending=ints(events),
        next_ending=ints(events * width),
        leaving=ints(m + 1),
        arrives=np.zeros(m),
        let_go=np.zeros(m),
        counters=ints(3),
        random=random,
    )


def capacity(problem: Problem) -> int:
    """Longest sequence of events that the search keeps."""
    return 24 * len(problem.node_time) + 256


@compiled
def evaluate(p, events, length, w):  # type: ignore[no-untyped-def]
    """Backward pass over ``events[:length]``; leaves the needed events in ``w.kept``, and their RAM in ``w.memory``."""
    n = p.node_time.size
    for j in range(n):
        w.total[j] = 0
        w.seen[j] = 0
        w.source[j] = 0
    for v in range(p.size.size):
        w.paged[v] = 0
        w.last_use[v] = -1
    for k in range(length):
        if events[k] < n:
            w.total[events[k]] += 1
    here = w.kept.size
    live = 0
    waiting = 0
    energy = 0.0
    time = 0.0
    overflow = 0.0
    extras = 0
    lives = 0
    for k in range(length - 1, -1, -1):
        event = events[k]
        if event < n:
            earlier = w.total[event] - 1 - w.seen[event]
            needed = False
            for v in range(p.own[event], p.own[event + 1]):
                if w.last_use[v] >= 0:
                    needed = True
            if not needed and (earlier > 0 or (w.seen[event] > 0 and w.source[event] == 0)):
                w.total[event] -= 1
                continue
            w.seen[event] += 1
            here -= 1
            w.kept[here] = event
            memory = live + p.workspace[event]
            for v in range(p.own[event], p.own[event + 1]):
                if w.last_use[v] >= 0:
                    lives = _begins(w, lives, v, here)
                    waiting -= 1
                    live -= p.size[v]
                else:
                    memory += p.size[v]
            for k_in in range(p.input_start[event], p.input_start[event + 1]):
                v = p.input_value[k_in]
                if w.last_use[v] < 0:
                    w.last_use[v] = here
                    waiting += 1
                    live += p.size[v]
                    memory += p.size[v]
            energy += p.node_energy[event]
            time += p.node_time[event]
            if earlier > 0:
                w.extra[extras] = here
                extras += 1
        else:
            v = event - n
            if w.last_use[v] < 0:
                continue
            j = p.producer[v]
            if w.total[j] - w.seen[j] == 0:
                return Evaluation(-1, 0.0, 0.0, 0.0)
            here -= 1
            w.kept[here] = event
            memory = live
            lives = _begins(w, lives, v, here)
            waiting -= 1
            live -= p.size[v]
            w.source[j] = 1
            if w.paged[v] == 0:
                energy += p.out_energy[v]
                time += p.out_time[v]
            w.paged[v] += 1
            energy += p.in_energy[v]
            time += p.in_time[v]
            w.extra[extras] = here
            extras += 1
        w.memory[here] = memory
        w.live[here] = live
        if memory > p.budget:
            overflow += memory - p.budget
    for j in range(n):
        if w.seen[j] == 0 or (w.seen[j] > 1 and not p.recomputable[j]):
            waiting += 1
    if waiting > 0:
        return Evaluation(-1, 0.0, 0.0, 0.0)
    kept = w.kept.size - here
    for k in range(kept):
        w.kept[k] = w.kept[here + k]
        w.memory[k] = w.memory[here + k]
        w.live[k] = w.live[here + k]
    w.live[kept] = 0
    for k in range(extras):
        w.extra[k] -= here
    for k in range(lives):
        w.life_start[k] -= here
        w.life_end[k] -= here
    if p.is_event_point.size > 0:
        overflow = _overflow_at_event_points(p, w, kept)
    if p.dma:
        w.counters[LIVES] = lives
        time = _makespan(p, w, kept)
    w.counters[EXTRAS] = extras
    w.counters[LIVES] = lives
    return Evaluation(kept, energy, time, overflow)


@compiled
def index(p, w, length):  # type: ignore[no-untyped-def]
    """Find the touches of each value and the first compute of each node in the evaluated sequence.

    False if they are more than there is room for: many more than in plain training for each event.
    """
    n, m = p.node_time.size, p.size.size
    start = w.touch_start
    for v in range(m + 2):
        start[v] = 0
    for j in range(n):
        w.first[j] = -1
    for k in range(length):
        event = w.kept[k]
        if event >= n:
            start[event - n + 2] += 1
            continue
        if w.first[event] < 0:
            w.first[event] = k
        for v in range(p.own[event], p.own[event + 1]):
            start[v + 2] += 1
        for k_in in range(p.input_start[event], p.input_start[event + 1]):
            start[p.input_value[k_in] + 2] += 1
    for v in range(m):
        start[v + 2] += start[v + 1]
    if start[m + 1] > w.touch_place.size:
        return False
    # What is in RAM after an event is what its next touch uses: a value's last touch so far is known to be followed.
    for k in range(length):
        event = w.kept[k]
        if event >= n:
            _touched(w, start, event - n, k, False)
            continue
        for k_in in range(p.input_start[event], p.input_start[event + 1]):
            _touched(w, start, p.input_value[k_in], k, True)
        for v in range(p.own[event], p.own[event + 1]):
            _touched(w, start, v, k, False)
    return True


@compiled
def _touched(w, start, v, place, used):  # type: ignore[no-untyped-def]
    """Note a touch; ``start[v + 1]`` is where v's next one goes, and in the end where they end."""
    at = start[v + 1]
    w.touch_place[at] = place
    w.touch_live[at] = 0
    if used:
        w.touch_live[at - 1] = 1
    start[v + 1] = at + 1


@compiled
def _begins(w, lives, v, place):  # type: ignore[no-untyped-def]
    """Note that value v is in RAM from ``place`` to its last use; returns how many such lives there are then."""
    w.life_value[lives] = v
    w.life_start[lives] = place
    w.life_end[lives] = w.last_use[v]
    w.last_use[v] = -1
    return lives + 1


@compiled
def _overflow_at_event_points(p, w, length):  # type: ignore[no-untyped-def]
    """Overflow of the evaluated sequence at the event points; the RAM of all other events becomes `UNCOUNTED`."""
    n = p.node_time.size
    for j in range(n):
        w.seen[j] = 0
    overflow = 0.0
    for k in range(length):
        event = w.kept[k]
        if event < n and w.seen[event] == 0 and p.is_event_point[event]:
            overflow += max(0, w.memory[k] - p.budget)
        else:
            w.memory[k] = UNCOUNTED
        if event < n:
            w.seen[event] = 1
    return overflow


@compiled
def _makespan(p, w, length):  # type: ignore[no-untyped-def]
    """Time of the evaluated sequence where transfers overlap compute.

    A value whose transfer still runs when it could be freed waits among the ``leaving`` ones until it has ended, or
    until its RAM is needed: only then does the CPU wait.
    """
    n = p.node_time.size
    for k in range(length):
        w.ending[k] = -1
    for life in range(w.counters[LIVES]):
        w.next_ending[life] = w.ending[w.life_end[life]]
        w.ending[w.life_end[life]] = life
    for v in range(p.size.size):
        w.arrives[v] = 0.0
        w.let_go[v] = 0.0
    for j in range(n):
        w.first[j] = -1
    cpu = 0.0
    bus = 0.0
    leaving = 0
    leaving_bytes = 0
    newest = w.counters[LIVES] - 1
    for k in range(length):
        event = w.kept[k]
        at = 0
        while at < leaving:
            v = w.leaving[at]
            anew = event == n + v or event == p.producer[v]
            if anew or w.let_go[v] <= cpu or w.memory[k] + leaving_bytes > p.budget:
                cpu = max(cpu, w.let_go[v])
                leaving_bytes -= p.size[v]
                leaving -= 1
                for rest in range(at, leaving):
                    w.leaving[rest] = w.leaving[rest + 1]
            else:
                at += 1
        if event >= n:
            v = event - n
            cpu = max(cpu, bus)
            bus = cpu + p.in_time[v]
            w.arrives[v] = bus
            w.let_go[v] = bus
            newest -= 1
        else:
            for k_in in range(p.input_start[event], p.input_start[event + 1]):
                cpu = max(cpu, w.arrives[p.input_value[k_in]])
            cpu += p.node_time[event]
            w.counters[STAMP] += 1
            while newest >= 0 and w.life_start[newest] == k:
                w.stamp[w.life_value[newest]] = w.counters[STAMP]
                newest -= 1
            for v in range(p.own[event], p.own[event + 1]):
                if w.paged[v] > 0 and w.first[event] < 0:
                    cpu = max(cpu, bus)
                    bus = cpu + p.out_time[v]
                    w.let_go[v] = bus
                    if w.stamp[v] != w.counters[STAMP]:
                        w.leaving[leaving] = v
                        leaving += 1
                        leaving_bytes += p.size[v]
            w.first[event] = k
        life = w.ending[k]
        while life >= 0:
            v = w.life_value[life]
            if w.let_go[v] > cpu:
                w.leaving[leaving] = v
                leaving += 1
                leaving_bytes += p.size[v]
            life = w.next_ending[life]
    return max(cpu, bus)
