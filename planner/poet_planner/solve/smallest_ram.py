# SPDX-License-Identifier: Apache-2.0
"""The smallest RAM that does: found, and less of it refuted, until both are close."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

import numpy as np

from poet_planner.solve.in_time import in_time, soon_in_time
from poet_planner.solve.incumbent import Incumbent, measured
from poet_planner.solve.problem import WORD, Problem, node_need, whole_words
from poet_planner.solve.solvers import Solver

CLOSE = 1.01
# Of the time left, for one question.
SHARE = 0.5


@dataclass(frozen=True)
class Bracket:
    """Where the smallest RAM lies, in bytes beside the resident tensors.

    Attributes
    ----------
    too_few : int
        With so many there is no schedule.
    found : Incumbent
        A schedule with the least peak of all that were found.
    """

    too_few: int
    found: Incumbent

    @property
    def enough(self) -> int:
        return self.found.peak

    @property
    def is_close(self) -> bool:
        """To 1 %, or exactly."""
        return _close(self.too_few, self.enough)


def smallest_ram(
    problem: Problem, refuted: int, seed: int, solver: Solver, seconds_left: Callable[[], float]
) -> Bracket:
    """Bracket the smallest RAM in which there is a schedule within the deadline, whatever ``problem.budget``.

    What the hungriest node takes by itself is asked first, for it often does. Then short searches bisect between what
    was found and where they find nothing, and proofs do from there down.

    Parameters
    ----------
    problem : Problem
        Plain training keeps its deadline.
    refuted : int
        With so many bytes there is none, that is known.
    seconds_left : callable
        When none are left, the bracket so far is the answer.
    """
    too_few = max(refuted, int(node_need(problem).max(initial=0)) - WORD)
    bracket = Bracket(too_few, plain(problem))
    missed: set[int] = set()
    undecided: set[int] = set()
    asked = too_few + WORD
    while seconds_left() > 0:
        within = problem._replace(budget=asked)
        if asked > max({bracket.too_few, *missed}):
            answer = soon_in_time(within, seed, seconds_left)
            missed.add(asked)
        else:
            answer = in_time(within, bracket.found, seed, solver, _for_share(seconds_left))
            undecided.add(asked)
        bracket = Bracket(asked if answer.impossible else bracket.too_few, answer.found or bracket.found)
        missed = {ram for ram in missed if ram < bracket.enough}
        undecided = {ram for ram in undecided if bracket.too_few < ram < bracket.enough}
        low, high = max({bracket.too_few, *missed}), min({bracket.enough, *undecided})
        if not _close(low, bracket.enough):
            asked = _middle(low, bracket.enough)
        elif _close(bracket.too_few, high):
            break
        elif undecided:
            asked = _middle(bracket.too_few, high)
        else:
            asked = min(whole_words(ceil(high / CLOSE)), high - WORD)
    return bracket


def _middle(low: int, high: int) -> int:
    return (low + high) // 2 // WORD * WORD


def _for_share(seconds_left: Callable[[], float]) -> Callable[[], float]:
    end_s = (1 - SHARE) * seconds_left()
    return lambda: seconds_left() - end_s


def _close(too_few: int, enough: int) -> bool:
    return enough <= max(CLOSE * too_few, too_few + WORD)


def plain(problem: Problem) -> Incumbent:
    """Plain training, whatever RAM it takes."""
    everywhere = problem._replace(budget=int(problem.size.sum() + problem.workspace.max(initial=0)))
    found = measured(everywhere, np.arange(len(problem.node_time), dtype=np.int64))
    assert found is not None
    return found
