# SPDX-License-Identifier: Apache-2.0
"""The parts of the optimiser: which are on, and what each did (time, bound raised, schedules found)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

# Relative; a schedule that costs less by no more than this is no improvement: sums of the same energies in another
# order differ as much.
SAME = 1e-12


class Component(StrEnum):
    """The parts of the optimiser. Those that are fields of `Parts` can be switched off."""

    ANNEALING = "annealing"
    ORDERS = "orders"
    EVICTION = "eviction"
    CROSSOVER = "crossover"
    LAGRANGIAN = "lagrangian"
    ENERGY_CAP = "energy_cap"
    BACKGROUND_SEARCH = "background_search"
    RETAINED_SETS = "retained_sets"
    STATE_SPACE = "state_space"
    AGGREGATION = "aggregation"
    DOWNSETS = "downsets"
    RELAXATION = "relaxation"
    EVENT_POINTS = "event_points"
    COVER_CUTS = "cover_cuts"
    ROUNDING_CUTS = "rounding_cuts"
    MILP = "milp"
    FEASIBILITY = "feasibility"
    PLACEMENT = "placement"
    CANONICAL = "canonical"
    EJECTION = "ejection"
    REPLANNING = "replanning"


@dataclass(frozen=True)
class Parts:
    """Which parts of the optimiser are on. Without any a plan is as sound, but may cost more or be less proven."""

    orders: bool = True  # store-all schedules in orders that need little RAM
    eviction: bool = True  # starts made by passes of cost-aware eviction
    crossover: bool = True  # annealing passes from offspring of two good schedules
    lagrangian: bool = True  # annealing passes with a Lagrange multiplier in place of the deadline
    energy_cap: bool = True  # annealing passes with an energy cap just below the best schedule (strategic oscillation)
    background_search: bool = True  # annealing beside the proof, in a thread of its own
    retained_sets: bool = True  # shortest paths over the sets of values that stay in RAM at the bottleneck nodes
    state_space: bool = True  # shortest paths over memory states; without it no ``aggregation`` of them either
    aggregation: bool = True  # values that are cheap to get from one another, as one
    downsets: bool = True  # the RAM when the last node of a downset is first computed, for large graphs
    relaxation: bool = True  # the order-free relaxation: its LP and all that follows here down to ``milp``
    event_points: bool = True  # few event points first, and those where the relaxation overflows; else all of them
    cover_cuts: bool = True  # restoration and cover cuts
    rounding_cuts: bool = True  # Chvátal-Gomory rounding of the capacity rows
    milp: bool = True  # the MILP solver on what the LP leaves
    canonical: bool = True  # complete search for offsets, where first fit fails
    ejection: bool = True  # ejection search for offsets, where lowest fit fails
    replanning: bool = True  # planning again with RAM in reserve, where no offsets are found


@dataclass(frozen=True)
class Improvement:
    """A schedule better than all before: seconds since the run began, joules, and the part that found it."""

    seconds: float
    energy_j: float
    source: Component | None


@dataclass(frozen=True)
class PartRecord:
    """What one part did."""

    seconds: float = 0.0  # time in the part, without the parts that it called; threads side by side are added up
    calls: int = 0  # how often the part was entered
    bound_raised_j: float = 0.0  # by how much it raised the lower bound, in joules
    # By how much its schedules were better than the best before, in joules; the first schedule counts nothing.
    incumbent_improved_j: float = 0.0


@dataclass(frozen=True)
class Unplaced:
    """The best schedule of the search, for which no offsets were found, so that the answer is a more expensive one."""

    energy_j: float  # of this schedule
    # Whether it is proven that there are none: its blocks, with their lives in this order of its steps, fit the RAM in
    # no way. That says nothing of another order of the same computes and transfers.
    impossible: bool
    # Schedules cheaper than the answer that were given no offsets, this one included. Each order counts as one.
    tried: int
    tried_impossible: int  # those of them for which that is proven


@dataclass
class _Frame:
    """A part that is being timed in a thread, since ``mark_s`` on the clock."""

    part: Component
    mark_s: float


class Statistics:
    """What each part of one run did; filled in by `optimise`, from several threads.

    Its ``clock`` counts seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Each best schedule on the way, before it was given offsets. They are looked at a few dozen times a second, so
        # that one may stand for several.
        self.improvements: list[Improvement] = []
        # The part that found the schedule that is the answer. None while there is none.
        self.source: Component | None = None
        self.unplaced: Unplaced | None = None  # the schedule that would have been the answer if it had offsets
        # What solvers failed at, a line each. The bound may be lower for it; the plan is as good.
        self.failures: list[str] = []
        self.seconds = 0.0  # of the whole run
        self._records: dict[Component, PartRecord] = {}
        self._lock = threading.Lock()
        self._thread = threading.local()

    def of(self, part: Component) -> PartRecord:
        """The record of one part."""
        return self._records.get(part, PartRecord())

    @contextmanager
    def timed(self, part: Component) -> Generator[None, None, None]:
        """Count a call of ``part``, and its seconds; what it calls of itself is no call of its own."""
        frames = self._frames()
        if frames and frames[-1].part is part:
            yield
            return
        now_s = self._clock()
        if frames:
            self._add(frames[-1].part, seconds=now_s - frames[-1].mark_s)
        frame = _Frame(part, now_s)
        frames.append(frame)
        try:
            yield
        finally:
            now_s = self._clock()
            frames.pop()
            self._add(part, seconds=now_s - frame.mark_s, calls=1)
            if frames:
                frames[-1].mark_s = now_s

    def raised(self, part: Component, joules: float) -> None:
        """``part`` has raised the bound by so much."""
        self._add(part, bound_raised_j=joules)

    def found(self, seconds: float, energy_j: float, source: Component | None) -> None:
        """The best schedule so far; nothing changes unless it is better than the best before."""
        best_j = self.improvements[-1].energy_j if self.improvements else None
        if best_j is not None and energy_j >= best_j * (1 - SAME):
            return
        self.improvements.append(Improvement(seconds, energy_j, source))
        if source is not None and best_j is not None:
            self._add(source, incumbent_improved_j=best_j - energy_j)

    def failed(self, message: str) -> None:
        """A solver has failed. What it says is kept, once."""
        if message not in self.failures:
            self.failures.append(message)

    def _frames(self) -> list[_Frame]:
        """The parts that this thread is in, the outermost first."""
        if not hasattr(self._thread, "frames"):
            self._thread.frames = []
        frames: list[_Frame] = self._thread.frames
        return frames

    def _add(
        self,
        part: Component,
        seconds: float = 0.0,
        calls: int = 0,
        bound_raised_j: float = 0.0,
        incumbent_improved_j: float = 0.0,
    ) -> None:
        with self._lock:
            old = self.of(part)
            self._records[part] = PartRecord(
                old.seconds + seconds,
                old.calls + calls,
                old.bound_raised_j + bound_raised_j,
                old.incumbent_improved_j + incumbent_improved_j,
            )


@dataclass(frozen=True)
class Context:
    """What all of one run share: which parts are on, and the record of what each did."""

    parts: Parts = field(default_factory=Parts)
    statistics: Statistics = field(default_factory=Statistics)
    on_behalf_of: Component | None = None  # a part that uses others for its own purpose; what they do is put down to it

    def has(self, part: Component) -> bool:
        """Whether ``part`` is on. Parts that no plan can do without are."""
        return bool(getattr(self.parts, part.value, True))

    def within(self, part: Component) -> Context:
        """For what works on behalf of ``part``; where that works on behalf of another already, of that."""
        return replace(self, on_behalf_of=self.credited(part))

    def credited(self, part: Component) -> Component:
        """The part that is credited with what ``part`` does here."""
        return self.on_behalf_of or part

    @contextmanager
    def timed(self, part: Component) -> Generator[None, None, None]:
        """Put down the time of a call of ``part``."""
        with self.statistics.timed(self.credited(part)):
            yield
