# SPDX-License-Identifier: Apache-2.0
"""What the work between two event points costs at least, with the RAM limited throughout.

A shortest path backwards in time over what has to be in RAM, in compiled code. Sets of values are bits of an integer.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints
from poet_planner.solve.jit import allocating, compiled

MOST_VALUES = 61
# States looked at before only a lower bound is told: first few, for most stages are done with them.
FEW_STATES = 1000
MOST_STATES = 20000
# Entries of a state's phase: how many of the values that may be missing in the end are decided, or one of these.
BETWEEN, BEGUN = 62, 63


class Stage(NamedTuple):
    """What a stage is made of. Values count 0..k-1, nodes 0..c-1 in a topological order.

    Attributes
    ----------
    size : (k,) bytes
    in_energy : (k,) of a page-in, infinite where there is none
    node_energy : (c,) of the nodes that may be computed
    inputs, own : (c,) sets
    workspace : (c,) bytes
    base : set of what is in RAM at the beginning for certain
    spare : bytes that other values may take at the beginning
    goal : set of what has to be in RAM in the end
    last : bytes that the compute at the end takes beside its inputs
    budget : bytes
    """

    size: Ints
    in_energy: Floats
    node_energy: Floats
    inputs: Ints
    own: Ints
    workspace: Ints
    base: np.int64
    spare: np.int64
    goal: np.int64
    last: np.int64
    budget: np.int64


class Prices(NamedTuple):
    """What is charged on top of the energy, in its unit.

    Attributes
    ----------
    begin : (k,) for being in RAM at the beginning though not of the base, infinite where that may not be
    wanted : the values that may miss in the end for a charge
    end : that charge, for each of them
    paging : (k,) once for each value that is paged in
    """

    begin: Floats
    wanted: Ints
    end: Floats
    paging: Floats


class Way(NamedTuple):
    """A cheapest way through a stage; its prices are part of ``cost``.

    Where not ``exact``, ``cost`` is only a lower bound. ``begin``: set of what it found in RAM beside the base;
    ``end``: of what it left there; ``paged``: of what it paged in for a price.
    """

    cost: float
    exact: bool
    begin: int
    end: int
    paged: int


def cheapest(stage: Stage, prices: Prices, enough: float = np.inf) -> Way:
    """A cheapest way through the stage; infinite cost where there is none.

    Parameters
    ----------
    enough : float
        Ways that cost as much are not looked for; where there is no cheaper one, this is the cost.
    """
    way = Way(*_cheapest(stage, prices, FEW_STATES, enough))
    return way if way.exact else Way(*_cheapest(stage, prices, MOST_STATES, enough))


@compiled
def _to_go(stage, begin, ram):  # type: ignore[no-untyped-def]
    """At least so much is to be paid for having ``ram``: for each node that surely is computed, at least once."""
    missing = ram & ~stage.base
    cost = 0.0
    for j in range(stage.node_energy.size - 1, -1, -1):
        own = stage.own[j] & missing
        if own != 0:
            other = 0.0
            for v in range(stage.size.size):
                if own >> v & 1:
                    other = max(other, min(begin[v], stage.in_energy[v]))
            cost += min(other, stage.node_energy[j])
            if other == np.inf:
                missing |= stage.inputs[j] & ~stage.base
            missing &= ~own
    for v in range(stage.size.size):
        if missing >> v & 1:
            cost += min(begin[v], stage.in_energy[v])
    return cost


@compiled
def _bytes(stage, values):  # type: ignore[no-untyped-def]
    total = 0
    for v in range(stage.size.size):
        if values >> v & 1:
            total += stage.size[v]
    return total


@compiled
def _slot(table, ram, paid, phase, wanted):  # type: ignore[no-untyped-def]
    """Where in the hash table the state ``wanted`` (ram, paid, phase) is, or belongs."""
    mixed = wanted[0] * 0x9E3779B97F4A7C1 + wanted[1] * 0x2545F4914F6CDD1D + wanted[2] * 0x5851F42D4C957F2
    slot = (mixed ^ (mixed >> 29)) & (table.size - 1)
    while table[slot] >= 0:
        at = table[slot]
        if ram[at] == wanted[0] and paid[at] == wanted[1] and phase[at] == wanted[2]:
            break
        slot = (slot + 1) & (table.size - 1)
    return slot


@compiled
def _put(state, ram, paid, phase):  # type: ignore[no-untyped-def]
    state[0] = ram
    state[1] = paid
    state[2] = phase


@compiled
def _moves(stage, prices, state, into, cost):  # type: ignore[no-untyped-def]
    """What may have come right before ``state`` (ram, paid, phase), and what it cost; returns how many there are."""
    now, paid, phase = state
    count = 0
    if phase < BETWEEN:
        v = prices.wanted[phase]
        follow = phase + 1 if phase + 1 < prices.wanted.size else BETWEEN
        _put(into[count], now, paid, follow)
        cost[count] = prices.end[phase]
        count += 1
        more = now | (np.int64(1) << v)
        if _bytes(stage, more) + stage.last <= stage.budget:
            _put(into[count], more, paid, follow)
            cost[count] = 0.0
            count += 1
        return count
    beside = now & ~stage.base
    if _bytes(stage, beside) <= stage.spare:
        _put(into[count], now, paid, BEGUN)
        cost[count] = 0.0
        for v in range(stage.size.size):
            if beside >> v & 1:
                cost[count] += prices.begin[v]
        count += cost[count] < np.inf
    for j in range(stage.node_energy.size):
        made = stage.own[j] & now
        if made != 0:
            before = (now & ~made) | stage.inputs[j]
            if _bytes(stage, before | stage.own[j]) + stage.workspace[j] <= stage.budget:
                _put(into[count], before, paid, BETWEEN)
                cost[count] = stage.node_energy[j]
                count += 1
    for v in range(stage.size.size):
        bit = np.int64(1) << v
        if now & bit and stage.in_energy[v] < np.inf:
            cost[count] = stage.in_energy[v]
            owed = paid
            if prices.paging[v] > 0.0:
                owed |= bit
                if not paid & bit:
                    cost[count] += prices.paging[v]
            _put(into[count], now & ~bit, owed, BETWEEN)
            count += 1
    return count


@allocating
def _cheapest(stage, prices, most_states, enough):  # type: ignore[no-untyped-def]
    slots = 4096
    while slots < 2 * most_states:
        slots *= 2
    table = np.full(slots, -1, dtype=np.int32)
    ram = np.empty(most_states, dtype=np.int64)
    paid = np.empty(most_states, dtype=np.int64)
    phase = np.empty(most_states, dtype=np.int64)
    end = np.empty(most_states, dtype=np.int64)
    best = np.empty(most_states)
    to_go = np.empty(most_states)
    done = np.zeros(most_states, dtype=np.bool_)
    room = stage.node_energy.size + stage.size.size + 2
    into = np.zeros((room, 3), dtype=np.int64)
    cost = np.zeros(room)
    first = 0 if prices.wanted.size > 0 else BETWEEN
    _put(into[0], stage.goal, np.int64(0), first)
    moves = 1
    count = 0
    at = np.int64(-1)
    here = 0.0
    waiting = [(0.0, np.int64(0))]
    waiting.pop()
    while True:
        for move in range(moves):
            slot = _slot(table, ram, paid, phase, into[move])
            found = table[slot]
            if found < 0:
                remaining = 0.0 if into[move, 2] == BEGUN else _to_go(stage, prices.begin, into[move, 0])
                if here + cost[move] + remaining >= enough:
                    continue
                if count == most_states:
                    lowest = here + to_go[at]
                    return lowest, False, np.int64(0), np.int64(0), np.int64(0)
                found = count
                count += 1
                table[slot] = found
                ram[found], paid[found], phase[found] = into[move, 0], into[move, 1], into[move, 2]
                best[found] = np.inf
                to_go[found] = remaining
            if here + cost[move] < best[found]:
                best[found] = here + cost[move]
                end[found] = end[at] if at >= 0 and phase[at] == BETWEEN else ram[found]
                heappush(waiting, (best[found] + to_go[found], np.int64(found)))
        at = np.int64(-1)
        while len(waiting) > 0 and at < 0:
            _, lowest_at = heappop(waiting)
            if not done[lowest_at]:
                at = lowest_at
        if at < 0:
            return enough, True, np.int64(0), np.int64(0), np.int64(0)
        done[at] = True
        here = best[at]
        if phase[at] == BEGUN:
            return here, True, ram[at] & ~stage.base, end[at], paid[at]
        moves = _moves(stage, prices, (ram[at], paid[at], phase[at]), into, cost)
