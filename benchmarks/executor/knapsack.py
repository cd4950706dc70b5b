# SPDX-License-Identifier: Apache-2.0
"""poet's optimiser as the solver of `torch.compile`'s memory budget.

PyTorch hands it the joint graph and what may be recomputed, and no times; whatever it answers passes through a minimum
cut once more. So poet plans for the peak of the whole step, and says what its plan computes once.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from poet_planner import Graph, NoScheduleError, OptimiseOptions, optimise
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.graph import Node, Value
from poet_profiles.schedule import Action
from torch import Tensor, fx
from torch._inductor.custom_graph_pass import CustomKnapsackSolver
from torch.utils.flop_counter import flop_registry

# PyTorch's own estimate would run kernels on memory that holds anything, where a lookup reads any index.
_FLOP_S, _BYTE_S = 1 / 40e9, 1 / 8e9


class WithinPeak(CustomKnapsackSolver):
    """Plans for a share of a step's peak, or for the least that is found."""

    def __init__(self, share: float, seconds: float) -> None:
        self._share, self._options = share, OptimiseOptions(time_limit_s=seconds, capped=False)

    def uuid(self) -> None:
        """Nothing of it is kept between processes."""

    def __call__(
        self,
        memory: Sequence[float],
        joint_graph: fx.Graph,
        max_memory: float,
        node_info: Any,
        all_recomputable_banned_nodes: Sequence[fx.Node],
    ) -> tuple[list[int], list[int]]:
        graph = _lowered(joint_graph, {*node_info.required_fw_nodes})
        most = store_all_schedule(graph).peak_bytes
        try:
            schedule = optimise(graph, int(self._share * most), None, self._options)
        except NoScheduleError as lack:
            schedule = optimise(graph, lack.possible_bytes or most, None, self._options)
        times = Counter(step.target for step in schedule.steps if step.do is Action.COMPUTE)
        chosen: tuple[list[int], list[int]] = [], []
        for number, node in enumerate(all_recomputable_banned_nodes):
            chosen[times[_maker(node).name] > 1].append(number)
        return chosen


def _lowered(joint: fx.Graph, forward: set[fx.Node]) -> Graph:
    """The joint graph as poet has it: a value is a storage, and views are their base."""
    made: dict[fx.Node, tuple[str, ...]] = {}
    nodes = []
    calls = [node for node in joint.nodes if node.op == "call_function"]
    for node in sorted(calls, key=lambda one: one not in forward):
        inputs = tuple(dict.fromkeys(id for one in node.all_input_nodes for id in made.get(one, ())))
        if node.target is operator.getitem:
            made[node] = (f"{node.args[0].name}.{node.args[1]}",) if len(made[node.args[0]]) > 1 else made[node.args[0]]
        elif getattr(node.target, "is_view", False):
            made[node] = inputs[:1]
        else:
            outputs = [*_tensors(node)]
            made[node] = tuple(f"{node.name}.{number}" for number in range(len(outputs)))
            values = tuple(
                Value(id, one.untyped_storage().nbytes()) for id, one in zip(made[node], outputs, strict=True)
            )
            time_s = _estimated_s(node) if node in forward else 1e-9
            again = node in forward
            nodes.append(Node(node.name, time_s, time_s, values, inputs, recomputable=again, backward=not again))
    (end,) = (node for node in joint.nodes if node.op == "output")
    results = tuple(dict.fromkeys(id for one in end.all_input_nodes for id in made.get(one, ())))
    nodes.append(Node("end", 0.0, 0.0, (Value("end", 0),), results, recomputable=False, backward=True))
    return Graph("joint", tuple(nodes), allocates=True)


def _estimated_s(node: fx.Node) -> float:
    moved = sum(one.untyped_storage().nbytes() for each in (node, *node.all_input_nodes) for one in _tensors(each))
    count = flop_registry.get(getattr(node.target, "_overloadpacket", None))
    if count is None:
        return 1e-9 + moved * _BYTE_S
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda one: one.meta["val"])
    return float(count(*args, **kwargs, out_val=node.meta["val"]) * _FLOP_S + moved * _BYTE_S)


def _tensors(node: fx.Node) -> Iterator[Tensor]:
    found = node.meta.get("val")
    yield from (
        one for one in (found if isinstance(found, tuple | list) else (found,)) if isinstance(one, torch.Tensor)
    )


def _maker(node: fx.Node) -> fx.Node:
    return node.args[0] if node.target is operator.getitem else node  # type: ignore[return-value]
