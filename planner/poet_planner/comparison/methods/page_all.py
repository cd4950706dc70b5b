# SPDX-License-Identifier: Apache-2.0
"""Page-all as a method: the schedule, if it keeps the limits."""

from __future__ import annotations

from poet_planner.comparison.methods.limits import single_schedule
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.page_all import page_all_schedule

METHOD = Method(
    name="page_all",
    source="the simplest policy that trains beyond the RAM",
    decides="nothing: every value is paged out once, and in for each use",
    schedule=single_schedule(page_all_schedule, "page-all"),
    recomputes=False,
    pages=True,
    keeps_deadline=False,
    takes=(),
    general=Aware.YES,
    compute_aware=Aware.NO,
    memory_aware=Aware.NO,
    power_aware=Aware.NO,
)
