# SPDX-License-Identifier: Apache-2.0
"""What a step reads from a module and its loss at every call, and whether that still is what was traced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn

Slot = tuple[dict[str, Any], str]
_AGAIN = "call poet_planner.compile again"


class ModuleState:
    """The places of parameters and buffers, looked up once; their tensors are read at each call.

    An optimiser, `load_state_dict` and ``p.data = …`` therefore work as with eager PyTorch.
    """

    def __init__(self, graph: TracedGraph, module: nn.Module, loss: Callable[..., Tensor]) -> None:
        self._name = graph.name
        self.ids = [r.id for r in graph.residents if r.kind in (Kind.PARAMETER, Kind.BUFFER)]
        self._slots = [_slot(id, graph, module, loss) for id in self.ids]
        self._children = [child for part in (module, loss) if isinstance(part, nn.Module) for child in _children(part)]
        self._modes = [part for whole in (module, loss) if isinstance(whole, nn.Module) for part in whole.modules()]
        self._training = [part.training for part in self._modes]
        self._kind = torch.device(graph.device).type
        self._autocast = _autocast(self._kind)
        self._traced = [_described(tensor) for tensor in self._read()]

    def tensors(self) -> list[Tensor]:
        """Parameters and buffers in the order of ``ids``.

        Raises
        ------
        UserError
            If one has another shape, type or layout than when it was traced, or the step would be another: in another
            mode, with other parameters to train, or under another autocast.
        """
        for place, key, child, path in self._children:
            if place.get(key) is not child:
                raise UserError(f"{self._name}: module {path} is another one now; {_AGAIN}")
        tensors = self._read()
        if [_described(tensor) for tensor in tensors] != self._traced:
            self._refuse_tensor(tensors)
        if [part.training for part in self._modes] != self._training:
            changed = next(p for p, mode in zip(self._modes, self._training, strict=True) if p.training != mode)
            mode = "training" if changed.training else "evaluation"
            raise UserError(f"{self._name}: a {type(changed).__name__} is in {mode} mode now; {_AGAIN}")
        if _autocast(self._kind) != self._autocast:
            raise UserError(
                f"{self._name}: autocast is {_autocast(self._kind)}, compiled it was {self._autocast}; {_AGAIN}"
            )
        return tensors

    def _read(self) -> list[Tensor]:
        return [place[key] for place, key in self._slots]

    def _refuse_tensor(self, tensors: Sequence[Tensor]) -> None:
        for id, tensor, was in zip(self.ids, tensors, self._traced, strict=True):
            for what, now, then in zip(_DESCRIPTION, _described(tensor), was, strict=True):
                if now != then:
                    raise UserError(f"{self._name}: {what} of {id} is {now}, and was {then} when compiled; {_AGAIN}")


_DESCRIPTION = ("the shape", "the type", "the stride", "requires_grad", "the device")


def _described(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.stride(), tensor.requires_grad, tensor.device


def _autocast(kind: str) -> str:
    return str(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else "off"


def _children(module: nn.Module) -> Iterator[tuple[dict[str, nn.Module | None], str, nn.Module, str]]:
    """The place of each module within another, and its path."""
    for path, part in module.named_modules():
        for key, child in part.named_children():
            yield part._modules, key, child, f"{path}.{key}".lstrip(".")


def _slot(id: str, graph: TracedGraph, module: nn.Module, loss: Callable[..., Tensor]) -> Slot:
    """The dictionary that holds a parameter or a buffer, and its key there."""
    owner, path = module, id
    if id in graph.loss_parameters:
        assert isinstance(loss, nn.Module)
        owner, path = loss, id.partition(".")[2]
    parent, _, leaf = path.rpartition(".")
    holder = owner.get_submodule(parent)
    return (holder._parameters if leaf in holder._parameters else holder._buffers), leaf
