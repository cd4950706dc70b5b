# SPDX-License-Identifier: Apache-2.0
"""The optimiser's update inside a step on a Linux board, parameter by parameter: it ends the gradient's life.

An update may come as soon as nothing reads the parameter any more, now or in a recomputation. What reads a parameter in
the forward pass may be recomputed for whatever reads its values, and that for whatever reads those; all of these nodes
come before the update. Backward nodes are computed once: else every node of the step would be among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from poet_profiles.graph import Graph, Node, Operation, Value

from poet_planner.lowering.draft import added, done


def with_updates(graph: Graph, gradients: Mapping[str, str], op: str = "sgd") -> Graph:
    """``graph`` with a node for the update of each parameter, all of them in the order in which gradients are made.

    Parameters
    ----------
    graph : Graph
        As `lower_for_linux` makes it with gradients as values.
    gradients : mapping of str to str
        By parameter, the value that is its gradient.
    op : str
        What an update is called in a profile, by the number of its parameters (``size=…``).
    """
    *nodes, end = (replace(node, recomputable=node.recomputable and not node.backward) for node in graph.nodes)
    steps = _Updates(nodes, {resident.id: resident.bytes for resident in graph.residents}, op)
    place = {value.id: index for index, node in enumerate(nodes) for value in node.values}
    for parameter, gradient in sorted(gradients.items(), key=lambda pair: place[pair[1]]):
        steps.add(parameter, gradient, place[gradient])
    left = tuple(id for id in end.inputs if id not in set(gradients.values()))
    return replace(graph, nodes=(*steps.nodes(), replace(end, inputs=(*left, *steps.made))))


class _Updates:
    """Nodes with updates among them. Sets of nodes are the bits of whole numbers."""

    def __init__(self, nodes: list[Node], sizes: Mapping[str, int], op: str) -> None:
        self._nodes = nodes
        self._sizes = sizes
        self._op = op
        self._readers: dict[str, list[int]] = defaultdict(list)
        for index, node in enumerate(nodes):
            operands = node.operation.operands if node.operation else ()
            for id in {*node.inputs, *operands}:
                self._readers[id].append(index)
        self._before = self._ancestors()
        self._waited_for: set[int] = set()
        self._behind: dict[int, list[Node]] = defaultdict(list)
        self._last = 0
        self._done = 0
        self.made: list[str] = []

    def add(self, parameter: str, gradient: str, maker: int) -> None:
        """The update of a parameter, behind all that may read it and behind the update before it."""
        covered = self._before[maker] | 1 << maker | self._done
        waits = []
        for index in sorted(self._reading(parameter), reverse=True):
            if not covered >> index & 1:
                waits.append(index)
                covered |= self._before[index] | 1 << index
        self._waited_for.update(waits)
        self._done = covered
        self._last = max([self._last, maker, *waits])
        id = added(parameter, "update")
        params = f"size={self._sizes[parameter] // 4}"
        update = Node(
            id=id,
            time_s=0.0,
            energy_j=0.0,
            values=(Value(id, 0),),
            inputs=(gradient, *self.made[-1:], *(done(self._nodes[index].id) for index in waits)),
            recomputable=False,
            backward=True,
            operation=Operation(self._op, params, (gradient, parameter), (parameter,)),
        )
        self._behind[self._last].append(update)
        self.made.append(id)

    def nodes(self) -> list[Node]:
        """All nodes but the last, in order; those that an update waits for say that they are done."""
        found = []
        for index, node in enumerate(self._nodes):
            has = any(value.id == done(node.id) for value in node.values)
            if index in self._waited_for and not has:
                node = replace(node, values=(*node.values, Value(done(node.id), 0)))
            found += [node, *self._behind[index]]
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
