# SPDX-License-Identifier: Apache-2.0
"""The parameters and buffers that a step reads from a module and its loss at every call."""

from __future__ import annotations

from collections.abc import Callable

from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn

from poet_planner.torch_step.places import Slot


class ModuleState:
    """The places of parameters and buffers, looked up once; their tensors are read at each call.

    An optimiser, `load_state_dict` and ``p.data = …`` therefore work as with eager PyTorch. Whether a place still has
    such a tensor, the guard knows.
    """

    def __init__(self, graph: TracedGraph, module: nn.Module, loss: Callable[..., Tensor]) -> None:
        operators = (*graph.operators, *graph.bookkeeping)
        used = {ref.source for operator in operators for ref in operator.refs}
        used |= graph.changed
        self.ids = [r.id for r in graph.residents if r.kind in (Kind.PARAMETER, Kind.BUFFER) and r.id in used]
        self.slots = [_slot(id, graph, module, loss) for id in self.ids]

    def tensors(self) -> list[Tensor]:
        """Parameters and buffers in the order of ``ids``."""
        return [place[key] for place, key, _ in self.slots]


def _slot(id: str, graph: TracedGraph, module: nn.Module, loss: Callable[..., Tensor]) -> Slot:
    """The dictionary that holds a parameter or a buffer, its key there, and its path."""
    owner, path = module, id
    if id in graph.loss_parameters:
        assert isinstance(loss, nn.Module)
        owner, path = loss, id.partition(".")[2]
    parent, _, leaf = path.rpartition(".")
    holder = owner.get_submodule(parent)
    return (holder._parameters if leaf in holder._parameters else holder._buffers), leaf, id
