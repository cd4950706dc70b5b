"""A plan's steps as the steps of the traced graph that it was lowered from.

Lowering keeps the ids of operators and values, adds nodes of its own (the optimiser's, and pure orderings) and leaves
out values that the board's operators do without. Where it also copies views for a firmware that cannot read them, the
plan is the firmware's alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from poet_profiles.errors import UserError

from poet_planner.graph import Graph
from poet_planner.schedule import Action, Step
from poet_planner.tracing.ir import TracedGraph


def planned_steps(traced: TracedGraph, planned: Graph, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps that `execute` understands, in order.

    Values that the planned graph does not know live from one computation of their operator to the next.

    Raises
    ------
    UserError
        If a step names what neither graph has, or the planned graph lacks an operator of the traced one.
    """
    operators = {operator.id: operator for operator in traced.operators}
    nodes = {node.id for node in planned.nodes}
    known = {value.id for node in planned.nodes for value in node.values}
    missing = operators.keys() - nodes
    if missing:
        raise UserError(f"{planned.name} is no plan of {traced.name}: it lacks {min(missing)}")
    computed: set[str] = set()
    for step in steps:
        if step.do is Action.COMPUTE:
            if step.target in operators:
                if step.target in computed:
                    hidden = (id for id in operators[step.target].values if id not in known)
                    yield from (Step(Action.FREE, id) for id in hidden)
                computed.add(step.target)
                yield step
            elif step.target not in nodes:
                raise UserError(f"compute {step.target}: neither the plan's graph nor the model has it")
        elif step.target in traced.values:
            yield step
        elif step.target not in known:
            raise UserError(f"{step.do} {step.target}: neither the plan's graph nor the model has it")
