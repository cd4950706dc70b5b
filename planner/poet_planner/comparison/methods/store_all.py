# SPDX-License-Identifier: Apache-2.0
"""Store-all as a method: the schedule, if it keeps the limits; of a whole batch, or of the fewest parts that fit."""

from __future__ import annotations

from dataclasses import replace

from poet_planner.comparison.methods.limits import single_schedule
from poet_planner.planning.method import Aware, Method
from poet_planner.schedule.store_all import store_all_schedule

METHOD = Method(
    name="store_all",
    source="what a framework does that neither recomputes nor pages",
    decides="nothing: every value is kept until its last use",
    schedule=single_schedule(store_all_schedule, "store-all"),
    recomputes=False,
    pages=False,
    keeps_deadline=False,
    takes=(),
    general=Aware.YES,
    compute_aware=Aware.NO,
    memory_aware=Aware.NO,
    power_aware=Aware.NO,
)
IN_MICRO_BATCHES = replace(
    METHOD,
    name="store_all_micro_batches",
    source="gradient accumulation, as people do it by hand",
    decides="in how many equal parts a batch goes through the network: as few as fit",
    memory_aware=Aware.YES,
    in_parts=True,
)
