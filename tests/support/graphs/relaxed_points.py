# SPDX-License-Identifier: Apache-2.0
"""Schedules as points of the relaxation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from poet_planner.solve.instance import Floats, Problem, inputs_of
from poet_planner.solve.relaxation.model import Relaxation
from poet_planner.solve.search.annealer import Annealer


def schedules(problem: Problem, seeds: int) -> Iterator[np.ndarray]:
    """Events of schedules within the RAM, good ones and bad ones."""
    for seed in range(seeds):
        search = Annealer(problem, seed)
        for _ in range(3):
            search.run(300)
            if search.incumbent is not None:
                yield search.incumbent.events


def as_point(problem: Problem, relaxed: Relaxation, events: np.ndarray) -> Floats:
    """The schedule as columns of the model."""
    columns = relaxed.columns
    n = len(problem.node_time)
    x = np.zeros(len(relaxed.model.cost))
    places: dict[int, list[int]] = {v: [] for v in range(len(problem.size))}
    uses: dict[int, list[int]] = {v: [] for v in range(len(problem.size))}
    event_points = columns.event_points.tolist()
    stage = 0
    at: list[int] = []
    for k, event in enumerate(events.tolist()):
        numbers = columns.compute[stage, event] if event < n else columns.page_in[stage, event - n]
        x[numbers] = 1.0
        if event < n:
            for v in range(problem.output_start[event], problem.output_start[event + 1]):
                places[v].append(k)
            for v in inputs_of(problem, event):
                uses[int(v)].append(k)
        else:
            places[event - n].append(k)
            x[columns.page_out[event - n]] = 1.0
        if stage < len(event_points) and event == event_points[stage]:
            at.append(k)
            stage += 1
    for t, k in enumerate(at):
        for v in range(len(problem.size)):
            made = max([place for place in places[v] if place < k], default=-1)
            again = min([place for place in places[v] if place >= k], default=len(events) + 1)
            if made >= 0 and any(max(made, k - 1) < use <= again for use in uses[v]) and columns.keep[t, v] >= 0:
                x[columns.keep[t, v]] = 1.0
    return x


def has_repetitions_in_a_stage(relaxed: Relaxation, events: np.ndarray) -> bool:
    """Whether the schedule does anything twice in one stage, which the model does not tell."""
    event_points = relaxed.columns.event_points.tolist()
    stage, done = 0, set()
    for event in events.tolist():
        if (stage, event) in done:
            return True
        done.add((stage, event))
        stage += stage < len(event_points) and event == event_points[stage]
    return False
