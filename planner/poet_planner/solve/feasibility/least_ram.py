# SPDX-License-Identifier: Apache-2.0
"""The least RAM in which a schedule is known, offsets included, whatever RAM was asked for.

Its work is counted and no clock ends it, so equal seeds give equal numbers on any computer: see
docs/optimiser/feasibility.md, "The smallest RAM".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from poet_profiles.graph import Graph

from poet_planner.solve.feasibility.deadline import SEARCH_S
from poet_planner.solve.feasibility.minimum_ram import CLOSE, bracket_minimum_ram, fastest_schedule, page_all, store_all
from poet_planner.solve.feasibility.refusal import Known, known_of
from poet_planner.solve.instance import WORD, Problem, working_set_bytes
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.placement.allocated import allocated
from poet_planner.solve.placement.assign import PlacedSchedule
from poet_planner.solve.placement.first_fit import alive_bytes, place
from poet_planner.solve.search.annealer import moves_per_second
from poet_planner.solve.search.decode import decode
from poet_planner.solve.search.incumbent import Incumbent, evaluated
from poet_planner.solve.search.portfolio import Portfolio
from poet_planner.solve.statistics import Component, Context
from poet_planner.solve.time_budget import TimeBudget

BRACKET_SHARE = 0.7  # of the work; the rest is for offsets
OTHERS = 8  # schedules that are tried where the one of the smallest peak gets no offsets there
FASTEST_S = 1.0  # work for the shortest time within a RAM, and for its offsets: reference seconds


@dataclass(frozen=True)
class LeastRam:
    """What is known of the RAM that a graph takes, in bytes without the resident tensors."""

    impossible_below_bytes: int  # in less there is no schedule
    placed: PlacedSchedule  # the schedule that takes the least, as far as is known; its arena is how much


def what_would_do(
    graph: Graph, problem: Problem, seed: int, solver: Solver, work_s: float, context: Context | None = None
) -> tuple[Known, PlacedSchedule | None]:
    """What is known of a graph's limits once the least RAM and the shortest time have been looked for.

    The least RAM may take ``work_s`` of work: reference seconds. With it comes a schedule within the limits, if one of
    those found is.
    """
    known = known_of(graph, problem)
    in_time = known.computing_s <= known.asked_s
    least = least_ram(graph, problem, seed, solver, work_s, context) if in_time else None
    quickest = _fastest(graph, problem, seed)
    for made in (least.placed if least else None, quickest):
        if made is not None and made.placement.arena_bytes <= problem.budget and made.decoded.time_s <= known.asked_s:
            return known, made
    if least is not None:
        bytes_ = least.impossible_below_bytes, least.placed.placement.arena_bytes
        below, possible = (graph.resident_bytes + size for size in bytes_)
        known = replace(known, impossible_below_bytes=below, possible_bytes=possible)
    return replace(known, possible_s=None if quickest is None else quickest.decoded.time_s), None


def least_ram(
    graph: Graph, problem: Problem, seed: int, solver: Solver, work_s: float, context: Context | None = None
) -> LeastRam:
    """The least RAM within the deadline, which computing every node once keeps; the problem's own RAM does not count.

    It may take ``work_s`` of work: reference seconds.
    """
    context = context or Context()
    problem = replace(problem, budget=int(working_set_bytes(problem).max(initial=0)))
    budget = TimeBudget(work_s)
    paged = page_all(graph, problem)
    bracket = bracket_minimum_ram(problem, seed, solver, budget.share(BRACKET_SHARE), context, paged)
    best = _with_offsets(graph, problem, bracket.schedule, budget.share(0.5))
    for one in _others(replace(problem, budget=bracket.feasible_bytes), seed, budget, context):
        if best.placement.arena_bytes <= CLOSE * bracket.feasible_bytes or budget.expired:
            break
        made = _with_offsets(graph, problem, one, budget.share(1 / OTHERS))
        best = min(best, made, key=lambda placed: placed.placement.arena_bytes)
    return LeastRam(bracket.infeasible_bytes + WORD, best)


def _fastest(graph: Graph, problem: Problem, seed: int) -> PlacedSchedule | None:
    """The fastest schedule with offsets within the RAM that is found, late or not; None if none is."""
    found = fastest_schedule(problem, seed, TimeBudget(FASTEST_S))
    if found is None:
        return None
    made = _with_offsets(graph, problem, found, TimeBudget(FASTEST_S))
    return made if made.placement.arena_bytes <= problem.budget else None


def _with_offsets(graph: Graph, problem: Problem, one: Incumbent, budget: TimeBudget) -> PlacedSchedule:
    """A schedule with offsets in as little RAM as is found."""
    # What was found with time in the place of energy has its energy only now.
    found = evaluated(problem, one.events, one.source or Component.FEASIBILITY)
    assert found is not None
    if graph.allocates:
        return allocated(graph, problem, found)
    decoded = decode(graph, problem, found.events)
    decoded = replace(decoded, peak=int(alive_bytes(graph, decoded.steps).max(initial=0)))
    return PlacedSchedule(found, decoded, place(graph, decoded.steps, decoded.peak, budget))


def _others(problem: Problem, seed: int, budget: TimeBudget, context: Context) -> Iterator[Incumbent]:
    """The store-all schedule, and others within the peak that got no offsets there."""
    yield store_all(problem)
    search = Portfolio(problem, seed, context=context)
    search.run(int(SEARCH_S * moves_per_second(problem)), budget)
    yield from (one for one in search.found[:OTHERS] if one.time <= problem.deadline)
