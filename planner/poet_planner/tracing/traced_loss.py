# SPDX-License-Identifier: Apache-2.0
"""What a loss without a name calls, for any number of samples, from two traces of it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.program.users_code import users_code
from poet_profiles.traced_loss import PICK, LossCall, LossConstant, TracedLoss
from poet_runtime.nested import tensors_in, with_tensors
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from poet_planner.tracing.snapshot import Snapshot

if TYPE_CHECKING:
    from poet_planner.models import Model

aten = torch.ops.aten
MOST_NUMBERS = 65_536  # of a constant, in a file of text
_ROUNDING = 1e-4
_SOFTMAX = (aten._log_softmax.default, aten._softmax.default)


class _NoDataError(Exception):
    """Why a loss is no such data."""


def traced_loss(model: Model, sample: Sequence[int]) -> TracedLoss | None:
    """The loss as data, or None where there is none.

    It may hang on the number of samples in other ways, or draw random numbers. ``sample`` is the shape of one sample's
    scores, without an axis of samples.
    """
    before = Snapshot(model.loss, model.targets)
    try:
        with users_code(model.name), torch.no_grad():
            return _as_data(model, tuple(sample))
    except (UserError, _NoDataError):
        return None
    finally:
        before.restore()


def _as_data(model: Model, sample: tuple[int, ...]) -> TracedLoss | None:
    targets = tensors_in(model.targets)
    count = len(targets[0]) if targets and targets[0].dim() else 0
    if not count or any(not target.dim() or len(target) != count for target in targets):
        return None
    generator = torch.Generator().manual_seed(0)

    def batch(samples: int) -> list[Tensor]:
        scores = torch.rand((samples, *sample), generator=generator)
        return [scores, *(target[torch.arange(samples) % count].clone() for target in targets)]

    def loss(scores: Tensor, *wanted: Tensor) -> Tensor:
        return model.loss(scores, *with_tensors(model.targets, wanted))

    sizes = (count, count + 1)
    traces = [make_fx(loss)(*batch(samples)) for samples in sizes]
    found = _Reading(sizes, traces).loss(targets)
    for samples in (count, 2 * count + 1):
        given = batch(samples)
        value = found.mean(*(tensor.numpy() for tensor in given))
        if not math.isclose(float(loss(*given)), value, rel_tol=_ROUNDING, abs_tol=1e-6):
            return None
    axis = _class_axis(loss, (count, *sample), targets)
    return found if axis is None else replace(found, class_axis=axis, soft=False)


class _Reading:
    """Two traces of one loss, operator beside operator."""

    def __init__(self, sizes: tuple[int, int], traces: Sequence[GraphModule]) -> None:
        self._sizes, self._traces = sizes, traces
        self._numbers: dict[Node, int] = {}
        self._constants: list[LossConstant] = []

    def loss(self, targets: Sequence[Tensor]) -> TracedLoss:
        graphs = [[node for node in trace.graph.nodes if node.op != "output"] for trace in self._traces]
        if [node.target for node in graphs[0]] != [node.target for node in graphs[1]]:
            raise _NoDataError
        pairs = list(zip(*graphs, strict=True))
        order = ("placeholder", "get_attr", "call_function")
        for node, other in sorted(pairs, key=lambda pair: order.index(pair[0].op)):
            self._numbers[node] = len(self._numbers)
            if node.op == "get_attr":
                self._constants.append(self._constant(node, other))
        calls = [self._call(*pair) for pair in pairs if pair[0].op == "call_function"]
        (result,) = next(node for node in self._traces[0].graph.nodes if node.op == "output").args
        names = tuple(_named(target.dtype) for target in targets)
        axis = self._shared(targets)
        return TracedLoss(names, tuple(self._constants), tuple(calls), self._numbers[result], axis, axis is not None)

    def _constant(self, node: Node, other: Node) -> LossConstant:
        tensors = [getattr(trace, str(one.target)) for trace, one in zip(self._traces, (node, other), strict=True)]
        if not torch.equal(*tensors) or tensors[0].numel() > MOST_NUMBERS or tensors[0].is_complex():
            raise _NoDataError
        if not bool(torch.isfinite(tensors[0]).all()):
            raise _NoDataError
        return LossConstant(_named(tensors[0].dtype), tensors[0].tolist())

    def _call(self, node: Node, other: Node) -> LossCall:
        args, kwargs = self._argument(list(node.args), list(other.args)), dict(node.kwargs)
        if node.target is operator.getitem:
            return LossCall(PICK, args)
        if not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace != "aten":
            raise _NoDataError
        given = {name: self._argument(one, other.kwargs[name]) for name, one in kwargs.items() if name != "device"}
        return LossCall(str(node.target).removeprefix("aten."), args, given)

    def _argument(self, one: Any, other: Any) -> Any:
        if isinstance(one, Node):
            return {"value": self._numbers[one]}
        if isinstance(one, list | tuple):
            return [self._argument(*pair) for pair in zip(one, other, strict=True)]
        if isinstance(one, torch.dtype | torch.memory_format | torch.layout):
            return {"torch": _named(one)}
        if one is None or isinstance(one, bool | str):
            return one
        if not isinstance(one, int | float):
            raise _NoDataError
        if one == other or one != one:
            return one if math.isfinite(one) else {"number": str(one)}
        return self._of_samples(one, other)

    def _of_samples(self, one: float, other: float) -> dict[str, Any]:
        first, second = self._sizes
        if math.isclose(one * first, other * second, rel_tol=1e-12):
            return {"share": one * first}
        if not isinstance(one, int) or not isinstance(other, int) or (other - one) % (second - first):
            raise _NoDataError
        each = (other - one) // (second - first)
        return {"samples": [one - each * first, each]}

    def _shared(self, targets: Sequence[Tensor]) -> int | None:
        """The axis of a softmax over the scores, if a target has a share for each of them."""
        graph = self._traces[0].graph
        scores = next(iter(graph.nodes))
        shape = scores.meta["val"].shape
        axes = [node.args[1] % len(shape) for node in graph.nodes if node.target in _SOFTMAX and scores in node.args]
        shares = any(target.is_floating_point() and target.shape == shape for target in targets)
        return axes[0] if axes and axes[0] and shares else None


def _class_axis(loss: Callable[..., Tensor], shape: tuple[int, ...], targets: Sequence[Tensor]) -> int | None:
    """The axis of the scores along which labels count; of several that fit, that where right ones cost least."""
    fitting = [
        (place, axis)
        for place, labels in enumerate(targets)
        for axis in range(1, len(shape))
        if labels.dtype in (torch.int64, torch.int32) and labels.shape == shape[:axis] + shape[axis + 1 :]
    ]

    def of_right_ones(place: int, axis: int) -> float:
        drawn = torch.randint(shape[axis], targets[place].shape, generator=torch.Generator().manual_seed(0))
        right = torch.zeros(shape).scatter(axis, drawn.unsqueeze(axis), 5.0)
        return float(loss(right, *targets[:place], drawn.to(targets[place]), *targets[place + 1 :]))

    if len(fitting) < 2:
        return fitting[0][1] if fitting else None
    return min(fitting, key=lambda one: of_right_ones(*one))[1]


def _named(one: torch.dtype | torch.memory_format | torch.layout) -> str:
    return str(one).removeprefix("torch.")
