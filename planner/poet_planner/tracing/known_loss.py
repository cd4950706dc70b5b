# SPDX-License-Identifier: Apache-2.0
"""A model's loss by a name that NumPy computes it by, from the scores of an inference."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.losses import OF_CLASSES, Loss
from poet_profiles.program.users_code import users_code
from poet_runtime.nested import tensors_in, with_tensors
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from poet_planner.tracing.snapshot import Snapshot

if TYPE_CHECKING:
    from poet_planner.models import Model

_aten = torch.ops.aten
# These move numbers and change none; whether they go where NumPy's formula has them is tried.
_MOVING = {
    *(_aten.view, _aten._unsafe_view, _aten.reshape, _aten.permute, _aten.transpose, _aten.t, _aten.squeeze),
    *(_aten.unsqueeze, _aten.clone, _aten.alias, _aten.detach, _aten._to_copy),
}
_MEAN = 1
# The operators of each loss, and the places of its weights and of its reduction among the last one's arguments.
_OPERATORS: dict[str, tuple[tuple[Any, ...], tuple[int, ...], int]] = {
    "cross_entropy": ((_aten._log_softmax, _aten.nll_loss_forward), (2,), 3),
    "nll_loss": ((_aten.nll_loss_forward,), (2,), 3),
    "mse_loss": ((_aten.mse_loss,), (), 2),
    "binary_cross_entropy": ((_aten.binary_cross_entropy,), (2,), 3),
    "binary_cross_entropy_with_logits": ((_aten.binary_cross_entropy_with_logits,), (2, 3), 4),
}
_IGNORED_LABEL = 4
_ROUNDING = 1e-5


def known_loss(model: Model, sample: Sequence[int]) -> Loss | None:
    """The loss by name, or None if it has none of these names, or is no mean of all numbers.

    ``sample`` is the shape of one sample's scores, without an axis of samples.
    """
    targets = tensors_in(model.targets)
    if len(targets) != 1 or not targets[0].dim():
        return None
    before = Snapshot(model.loss, model.targets)
    try:
        with users_code(model.name), torch.no_grad():
            return _known(model, (len(targets[0]), *sample), targets[0])
    except UserError:  # it is one of the scores of a training step alone
        return None
    finally:
        before.restore()


def _known(model: Model, shape: tuple[int, ...], target: Tensor) -> Loss | None:
    def loss(scores: Tensor, wanted: Tensor) -> Tensor:
        return model.loss(scores, *with_tensors(model.targets, [wanted]))

    scores = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    name = _name(make_fx(loss)(scores, target).graph, float(target.min()))
    if name is None:
        return None
    for known, wanted in _candidates(name, scores, target):
        found = float(loss(scores, wanted))
        if math.isclose(known.mean(scores.numpy(), wanted.numpy()), found, rel_tol=_ROUNDING):
            return known
    return None


def _name(graph: torch.fx.Graph, least_label: float) -> str | None:
    calls = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    computing = [node for node in calls if getattr(node.target, "overloadpacket", None) not in _MOVING]
    operators = tuple(getattr(node.target, "overloadpacket", None) for node in computing)
    for name, (wanted, weights, reduction) in _OPERATORS.items():
        # Pixels have an operator of their own.
        if tuple(_aten.nll_loss_forward if one is _aten.nll_loss2d_forward else one for one in operators) == wanted:
            args = dict(enumerate(computing[-1].args))
            is_mean = args.get(reduction, _MEAN) == _MEAN and all(args.get(place) is None for place in weights)
            leaves_none_out = name not in OF_CLASSES or (args[_IGNORED_LABEL] < 0 and least_label >= 0)
            return name if is_mean and leaves_none_out else None
    return None


def _candidates(name: str, scores: Tensor, target: Tensor) -> Iterator[tuple[Loss, Tensor]]:
    """How the scores may be read, with targets to try it with."""
    generator = torch.Generator().manual_seed(1)
    if name not in OF_CLASSES:
        if scores.numel() == target.numel():
            drawn = torch.rand(target.shape, generator=generator)
            yield Loss(name), drawn if target.is_floating_point() else drawn.round().to(target.dtype)
        return
    for axis in range(1, scores.dim()):
        classes = scores.shape[axis]
        if scores.numel() == classes * target.numel():
            yield Loss(name, axis), torch.randint(classes, target.shape, generator=generator).to(target.dtype)
