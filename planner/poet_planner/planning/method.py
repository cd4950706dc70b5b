# SPDX-License-Identifier: Apache-2.0
"""A scheduler as a record: what it is called, where it comes from, what it can do; and poet's own."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.solve import OptimiseOptions, optimise


class Aware(StrEnum):
    """Whether a method takes something into account."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"


class Option(StrEnum):
    """What a method may be asked for beside the limits, by the option's name. Every method keeps those."""

    OBJECTIVE = "objective"
    SEED = "seed"
    SOLVER = "solver"
    TIME_LIMIT = "time-limit"


@dataclass(frozen=True)
class Method:
    """A scheduler. What its entry does not say, it does not do."""

    name: str  # as the user gives it
    source: str  # where it was published
    decides: str  # what it chooses, in a few words
    # ``schedule(graph, ram_bytes, deadline_s, options)``: a schedule within that RAM (resident tensors included) and
    # that deadline (in seconds; None: no deadline), with offsets. It raises a `UserError` with the exit code
    # ``NO_SCHEDULE`` where it finds none.
    schedule: Callable[[Graph, int, float | None, OptimiseOptions], Schedule]
    recomputes: bool = False  # whether it may compute a node again
    pages: bool = False  # whether it may move values to storage and back
    # Whether it looks for a schedule within the deadline. Otherwise it refuses a schedule that happens to be late.
    keeps_deadline: bool = False
    takes: tuple[Option, ...] = ()  # the options that change what it does
    # Whether it plans graphs that branch, without making chains of them (this and the next three: Table 1 of the POET
    # paper).
    general: Aware = Aware.NO
    compute_aware: Aware = Aware.NO  # whether a plan depends on what each node costs
    memory_aware: Aware = Aware.NO  # whether a plan depends on the size of each value, and is made for a RAM budget
    # Whether a plan depends on the energy of computes and transfers, and not on their time alone.
    power_aware: Aware = Aware.NO
    # Whether it is given, in place of the whole batch, the fewest equal parts of it whose store-all schedule fits.
    in_parts: bool = False

    def refuse_others(self, given: Collection[str]) -> None:
        """Raise a `UserError` if one of the options that were given, by name, would change nothing."""
        for option in Option:
            if option in given and option not in self.takes:
                raise UserError(f"--{option}: --method {self.name} takes none; leave one of the two out")


def plans_without_pages(method: Method) -> bool:
    """Whether a step that is never paged is one for it: poet's own method plans such a step beside others."""
    return method is OPTIMAL or not method.pages


OPTIMAL = Method(
    name="optimal",
    source="poet: simulated annealing, and a lower bound that ends in a proof",
    decides="what to recompute and page, when, and in which order",
    schedule=optimise,
    recomputes=True,
    pages=True,
    keeps_deadline=True,
    takes=tuple(Option),
    general=Aware.YES,
    compute_aware=Aware.YES,
    memory_aware=Aware.YES,
    power_aware=Aware.YES,
)
