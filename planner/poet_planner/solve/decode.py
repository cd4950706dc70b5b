"""From events (see `annealing`) to the contract's steps."""

from __future__ import annotations

from poet_planner.graph import Graph
from poet_planner.schedule import Action, Step
from poet_planner.solve.problem import Ints, Problem


def steps_of(graph: Graph, problem: Problem, events: Ints) -> list[Step]:
    """Steps without addresses; a value is paged out right after it is first computed and freed after its last use.

    A value of no bytes stays, except that it gives way to a recomputation of its node.
    """
    n = len(problem.node_time)
    value_ids = [value.id for node in graph.nodes for value in node.values]
    paged = {int(event) - n for event in events if event >= n}
    last_use = _last_uses(problem, events)
    steps: list[Step] = []
    computed: set[int] = set()
    for place, event in enumerate(events.tolist()):
        if event >= n:
            steps.append(Step(Action.PAGE_IN, value_ids[event - n]))
            held = {event - n}
        else:
            if event in computed:
                empty = [value for value in graph.nodes[event].values if value.bytes == 0]
                steps += [Step(Action.FREE, value.id) for value in empty]
            steps.append(Step(Action.COMPUTE, graph.nodes[event].id))
            own = range(problem.own[event], problem.own[event + 1])
            held = {*own, *_inputs(problem, event)}
            if event not in computed:
                steps += [Step(Action.PAGE_OUT, value_ids[v]) for v in own if v in paged]
            computed.add(event)
        over = [v for v in sorted(held) if last_use.get((place, v), False) and problem.size[v] > 0]
        steps += [Step(Action.FREE, value_ids[v]) for v in over]
    return steps


def _inputs(problem: Problem, node: int) -> list[int]:
    return [int(v) for v in problem.input_value[problem.input_start[node] : problem.input_start[node + 1]]]


def _last_uses(problem: Problem, events: Ints) -> dict[tuple[int, int], bool]:
    """Pairs (place, value) after which the value is not needed until it is made anew."""
    n = len(problem.node_time)
    needed: set[int] = set()
    ends: dict[tuple[int, int], bool] = {}
    for place in range(len(events) - 1, -1, -1):
        event = int(events[place])
        made = [event - n] if event >= n else list(range(problem.own[event], problem.own[event + 1]))
        for v in made:
            if v not in needed:
                ends[place, v] = True
        needed -= set(made)
        if event < n:
            for v in _inputs(problem, event):
                if v not in needed:
                    ends[place, v] = True
                    needed.add(v)
    return ends
