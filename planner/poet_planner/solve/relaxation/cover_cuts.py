# SPDX-License-Identifier: Apache-2.0
"""Cutting planes of the order-free MILP (see `bound`): what its LP relaxation may not do, found in compiled code.

All speak of a *gap*: the stages after instant t up to tau, the last stage in which value v must be in RAM for the first
compute of some node. docs/optimiser/relaxation.md has the proofs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled
from poet_planner.solve.relaxation.columns import Columns

VIOLATION = 1e-3
UNBROKEN = 2**60
# Divisors that a cover cut is rounded with: more sizes than that are thinned out.
MOST_DIVISORS = 16


class Solution(NamedTuple):
    """A point of the relaxation, per stage and summed over the stages before."""

    computed: Floats
    paged: Floats
    kept: Floats
    out: Floats


class Cuts(NamedTuple):
    """Rows ``sum(coefficients * columns) >= 1``, those of row r from ``starts[r]`` on."""

    starts: Ints
    columns: Ints
    coefficients: Floats


NO_CUTS = Cuts(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


def separate(problem: Problem, columns: Columns, x: Floats, covers: bool) -> Cuts:
    """Cuts that ``x`` violates: restoration cuts, and cover cuts on top of them if wanted."""
    padded = np.append(x, 0.0)

    def running(numbers: Ints) -> Floats:
        sums: Floats = np.zeros((len(numbers) + 1, numbers.shape[1]))
        np.cumsum(padded[numbers], axis=0, out=sums[1:])
        return sums

    solution = Solution(
        running(columns.compute), running(columns.page_in), padded[columns.keep], padded[columns.page_out]
    )
    starts, numbers, coefficients = _separate(problem, columns, solution, covers)
    return Cuts(starts, numbers, coefficients)


@compiled
def _restorations(p, columns, s, t, tau, ways, restored):  # type: ignore[no-untyped-def]
    """Least that the point spends on having each value again in the gap, and by which way, for every value.

    The value is paged in, or its producer is computed again, for which each input must be kept or restored in turn.
    ``ways[v]`` is -1 where the computes of the producer are the least, else the input through which to go on.
    """
    for v in range(p.size.size):
        j = p.producer[v]
        least = s.computed[tau + 1, j] - s.computed[t + 1, j]
        way = -1
        for k in range(p.input_start[j], p.input_start[j + 1]):
            u = p.input_value[k]
            if p.size[u] > 0:
                through = s.kept[t, u] + restored[u]
                if through < least - 1e-9:
                    least = through
                    way = u
        ways[v] = way
        paging = s.paged[tau + 1, v] - s.paged[t + 1, v]
        restored[v] = least + min(paging, s.out[v])


@compiled
def _write(p, columns, s, t, tau, ways, v, weight, weights, touched, count):  # type: ignore[no-untyped-def]
    """Add ``weight`` times the restoration of v to the row in ``weights``; returns how many columns it has."""
    while True:
        j = p.producer[v]
        out = columns.page_out[v]
        paging = s.paged[tau + 1, v] - s.paged[t + 1, v]
        if out >= 0 and s.out[v] < paging:
            if weights[out] == 0.0:
                touched[count] = out
                count += 1
            weights[out] += weight
        else:
            for k in range(t + 1, tau + 1):
                column = columns.page_in[k, v]
                if column >= 0:
                    if weights[column] == 0.0:
                        touched[count] = column
                        count += 1
                    weights[column] += weight
        if ways[v] < 0:
            for k in range(t + 1, tau + 1):
                column = columns.compute[k, j]
                if column >= 0:
                    if weights[column] == 0.0:
                        touched[count] = column
                        count += 1
                    weights[column] += weight
            return count
        v = ways[v]
        column = columns.keep[t, v]
        if column >= 0:
            if weights[column] == 0.0:
                touched[count] = column
                count += 1
            weights[column] += weight


@allocating
def _separate(p, columns, s, covers):  # type: ignore[no-untyped-def]
    instants = columns.instants.size
    m = p.size.size
    total = s.out.size + columns.compute.size + columns.page_in.size + columns.keep.size + 1
    weights = np.zeros(total)
    touched = np.zeros(total, dtype=np.int64)
    ways = np.zeros((instants + 1, m), dtype=np.int64)
    restored = np.zeros((instants + 1, m))
    # Per value and use: the instant of the most violated restoration cut.
    worst = np.zeros((instants + 1, m))
    worst_at = np.full((instants + 1, m), -1, dtype=np.int64)
    own_ways = np.zeros(m, dtype=np.int64)
    starts = [0]
    numbers = [np.int64(0)]
    coefficients = [0.0]
    numbers.pop()
    coefficients.pop()
    for t in range(instants):
        for tau in range(t + 1, instants + 1):
            wanted = False
            for v in range(m):
                if columns.must[t, v] == tau and p.size[v] > 0:
                    wanted = True
                    break
            if not wanted:
                continue
            _restorations(p, columns, s, t, tau, ways[tau], restored[tau])
            for v in range(m):
                if columns.must[t, v] == tau and p.size[v] > 0:
                    short = 1.0 - s.kept[t, v] - restored[tau, v]
                    if short > VIOLATION and short > worst[tau, v] + 1e-6:
                        worst[tau, v] = short
                        worst_at[tau, v] = t
        if covers:
            _cover(p, columns, s, t, ways, restored, weights, touched, starts, numbers, coefficients)
    for tau in range(instants + 1):
        for v in range(m):
            t = worst_at[tau, v]
            if t < 0:
                continue
            _restorations(p, columns, s, t, tau, own_ways, restored[0])
            count = 0
            column = columns.keep[t, v]
            if column >= 0:
                touched[0] = column
                weights[column] = 1.0
                count = 1
            count = _write(p, columns, s, t, tau, own_ways, v, 1.0, weights, touched, count)
            _flush(weights, touched, count, starts, numbers, coefficients)
    return np.array(starts), np.array(numbers), np.array(coefficients)


@allocating
def _flush(weights, touched, count, starts, numbers, coefficients):  # type: ignore[no-untyped-def]
    for k in range(count):
        numbers.append(touched[k])
        coefficients.append(weights[touched[k]])
        weights[touched[k]] = 0.0
    starts.append(len(numbers))


@allocating
def _cover(p, columns, s, t, ways, restored, weights, touched, starts, numbers, coefficients):  # type: ignore[no-untyped-def]
    """The most violated cover cut of the RAM at instant t, if there is one.

    Values that are needed afterwards and exceed the RAM must be restored, at least as many bytes as the excess. Leaving
    aside those that (nearly) are, the rest of the excess is rounded up in units of the sizes there are.
    """
    node = columns.instants[t]
    m = p.size.size
    excess = p.workspace[node] - p.budget
    group = np.empty(m, dtype=np.int64)
    amount = np.empty(m)
    units = np.empty(m, dtype=np.int64)
    count = 0
    for v in range(p.own[node], p.own[node + 1]):
        excess += p.size[v]
    for k in range(p.input_start[node], p.input_start[node + 1]):
        excess += p.size[p.input_value[k]]
    for v in range(m):
        tau = columns.must[t, v]
        if tau < 0 or p.size[v] == 0 or p.producer[v] == node:
            continue
        read = False
        for k in range(p.input_start[node], p.input_start[node + 1]):
            if p.input_value[k] == v:
                read = True
        if read:
            continue
        group[count] = v
        amount[count] = restored[tau, v]
        excess += p.size[v]
        count += 1
    if excess <= 0 or count == 0:
        return
    _sort_by_amount(group, amount, count)
    distinct = 0
    for k in range(count):
        known = False
        for which in range(distinct):
            if units[which] == p.size[group[k]]:
                known = True
        if not known:
            units[distinct] = p.size[group[k]]
            distinct += 1
    if distinct > MOST_DIVISORS:
        for which in range(MOST_DIVISORS):
            units[which] = units[which * distinct // MOST_DIVISORS]
        distinct = MOST_DIVISORS
    best = VIOLATION
    best_from = -1
    best_excess = 0
    best_unit = 0
    left = excess
    for first in range(count + 1):
        for which in range(distinct + 1):
            unit = UNBROKEN if which == distinct else units[which]
            if left < unit < UNBROKEN:
                continue
            total = 0.0
            for k in range(first, count):
                v = group[k]
                total += _rounded(p.size[v], left, unit) * amount[k]
                if total >= 1.0 - best:
                    break
            if 1.0 - total > best:
                best = 1.0 - total
                best_from, best_excess, best_unit = first, left, unit
        if first == count or amount[first] < 0.2:
            break
        left -= p.size[group[first]]
        if left <= 0:
            break
    if best_from < 0:
        return
    filled = 0
    for k in range(best_from, count):
        v = group[k]
        tau = columns.must[t, v]
        weight = _rounded(p.size[v], best_excess, best_unit)
        if weight > 0.0:
            filled = _write(p, columns, s, t, tau, ways[tau], v, weight, weights, touched, filled)
    _flush(weights, touched, filled, starts, numbers, coefficients)


@compiled
def _sort_by_amount(group, amount, count):  # type: ignore[no-untyped-def]
    """Sort both, the largest amount first (insertion sort: they come nearly in order)."""
    for k in range(1, count):
        v, much = group[k], amount[k]
        at = k
        while at > 0 and amount[at - 1] < much:
            group[at], amount[at] = group[at - 1], amount[at - 1]
            at -= 1
        group[at], amount[at] = v, much


@compiled
def _rounded(size, excess, unit):  # type: ignore[no-untyped-def]
    """Coefficient of mixed-integer rounding with divisor ``unit``, scaled to a right-hand side of 1."""
    rest = excess % unit
    whole = size // unit
    part = size % unit
    if rest == 0:
        return (whole + (1.0 if part > 0 else 0.0)) / (excess // unit)
    return (whole + min(1.0, part / rest)) / (excess // unit + 1)
