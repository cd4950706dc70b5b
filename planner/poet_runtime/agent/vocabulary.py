# SPDX-License-Identifier: Apache-2.0
"""The vocabulary's operators (docs/SPEC.md, section 1) as calls of ATen, so that all boards can be compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.firmware.steps import POINTWISE, steps_in, text_of
from poet_profiles.protocol.status import Status
from torch import Tensor

from poet_runtime.agent.calls import Call
from poet_runtime.agent.operands import AROUND_ZERO, SEED, random_tensor
from poet_runtime.agent.server import RefusedError, lacks_memory

aten = torch.ops.aten
Params = Mapping[str, int]
# Of gradient descent, whose rate changes no cost.
RATE = 0.01


def vocabulary_call(code: int, values: Sequence[int]) -> Call:
    """An operator of the vocabulary on random data.

    Raises
    ------
    RefusedError
        If there is none, its parameters make no sense, or PyTorch has no single operator for it.
    """
    found = next((operator for operator in OPERATORS.values() if operator.code == code), None)
    if found is None or found.name not in _CALLS:
        name = found.name if found else f"operator {code}"
        raise RefusedError(Status.E_UNSUPPORTED, f"{name} is no single operator of PyTorch")
    words = range(len(values) - len(found.params) if found.name == POINTWISE else 0)
    names = (*found.params, *(f"word{place}" for place in words))
    if len(values) != len(names) or not all(value > 0 for value in values[:1]):
        raise RefusedError(Status.E_ARGUMENT, f"{found.name} takes {' '.join(found.params)}")
    try:
        return _CALLS[found.name](dict(zip(names, values, strict=True)))
    except (RuntimeError, TypeError, ZeroDivisionError, LookupError, ValueError) as error:
        if lacks_memory(error):
            raise
        raise RefusedError(Status.E_ARGUMENT, str(error).partition("\n")[0]) from None


def _random(*shape: int) -> Tensor:
    return random_tensor(shape, None, torch.float32, AROUND_ZERO, torch.Generator().manual_seed(SEED))


def _pointwise(p: Params) -> Call:
    """Of one step on tensors of one size: what it reads, its numbers, and what ATen asks for beside."""
    steps = [*steps_in(p)]
    if len(steps) != 1 or steps[0].name not in OF_STEPS:
        raise RefusedError(Status.E_UNSUPPORTED, f"{text_of(steps)} is no single operator of PyTorch")
    (step,) = steps
    target, *more = OF_STEPS[step.name]
    return Call(target, [*(_random(p["size"]) for _ in step.sources), *step.numbers, *more], {})


def _convolved(p: Params) -> tuple[Tensor, Tensor, Tensor | None, list[object]]:
    x = _random(p["n"], p["c"], p["h"], p["w"])
    w = _random(p["k"], p["c"] // p["g"], p["r"], p["s"])
    window: list[object] = [[p["sh"], p["sw"]], [p["ph"], p["pw"]], [1, 1], False, [0, 0], p["g"]]
    return x, w, _random(p["k"]) if p["bias"] else None, window


def _conv2d(p: Params) -> Call:
    x, w, bias, window = _convolved(p)
    return Call(aten.convolution.default, [x, w, bias, *window], {})


def _conv2d_backward(*mask: bool) -> Callable[[Params], Call]:
    def build(p: Params) -> Call:
        x, w, _, window = _convolved(p)
        # By its layout alone: the result itself may not fit.
        result = aten.convolution.default(x.to("meta"), w.to("meta"), None, *window)
        gradient = _random(*result.shape)
        wanted = [*mask[:2], mask[2] and bool(p["bias"])]
        sizes = [p["k"]] if wanted[2] else None
        return Call(aten.convolution_backward.default, [gradient, x, w, sizes, *window, wanted], {})

    return build


def _linear(p: Params) -> Call:
    x, w = _random(p["m"], p["k"]), _random(p["n"], p["k"]).t()
    return Call(aten.addmm.default, [_random(p["n"]), x, w], {}) if p["bias"] else Call(aten.mm.default, [x, w], {})


def _matmul(p: Params) -> Call:
    a = _random(p["b"], p["k"], p["m"]).mT if p["ta"] else _random(p["b"], p["m"], p["k"])
    b = _random(p["b"], p["n"], p["k"]).mT if p["tb"] else _random(p["b"], p["k"], p["n"])
    return Call(aten.bmm.default, [a, b], {})


def _pooled(p: Params) -> tuple[Tensor, list[object]]:
    return _random(p["n"], p["c"], p["h"], p["w"]), [[p["r"], p["s"]], [p["sh"], p["sw"]], [p["ph"], p["pw"]]]


def _max_pool2d_backward(p: Params) -> Call:
    x, window = _pooled(p)
    result, indices = aten.max_pool2d_with_indices.default(x, *window)
    gradient = torch.ones_like(result)
    args = [gradient, x, *window, [1, 1], False, indices]
    return Call(aten.max_pool2d_with_indices_backward.default, args, {})


def _avg_pool2d_backward(p: Params) -> Call:
    x, window = _pooled(p)
    gradient = torch.ones_like(aten.avg_pool2d.default(x, *window))
    return Call(aten.avg_pool2d_backward.default, [gradient, x, *window, False, True, None], {})


def _layer_norm_backward(*mask: bool) -> Callable[[Params], Call]:
    def build(p: Params) -> Call:
        x, w = _random(p["m"], p["n"]), _random(p["n"])
        _, mean, rstd = aten.native_layer_norm.default(x, [p["n"]], w, w, 1e-5)
        args = [_random(p["m"], p["n"]), x, [p["n"]], mean, rstd, w, w, list(mask)]
        return Call(aten.native_layer_norm_backward.default, args, {})

    return build


OF_STEPS: dict[str, tuple[Any, ...]] = {
    **{name: (getattr(aten, name).Tensor,) for name in ("add", "sub", "mul")},
    **{
        f"{name}{ending}": (getattr(aten, f"{name}{ending}").default,)
        for name in ("gelu", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid")
        for ending in ("", "_backward")
    },
    "relu": (aten.relu.default,),
    "relu_backward": (aten.threshold_backward.default, 0),
    "mulc": (aten.mul.Scalar,),
    "clampc": (aten.hardtanh.default,),
    "hardtanh_backward": (aten.hardtanh_backward.default,),
    "leaky_relu": (aten.leaky_relu.default,),
    "leaky_relu_backward": (aten.leaky_relu_backward.default, False),
}
_CALLS: dict[str, Callable[[Params], Call]] = {
    "conv2d": _conv2d,
    "conv2d_backward_input": _conv2d_backward(True, False, False),
    "conv2d_backward_weight": _conv2d_backward(False, True, True),
    "linear": _linear,
    "matmul": _matmul,
    POINTWISE: _pointwise,
    "sum_rows": lambda p: Call(aten.sum.dim_IntList, [_random(p["m"], p["n"]), [0]], {}),
    "max_pool2d": lambda p: Call(aten.max_pool2d_with_indices.default, [*_flat(_pooled(p))], {}),
    "max_pool2d_backward": _max_pool2d_backward,
    "avg_pool2d": lambda p: Call(aten.avg_pool2d.default, [*_flat(_pooled(p))], {}),
    "avg_pool2d_backward": _avg_pool2d_backward,
    "sgd": lambda p: Call(aten.add_.Tensor, [_random(p["size"]), _random(p["size"])], {"alpha": -RATE}),
    "log_softmax": lambda p: Call(aten._log_softmax.default, [_random(p["m"], p["n"]), 1, False], {}),
    "softmax": lambda p: Call(aten._softmax.default, [_random(p["m"], p["n"]), 1, False], {}),
    "layer_norm": lambda p: Call(
        aten.native_layer_norm.default, [_random(p["m"], p["n"]), [p["n"]], _random(p["n"]), _random(p["n"]), 1e-5], {}
    ),
    "layer_norm_backward_input": _layer_norm_backward(True, False, False),
    "layer_norm_backward_weight": _layer_norm_backward(False, True, True),
    "add_rows": lambda p: Call(aten.add.Tensor, [_random(p["m"], p["n"]), _random(p["n"])], {}),
}


def _flat(pooled: tuple[Tensor, list[object]]) -> list[object]:
    return [pooled[0], *pooled[1]]
