# SPDX-License-Identifier: Apache-2.0
"""The price of the last bytes: whether a little more RAM would save much of a plan's energy.

A few short searches in larger budgets answer it, each from the schedules that are known. What they say is true of
schedules that were found and replayed; a longer search may find that still less RAM saves as much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from poet_profiles.graph import Graph
from poet_profiles.plan_folder.summary import MoreRam
from poet_profiles.schedule import Objective, Schedule

from poet_planner.schedule.verify import verify
from poet_planner.solve import OptimiseOptions, optimise

# Of the time limit, and at most.
TIME_SHARE = 0.1
MOST_SECONDS = 2.0
SEARCHES = 4
# Only expensive plans are asked about: overhead above the store-all schedule's energy, relative.
DEAR = 0.1
# How much more RAM is a little; what it has to save of the plan's energy; and what of that counts as much as all.
MOST_MORE = 0.2
LEAST_SAVED = 0.1
AS_GOOD = 0.9
# A search may end once this much is open.
GAP = 0.01
# Budgets are rounded up to whole KB, those below 64 KB to whole words.
KB, WORD = 1024, 4


def seconds_for(time_limit_s: float) -> float:
    """What of a time limit is kept for the question."""
    return min(TIME_SHARE * time_limit_s, MOST_SECONDS)


def more_ram(
    graph: Graph, schedule: Schedule, store_all: Schedule, options: OptimiseOptions, most_bytes: int | None = None
) -> MoreRam | None:
    """How little more RAM would save much energy; None if a fifth more would not, or the plan is cheap.

    ``schedule`` is of least energy within its budget, as far as is known; ``store_all`` is the graph's store-all
    schedule. The time limit is that of all searches together. No more than ``most_bytes`` of RAM are asked about.
    """
    budget = schedule.ram_budget_bytes
    dear = schedule.energy_j > (1 + DEAR) * store_all.energy_j
    if not dear or options.objective is not Objective.ENERGY:
        return None
    quick = replace(
        options,
        time_limit_s=options.time_limit_s / SEARCHES,
        starts=(schedule, store_all),
        gap=GAP,
        statistics=None,
        progress=None,
    )

    def cheapest_within(ram_bytes: int) -> Schedule:
        found = optimise(graph, ram_bytes, schedule.deadline_s, quick)
        return found if verify(graph, found).sound else schedule

    fifth_more = int((1 + MOST_MORE) * budget)
    most_bytes = fifth_more if most_bytes is None else min(most_bytes, fifth_more)
    best = _least(graph, schedule, most_bytes, cheapest_within)
    if best is None:
        return None
    unit = KB if budget >= 64 * KB else WORD
    ram_bytes = min(-(-needed_bytes(graph, best) // unit) * unit, most_bytes)
    return MoreRam(ram_bytes, ram_bytes - budget, best.energy_j, _saved(schedule, best))


def needed_bytes(graph: Graph, schedule: Schedule) -> int:
    """The smallest budget within which a schedule is sound."""
    return max(schedule.peak_bytes, graph.resident_bytes + schedule.arena_bytes)


def _least(
    graph: Graph, schedule: Schedule, most_bytes: int, cheapest_within: Callable[[int], Schedule]
) -> Schedule | None:
    """A schedule that needs as little more RAM as was found to save about as much as the most does."""
    too_small = schedule.ram_budget_bytes
    best = cheapest_within(most_bytes)
    wanted = AS_GOOD * _saved(schedule, best)
    if wanted < AS_GOOD * LEAST_SAVED:
        return None
    for _ in range(SEARCHES - 1):
        ram_bytes = (too_small + needed_bytes(graph, best)) // 2
        if ram_bytes <= too_small:
            break
        found = cheapest_within(ram_bytes)
        if _saved(schedule, found) >= wanted:
            best = found
        else:
            too_small = ram_bytes
    return best


def _saved(schedule: Schedule, cheaper: Schedule) -> float:
    return 1 - cheaper.energy_j / schedule.energy_j
