# SPDX-License-Identifier: Apache-2.0
"""A plan's steps as the steps of the traced graph that it was lowered from.

Lowering keeps the ids of operators and values, adds nodes of its own (the optimiser's, copies of views, and pure
orderings), leaves out values that the board's operators do without, makes constants of what follows from constants
alone, and folds frozen operators into their readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from poet_profiles.errors import UserError
from poet_profiles.firmware.operators import ACCUMULATE, S8
from poet_profiles.graph import Graph
from poet_profiles.schedule import Action, Step

from poet_runtime.traced_graph import TracedGraph, TracedOperator


def planned_steps(traced: TracedGraph, planned: Graph, steps: Iterable[Step]) -> Iterator[Step]:
    """The steps that `execute` understands, in order.

    What became a constant is computed first. Where PyTorch's operator reads a value that the board's does without
    (cross entropy's gradient reads the sum of the weights, which its forward pass yields; a frozen batch norm reads the
    convolution that it is one with on the board), the value is computed beforehand, with all that it takes; what the
    plan has no room for is freed again at once.

    Raises
    ------
    UserError
        If a step names what neither graph has, or the planned graph lacks an operator of the traced one.
    """
    translation = _Translation(traced, planned)
    yield from translation.constants()
    for step in steps:
        yield from translation.compute(step.target) if step.do is Action.COMPUTE else translation.move(step)


class _Translation:
    def __init__(self, traced: TracedGraph, planned: Graph) -> None:
        self._traced = traced
        self._planned = planned
        self._operators = {operator.id: operator for operator in traced.operators}
        self._makers = {id: operator for operator in traced.operators for id in operator.values}
        self._reads = {node.id: set(node.inputs) for node in planned.nodes}
        self._adding = dict(self._operators_within())
        self._takes_over = {node.id: node.takes_over.values() for node in planned.nodes}
        self._known = {value.id for node in planned.nodes for value in node.values}
        self._computed: set[str] = set()
        self._held: set[str] = set()

    def _operators_within(self) -> Iterator[tuple[str, TracedOperator]]:
        """Nodes that add what an operator makes to a sum at once, and the operator."""
        sums = {
            node.operation.results[0]: node.id
            for node in self._planned.nodes
            if node.operation and node.operation.op.endswith(ACCUMULATE) and node.operation.results
        }
        for operator in self._traced.operators:
            for value in operator.values if operator.id not in self._reads else ():
                if (total := self._traced.values[value].resident) in sums:
                    yield sums[total], operator

    def constants(self) -> Iterator[Step]:
        known = {*self._traced.constants, *self._traced.frozen}
        folded = self._folded()
        planned = {*self._reads, *(operator.id for operator in self._adding.values())}
        for operator in self._traced.operators:
            if operator.id in planned:
                continue
            if not operator.random and known.issuperset(ref.source for ref in operator.refs):
                known.update(operator.values)
                yield from self._run(operator)
            elif operator.id not in folded:
                raise UserError(f"{self._planned.name} is no plan of {self._traced.name}: it lacks {operator.id}")

    def _folded(self) -> set[str]:
        """Ids of operators folded, directly or not, into nodes that use constants or int8."""
        constants = {constant.id for constant in self._planned.constants}
        operations = ((node.id, node.operation) for node in self._planned.nodes if node.operation)
        taking = {
            id
            for id, operation in operations
            if operation.op.endswith(S8) or not constants.isdisjoint(operation.operands)
        }
        folded: set[str] = set()
        for operator in reversed(self._traced.operators):
            if operator.id in self._reads:
                continue
            readers = self._readers(operator)
            if readers and readers <= taking:
                folded.add(operator.id)
                taking.add(operator.id)
        return folded

    def _readers(self, operator: TracedOperator) -> set[str]:
        return {other.id for other in self._traced.operators if set(operator.values) & set(self._traced.inputs(other))}

    def move(self, step: Step) -> Iterator[Step]:
        if step.target in self._traced.values:
            if step.do is Action.FREE:
                self._held.discard(step.target)
            elif step.do is Action.PAGE_IN:
                self._held.add(step.target)
            yield step
        elif step.target not in self._known:
            raise UserError(f"{step.do} {step.target}: neither the plan's graph nor the model has it")

    def compute(self, id: str) -> Iterator[Step]:
        operator = self._operators.get(id) or self._adding.get(id)
        if operator is None:
            if id not in self._reads:
                raise UserError(f"compute {id}: neither the plan's graph nor the model has it")
            return
        missing = [
            value for value in self._traced.inputs(operator) if value not in self._held and value not in self._reads[id]
        ]
        borrowed = [*self._missing(missing)]
        there = set(self._held)
        for before in borrowed:
            yield from self._run(before)
        if operator.id in self._computed:
            yield from self._free(value for value in operator.values if value not in self._known)
        self._computed.add(operator.id)
        self._held.update(operator.values)
        yield Step(Action.COMPUTE, operator.id)
        yield from self._free(self._takes_over[id])
        own = {*there, *operator.values}
        yield from self._free(value for one in borrowed for value in one.values if value not in own)

    def _missing(self, values: list[str]) -> Iterator[TracedOperator]:
        """The operators to compute for values that are not in RAM, in program order."""
        wanted: set[str] = set()
        pending = [self._makers[value] for value in values]
        while pending:
            operator = pending.pop()
            if operator.id not in wanted:
                wanted.add(operator.id)
                pending += [self._makers[id] for id in self._traced.inputs(operator) if id not in self._held]
                pending += [self._operators[id] for id in operator.after if id not in self._computed]
        return (operator for operator in self._traced.operators if operator.id in wanted)

    def _run(self, operator: TracedOperator) -> Iterator[Step]:
        """Compute an operator that the plan has not asked for now."""
        yield from self._free(operator.values)
        self._computed.add(operator.id)
        self._held.update(operator.values)
        yield Step(Action.COMPUTE, operator.id)

    def _free(self, values: Iterable[str]) -> Iterator[Step]:
        for value in [value for value in values if value in self._held]:
            self._held.remove(value)
            yield Step(Action.FREE, value)
