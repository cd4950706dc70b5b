# SPDX-License-Identifier: Apache-2.0
"""What a method is asked for, as lists that a method can walk, and the way from its orders to a schedule.

An order is a sequence of *events* (see `poet_planner.solve.search.evaluation`): ``j`` computes node j, ``n + v`` pages
value v in. Frees follow from the last uses, so every method is granted liveness, as the evaluation of Checkmate grants
it. A paged value is paged out after its first compute.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.comparison.methods.in_place import remade
from poet_planner.comparison.methods.limits import refuse_time
from poet_planner.comparison.methods.queued import QueueingDecoder
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_planner.solve.instance import WORD, build_problem
from poet_planner.solve.optimise import schedule_of
from poet_planner.solve.options import Refused
from poet_planner.solve.placement.allocated import allocated
from poet_planner.solve.placement.assign import PlacedSchedule
from poet_planner.solve.placement.first_fit import Placement, alive_bytes, place
from poet_planner.solve.search.decode import Decoded, decode
from poet_planner.solve.search.incumbent import Incumbent, evaluated, ranked
from poet_planner.solve.time_budget import TimeBudget

Events = Sequence[int]

PLACING_S = 1.0  # for the offsets of one order


@dataclass(frozen=True)
class _Trial:
    """A schedule, or how many bytes too much the best order takes; 0 if there is no order."""

    made: Schedule | None
    missing: int = 0


class Instance:
    """A graph, its limits, and lists of what its nodes and values are.

    Nodes and values are numbered as in `poet_planner.solve.instance.Problem`. ``ram_bytes`` is all of the RAM, resident
    tensors included.

    Raises
    ------
    UserError
        If the objective is time, or the graph is not one that `build_problem` takes.
    """

    def __init__(self, graph: Graph, ram_bytes: int, deadline_s: float | None, options: OptimiseOptions) -> None:
        refuse_time(options)
        self.graph = graph
        self.ram_bytes = ram_bytes
        self.deadline_s = deadline_s
        self.options = options
        self.time_left = TimeBudget(options.time_limit_s, options.clock)
        self.problem = problem = build_problem(graph, ram_bytes, deadline_s, options.paging)
        self.budget = problem.budget  # bytes of RAM without the resident tensors
        self.nodes = len(graph.nodes)
        self.values = len(problem.size)
        backward = (j for j, node in enumerate(graph.nodes) if node.backward and any(v.bytes for v in node.values))
        # Where the backward pass begins: its first node that yields anything. What stands after it belongs to it, the
        # update of the parameters included. Running statistics may be updated before it.
        self.first_backward = next(backward, self.nodes)
        # producer, size: of each value: its node, its bytes.
        self.producer: list[int] = problem.producer.tolist()
        self.size: list[int] = problem.size.tolist()
        # time_s, energy_j, workspace: of each node: seconds, joules, bytes.
        self.time_s: list[float] = problem.node_time.tolist()
        self.energy_j: list[float] = problem.node_energy.tolist()
        self.workspace: list[int] = problem.workspace.tolist()
        self.recomputable: list[bool] = problem.recomputable.tolist()
        self.pageable: list[bool] = problem.pageable.tolist()
        # outputs, inputs: the values that each node yields, and needs.
        self.outputs = _lists(problem.output_start, np.arange(self.values))
        self.inputs = _lists(problem.input_start, problem.input_value)
        self.users = _lists(problem.use_start, problem.use_node)  # the nodes that need each value

    @cached_property
    def empty(self) -> frozenset[int]:
        """The values of no bytes: once made they are always there."""
        return frozenset(v for v in range(self.values) if not self.size[v])

    def is_forward(self, node: int) -> bool:
        return node < self.first_backward

    def read_backward(self, value: int) -> bool:
        """Whether it is a value of the forward pass that the backward pass needs."""
        return self.is_forward(self.producer[value]) and any(not self.is_forward(user) for user in self.users[value])

    def page_s(self, value: int) -> float:
        """Seconds of paging it out and in."""
        return float(self.problem.out_time[value] + self.problem.in_time[value])

    def page_j(self, value: int) -> float:
        """Joules of paging it out and in."""
        return float(self.problem.out_energy[value] + self.problem.in_energy[value])

    def to_make(self, wanted: Iterable[int], held: Container[int]) -> list[int]:
        """The nodes to compute, in order, so that the ``wanted`` values are there beside those ``held``."""
        nodes: set[int] = set()
        missing = [v for v in wanted if v not in held]
        while missing:
            node = self.producer[missing.pop()]
            if node not in nodes:
                nodes.add(node)
                missing += [v for v in self.inputs[node] if v not in held]
        return sorted(nodes)

    def evaluated(self, events: Events) -> Incumbent | None:
        """Energy, time and peak of an order, which may break the limits; None if it is no schedule.

        A compute that nothing reads counts, unlike in the optimiser: a method is charged for all it does.
        """
        given = np.array(remade(self.problem, events) if self.problem.taken.any() else events, dtype=np.int64)
        needed = evaluated(self.problem, given)
        if needed is None or len(needed.events) == len(given):
            return needed
        energy_j = needed.energy + sum(self.energy_j[j] for j in given.tolist() if j < self.nodes)
        energy_j -= sum(self.energy_j[j] for j in needed.events.tolist() if j < self.nodes)
        decoded = allocated(self.graph, self.problem, replace(needed, events=given)).decoded
        return Incumbent(given, energy_j, decoded.time_s, decoded.peak)

    def steps_of(self, one: Incumbent) -> Decoded:
        """The steps of an order that was evaluated; of the times to start its transfers at, the better ones."""
        made = decode(self.graph, self.problem, one.events)
        if not self.problem.dma:
            return made
        queued = QueueingDecoder(self.graph, self.problem, one.events).decoded()
        return min(made, queued, key=lambda decoded: decoded.time_s)

    def cheapest(self, name: str, orders: Iterable[Events]) -> Schedule:
        """The cheapest schedule of those ``orders`` that keeps the limits and has offsets.

        The graph's own order counts wherever it fits. ``name`` is the method's, in messages.

        Raises
        ------
        NoScheduleError
            If there is none, or the time ended before one was found.
        """
        made = self._first_placed([range(self.nodes)]).made or self._first_placed(orders).made
        if made is None:
            raise out_of_time(name) if self.time_left.expired else no_schedule(name)
        return made

    def planned(self, name: str, orders: Callable[[int], Iterable[Events]]) -> Schedule:
        """As `cheapest`, for a method that makes its ``orders`` for a budget: bytes without the resident tensors.

        Where these take more RAM when they are replayed, or given offsets, it is asked again for so much less.
        """
        asked = self.budget
        made = self._first_placed([range(self.nodes)]).made
        while made is None and asked > 0 and not self.time_left.expired:
            trial = self._first_placed(orders(asked))
            made = trial.made
            if made is None and not trial.missing:
                break
            asked -= max(WORD, trial.missing)
        if made is None:
            raise out_of_time(name) if self.time_left.expired else no_schedule(name)
        return made

    def _first_placed(self, orders: Iterable[Events]) -> _Trial:
        """The schedule of the cheapest of some orders that has offsets within the limits. It is not verified here."""
        found = [self.evaluated(events) for events in orders]
        early = [one for one in found if one is not None and one.time <= self.problem.deadline]
        missing = [one.peak - self.budget for one in early if one.peak > self.budget]
        for one in ranked(one for one in early if one.peak <= self.budget):
            placed = self._placed(one)
            if placed.placement.arena_bytes <= self.budget:
                return _Trial(self._schedule(placed))
            missing.append(placed.placement.arena_bytes - self.budget)
            if self.time_left.expired:
                break
        return _Trial(None, min(missing, default=0))

    def _placed(self, one: Incumbent) -> PlacedSchedule:
        decoded = self.steps_of(one)
        peak = int(alive_bytes(self.graph, decoded.steps).max(initial=0))
        made = PlacedSchedule(one, replace(decoded, peak=peak), Placement(decoded.steps, peak))
        if self.graph.allocates:
            return made
        placing = TimeBudget(PLACING_S, self.options.clock)
        return replace(made, placement=place(self.graph, made.decoded.steps, self.budget, placing))

    def _schedule(self, placed: PlacedSchedule) -> Schedule:
        """Its bound is the energy of computing every node once: a method proves nothing about other schedules."""
        bound_j = float(self.problem.node_energy.sum())
        return schedule_of(self.graph, self.ram_bytes, self.deadline_s, placed, bound_j, self.options.gap)


def no_schedule(name: str) -> NoScheduleError:
    """What a method says that came to its end and found none."""
    return NoScheduleError(
        f"{name} has no schedule that keeps the RAM budget and the deadline; raise --ram or --deadline"
    )


def out_of_time(name: str) -> NoScheduleError:
    """What a method says that did not come to an end."""
    return NoScheduleError(f"{name} found no schedule in the time allowed; raise --time-limit", Refused.NOT_FOUND)


def _lists(start: np.ndarray, entries: np.ndarray) -> list[list[int]]:
    bounds = start.tolist()
    listed = entries.tolist()
    return [listed[first:end] for first, end in pairwise(bounds)]
