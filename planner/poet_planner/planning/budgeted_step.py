# SPDX-License-Identifier: Apache-2.0
"""A costed step, and what it may take."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from poet_profiles.graph import Graph
from poet_profiles.graph.sizes import smallest_ram_bytes
from poet_profiles.plan_folder.summary import BatchForm
from poet_profiles.schedule import Schedule

from poet_planner.graph.batch import once_j, once_s
from poet_planner.planning.budget import ram_budget_bytes
from poet_planner.planning.costed_step import CostedStep
from poet_planner.planning.request import Request
from poet_planner.planning.short_search import found_j
from poet_planner.schedule.store_all import store_all_schedule


@dataclass(frozen=True)
class BudgetedStep:
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
    whole : BudgetedStep or None
        That of the whole batch in one part, where the step is of one micro-batch.
    rivals : tuple of BudgetedStep
        Other forms of it in RAM, of which one may be found to be as cheap.
    forms : tuple of BatchForm
        What is known of each form, once all are planned.
    """

    step: CostedStep
    budget_bytes: int
    note: str = ""
    deadline_s: float | None = None
    whole: BudgetedStep | None = None
    rivals: tuple[BudgetedStep, ...] = ()
    forms: tuple[BatchForm, ...] = ()

    @property
    def graph(self) -> Graph:
        return self.step.graph

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
    def filled(self) -> float:
        """Which part of the budget the largest node fills."""
        return smallest_ram_bytes(self.graph) / max(1, self.budget_bytes)

    @property
    def once_j(self) -> float:
        """Energy of all computes once, in joules: no schedule takes less."""
        return once_j(self.graph)

    @cached_property
    def runner_j(self) -> float:
        """What the firmware's runner adds, in joules, to tell forms apart: those in more parts have more steps.

        Costs that a build of the firmware was profiled for have it in them.
        """
        seconds, board = once_s(self.graph), self.step.board
        profiled = self.step.costed is not None and self.step.costed.firmware
        if board is None or board.kind != "microcontroller" or not seconds or profiled:
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
        return found_j(self.graph, self.budget_bytes)


def on_its_own(request: Request, step: CostedStep) -> BudgetedStep:
    """With the budget that is reckoned on itself."""
    return BudgetedStep(step, ram_budget_bytes(request, step, step))
