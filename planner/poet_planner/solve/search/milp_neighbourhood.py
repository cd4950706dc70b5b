# SPDX-License-Identifier: Apache-2.0
"""What a schedule brings back, how and where: chosen anew, all of it at once, by a MILP.

Annealing changes little at a time. Where some small page-ins would have to give way to a few large ones, or where
transfers fill the deadline to the last second, what lies between two good schedules is bad.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from poet_planner.solve.instance import Ints, Problem, inputs_of
from poet_planner.solve.milp.linear_model import SCALE, LinearModel, Rows
from poet_planner.solve.milp.pyomo_model import seconds_to_state, solve_milp
from poet_planner.solve.milp.solvers import Solver
from poet_planner.solve.time_budget import TimeBudget

# So many events after it was last needed or made, a value may be worth bringing back; so many events before, the same
# event is no alternative.
FAR = 10
NEAR = 6
# Of the energy: how much better a choice must be, and how well it is proven to be the best.
LEAST_GAIN = 1e-9
GAP = 1e-7


def with_alternatives(problem: Problem, events: Ints) -> Ints:
    """``events`` (see `evaluation`), and others in between that could take their place.

    Wherever a value is needed or brought back long after it was needed last, a page-in of it and a compute of its
    producer come before.
    """
    n = len(problem.node_time)
    touched: dict[int, int] = {}
    sequence: list[int] = []
    for place, event in enumerate(events.tolist()):
        near = {event, *sequence[-NEAR:]}
        here = _touched(problem, event)
        returning = [v for v in here if place - touched.get(v, place) > FAR]
        for v in sorted(returning, key=lambda v: int(problem.producer[v])):
            producer = int(problem.producer[v])
            ways = [n + v] * bool(problem.pageable[v]) + [producer] * bool(problem.recomputable[producer])
            sequence += [way for way in ways if way not in near]
        sequence.append(event)
        touched.update(dict.fromkeys(here, place))
    return np.array(sequence, dtype=np.int64)


def cheapest_choice(
    problem: Problem, sequence: Ints, energy_j: float, solver: Solver, budget: TimeBudget
) -> Ints | None:
    """The cheapest schedule that leaves out some of the events of ``sequence`` (see `evaluation`).

    What a node computes first stays where it is.

    Parameters
    ----------
    energy_j : float
        Only what costs less is of interest.

    Returns
    -------
    None if none was found in time, or if the time would not do. With DMA it may turn out to be late: only what
    computes take is known to the model.
    """
    if budget.left() < seconds_to_state(_entries(problem, sequence)):
        return None
    model = _stated(problem, sequence)
    if budget.left() < seconds_to_state(len(model.columns)):
        return None
    unit = _unit(problem)
    cutoff = energy_j * (1 - LEAST_GAIN) * unit
    answer = solve_milp(model, solver, budget, GAP * SCALE, cutoff)
    if not answer.solutions:
        return None
    chosen: Ints = sequence[answer.solutions[-1][: len(sequence)] > 0.5]
    return chosen


def _touched(problem: Problem, event: int) -> list[int]:
    """The values that an event needs or makes."""
    n = len(problem.node_time)
    if event >= n:
        return [event - n]
    return [*inputs_of(problem, event).tolist(), *range(problem.own[event], problem.own[event + 1])]


def _unit(problem: Problem) -> float:
    """Of the model, in a joule: plain training costs `SCALE`."""
    return SCALE / max(float(problem.node_energy.sum()), 1e-300)


def _entries(problem: Problem, sequence: Ints) -> int:
    """Of the rows of RAM, at least: stating those of thousands of nodes would take long by itself."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, event in enumerate(sequence.tolist()):
        for v in _touched(problem, event):
            first.setdefault(v, place)
            last[v] = place
    return sum(last[v] - first[v] for v in last)


@dataclass
class _Columns:
    cost: list[float] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)

    def add(self, cost: float = 0.0, lower: float = 0.0, integer: bool = False) -> int:
        """One more, 1 at most."""
        self.cost.append(cost)
        self.lower.append(lower)
        self.integer.append(integer)
        return len(self.cost) - 1


@dataclass
class _Value:
    """Where in the sequence a value has got to.

    Attributes
    ----------
    place : int
        Where it was needed or made last.
    held : list of int
        Columns one of which must be 1 for it to be in RAM right after that.
    """

    place: int
    held: list[int]


def _stated(problem: Problem, sequence: Ints) -> LinearModel:
    """Columns: which events of the sequence happen, which values are paged out, which are held from where to where."""
    n = len(problem.node_time)
    unit = _unit(problem)
    columns, rows = _Columns(), Rows()
    computed: set[int] = set()
    for event in sequence.tolist():
        again = event >= n or event in computed
        computed.add(event)
        energy = problem.in_energy[event - n] if event >= n else problem.node_energy[event]
        columns.add(float(energy) * unit, 0.0 if again else 1.0, again)
    paged = {v: columns.add(float(problem.out_energy[v]) * unit) for v in sorted(set(sequence[sequence >= n] - n))}
    in_ram: list[list[tuple[int, int]]] = [[] for _ in sequence]
    values: dict[int, _Value] = {}

    def held_until(place: int, v: int) -> int:
        """A column that is 1 only if v is in RAM from where it was touched last until ``place``."""
        column = columns.add()
        rows.add([column, *values[v].held], [1.0] + [-1.0] * len(values[v].held), -np.inf, 0.0)
        for between in range(values[v].place + 1, place):
            in_ram[between].append((column, int(problem.size[v])))
        return column

    for place, event in enumerate(sequence.tolist()):
        if event >= n:
            rows.add([paged[event - n], place], [1.0, -1.0], 0.0, np.inf)
            made = [event - n]
        else:
            in_ram[place].append((place, int(problem.workspace[event])))
            made = list(range(problem.own[event], problem.own[event + 1]))
            for v in inputs_of(problem, event).tolist():
                held = held_until(place, v)
                rows.add([held, place], [1.0, -1.0], 0.0, np.inf)
                in_ram[place].append((held, int(problem.size[v])))
                values[v] = _Value(place, [held])
        for v in made:
            kept = [held_until(place, v)] if v in values else []
            # Where the event does not happen, a value that is kept counts before and after.
            in_ram[place].append((place, int(problem.size[v])))
            values[v] = _Value(place, [*kept, place])
    for held_here in in_ram:
        rows.add([column for column, _ in held_here], [size / problem.budget for _, size in held_here], -np.inf, 1.0)
    if np.isfinite(problem.deadline):
        transfers_count = 0.0 if problem.dma else 1.0
        times = [problem.node_time[e] if e < n else transfers_count * problem.in_time[e - n] for e in sequence]
        times += [transfers_count * problem.out_time[v] for v in paged]
        taking = [*range(len(sequence)), *paged.values()]
        rows.add(taking, [float(time / problem.deadline) for time in times], -np.inf, 1.0)
    return LinearModel.of(
        np.array(columns.cost),
        0.0,
        np.array(columns.lower),
        np.ones(len(columns.cost)),
        np.array(columns.integer),
        rows,
    )
