# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a sequence of events: its energy, time, RAM and lifetimes (docs/optimiser/search.md).

An *event* is a number: ``j`` computes node j, ``n + v`` pages value v in. The other steps of the schedule semantics
(docs/SPEC.md, section 4) follow from the events: a value that is ever paged in is paged out right after its producer's
first compute, and a value is freed after its last use. One backward pass finds all of this, and drops every event that
nothing needs. With DMA, a forward pass adds the makespan.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import compiled


class Workspace(NamedTuple):
    """The sequence that was evaluated last, and scratch arrays. All arrays are allocated once.

    A *place* is a position in the sequence. A *touch* of a value is an event that makes or uses it.

    Attributes
    ----------
    candidate : the sequence to be evaluated next
    kept, memory : the needed events, and the bytes of RAM at each
    live : bytes of the values in RAM just before each event
    extra : places of the extra events (recomputations and page-ins), the last one first
    life_value, life_start, life_end : lifetimes: value, place after which it is in RAM, place of its last use; the
        latest start first
    paged : (m,) number of page-ins of each value
    touch_start, touch_place, touch_live : value v's touches are ``touch_place[touch_start[v]:touch_start[v + 1]]``;
        whether it is in RAM just after each; filled by `index_touches`
    first : (n,) place of each node's first compute; filled by `index_touches`
    inserted : the events that a move puts in, the last one first
    last_use : (m,) place of the next use, seen from the backward pass; -1 if there is none
    total, seen : (n,) number of computes of each node, and how many of them the backward pass has met
    source : (n,) 1 once the backward pass has met a page-in of a value of the node
    ending, next_ending : lists of the lifetimes that end at each place
    leaving : values whose transfer still runs after their last use
    arrives, let_go : (m,) time in seconds at which a page-in has ended, and at which the last transfer has
    stamp : (m,) marks; a mark counts if it equals ``counters[STAMP]``
    counters : number of extra events, number of lifetimes, current mark
    random : (1,) state of the random number generator
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


# Stands for the RAM at an event where the RAM is not limited.
UNCOUNTED = -(1 << 50)

# Entries of Workspace.counters.
EXTRAS, LIVES, STAMP = 0, 1, 2


class Evaluation(NamedTuple):
    """Of a sequence: number of needed events (-1: no schedule), joules, seconds, bytes over the budget, summed."""

    length: int
    energy: float
    time: float
    overflow: float


def new_workspace(
    problem: Problem, random: np.ndarray[tuple[int], np.dtype[np.uint64]], most_inserted: int = 0, events: int = 0
) -> Workspace:
    """A workspace for sequences of up to `capacity` events, or ``events`` if that is more.

    Parameters
    ----------
    random : (1,)
        State of the random number generator, which the workspace shares.
    most_inserted : int
        Most events that a move puts in.
    """
    n, m = len(problem.node_time), len(problem.size)
    events = max(events, capacity(problem))
    width = int(np.diff(problem.output_start).max(initial=1))
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
    """Maximum length of a sequence of events."""
    return 24 * len(problem.node_time) + 256


@compiled
def evaluate(problem: Problem, events: Ints, length: int, work: Workspace) -> Evaluation:
    """Evaluate ``events[:length]`` in a backward pass.

    ``work`` receives the needed events, their RAM, and the lifetimes.
    """
    n = problem.node_time.size
    for j in range(n):
        work.total[j] = 0
        work.seen[j] = 0
        work.source[j] = 0
    for v in range(problem.size.size):
        work.paged[v] = 0
        work.last_use[v] = -1
    for k in range(length):
        if events[k] < n:
            work.total[events[k]] += 1
    here = work.kept.size
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
            earlier = work.total[event] - 1 - work.seen[event]
            needed = False
            for v in range(problem.output_start[event], problem.output_start[event + 1]):
                if work.last_use[v] >= 0:
                    needed = True
            if not needed and (earlier > 0 or (work.seen[event] > 0 and work.source[event] == 0)):
                work.total[event] -= 1
                continue
            work.seen[event] += 1
            here -= 1
            work.kept[here] = event
            memory = live + problem.workspace[event]
            for v in range(problem.output_start[event], problem.output_start[event + 1]):
                if work.last_use[v] >= 0:
                    lives = _record_life(work, lives, v, here)
                    waiting -= 1
                    live -= problem.size[v]
                else:
                    memory += problem.size[v]
            for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
                v = problem.input_value[k_in]
                if work.last_use[v] < 0:
                    work.last_use[v] = here
                    waiting += 1
                    live += problem.size[v]
                    memory += problem.size[v]
                elif problem.taken[v]:
                    return Evaluation(-1, 0.0, 0.0, 0.0)
            energy += problem.node_energy[event]
            time += problem.node_time[event]
            if earlier > 0:
                work.extra[extras] = here
                extras += 1
        else:
            v = event - n
            if work.last_use[v] < 0:
                continue
            j = problem.producer[v]
            if work.total[j] - work.seen[j] == 0:
                return Evaluation(-1, 0.0, 0.0, 0.0)
            here -= 1
            work.kept[here] = event
            memory = live
            lives = _record_life(work, lives, v, here)
            waiting -= 1
            live -= problem.size[v]
            work.source[j] = 1
            if work.paged[v] == 0:
                energy += problem.out_energy[v]
                time += problem.out_time[v]
            work.paged[v] += 1
            energy += problem.in_energy[v]
            time += problem.in_time[v]
            work.extra[extras] = here
            extras += 1
        work.memory[here] = memory
        work.live[here] = live
        if memory > problem.budget:
            overflow += memory - problem.budget
    for j in range(n):
        if work.seen[j] == 0 or (work.seen[j] > 1 and not problem.recomputable[j]):
            waiting += 1
    if waiting > 0:
        return Evaluation(-1, 0.0, 0.0, 0.0)
    kept = work.kept.size - here
    for k in range(kept):
        work.kept[k] = work.kept[here + k]
        work.memory[k] = work.memory[here + k]
        work.live[k] = work.live[here + k]
    work.live[kept] = 0
    for k in range(extras):
        work.extra[k] -= here
    for k in range(lives):
        work.life_start[k] -= here
        work.life_end[k] -= here
    if problem.is_event_point.size > 0:
        overflow = _overflow_at_event_points(problem, work, kept)
    if problem.dma:
        work.counters[LIVES] = lives
        time = _makespan(problem, work, kept)
    work.counters[EXTRAS] = extras
    work.counters[LIVES] = lives
    return Evaluation(kept, energy, time, overflow)


@compiled
def index_touches(problem: Problem, work: Workspace, length: int) -> bool:
    """Find the touches of each value and the first compute of each node in the evaluated sequence.

    False if there are more touches than the workspace has room for.
    """
    n, m = problem.node_time.size, problem.size.size
    start = work.touch_start
    for v in range(m + 2):
        start[v] = 0
    for j in range(n):
        work.first[j] = -1
    for k in range(length):
        event = work.kept[k]
        if event >= n:
            start[event - n + 2] += 1
            continue
        if work.first[event] < 0:
            work.first[event] = k
        for v in range(problem.output_start[event], problem.output_start[event + 1]):
            start[v + 2] += 1
        for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
            start[problem.input_value[k_in] + 2] += 1
    for v in range(m):
        start[v + 2] += start[v + 1]
    if start[m + 1] > work.touch_place.size:
        return False
    # A value is in RAM after a touch if its next touch uses it.
    for k in range(length):
        event = work.kept[k]
        if event >= n:
            _record_touch(work, start, event - n, k, False)
            continue
        for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
            _record_touch(work, start, problem.input_value[k_in], k, True)
        for v in range(problem.output_start[event], problem.output_start[event + 1]):
            _record_touch(work, start, v, k, False)
    return True


@compiled
def _record_touch(work: Workspace, start: Ints, v: int, place: int, used: bool) -> None:
    """Record a touch of v at ``start[v + 1]``, which moves on; in the end it is where v's touches end."""
    at = start[v + 1]
    work.touch_place[at] = place
    work.touch_live[at] = 0
    if used:
        work.touch_live[at - 1] = 1
    start[v + 1] = at + 1


@compiled
def _record_life(work: Workspace, lives: int, v: int, place: int) -> int:
    """Record a lifetime of v, from ``place`` to its last use; returns the number of lifetimes."""
    work.life_value[lives] = v
    work.life_start[lives] = place
    work.life_end[lives] = work.last_use[v]
    work.last_use[v] = -1
    return lives + 1


@compiled
def _overflow_at_event_points(problem: Problem, work: Workspace, length: int) -> float:
    """Overflow of the evaluated sequence if the RAM is limited at event points only.

    The RAM at all other events becomes `UNCOUNTED`.
    """
    n = problem.node_time.size
    for j in range(n):
        work.seen[j] = 0
    overflow = 0.0
    for k in range(length):
        event = work.kept[k]
        if event < n and work.seen[event] == 0 and problem.is_event_point[event]:
            overflow += max(0, work.memory[k] - problem.budget)
        else:
            work.memory[k] = UNCOUNTED
        if event < n:
            work.seen[event] = 1
    return overflow


@compiled
def _makespan(problem: Problem, work: Workspace, length: int) -> float:
    """Time of the evaluated sequence, in seconds, if transfers overlap compute. A node that uses the bus alone is one.

    A value is freed only when its transfer has ended. Until then it is among the ``leaving`` values. If their RAM is
    needed earlier, the CPU waits.
    """
    n = problem.node_time.size
    for k in range(length):
        work.ending[k] = -1
    for life in range(work.counters[LIVES]):
        work.next_ending[life] = work.ending[work.life_end[life]]
        work.ending[work.life_end[life]] = life
    for v in range(problem.size.size):
        work.arrives[v] = 0.0
        work.let_go[v] = 0.0
    for j in range(n):
        work.first[j] = -1
    cpu = 0.0
    bus = 0.0
    leaving = 0
    leaving_bytes = 0
    newest = work.counters[LIVES] - 1
    for k in range(length):
        event = work.kept[k]
        at = 0
        while at < leaving:
            v = work.leaving[at]
            anew = event == n + v or event == problem.producer[v]
            if anew or work.let_go[v] <= cpu or work.memory[k] + leaving_bytes > problem.budget:
                cpu = max(cpu, work.let_go[v])
                leaving_bytes -= problem.size[v]
                leaving -= 1
                for rest in range(at, leaving):
                    work.leaving[rest] = work.leaving[rest + 1]
            else:
                at += 1
        if event >= n:
            v = event - n
            cpu = max(cpu, bus)
            bus = cpu + problem.in_time[v]
            work.arrives[v] = bus
            work.let_go[v] = bus
            newest -= 1
        else:
            for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
                v = problem.input_value[k_in]
                cpu = max(cpu, work.let_go[v] if problem.taken[v] else work.arrives[v])
            if problem.uses_bus[event]:
                cpu = max(cpu, bus)
                bus = cpu + problem.node_time[event]
                if problem.uses_cpu[event]:
                    cpu = bus
                else:
                    for k_in in range(problem.input_start[event], problem.input_start[event + 1]):
                        work.let_go[problem.input_value[k_in]] = bus
                    for v in range(problem.output_start[event], problem.output_start[event + 1]):
                        work.arrives[v] = bus
                        work.let_go[v] = bus
            else:
                cpu += problem.node_time[event]
            work.counters[STAMP] += 1
            while newest >= 0 and work.life_start[newest] == k:
                work.stamp[work.life_value[newest]] = work.counters[STAMP]
                newest -= 1
            for v in range(problem.output_start[event], problem.output_start[event + 1]):
                if work.paged[v] > 0 and work.first[event] < 0:
                    cpu = max(cpu, bus)
                    bus = cpu + problem.out_time[v]
                    work.let_go[v] = bus
                if work.let_go[v] > cpu and work.stamp[v] != work.counters[STAMP]:
                    work.leaving[leaving] = v
                    leaving += 1
                    leaving_bytes += problem.size[v]
            work.first[event] = k
        life = work.ending[k]
        while life >= 0:
            v = work.life_value[life]
            if work.let_go[v] > cpu:
                work.leaving[leaving] = v
                leaving += 1
                leaving_bytes += problem.size[v]
            life = work.next_ending[life]
    return max(cpu, bus)
