# SPDX-License-Identifier: Apache-2.0
"""Restoration and cover cuts of the order-free MILP, separated in compiled code.

The *interval* of value v after event point t consists of the stages t + 1 to tau. At some time of the interval v must
be in RAM. A *restoration cut* says that v is kept, or computed or paged in within the interval. A *cover cut* says that
of the values that exceed the RAM at an event point enough bytes are restored. Cover cuts are strengthened by
mixed-integer rounding (Marchand and Wolsey 2001).

See docs/optimiser/relaxation.md, "Cutting planes", for the proofs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from poet_planner.solve.instance import Floats, Ints, Problem
from poet_planner.solve.jit import allocating, compiled, inlined
from poet_planner.solve.relaxation.columns import Columns

VIOLATION = 1e-3  # least violation of a cut that is added, relative to its right-hand side
UNBROKEN = 2**60  # a divisor that leaves a cover cut as it is
MOST_DIVISORS = 16  # sizes that a cover cut is rounded with; of more sizes some are skipped


class Point(NamedTuple):
    """A point of the LP.

    Attributes
    ----------
    computed, paged : (stages + 1, n or m) sums over the stages before
    kept, out : (event points, m), (m,)
    """

    computed: Floats
    paged: Floats
    kept: Floats
    out: Floats


class Cuts(NamedTuple):
    """Rows ``sum(coefficients * columns) >= 1``; row r begins at ``starts[r]``."""

    starts: Ints
    columns: Ints
    coefficients: Floats


NO_CUTS = Cuts(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))


class Row(NamedTuple):
    """A row under construction.

    Attributes
    ----------
    weights : (columns,) coefficients
    touched : (columns,) the columns whose coefficients are not 0, in the first entries
    """

    weights: Floats
    touched: Ints


def separate(problem: Problem, columns: Columns, x: Floats) -> Cuts:
    """The cuts that ``x`` violates: restoration cuts and cover cuts."""
    padded = np.append(x, 0.0)

    def running(numbers: Ints) -> Floats:
        sums: Floats = np.zeros((len(numbers) + 1, numbers.shape[1]))
        np.cumsum(padded[numbers], axis=0, out=sums[1:])
        return sums

    point = Point(running(columns.compute), running(columns.page_in), padded[columns.keep], padded[columns.page_out])
    starts, numbers, coefficients = _separate(problem, columns, point)
    return Cuts(starts, numbers, coefficients)


@compiled
def _find_chains(p: Problem, columns: Columns, point: Point, t: int, tau: int, chain: Ints, restored: Floats) -> None:
    """For each value: how much of it the point restores at least in the interval, and by which chain.

    A value is paged in, or its producer is computed, for which each input is kept or restored in turn. ``chain[v]`` is
    the input by which the chain of v goes on, or -1 where it ends with the computes of the producer.
    """
    for v in range(p.size.size):
        j = p.producer[v]
        least = point.computed[tau + 1, j] - point.computed[t + 1, j]
        through = -1
        for k in range(p.input_start[j], p.input_start[j + 1]):
            u = p.input_value[k]
            if p.size[u] > 0:
                amount = point.kept[t, u] + restored[u]
                if amount < least - 1e-9:
                    least = amount
                    through = u
        chain[v] = through
        paging = point.paged[tau + 1, v] - point.paged[t + 1, v]
        restored[v] = least + min(paging, point.out[v])


@inlined
def _add(row: Row, count: int, column: int, weight: float) -> int:
    """Add to the coefficient of a column, if there is one; returns how many columns the row has."""
    if column >= 0:
        if row.weights[column] == 0.0:
            row.touched[count] = column
            count += 1
        row.weights[column] += weight
    return count


@compiled
def _add_chain(
    p: Problem,
    columns: Columns,
    point: Point,
    t: int,
    tau: int,
    chain: Ints,
    v: int,
    weight: float,
    row: Row,
    count: int,
) -> int:
    """Add ``weight`` times the chain of v to the row; returns how many columns the row has."""
    while True:
        j = p.producer[v]
        out = columns.page_out[v]
        paging = point.paged[tau + 1, v] - point.paged[t + 1, v]
        if out >= 0 and point.out[v] < paging:
            count = _add(row, count, out, weight)
        else:
            for k in range(t + 1, tau + 1):
                count = _add(row, count, columns.page_in[k, v], weight)
        if chain[v] < 0:
            for k in range(t + 1, tau + 1):
                count = _add(row, count, columns.compute[k, j], weight)
            return count
        v = chain[v]
        count = _add(row, count, columns.keep[t, v], weight)


@allocating
def _separate(p: Problem, columns: Columns, point: Point) -> tuple[Ints, Ints, Floats]:
    """All violated cover cuts, then for each value and interval end the most violated restoration cut."""
    event_points = columns.event_points.size
    m = p.size.size
    total = point.out.size + columns.compute.size + columns.page_in.size + columns.keep.size + 1
    row = Row(np.zeros(total), np.zeros(total, dtype=np.int64))
    chains = np.zeros((event_points + 1, m), dtype=np.int64)
    restored = np.zeros((event_points + 1, m))
    # For each tau and value: the event point of the most violated restoration cut, and its violation.
    worst = np.zeros((event_points + 1, m))
    worst_at = np.full((event_points + 1, m), -1, dtype=np.int64)
    own_chain = np.zeros(m, dtype=np.int64)
    starts = [0]
    numbers = [np.int64(0)]
    coefficients = [0.0]
    numbers.pop()
    coefficients.pop()
    for t in range(event_points):
        for tau in range(t + 1, event_points + 1):
            wanted = False
            for v in range(m):
                if columns.interval_end[t, v] == tau and p.size[v] > 0:
                    wanted = True
                    break
            if not wanted:
                continue
            _find_chains(p, columns, point, t, tau, chains[tau], restored[tau])
            for v in range(m):
                if columns.interval_end[t, v] == tau and p.size[v] > 0:
                    violation = 1.0 - point.kept[t, v] - restored[tau, v]
                    if violation > VIOLATION and violation > worst[tau, v] + 1e-6:
                        worst[tau, v] = violation
                        worst_at[tau, v] = t
        _cover(p, columns, point, t, chains, restored, row, starts, numbers, coefficients)
    for tau in range(event_points + 1):
        for v in range(m):
            t = worst_at[tau, v]
            if t < 0:
                continue
            _find_chains(p, columns, point, t, tau, own_chain, restored[0])
            count = _add(row, 0, columns.keep[t, v], 1.0)
            count = _add_chain(p, columns, point, t, tau, own_chain, v, 1.0, row, count)
            _flush(row, count, starts, numbers, coefficients)
    return np.array(starts), np.array(numbers), np.array(coefficients)


@allocating
def _flush(row: Row, count: int, starts: list[int], numbers: list[np.int64], coefficients: list[float]) -> None:
    """Append the row to the cuts, and empty it."""
    for k in range(count):
        numbers.append(row.touched[k])
        coefficients.append(row.weights[row.touched[k]])
        row.weights[row.touched[k]] = 0.0
    starts.append(len(numbers))


@allocating
def _cover(
    p: Problem,
    columns: Columns,
    point: Point,
    t: int,
    chains: Ints,
    restored: Floats,
    row: Row,
    starts: list[int],
    numbers: list[np.int64],
    coefficients: list[float],
) -> None:
    """Append the most violated cover cut at event point t, if there is one.

    V is all values with an interval after t that the node of t neither needs nor makes. D is what V exceeds the RAM by.
    A, a subset of V with fewer than D bytes, is chosen greedily: the values that the point restores most. The bytes
    restored of the others must be at least D - s(A); this row is rounded with the sizes in V as divisors.
    """
    node = columns.event_points[t]
    m = p.size.size
    excess = p.workspace[node] - p.budget
    group = np.empty(m, dtype=np.int64)
    amount = np.empty(m)
    divisors = np.empty(m, dtype=np.int64)
    count = 0
    for v in range(p.output_start[node], p.output_start[node + 1]):
        excess += p.size[v]
    for k in range(p.input_start[node], p.input_start[node + 1]):
        excess += p.size[p.input_value[k]]
    for v in range(m):
        tau = columns.interval_end[t, v]
        if tau < 0 or p.size[v] == 0 or p.producer[v] == node:
            continue
        is_input = False
        for k in range(p.input_start[node], p.input_start[node + 1]):
            if p.input_value[k] == v:
                is_input = True
        if is_input:
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
            if divisors[which] == p.size[group[k]]:
                known = True
        if not known:
            divisors[distinct] = p.size[group[k]]
            distinct += 1
    if distinct > MOST_DIVISORS:
        for which in range(MOST_DIVISORS):
            divisors[which] = divisors[which * distinct // MOST_DIVISORS]
        distinct = MOST_DIVISORS
    best = VIOLATION
    best_first = -1
    best_excess = 0
    best_divisor = 0
    rest = excess
    for first in range(count + 1):
        for which in range(distinct + 1):
            divisor = UNBROKEN if which == distinct else divisors[which]
            if rest < divisor < UNBROKEN:
                continue
            activity = 0.0
            for k in range(first, count):
                v = group[k]
                activity += _rounded(p.size[v], rest, divisor) * amount[k]
                if activity >= 1.0 - best:
                    break
            if 1.0 - activity > best:
                best = 1.0 - activity
                best_first, best_excess, best_divisor = first, rest, divisor
        if first == count or amount[first] < 0.2:
            break
        rest -= p.size[group[first]]
        if rest <= 0:
            break
    if best_first < 0:
        return
    filled = 0
    for k in range(best_first, count):
        v = group[k]
        tau = columns.interval_end[t, v]
        weight = _rounded(p.size[v], best_excess, best_divisor)
        if weight > 0.0:
            filled = _add_chain(p, columns, point, t, tau, chains[tau], v, weight, row, filled)
    _flush(row, filled, starts, numbers, coefficients)


@compiled
def _sort_by_amount(group: Ints, amount: Floats, count: int) -> None:
    """Sort both, the largest amount first, by insertion: they come nearly in order."""
    for k in range(1, count):
        v, value_amount = group[k], amount[k]
        at = k
        while at > 0 and amount[at - 1] < value_amount:
            group[at], amount[at] = group[at - 1], amount[at - 1]
            at -= 1
        group[at], amount[at] = v, value_amount


@compiled
def _rounded(size: int, excess: int, divisor: int) -> float:
    """Coefficient of mixed-integer rounding, scaled to a right-hand side of 1."""
    rest = excess % divisor
    whole = size // divisor
    part = size % divisor
    if rest == 0:
        return (whole + (1.0 if part > 0 else 0.0)) / (excess // divisor)
    return (whole + min(1.0, part / rest)) / (excess // divisor + 1)
