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
from poet_runtime.traced_graph import Ref, TracedGraph, TracedOperator, View, map_refs, row_major
from torch import Tensor
from torch.nn.functional import dropout, linear
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

aten, poet = torch.ops.aten, torch.ops.poet
States = tuple[Tensor, ...]
# Of a layer in one direction: input, states, weights, biases, and whether it goes from the last step to the first.
Layer = Callable[[Tensor, States, Tensor, Tensor, Tensor | None, Tensor | None, bool], States]


def recurrent_operators(traced: TracedGraph) -> int:
    """How many operators of a step are those that take a layer's place here."""
    names = (operator.target._schema.name for operator in traced.operators)
    return sum(name.removeprefix("poet::") in RECURRENT for name in names)


def with_last_states(traced: TracedGraph) -> TracedGraph:
    """A gradient of the last result alone becomes that of the state, without zeros for others.

    And who reads that result alone reads it where it was made, and not among those of all segments. What has made the
    zeros, or brought the segments together, is still there, perhaps unread.
    """
    made = {operator.outputs[0]: operator for operator in traced.operators if operator.target in _AROUND_LAST}

    def where_made(ref: Ref) -> Ref:
        cat, (time, views) = made.get(ref.source), _time_axis(ref)
        if cat is None or cat.target is not aten.cat.default or len(cat.args) > 1:
            return ref
        last = cat.args[0][-1]
        alone = [(view.target, view.args) for view in views] == [(aten.select.int, (time, -1))]
        alike = not last.views and last.dtype == ref.dtype and last.shape[0] and last.stride == row_major(last.shape)
        return replace(ref, source=last.source) if alone and alike else ref

    def taken(operator: TracedOperator) -> TracedOperator:
        return _from_last_state(replace(operator, args=map_refs(operator.args, where_made)), made)

    return replace(traced, operators=tuple(map(taken, traced.operators)))


_AROUND_LAST = (aten.select_backward.default, aten.cat.default)


def _time_axis(ref: Ref) -> tuple[int, tuple[View, ...]]:
    """Of what is seen, the axis that is the steps' behind a transposition; the views but for that."""
    first = ref.views[0] if ref.views else None
    if first is not None and (first.target, first.args) == (aten.transpose.int, (0, 1)):
        return 1, ref.views[1:]
    return 0, ref.views


def _from_last_state(operator: TracedOperator, made: Mapping[str | None, TracedOperator]) -> TracedOperator:
    names = [argument.name for argument in operator.target._schema.arguments]
    given = dict(zip(names, operator.args, strict=False))
    gy = given.get("gy")
    if gy is None or gy.source not in made or made[gy.source].target is not aten.select_backward.default:
        return operator
    gradient, sizes, axis, index = made[gy.source].args
    time, views = _time_axis(gy)
    begin, end = 0, sizes[axis]
    if views and views[0].target is aten.slice.Tensor and views[0].args[0] == 0 and len(views[0].args) == 3:
        (_, begin, end), views = views[0].args, views[1:]
    place, last = index % sizes[axis], begin if given["reverse"] else end - 1
    if axis % len(sizes) != time or views or (begin <= place < end and (place != last or given["gh"] is not None)):
        return operator
    if not begin <= place < end:
        return operator if given["gh"] is None else replace(operator, args=tuple({**given, "gy": None}.values()))
    return replace(operator, args=tuple({**given, "gy": None, "gh": gradient}.values()))


class WholeLayers(TorchFunctionMode):
    """Within, recurrent layers and cells in f32 stay whole, but for those with projections."""

    def __init__(self, segments: int) -> None:
        super().__init__()
        self._segments = segments

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = _CALLS.get(getattr(func, "__name__", "")) if not kwargs else None
        result = found(self._segments, *args) if found is not None and _in_f32(args) else None
        return func(*args, **(kwargs or {})) if result is None else result


def _in_f32(args: Any) -> bool:
    """Whether all is computed in single precision, as the firmware does."""
    tensors = [leaf for leaf in tree_leaves(args) if isinstance(leaf, Tensor)]
    return not torch.is_autocast_enabled("cpu") and all(tensor.dtype is torch.float32 for tensor in tensors)


def _stack(layer: Layer, has_cell: bool) -> Callable[..., Any]:
    def call(segments: int, x: Any, states: Any, weights: Any, biased: Any, *how: Any) -> Any:
        if not isinstance(biased, bool):
            return None  # packed: lengths come second
        states = tuple(states) if has_cell else (states,)
        if len({state.shape[2] for state in states}) > 1:
            return None  # projected
        y, last = _layers(_in_segments(layer, segments), x, states, weights, biased, *how)
        return (y, *last)

    return call


def _in_segments(layer: Layer, count: int) -> Layer:
    """The same, segment after segment of its steps: what each keeps for the way back are tensors of its own."""

    def by_segments(x: Tensor, states: States, *rest: Any) -> States:
        reverse = rest[-1]
        parts = [*x.chunk(count)]
        results = []
        for part in reversed(parts) if reverse else parts:
            y, *after = layer(part, states, *rest)
            states = tuple(after)
            results.append(y)
        return torch.cat(results[::-1] if reverse else results), *states

    return by_segments if count > 1 else layer


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
        _: int,
        x: Tensor,
        states: Any,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Any:
        _y, *last = layer(x[None], tuple(states) if has_cell else (states,), w_ih, w_hh, b_ih, b_hh, False)
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
