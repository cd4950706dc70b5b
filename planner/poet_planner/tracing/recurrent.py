# SPDX-License-Identifier: Apache-2.0
"""PyTorch's recurrent layers and cells, each direction of each layer as one operator.

PyTorch itself unrolls them while it is traced, or calls a kernel of its own. Here the input's products, which all steps
have in common, are one linear layer; what is recurrent is an operator of :mod:`poet_runtime.recurrent`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from poet_profiles.firmware.operators import RECURRENT
from poet_runtime import recurrent  # noqa: F401  (registers torch.ops.poet.lstm and the others)
from poet_runtime.traced_graph import TracedGraph, TracedOperator
from torch import Tensor
from torch.nn.functional import dropout, linear
from torch.overrides import TorchFunctionMode

aten, poet = torch.ops.aten, torch.ops.poet
States = tuple[Tensor, ...]
# Of a layer in one direction: input, states, weights, biases, and whether it goes from the last step to the first.
Layer = Callable[[Tensor, States, Tensor, Tensor, Tensor | None, Tensor | None, bool], States]


def has_whole_layers(traced: TracedGraph) -> bool:
    """Whether operators of a step are those that take a layer's place here."""
    return any(
        str(operator.target).removeprefix("poet.").partition(".")[0] in RECURRENT for operator in traced.operators
    )


def with_last_states(traced: TracedGraph) -> TracedGraph:
    """A gradient of the last result alone becomes that of the state, without zeros for others.

    What has made the zeros is still there, perhaps unread.
    """
    made = {
        operator.outputs[0]: operator
        for operator in traced.operators
        if operator.target is aten.select_backward.default
    }
    return replace(traced, operators=tuple(_from_last_state(operator, made) for operator in traced.operators))


def _from_last_state(operator: TracedOperator, made: Mapping[str | None, TracedOperator]) -> TracedOperator:
    names = [argument.name for argument in operator.target._schema.arguments]
    given = dict(zip(names, operator.args, strict=False))
    if given.get("gy") is None or given["gh"] is not None or given["gy"].source not in made:
        return operator
    gradient, sizes, axis, index = made[given["gy"].source].args
    views = [(view.target, view.args) for view in given["gy"].views]
    times = next((time for time, seen in enumerate(([], [(aten.transpose.int, (0, 1))])) if views == seen), None)
    last = 0 if given["reverse"] else sizes[axis] - 1
    if axis % len(sizes) != times or index % sizes[axis] != last:
        return operator
    return replace(operator, args=tuple({**given, "gy": None, "gh": gradient}.values()))


class WholeLayers(TorchFunctionMode):
    """Within, recurrent layers and cells stay whole, but for those with projections."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = _CALLS.get(getattr(func, "__name__", "")) if not kwargs else None
        result = found(*args) if found is not None else None
        return func(*args, **(kwargs or {})) if result is None else result


def _stack(layer: Layer, has_cell: bool) -> Callable[..., Any]:
    def call(x: Any, states: Any, weights: Any, biased: Any, *how: Any) -> Any:
        if not isinstance(biased, bool):
            return None  # packed: lengths come second
        states = tuple(states) if has_cell else (states,)
        if len({state.shape[2] for state in states}) > 1:
            return None  # projected
        y, last = _layers(layer, x, states, weights, biased, *how)
        return (y, *last)

    return call


def _layers(
    layer: Layer,
    x: Tensor,
    states: States,
    weights: Sequence[Tensor],
    biased: bool,
    layers: int,
    drop: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> tuple[Tensor, States]:
    x = x.transpose(0, 1) if batch_first else x
    each = 4 if biased else 2
    ends: list[States] = []
    for number in range(layers):
        ways = []
        for reverse in (False, True)[: 1 + both]:
            place = len(ends)
            w_ih, w_hh, *biases = weights[each * place : each * (place + 1)]
            b_ih, b_hh = biases if biased else (None, None)
            y, *end = layer(x, tuple(state[place] for state in states), w_ih, w_hh, b_ih, b_hh, reverse)
            ways.append(y)
            ends.append(tuple(end))
        x = torch.cat(ways, 2) if both else ways[0]
        if drop and train and number < layers - 1:
            x = dropout(x, drop)
    last = tuple(torch.stack(state) for state in zip(*ends, strict=True))
    return x.transpose(0, 1) if batch_first else x, last


def _cell(layer: Layer, has_cell: bool) -> Callable[..., Any]:
    def call(
        x: Tensor, states: Any, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Any:
        _, *last = layer(x[None], tuple(states) if has_cell else (states,), w_ih, w_hh, b_ih, b_hh, False)
        return tuple(last) if has_cell else last[0]

    return call


def _products(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Of all steps' inputs."""
    return linear(x.flatten(0, 1), w, b).view(*x.shape[:2], len(w))


def _sum(b_ih: Tensor | None, b_hh: Tensor | None) -> Tensor | None:
    return None if b_ih is None or b_hh is None else b_ih + b_hh


def _lstm(
    x: Tensor, states: States, w_ih: Tensor, w: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, reverse: bool
) -> States:
    made: States = _Lstm.apply(_products(x, w_ih, _sum(b_ih, b_hh)), w, *states, reverse)  # type: ignore[no-untyped-call]
    return made


def _gru(
    x: Tensor, states: States, w_ih: Tensor, w: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, reverse: bool
) -> States:
    made: States = _Gru.apply(_products(x, w_ih, b_ih), w, b_hh, *states, reverse)  # type: ignore[no-untyped-call]
    return made


def _rnn(relu: bool) -> Layer:
    def layer(
        x: Tensor, states: States, w_ih: Tensor, w: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, reverse: bool
    ) -> States:
        products = _products(x, w_ih, _sum(b_ih, b_hh))
        made: States = _Rnn.apply(products, w, *states, relu, reverse)  # type: ignore[no-untyped-call]
        return made

    return layer


class _Recurrent(torch.autograd.Function):
    """With what all have in common: ``ctx.reverse``, and gradients that are missing stay so."""

    @staticmethod
    def kept(ctx: Any, reverse: bool, *tensors: Tensor | None) -> None:
        ctx.reverse = reverse
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def last(states: Tensor, reverse: bool) -> Tensor:
        return states[0 if reverse else -1].clone()


class _Lstm(_Recurrent):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, h0: Tensor, c0: Tensor, reverse: bool) -> Any:
        gates, y, cells = poet.lstm(x, w, h0, c0, reverse)
        _Recurrent.kept(ctx, reverse, w, h0, c0, gates, y, cells)
        return y, _Recurrent.last(y, reverse), _Recurrent.last(cells, reverse)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Any:
        w, h0, c0, gates, y, cells = ctx.saved_tensors
        gx, *states = poet.lstm_backward(gates, cells, w, c0, *given, ctx.reverse)
        return gx, poet.recurrent_weights(gx, None, h0, y, ctx.reverse), *states, None


class _Gru(_Recurrent):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, h0: Tensor, reverse: bool) -> Any:
        gates, hidden, y = poet.gru(x, w, b, h0, reverse)
        ctx.biased = b is not None
        _Recurrent.kept(ctx, reverse, w, h0, gates, hidden, y)
        return y, _Recurrent.last(y, reverse)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Any:
        w, h0, gates, hidden, y = ctx.saved_tensors
        gx, ghidden, state = poet.gru_backward(gates, hidden, y, w, h0, *given, ctx.reverse)
        gw = poet.recurrent_weights(gx, ghidden, h0, y, ctx.reverse)
        gb = None
        if ctx.biased:
            gb = torch.cat([gx.sum((0, 1))[: 2 * h0.shape[1]], ghidden.sum((0, 1))])
        return gx, gw, gb, state, None


class _Rnn(_Recurrent):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, h0: Tensor, relu: bool, reverse: bool) -> Any:
        y = poet.rnn(x, w, h0, relu, reverse)
        ctx.relu = relu
        _Recurrent.kept(ctx, reverse, w, h0, y)
        return y, _Recurrent.last(y, reverse)

    @staticmethod
    def backward(ctx: Any, *given: Tensor | None) -> Any:
        w, h0, y = ctx.saved_tensors
        gx, state = poet.rnn_backward(y, w, *given, ctx.relu, ctx.reverse)
        return gx, poet.recurrent_weights(gx, None, h0, y, ctx.reverse), state, None, None


_LAYERS: Mapping[str, tuple[Layer, bool]] = {
    "lstm": (_lstm, True),
    "gru": (_gru, False),
    "rnn_tanh": (_rnn(False), False),
    "rnn_relu": (_rnn(True), False),
}
_CALLS: dict[str, Callable[..., Any]] = {
    **{name: _stack(*kind) for name, kind in _LAYERS.items()},
    **{f"{name}_cell": _cell(*kind) for name, kind in _LAYERS.items()},
}
