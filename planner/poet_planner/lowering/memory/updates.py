# SPDX-License-Identifier: Apache-2.0
"""The optimiser's update inside a step, parameter by parameter: it ends the gradient's life.

An update may come as soon as nothing reads the parameter any more, now or in a recomputation. What reads a parameter in
the forward pass may be recomputed for whatever reads its values, and that for whatever reads those; all of these nodes
come before the update. Backward nodes are computed once: else every node of the step would be among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from poet_profiles.graph import Graph, Node, Operation, Value

from poet_planner.lowering.operators.draft import added, done


def with_updates(graph: Graph, gradients: Mapping[str, str], op: str = "sgd") -> Graph:
    """``graph`` with a node for the update of each parameter, all of them in the order in which gradients are made.

    ``graph`` is as `lower_for_linux` makes it with gradients as values; ``gradients`` names, by parameter, the value
    that is its gradient. ``op`` is what an update is called in a profile, by the number of its parameters (``size=…``).
    """
    sizes = {resident.id: resident.bytes // 4 for resident in graph.residents}
    updates = {
        parameter: Node(
            id=added(parameter, "update"),
            time_s=0.0,
            energy_j=0.0,
            values=(Value(added(parameter, "update"), 0),),
            inputs=(gradient,),
            recomputable=False,
            backward=True,
            operation=Operation(op, f"size={sizes[parameter]}", (gradient, parameter), (parameter,)),
        )
        for parameter, gradient in gradients.items()
    }
    return with_nodes_after_readers(graph, gradients, updates)


def with_nodes_after_readers(graph: Graph, gradients: Mapping[str, str], updates: Mapping[str, Node]) -> Graph:
    """The same with the nodes given: one a parameter, of one value, with what it reads as inputs."""
    *nodes, end = (replace(node, recomputable=node.recomputable and not node.backward) for node in graph.nodes)
    steps = _Updates(nodes)
    place = {value.id: index for index, node in enumerate(nodes) for value in node.values}
    for parameter, gradient in sorted(gradients.items(), key=lambda pair: place[pair[1]]):
        steps.add(parameter, updates[parameter], place[gradient])
    left = tuple(id for id in end.inputs if id not in set(gradients.values()))
    return replace(graph, nodes=(*steps.nodes(), replace(end, inputs=(*left, *steps.made))))


class _Updates:
    """Nodes with updates among them. Sets of nodes are the bits of whole numbers."""

    def __init__(self, nodes: list[Node]) -> None:
        self._nodes = nodes
        self._readers: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(nodes):
            operands = node.operation.operands if node.operation else ()
            for id in {*node.inputs, *operands}:
                self._readers[id].append(index)
        self._before = self._ancestors()
        self._waited_for: set[int] = set()
        self._after: dict[int, list[Node]] = defaultdict(list)
        self._last = 0
        self._done = 0
        self.made: list[str] = []

    def add(self, parameter: str, update: Node, maker: int) -> None:
        """Puts the update of a parameter, whose gradient node ``maker`` makes, after all that may read the parameter.

        And after the update before it.
        """
        covered = self._before[maker] | 1 << maker | self._done
        waits = []
        for index in sorted(self._reading(parameter), reverse=True):
            if not covered >> index & 1:
                waits.append(index)
                covered |= self._before[index] | 1 << index
        self._waited_for.update(waits)
        self._done = covered
        self._last = max([self._last, maker, *waits])
        waited = (done(self._nodes[index].id) for index in waits)
        self._after[self._last].append(replace(update, inputs=(*update.inputs, *self.made[-1:], *waited)))
        self.made.append(update.id)

    def nodes(self) -> list[Node]:
        """All nodes but the last, in order; those that an update waits for say that they are done."""
        found = []
        for index, node in enumerate(self._nodes):
            has = any(value.id == done(node.id) for value in node.values)
            if index in self._waited_for and not has:
                node = replace(node, values=(*node.values, Value(done(node.id), 0)))
            found += [node, *self._after[index]]
        return found

    def _reading(self, parameter: str) -> set[int]:
        """The nodes that read a parameter, and those for which such a node may be recomputed."""
        reading: set[int] = set()
        pending = [*self._readers[parameter]]
        while pending:
            index = pending.pop()
            if index not in reading:
                reading.add(index)
                if self._nodes[index].recomputable:
                    values = (value.id for value in self._nodes[index].values if value.bytes)
                    pending += [reader for id in values for reader in self._readers[id]]
        return reading

    def _ancestors(self) -> list[int]:
        maker = {value.id: index for index, node in enumerate(self._nodes) for value in node.values}
        before: list[int] = []
        for node in self._nodes:
            above = 0
            for id in node.inputs:
                above |= before[maker[id]] | 1 << maker[id]
            before.append(above)
        return before
