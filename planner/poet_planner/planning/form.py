# SPDX-License-Identifier: Apache-2.0
"""A form of a training step: the step in one layout, what it may take, and what it costs as far as is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.schedule import Schedule

from poet_planner.graph.batch import once_j, once_s
from poet_planner.graph.layout import MemoryLayout
from poet_planner.planning.costed_step import CostedStep
from poet_planner.schedule.store_all import store_all_schedule

SEARCH_S = 0.3  # effort of a short search: of so many seconds on a usual core


@dataclass(frozen=True)
class Form:
    """A costed step, and what it may take.

    Attributes
    ----------
    step : CostedStep
    budget_bytes : int
        RAM budget, resident tensors included.
    note : str
        What the user should hear about the choice of its layout; empty where there was none.
    deadline_s : float or None
        None: no deadline.
    whole : Form or None
        That of the whole batch in one part, where the step is of one micro-batch.
    rivals : tuple of Form
        Other forms of it in RAM, of which one may be found to be as cheap.
    searched : bool
        Whether a short search is worth its time; else a form in RAM is taken to cost as little as it may.
    """

    step: CostedStep
    budget_bytes: int
    note: str = ""
    deadline_s: float | None = None
    whole: Form | None = None
    rivals: tuple[Form, ...] = ()
    searched: bool = True

    @property
    def graph(self) -> Graph:
        return self.step.graph

    @property
    def layout(self) -> MemoryLayout:
        return self.step.layout

    @property
    def store_all(self) -> Schedule:
        """The store-all schedule."""
        return store_all_schedule(self.graph)

    @property
    def plain_store_all(self) -> Schedule:
        """That of the whole batch, to compare with."""
        return (self.whole or self).store_all

    @property
    def is_short_of_ram(self) -> bool:
        """Whether the store-all schedule does not fit."""
        return self.store_all.peak_bytes > self.budget_bytes

    @property
    def needs_bytes(self) -> int:
        """What the largest node needs, resident tensors included: no schedule fits in less."""
        return smallest_ram_bytes(self.graph)

    @property
    def filled(self) -> float:
        """Which part of the budget the largest node fills."""
        return self.needs_bytes / max(1, self.budget_bytes)

    @property
    def fits(self) -> bool:
        """Whether there may be a schedule within the budget."""
        return self.filled <= 1

    @property
    def once_j(self) -> float:
        """Energy of all computes once, in joules: no schedule takes less."""
        return once_j(self.graph)

    @cached_property
    def runner_j(self) -> float:
        """What the firmware's runner adds, in joules, to tell forms in RAM apart: those in more parts have more steps.

        Costs that a build of the firmware was profiled for have it in them.
        """
        seconds, board = once_s(self.graph), self.step.board
        profiled = self.step.costed is not None and self.step.costed.firmware
        if board is None or board.kind != "microcontroller" or not seconds or profiled or self.graph.kept:
            return 0.0
        steps = self.graph.micro_batches * len(self.graph.nodes)
        return steps * board.runner_cycles / board.clock_hz * self.once_j / seconds

    @property
    def least_cost_j(self) -> float:
        """Below which no schedule is, the runner included."""
        return self.once_j + self.runner_j

    @property
    def found_cost_j(self) -> float:
        """Of the schedule that a short search finds, the runner included."""
        return self.found_j + self.runner_j

    @cached_property
    def found_j(self) -> float:
        """Energy of the schedule that a short search finds, in joules; infinite if it finds none."""
        if not self.searched and not self.graph.kept:
            return self.once_j
        from poet_planner.solve.instance import build_problem
        from poet_planner.solve.search.annealer import moves_per_second
        from poet_planner.solve.search.portfolio import Portfolio

        problem = build_problem(self.graph, self.budget_bytes, None)
        portfolio = Portfolio(problem, seed=0)
        portfolio.run(int(SEARCH_S * moves_per_second(problem)))
        return portfolio.incumbent.energy if portfolio.incumbent else math.inf

    @property
    def known_j(self) -> float | None:
        """What a short search has found; None if there was no search, or it found nothing."""
        found: float | None = vars(self).get("found_j")
        return None if found == math.inf else found
