# SPDX-License-Identifier: Apache-2.0
"""What each part of the optimiser did: its time, how far it raised the bound, which schedules it found."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from poet_planner.solve import clock
from poet_planner.solve.options import Parts

# Relative; a schedule that costs less by no more than this is no improvement: sums of the same energies in another
# order differ as much.
SAME = 1e-12


class Part(StrEnum):
    """The parts of the optimiser. Those that are fields of `Parts` can be switched off."""

    ANNEALING = "annealing"
    EVICTION = "eviction"
    CROSSOVER = "crossover"
    LAGRANGIAN = "lagrangian"
    ENERGY_CAP = "energy_cap"
    BACKGROUND_SEARCH = "background_search"
    EXHAUSTIVE = "exhaustive"
    RETAINED_SETS = "retained_sets"
    MILP_NEIGHBOURHOOD = "milp_neighbourhood"
    STATE_SPACE = "state_space"
    AGGREGATION = "aggregation"
    BOTTLENECK_HEURISTIC = "bottleneck_heuristic"
    RELAXATION = "relaxation"
    EVENT_POINTS = "event_points"
    CONFLICTS = "conflicts"
    COVER_CUTS = "cover_cuts"
    ROUNDING_CUTS = "rounding_cuts"
    STAGE_CUTS = "stage_cuts"
    BRANCHING = "branching"
    MILP = "milp"
    FEASIBILITY = "feasibility"
    PLACEMENT = "placement"
    EJECTION = "ejection"
    REPLANNING = "replanning"


@dataclass(frozen=True)
class Improvement:
    """A schedule better than all before: seconds since the run began, joules, and the part that found it."""

    seconds: float
    energy_j: float
    source: Part | None


@dataclass(frozen=True)
class PartRecord:
    """What one part did.

    Attributes
    ----------
    seconds : float
        Time in the part, without the parts that it called; threads side by side are added up.
    calls : int
        How often the part was entered.
    bound_raised_j : float
        By how much it raised the lower bound, in joules.
    incumbent_improved_j : float
        By how much its schedules were better than the best before, in joules; the first schedule counts nothing.
    """

    seconds: float = 0.0
    calls: int = 0
    bound_raised_j: float = 0.0
    incumbent_improved_j: float = 0.0


@dataclass
class _Frame:
    """A part that is being timed in a thread, since ``mark_s`` on the clock."""

    part: Part
    mark_s: float


class Statistics:
    """What each part of one run did; filled in by `optimise`, from several threads.

    Attributes
    ----------
    improvements : list of Improvement
        Each best schedule on the way, before it was given offsets. They are looked at a few dozen times a second, so
        that one may stand for several.
    source : Part or None
        The part that found the schedule that is the answer. None while there is none.
    """

    def __init__(self) -> None:
        self.improvements: list[Improvement] = []
        self.source: Part | None = None
        self._records: dict[Part, PartRecord] = {}
        self._lock = threading.Lock()
        self._thread = threading.local()

    def of(self, part: Part) -> PartRecord:
        """The record of one part."""
        return self._records.get(part, PartRecord())

    @contextmanager
    def timed(self, part: Part) -> Generator[None, None, None]:
        """Count a call of ``part``, and its seconds; what it calls of itself is no call of its own."""
        frames = self._frames()
        if frames and frames[-1].part is part:
            yield
            return
        now_s = clock.seconds()
        if frames:
            self._add(frames[-1].part, seconds=now_s - frames[-1].mark_s)
        frame = _Frame(part, now_s)
        frames.append(frame)
        try:
            yield
        finally:
            now_s = clock.seconds()
            frames.pop()
            self._add(part, seconds=now_s - frame.mark_s, calls=1)
            if frames:
                frames[-1].mark_s = now_s

    def raised(self, part: Part, joules: float) -> None:
        """``part`` has raised the bound by so much."""
        self._add(part, bound_raised_j=joules)

    def found(self, seconds: float, energy_j: float, source: Part | None) -> None:
        """The best schedule so far; nothing changes unless it is better than the best before."""
        best_j = self.improvements[-1].energy_j if self.improvements else None
        if best_j is not None and energy_j >= best_j * (1 - SAME):
            return
        self.improvements.append(Improvement(seconds, energy_j, source))
        if source is not None and best_j is not None:
            self._add(source, incumbent_improved_j=best_j - energy_j)

    def document(self, overhead_j: float) -> dict[str, Any]:
        """The JSON form.

        Parameters
        ----------
        overhead_j : float
            Energy of the schedule above the store-all schedule's: what bounds and improvements are shares of.
        """
        return {
            "source": self.source,
            "parts": {part.value: _row(self.of(part), overhead_j) for part in Part},
            "improvements": [
                {"seconds": one.seconds, "energy_j": one.energy_j, "source": one.source} for one in self.improvements
            ],
        }

    def _frames(self) -> list[_Frame]:
        """The parts that this thread is in, the outermost first."""
        if not hasattr(self._thread, "frames"):
            self._thread.frames = []
        frames: list[_Frame] = self._thread.frames
        return frames

    def _add(
        self,
        part: Part,
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


def _row(record: PartRecord, overhead_j: float) -> dict[str, float]:
    return {
        "seconds": record.seconds,
        "calls": record.calls,
        "bound_raised_j": record.bound_raised_j,
        "bound_raised_share": record.bound_raised_j / overhead_j if overhead_j > 0 else 0.0,
        "incumbent_improved_j": record.incumbent_improved_j,
    }


@dataclass(frozen=True)
class Context:
    """What all of one run share: which parts are on, and the record of what each did.

    Attributes
    ----------
    parts : Parts
    statistics : Statistics
    on_behalf_of : Part or None
        A part that uses others for its own purpose; what they do is put down to it.
    """

    parts: Parts = field(default_factory=Parts)
    statistics: Statistics = field(default_factory=Statistics)
    on_behalf_of: Part | None = None

    def has(self, part: Part) -> bool:
        """Whether ``part`` is on. Parts that no plan can do without are."""
        return bool(getattr(self.parts, part.value, True))

    def within(self, part: Part) -> Context:
        """For what works on behalf of ``part``; where that works on behalf of another already, of that."""
        return replace(self, on_behalf_of=self.credited(part))

    def credited(self, part: Part) -> Part:
        """The part that is credited with what ``part`` does here."""
        return self.on_behalf_of or part

    @contextmanager
    def timed(self, part: Part) -> Generator[None, None, None]:
        """Put down the time of a call of ``part``."""
        with self.statistics.timed(self.credited(part)):
            yield
