# SPDX-License-Identifier: Apache-2.0
"""Trains candidates in the order of the board's joules.

So the first that reaches the goal is the cheapest of all. A candidate's least joules are those of the first epoch from
which it may still keep the goal, in its worst draw. The candidate with the least is trained for one epoch more of the
draw that decides, until the least is one that has reached the goal in all draws: best-first search, so nothing that
could be cheaper is left out, and nothing is trained that is dearer already.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from poet_planner.advice.candidates import Step
from poet_planner.advice.curves import Key
from poet_planner.advice.goal import Goal
from poet_planner.report.quantities import energy_text

AHEAD = 1.25  # what costs no more than so many times the least trains an epoch along with it
REACHES = "reaches the goal"


class Trainings(Protocol):
    """What the race asks of `curves.Curves`."""

    values: dict[Key, list[float]]

    def begun(self, key: Key) -> list[float]: ...

    def extend(self, keys: Sequence[Key]) -> None: ...


@dataclass
class Candidate:
    """A step and a rate; ``seen`` says how many epochs of each draw the race has looked at."""

    step: Step
    rate: float
    verdict: str = ""
    seen: list[int] = field(default_factory=list)

    def key(self, draw: int) -> Key:
        return Key(self.step.trained, self.step.batch, self.step.optimizer, self.rate, draw)


@dataclass
class Race:
    """Candidates for a goal.

    Attributes
    ----------
    samples : sequence of int
        In an epoch, by draw.
    most_epochs : int
    limit_j : float
        What takes more is out.
    winner : Candidate or None
    as_good : list of Candidate
        What also reaches the goal, for no more joules than the fits of the winner's step may be off.
    """

    candidates: Sequence[Candidate]
    trainings: Trainings
    goal: Goal
    samples: Sequence[int]
    most_epochs: int
    limit_j: float = float("inf")
    winner: Candidate | None = None
    as_good: list[Candidate] = field(default_factory=list)

    @property
    def draws(self) -> int:
        return len(self.samples)

    def values(self, one: Candidate, draw: int) -> list[float]:
        """As much of a curve as this race has seen."""
        return self.trainings.values[one.key(draw)][: one.seen[draw] + 1]

    def joules(self, one: Candidate, epoch: int, draw: int) -> float:
        assert one.step.cost is not None
        return one.step.cost.epochs_j(epoch, self.samples[draw], one.step.batch)

    def to_goal(self, one: Candidate) -> list[float]:
        """By draw, the joules until then."""
        return [self.joules(one, epoch, draw) for draw, epoch in enumerate(self.reached(one))]

    def reached(self, one: Candidate) -> list[int]:
        """By draw, the first epoch from which it keeps the goal, or may still."""
        return [self.goal.least_epoch(self.values(one, draw))[0] for draw in range(len(one.seen))]

    def run(self, told: Callable[[float, Candidate], None] = lambda least_j, one: None) -> None:
        """Race to the end; ``told`` hears the least joules so far, and who is in front."""
        order = count()
        queue = [(self._bound(one), next(order), one) for one in self.candidates]
        heapq.heapify(queue)
        most_j = self.limit_j
        while queue:
            least_j, number, one = queue[0]
            if self.winner and (not least_j or least_j > most_j):
                break
            heapq.heappop(queue)
            if one.step.cost is not None and one.step.cost.is_bound:
                one.step.settle()
            if one.step.cost is None:
                one.verdict = one.step.why_none
                continue
            if (now_j := self._bound(one)) > least_j:
                heapq.heappush(queue, (now_j, number, one))
                continue
            if self.winner is None:
                told(least_j, one)
            if least_j > most_j:
                one.verdict = f"takes more than {energy_text(most_j)}"
                continue
            draw = self._deciding(one)
            if draw is None and self.winner:
                self.as_good.append(one)
                one.verdict = f"as good: {energy_text(least_j)}"
                continue
            if draw is None:
                self.winner, one.verdict = one, REACHES
                most_j = min(most_j, least_j * (1 + one.step.cost.error))
                continue
            if draw < len(one.seen) and one.seen[draw] >= self.most_epochs:
                one.verdict = self._never(one, draw)
                continue
            self._look(one, draw, [other for joules, _, other in queue if joules <= AHEAD * least_j])
            heapq.heappush(queue, (self._bound(one), number, one))
        for joules, _, one in queue:
            one.verdict = one.verdict or f"dearer: {energy_text(joules)} at least"

    def _deciding(self, one: Candidate) -> int | None:
        """The draw to be looked at next: of those that are open the latest, else one more; None: all are done."""
        states = [self.goal.least_epoch(self.values(one, draw)) for draw in range(len(one.seen))]
        opened = [(epoch, -draw) for draw, (epoch, sure) in enumerate(states) if not sure]
        if opened:
            return -max(opened)[1]
        return len(states) if len(states) < self.draws else None

    def _look(self, one: Candidate, draw: int, others: Sequence[Candidate]) -> None:
        """See an epoch more of a draw, or what it begins with; train what is missing, with others that miss as much."""
        if draw == len(one.seen):
            self.trainings.begun(one.key(draw))
            one.seen.append(0)
            return
        key = one.key(draw)
        if len(self.trainings.values[key]) == one.seen[draw] + 1:
            self.trainings.extend([key, *(k for other in others if (k := self._missing(other, key)))])
        one.seen[draw] += 1

    def _missing(self, other: Candidate, beside: Key) -> Key | None:
        """What of another candidate is to be trained next, if it is of the same set and batch."""
        if (other.step.trained, other.step.batch) != (beside.trained, beside.batch):
            return None
        draw = self._deciding(other)
        if draw is None:
            return None
        seen = other.seen[draw] if draw < len(other.seen) else 0
        key = other.key(draw)
        missing = len(self.trainings.begun(key)) == seen + 1 and seen < self.most_epochs
        return key if missing else None

    def _bound(self, one: Candidate) -> float:
        return max(self.to_goal(one), default=0.0)

    def _never(self, one: Candidate, draw: int) -> str:
        states = [self.goal.least_epoch(self.values(one, at)) for at in range(len(one.seen))]
        done = sum(sure for _, sure in states)
        if done:
            return f"in {done} of {len(states)} draws"
        best = self.goal.text(self.goal.best(self.values(one, draw)))
        return f"never kept: {best} at most in {self.most_epochs} epochs"
