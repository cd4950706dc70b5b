"""A plan's steps as the steps of the traced graph that it was lowered from.

Lowering keeps the ids of operators and values, adds nodes of its own (the optimiser's, and pure orderings), leaves out
values that the board's operators do without, and makes constants of operators that read nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from poet_profiles.errors import UserError

from poet_planner.graph import Graph
from poet_planner.schedule import Action, Step
from poet_planner.tracing.ir import TracedGraph


def planned_steps(traced: TracedGraph, planned: Graph, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps that `execute` understands, in order.

    What became a constant is computed first. Values that the planned graph does not know live from one computation of
    their operator to the next; as the plan may compute their readers before their operator, it is computed an
    additional time as soon as its operands are there.

    Raises
    ------
    UserError
        If a step names what neither graph has, the planned graph lacks an operator of the traced one, or it copies
        views for a firmware that cannot read them.
    """
    translation = _Translation(traced, planned)
    yield from translation.constants()
    translation.refuse_copies()
    for step in steps:
        yield from translation.compute(step.target) if step.do is Action.COMPUTE else translation.move(step)


class _Translation:
    def __init__(self, traced: TracedGraph, planned: Graph) -> None:
        self._traced = traced
        self._planned = planned
        self._operators = {operator.id: operator for operator in traced.operators}
        self._nodes = {node.id for node in planned.nodes}
        self._known = {value.id for node in planned.nodes for value in node.values}
        self._computed: set[str] = set()
        # Operators with values that the plan does not know, and the operands that they still wait for.
        self._waiting = {
            operator.id: set(traced.inputs(operator))
            for operator in traced.operators
            if operator.id in self._nodes and operator.recomputable and set(operator.values) - self._known
        }

    def constants(self) -> Iterator[Step]:
        for operator in self._traced.operators:
            if operator.id not in self._nodes:
                if operator.refs or operator.random:
                    raise UserError(f"{self._planned.name} is no plan of {self._traced.name}: it lacks {operator.id}")
                yield Step(Action.COMPUTE, operator.id)

    def refuse_copies(self) -> None:
        added = {value.id: node.id for node in self._planned.nodes for value in node.values}
        for node in self._planned.nodes:
            makers = {added[id] for id in node.inputs} - self._operators.keys()
            if makers and node.id in self._operators:
                raise UserError(
                    f"{self._planned.name} copies views for the firmware ({min(makers)}), and PyTorch does not; "
                    "plan for a Linux board to run the plan in PyTorch"
                )

    def move(self, step: Step) -> Iterator[Step]:
        if step.target in self._traced.values:
            yield step
        elif step.target not in self._known:
            raise UserError(f"{step.do} {step.target}: neither the plan's graph nor the model has it")

    def compute(self, id: str) -> Iterator[Step]:
        if id not in self._operators:
            if id not in self._nodes:
                raise UserError(f"compute {id}: neither the plan's graph nor the model has it")
            return
        values = self._operators[id].values
        if id in self._computed:
            yield from (Step(Action.FREE, value) for value in values if value not in self._known)
        self._waiting.pop(id, None)
        self._computed.add(id)
        yield Step(Action.COMPUTE, id)
        yield from self._additional(set(values))

    def _additional(self, arrived: set[str]) -> Iterator[Step]:
        ready = [id for id, missing in self._waiting.items() if missing and missing <= arrived]
        for missing in self._waiting.values():
            missing -= arrived
        for id in ready:
            del self._waiting[id]
            self._computed.add(id)
            yield Step(Action.COMPUTE, id)
            yield from (Step(Action.FREE, value) for value in self._operators[id].values if value in self._known)
