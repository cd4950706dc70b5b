# SPDX-License-Identifier: Apache-2.0
"""A greedy choice of what to recompute: at the peak, drop what frees the most bytes for each second of computing again.

Dropped values are freed after their last use in the forward pass and computed again, with what that takes, before
their first use in the backward pass. It is what one would write in an afternoon, and so a baseline for the optimiser.
"""

from __future__ import annotations

from collections.abc import Iterator

from poet_planner.graph import Graph, Node
from poet_profiles.schedule import Action, Step


def greedy_steps(graph: Graph, budget_bytes: int) -> list[Step] | None:
    """Steps that hold at most so many bytes of values and workspaces at once, or None where the choice ends before."""
    return _Greedy(graph).steps(budget_bytes)


class _Greedy:
    def __init__(self, graph: Graph) -> None:
        self._nodes = {node.id: node for node in graph.nodes}
        self._maker = {value.id: node for node in graph.nodes for value in node.values}
        self._bytes = {value.id: value.bytes for node in graph.nodes for value in node.values}
        self._uses: dict[str, list[int]] = {}
        self._order = graph.nodes
        for number, node in enumerate(graph.nodes):
            for id in node.inputs:
                self._uses.setdefault(id, []).append(number)
        self._backward = next(number for number, node in enumerate(graph.nodes) if node.backward)

    def steps(self, budget_bytes: int) -> list[Step] | None:
        dropped: set[str] = set()
        while True:
            steps = [*self._schedule(dropped)]
            peak, held = self._peak(steps)
            if peak <= budget_bytes:
                return steps
            worth = {id: self._worth(id) for id in held - dropped if self._droppable(id)}
            if not worth:
                return None
            dropped.add(max(worth, key=lambda id: worth[id]))

    def _droppable(self, id: str) -> bool:
        """Whether a value of the forward pass is read in the backward pass, and may be computed again."""
        uses = self._uses.get(id, [])
        maker = self._maker[id]
        return maker.recomputable and not maker.backward and bool(uses) and uses[-1] >= self._backward

    def _worth(self, id: str) -> float:
        return self._bytes[id] / max(self._maker[id].time_s, 1e-9)

    def _schedule(self, dropped: set[str]) -> Iterator[Step]:
        held: set[str] = set()

        def compute(node: Node) -> Iterator[Step]:
            brought = [id for id in node.inputs if id not in held]
            for id in brought:
                if id not in held:
                    yield from compute(self._maker[id])
            for value in node.values:
                if value.id in held:
                    held.remove(value.id)
                    yield Step(Action.FREE, value.id)
            yield Step(Action.COMPUTE, node.id)
            held.update(value.id for value in node.values)

        for number, node in enumerate(self._order):
            yield from compute(node)
            for id in sorted(held):
                later = [use for use in self._uses.get(id, []) if use > number]
                if not later or (id in dropped and number < self._backward <= later[0]):
                    held.remove(id)
                    yield Step(Action.FREE, id)

    def _peak(self, steps: list[Step]) -> tuple[int, set[str]]:
        """The most bytes at once, and what is held then."""
        held: set[str] = set()
        peak, at_peak = 0, held
        for step in steps:
            if step.do is Action.FREE:
                held.discard(step.target)
                continue
            node = self._nodes[step.target]
            held |= {value.id for value in node.values}
            now = sum(self._bytes[id] for id in held) + node.workspace_bytes
            if now > peak:
                peak, at_peak = now, set(held)
        return peak, at_peak
