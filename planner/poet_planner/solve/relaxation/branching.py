# SPDX-License-Identifier: Apache-2.0
"""Branching on aggregated integers, before the MILP solver gets the rest (docs/optimiser/relaxation.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from poet_planner.solve.instance import Floats, Ints
from poet_planner.solve.relaxation.cutting_planes import Branch, LpRelaxation
from poet_planner.solve.time_budget import OnProgress, TimeBudget, ignore_progress

MOST_BRANCHES = 8
# Shares of what the branch's bound lacks. A split has to raise its lower side by WORTH, or by LITTLE where the other
# side is ruled out; one that raises it by ENOUGH is taken without looking at others.
WORTH = 0.05
LITTLE = 1e-3
ENOUGH = 0.2
MOST_TRIED = 3
FRACTION = 1e-4
PATIENCE = 2


def explore(
    lp: LpRelaxation,
    whole: Branch,
    cutoff: Callable[[], float],
    budget: TimeBudget,
    on_progress: OnProgress = ignore_progress,
) -> list[Branch]:
    """Split ``whole`` by aggregated integers as long as that raises the bound.

    Parameters
    ----------
    cutoff : callable
        As in `LpRelaxation.add_cuts`.
    on_progress : callable
        Told the bound of all that is left, and the cutoff.

    Returns
    -------
    list of Branch
        Those left, the lowest bound first. What none of them holds costs at least the cutoff.
    """
    waiting = [whole]
    done: list[Branch] = []
    while waiting and len(waiting) + len(done) < MOST_BRANCHES and not budget.expired:
        lowest = waiting.pop(0)
        if lowest.bound >= cutoff():
            continue
        children = _split(lp, lowest, cutoff, budget)
        if not children:
            done.append(lowest)
            continue
        for child in children:
            if child.bound < cutoff():
                child = lp.add_cuts(child, cutoff, budget, PATIENCE)
            if child.bound < cutoff():
                waiting.append(child)
        waiting.sort(key=_bound)
        on_progress(min([branch.bound for branch in waiting + done], default=cutoff()), cutoff())
    return sorted(waiting + done, key=_bound)


def _bound(branch: Branch) -> float:
    return branch.bound


def _split(lp: LpRelaxation, branch: Branch, cutoff: Callable[[], float], budget: TimeBudget) -> list[Branch]:
    """Two branches between which one aggregated integer is no fraction any more; none if no split is worth it."""
    cost = lp.relaxation.model.cost
    values = aggregates_at(lp.aggregates, branch.point)
    below = np.floor(values + FRACTION)
    fraction = np.maximum(values - below, 0.0)
    weight = np.array([cost[columns[0]] for columns in lp.aggregates]) * np.minimum(fraction, 1 - fraction)
    lacking = cutoff() - branch.bound
    best: list[Branch] = []
    best_gain = 0.0
    for count in np.argsort(-weight)[:MOST_TRIED]:
        if fraction[count] < FRACTION:
            break
        most, least = branch.aggregate_upper.copy(), branch.aggregate_lower.copy()
        most[count], least[count] = below[count], below[count] + 1
        sides = [
            lp.solve(side, cutoff, budget)
            for side in (replace(branch, aggregate_upper=most), replace(branch, aggregate_lower=least))
        ]
        solved = [side for side in sides if side is not None]
        if len(solved) < 2:
            break
        gain, other = sorted(min(side.bound, cutoff()) - branch.bound for side in solved)
        if gain > best_gain and gain > (LITTLE if other >= lacking else WORTH) * lacking:
            best, best_gain = solved, gain
        if best_gain > ENOUGH * lacking:
            break
    return best


def aggregates_at(aggregates: tuple[Ints, ...], point: Floats) -> Floats:
    """The aggregated integers at a point of the LP."""
    return np.array([point[columns].sum() for columns in aggregates])
