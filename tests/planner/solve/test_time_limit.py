# SPDX-License-Identifier: Apache-2.0
"""Once a part knows that the time is up, nothing that takes time is begun: by a clock that stands, then jumps.

How far a run gets before the jump depends on the machine, what may be begun after it does not. And what the processor's
clock and the threads do before it has jumped changes no plan.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import resolve_name
from random import Random
from typing import Any

import pytest
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.solve import NoScheduleError, OptimiseOptions, optimise
from poet_planner.solve.feasibility.least_ram import what_would_do
from poet_planner.solve.search import annealing
from poet_planner.solve.statistics import Parts
from poet_planner.solve.time_budget import TimeBudget
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule, Status

from benchmarks.planner.layered import layered_graph
from tests.support.graphs.chains import chain

LIMIT_S = 60.0
BRIEF_S = 2.0
MOST_PLACEMENTS = 2  # for the schedule that was found, and the one that pages all
TAKES_TIME = (
    *("search.annealing.anneal", "search.annealing.reorder", "relaxation.refinement.build_relaxation"),
    *("relaxation.cutting_planes.Lp", "relaxation.cutting_planes.separate", "milp.solvers.Highs._solve"),
    "placement.assign.place",
)


class JumpingClock:
    """Stands still while it is asked ``calls`` times, then says that a day has passed."""

    def __init__(self, calls: int) -> None:
        self._calls = calls

    def __call__(self) -> float:
        self._calls -= 1
        return 86_400.0 if self.has_jumped else 0.0

    @property
    def has_jumped(self) -> bool:
        return self._calls < 0


class Watch:
    """Counts what is begun after anybody knows that a budget has expired, where the ``clock`` has jumped.

    Only in the thread of the run: what works in the background is stopped by this one, and may be a moment late. What
    would do where nothing was found takes work that no clock ends.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: JumpingClock) -> None:
        self.begun: Counter[str] = Counter()
        self.begun_late: Counter[str] = Counter()
        self._is_known = False
        left = TimeBudget.left

        def noting(budget: TimeBudget) -> float:
            seconds = left(budget)
            is_run = threading.current_thread() is threading.main_thread()
            self._is_known |= seconds <= 0 and clock.has_jumped and is_run
            return seconds

        monkeypatch.setattr(TimeBudget, "left", noting)
        for name in TAKES_TIME:
            self._count(monkeypatch, name)
        monkeypatch.setattr(import_module("poet_planner.solve.optimise"), "what_would_do", self._refused)

    def _refused(self, *arguments: Any) -> Any:
        """Nothing from here on is late."""
        begun_late = self.begun_late.copy()
        try:
            return what_would_do(*arguments)
        finally:
            self.begun_late = begun_late

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        dotted = f"poet_planner.solve.{name}"
        original = resolve_name(dotted)

        def counted(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self.begun[name] += 1
                self.begun_late[name] += self._is_known
            return original(*arguments, **named)

        monkeypatch.setattr(dotted, counted)


@dataclass(frozen=True)
class Instance:
    """What is planned, in which share of the RAM and how many times the time that the store-all schedule takes."""

    graph: Graph
    ram: float
    deadline: float | None = None
    paging: bool = True
    parts: Parts = field(default_factory=Parts)

    def plan(self, clock: Callable[[], float] = time.process_time) -> None:
        plain = store_all_schedule(self.graph)
        deadline_s = self.deadline and self.deadline * plain.time_s
        options = OptimiseOptions(time_limit_s=LIMIT_S, paging=self.paging, parts=self.parts, clock=clock)
        with suppress(NoScheduleError):
            optimise(self.graph, int(self.ram * plain.peak_bytes), deadline_s, options)


WIDE = layered_graph(60, 10, 0)
# Without what proves such a chain before the relaxation does.
BY_RELAXATION = Parts(state_space=False, retained_sets=False, background_search=False)
INSTANCES = {
    "wide": Instance(WIDE, 0.6),
    "wide, no storage": Instance(WIDE, 0.6, paging=False),
    "urgent": Instance(WIDE, 0.6, 1.02),
    "too large": Instance(WIDE, 0.1),
    "bottlenecks": Instance(chain(20), 0.3),
    "relaxation": Instance(chain(10), 0.6, parts=BY_RELAXATION),
}


@pytest.mark.parametrize("calls", [1, 40, 200, 1000])
@pytest.mark.parametrize("name", INSTANCES)
def test_nothing_that_takes_time_is_begun_when_the_time_is_up(
    name: str, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = JumpingClock(calls)
    watch = Watch(monkeypatch, clock)
    INSTANCES[name].plan(clock)
    assert watch.begun_late.pop("placement.assign.place", 0) <= MOST_PLACEMENTS
    assert +watch.begun_late == Counter()


def test_what_takes_time_is_begun_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the test above could not fail."""
    watch = Watch(monkeypatch, JumpingClock(0))
    INSTANCES["relaxation"].plan()
    searched = {"search.annealing.anneal", "placement.assign.place"}
    solved = {"refinement.build_relaxation", "cutting_planes.Lp", "cutting_planes.separate"}
    assert set(watch.begun) >= searched | {f"relaxation.{name}" for name in solved}


class Slowed:
    """Work that is held up at random: as on a machine that others keep busy."""

    def __init__(self, work: Callable[..., Any], seed: int) -> None:
        self._work = work
        self._random = Random(seed)
        self.calls = 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        if self._random.random() < 0.1:
            time.sleep(0.1 * self._random.random())
        return self._work(*arguments)


def irregular(seed: int) -> Callable[[], float]:
    """A clock of another speed each time it is read, which stays within the limit."""
    random, now_s = Random(seed), 0.0

    def clock() -> float:
        nonlocal now_s
        now_s += random.random() ** 8 * (BRIEF_S - now_s)
        return now_s

    return clock


@pytest.mark.parametrize(
    ("graph", "ram", "deadline", "paging"),
    [
        (WIDE, 0.5, None, True),
        (WIDE, 0.6, 1.1, True),
        (WIDE, 0.6, None, False),
        (layered_graph(200, 4, 1), 0.6, None, True),
    ],
)
def test_neither_the_clock_nor_the_speed_of_a_thread_changes_the_plan(
    graph: Graph, ram: float, deadline: float | None, paging: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    anneal, plain = annealing.anneal, store_all_schedule(graph)
    plans: list[Schedule] = []
    moves: list[int] = []
    for seed in range(3):
        slowed = Slowed(anneal, seed)
        monkeypatch.setattr(annealing, "anneal", slowed)
        options = OptimiseOptions(time_limit_s=BRIEF_S, paging=paging, clock=irregular(seed))
        plans.append(optimise(graph, int(ram * plain.peak_bytes), deadline and deadline * plain.time_s, options))
        moves.append(slowed.calls)
    assert plans[0].steps == plans[1].steps == plans[2].steps
    assert plans[0].bound_j == plans[1].bound_j == plans[2].bound_j
    # Once a plan is proven to be optimal, what goes on beside the proof is stopped wherever it is.
    assert plans[0].status is Status.OPTIMAL or moves[0] == moves[1] == moves[2]
