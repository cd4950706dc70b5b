# SPDX-License-Identifier: Apache-2.0
"""From an ATen operator to one of the firmware's: name, parameters and operands.

A rule looks at one traced operator and answers with the firmware operator that computes the same, or with None where
the firmware has none for these arguments (a dilated convolution, a loss with class weights). A rule need not ask how
its operands lie in memory: what is not row-major is copied into place before (`copies`). A transposed matrix goes into
the flags of the matrix product instead.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, prod
from typing import Any

import torch
from poet_profiles.firmware.operators import LOOK_UP, OPERATORS, RECURRENT
from poet_profiles.firmware.steps import POINTWISE, steps_in
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator, TracedValue, View, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.tracing.schema import bound_arguments

MEAN = 1
NANO = 1_000_000_000
# Relative: what rounding to f32 changes at most.
F32_ROUNDING = 2.0**-24
EXPAND = "aten.expand.default"
MOST_WINDOW_PLACES = 256
_SPARE = 255  # strides and paddings beyond the tensors that the firmware takes (kernels/shape.c)
LARGEST_I32 = 2**31 - 1


@dataclass(frozen=True)
class Lowered:
    """A firmware operator."""

    op: str
    params: dict[str, int]
    operands: tuple[Ref, ...]  # in the firmware's order
    results: tuple[str, ...]  # the traced operator's values that it yields, in the firmware's order
    # Positions of operands that it reads as they lie, transposed.
    transposed: frozenset[int] = field(default=frozenset())
    # A second operator, run once after this one, that changes residents in place (running statistics).
    update: Lowered | None = None

    @property
    def kind(self) -> str:
        """The operator's name; of one step, that of the step."""
        steps = [*steps_in(self.params)] if self.op == POINTWISE else []
        return steps[0].name if len(steps) == 1 else self.op


Rule = Callable[[TracedOperator], Lowered | None]


def is_row_major(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether a tensor's elements lie one after another in the order of its shape."""
    return _steps(shape, stride) == _steps(shape, row_major(shape))


def lies_alike(one: Ref | TracedValue, other: Ref | TracedValue) -> bool:
    """Whether equal elements of two tensors of one shape lie in one order."""
    return one.shape == other.shape and _steps(one.shape, one.stride) == _steps(other.shape, other.stride)


def _steps(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Strides of the axes that have one: an axis of one element never takes a step."""
    return [step for extent, step in zip(shape, stride, strict=True) if extent != 1]


def _lowered(
    op: str, params: Mapping[str, int | None] | None, operands: Sequence[Any], *results: str | None
) -> Lowered | None:
    """The operator, provided that it has all parameters, tensors as operands, and all results that it yields."""
    if params is None or not all(isinstance(operand, Ref) for operand in operands):
        return None
    held = {name: value for name, value in params.items() if value is not None and abs(value) <= LARGEST_I32}
    if len(held) < len(params):
        return None
    return Lowered(op, held, tuple(operands), tuple(result for result in results if result is not None))


def _pair(value: Sequence[int]) -> tuple[int, int]:
    first, *rest = value
    return first, rest[0] if rest else first


def _convolution_params(
    x: Ref | Blank, w: Ref | Blank, bias: bool, stride: Any, padding: Any, dilation: Any, groups: int
) -> dict[str, int] | None:
    if len(x.shape) not in (3, 4) or any(step != 1 for step in dilation):
        return None
    # A one-dimensional convolution is one over images of a single row.
    (n, c, *extents), (k, _, *kernel) = x.shape, w.shape
    (height, width), (r, s) = (1, *extents)[-2:], (1, *kernel)[-2:]
    (sh, sw), (ph, pw) = (1, *each(stride, extents))[-2:], (0, *each(padding, extents))[-2:]
    if ph > height + r + _SPARE or pw > width + s + _SPARE:
        return None
    return {
        **{"n": n, "c": c, "h": height, "w": width, "k": k, "r": r, "s": s},
        **{"sh": _step(sh, height, ph), "sw": _step(sw, width, pw), "ph": ph, "pw": pw, "g": groups, "bias": int(bias)},
    }


def _step(stride: int, extent: int, padding: int) -> int:
    """A stride as the firmware takes it: one beyond the padded extent never makes a second step."""
    return min(stride, extent + 2 * padding + _SPARE)


def each(value: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """One number an axis, of which PyTorch may have been given one for all."""
    return tuple(value) if len(value) == len(axes) else (value[0],) * len(axes)


def _convolution(operator: TracedOperator) -> Lowered | None:
    x, w, b, stride, padding, dilation, transposed, extra, groups = operator.args
    if transposed:
        y = _enlarged(x, w, stride, padding, dilation, extra, groups)
        params = None if b is not None else _convolution_params(y, w, False, stride, padding, dilation, groups)
        return _lowered("conv2d_backward_input", params, (x, w), operator.outputs[0])
    params = _convolution_params(x, w, b is not None, stride, padding, dilation, groups)
    return _lowered("conv2d", params, (x, w) if b is None else (x, w, b), operator.outputs[0])


def _convolution_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, w, _, stride, padding, dilation, transposed, _, groups, (wants_x, wants_w, wants_b) = operator.args
    if transposed:
        return _transposed_backward(operator, _convolution_params(gy, w, False, stride, padding, dilation, groups))
    params = _convolution_params(x, w, wants_b, stride, padding, dilation, groups)
    if wants_x and not wants_w and not wants_b:
        return _lowered("conv2d_backward_input", params, (gy, w), operator.outputs[0])
    if wants_x:
        return None
    return _lowered("conv2d_backward_weight", params, (gy, x), *_yielded(operator, *((1, 2) if wants_b else (1,))))


def _enlarged(x: Ref, w: Ref, stride: Any, padding: Any, dilation: Any, extra: Any, groups: int) -> Blank:
    """What a transposed convolution yields: the input of the plain one whose results have the shape of ``x``."""
    extents, kernel = x.shape[2:], w.shape[2:]
    numbers = (each(one, extents) for one in (stride, padding, dilation, extra))
    axes = zip(extents, kernel, *numbers, strict=True)
    shape = (x.shape[0], w.shape[1] * groups, *((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, k, s, p, d, e in axes))
    return Blank(shape, row_major(shape), x.dtype)


def _transposed_backward(operator: TracedOperator, params: dict[str, int] | None) -> Lowered | None:
    gy, x, w, *_, (wants_x, wants_w, wants_b) = operator.args
    if wants_b or (wants_x and wants_w):
        return None
    if wants_x:
        return _lowered("conv2d", params, (gy, w), operator.outputs[0])
    return _lowered("conv2d_backward_weight", params, (x, gy), operator.outputs[1])


def is_transposed(matrices: Ref) -> bool:
    """Whether a stack of matrices lies in memory as its transposes do."""
    *stack, rows, columns = matrices.shape
    *outer, row, column = matrices.stride
    swapped = is_row_major((*stack, columns, rows), (*outer, column, row))
    return swapped and not is_row_major(matrices.shape, matrices.stride)


def swapped(matrices: Ref) -> Ref:
    """The transposes of a stack of matrices."""
    *outer, rows, columns = range(len(matrices.shape))
    axes = (*outer, columns, rows)
    return replace(
        matrices,
        views=(*matrices.views, View(torch.ops.aten.transpose.int, (-2, -1))),
        shape=tuple(matrices.shape[axis] for axis in axes),
        stride=tuple(matrices.stride[axis] for axis in axes),
    )


def _matrix_product(operator: TracedOperator) -> Lowered | None:
    a, c = operator.args
    *stack, m, k = a.shape
    transposed = frozenset(place for place, operand in enumerate((a, c)) if is_transposed(operand))
    flags = {"ta": int(0 in transposed), "tb": int(1 in transposed)}
    params = {"b": prod(stack), "m": m, "k": k, "n": c.shape[-1], **flags}
    return Lowered("matmul", params, (a, c), _first(operator), transposed)


def _linear(operator: TracedOperator) -> Lowered | None:
    """``addmm(bias, x, w.t())`` is a linear layer."""
    b, x, w = operator.args
    if operator.kwargs.get("beta", 1) != 1 or operator.kwargs.get("alpha", 1) != 1:
        return None
    if not (is_transposed(w) or 1 in w.shape) or len(b.shape) != 1:
        return None
    (m, k), n = x.shape, w.shape[1]
    return Lowered("linear", {"m": m, "k": k, "n": n, "bias": 1}, (x, w, b), _first(operator), frozenset({1}))


def _yielded(operator: TracedOperator, *places: int) -> tuple[str, ...]:
    """Ids of those of an operator's results that the firmware's yields even where nothing reads the traced one's."""
    return tuple(operator.outputs[place] or added(operator.id, f"unread{place}") for place in places)


def _first(operator: TracedOperator) -> tuple[str, ...]:
    return tuple(result for result in operator.outputs[:1] if result is not None)


def _sum(operator: TracedOperator) -> Lowered | None:
    """A sum over any axes: over rows, with those axes brought in front."""
    x, axes, *_ = _defaults(operator.args, (None, None))
    every = range(len(x.shape))
    summed = [axis % len(x.shape) for axis in axes] if axes else list(every)
    order = [*summed, *(axis for axis in every if axis not in summed)]
    m = prod(x.shape[axis] for axis in summed)
    return _lowered("sum_rows", {"m": m, "n": prod(x.shape) // m}, (permuted(x, order),), operator.outputs[0])


def _reduced(kind: int) -> Rule:
    """Along any axes, with those brought side by side."""

    def rule(operator: TracedOperator) -> Lowered | None:
        x, axes, *_ = _defaults(operator.args, (None, []))
        axes = [axes] if isinstance(axes, int) else axes
        summed = sorted(axis % len(x.shape) for axis in axes) if axes else list(range(len(x.shape)))
        kept = [axis for axis in range(len(x.shape)) if axis not in summed]
        before = [axis for axis in kept if summed and axis < summed[0]]
        order = [*before, *summed, *(axis for axis in kept if axis not in before)]
        shape = permuted(x, order).shape
        outer, length = prod(shape[: len(before)]), prod(x.shape[axis] for axis in summed)
        params = {"outer": outer, "length": length, "inner": prod(x.shape) // outer // length, "kind": kind}
        return _lowered("reduce", params, (permuted(x, order),), operator.outputs[0])

    return rule


def _scanned(kind: int) -> Rule:
    def rule(operator: TracedOperator) -> Lowered | None:
        x, axis = operator.args[:2]
        outer, (length, *inner) = prod(x.shape[: axis % len(x.shape)]), x.shape[axis % len(x.shape) :] or (1,)
        params = {"outer": outer, "length": length, "inner": prod(inner), "kind": kind, "reverse": 0}
        return _lowered("scan", params, (x,), operator.outputs[0])

    return rule


def reshaped(ref: Ref, shape: Sequence[int]) -> Ref:
    """A row-major tensor in another shape."""
    if ref.shape == tuple(shape):
        return ref
    view = View(torch.ops.aten.view.default, (list(shape),))
    return replace(ref, views=(*ref.views, view), shape=tuple(shape), stride=row_major(shape))


def permuted(x: Ref, order: Sequence[int]) -> Ref:
    if list(order) == sorted(order):
        return x
    shape, stride = (tuple(sizes[axis] for axis in order) for sizes in (x.shape, x.stride))
    return replace(x, views=(*x.views, permuting(order)), shape=shape, stride=stride)


def permuting(order: Sequence[int]) -> View:
    """The view that permutes axes."""
    return View(torch.ops.aten.permute.default, (list(order),))


def _pool_params(x: Ref | Blank, kernel: Any, stride: Any, padding: Any) -> dict[str, int]:
    *stack, c, height, width = x.shape
    (r, s), (sh, sw), (ph, pw) = _pair(kernel), _pair(stride or kernel), _pair(padding)
    return {
        **{"n": prod(stack), "c": c, "h": height, "w": width},
        **{"r": r, "s": s, "sh": _step(sh, height, ph), "sw": _step(sw, width, pw), "ph": ph, "pw": pw},
    }


def _max_pool_params(
    x: Ref | Blank, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> dict[str, int] | None:
    if ceil or any(step != 1 for step in dilation):
        return None
    return _byte_places(_pool_params(x, kernel, stride, padding))


def _max_pool(operator: TracedOperator) -> Lowered | None:
    x, *window = _defaults(operator.args, (None, None, [], [0, 0], [1, 1], False))
    return _lowered("max_pool2d", _max_pool_params(x, *window), (x,), *_yielded(operator, 0, 1))


def _max_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, *window, indices = operator.args
    return _lowered("max_pool2d_backward", _max_pool_params(x, *window), (gy, indices), operator.outputs[0])


def _avg_pool(operator: TracedOperator) -> Lowered | None:
    defaults: tuple[Any, ...] = (None, None, [], [0, 0], False, True, None)
    x, kernel, stride, padding, ceil, count_padding, divisor = _defaults(operator.args, defaults)
    if ceil or divisor is not None or not (count_padding or not any(padding)):
        return None
    return _lowered("avg_pool2d", _pool_params(x, kernel, stride, padding), (x,), operator.outputs[0])


def _avg_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, kernel, stride, padding, ceil, count_padding, divisor = operator.args
    if ceil or divisor is not None or not (count_padding or not any(padding)):
        return None
    return _lowered("avg_pool2d_backward", _pool_params(x, kernel, stride, padding), (gy,), operator.outputs[0])


def _even_windows(x: Ref | Blank, positions: Sequence[int]) -> dict[str, int] | None:
    """Windows of an adaptive pooling, where the planes divide into windows of one size."""
    *stack, c, height, width = x.shape
    rows, columns = positions
    if height % rows or width % columns:
        return None
    return _windows(prod(stack), c, height, width, height // rows, width // columns)


def _adaptive_avg_pool(operator: TracedOperator) -> Lowered | None:
    x, positions = operator.args
    return _lowered("avg_pool2d", _even_windows(x, positions), (x,), operator.outputs[0])


def _adaptive_avg_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x = operator.args
    return _lowered("avg_pool2d_backward", _even_windows(x, gy.shape[-2:]), (gy,), operator.outputs[0])


def places_read(traced: TracedGraph) -> set[str]:
    """Places of maxima that more than a pooling's gradient reads: the firmware counts them within their window."""
    places = {one.outputs[1] for one in traced.operators if one.target in MAX_POOLS}
    readers = (one for one in traced.operators if one.target not in MAX_POOLS_BACKWARD)
    return {ref.source for one in readers for ref in one.refs if ref.source in places}


MAX_POOLS = torch.ops.aten.max_pool2d_with_indices.default, torch.ops.aten.adaptive_max_pool2d.default
MAX_POOLS_BACKWARD = (
    torch.ops.aten.max_pool2d_with_indices_backward.default,
    torch.ops.aten.adaptive_max_pool2d_backward.default,
)


def _adaptive_max_pool(operator: TracedOperator) -> Lowered | None:
    x, positions = operator.args
    return _lowered("max_pool2d", _byte_places(_even_windows(x, positions)), (x,), *_yielded(operator, 0, 1))


def _adaptive_max_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, indices = operator.args
    params = _byte_places(_even_windows(x, gy.shape[-2:]))
    return _lowered("max_pool2d_backward", params, (gy, indices), operator.outputs[0])


def _byte_places(windows: dict[str, int] | None) -> dict[str, int] | None:
    """None where a byte does not count the places of a window."""
    return windows if windows and windows["r"] * windows["s"] <= MOST_WINDOW_PLACES else None


def _defaults(given: Sequence[Any], defaults: Sequence[Any]) -> tuple[Any, ...]:
    return (*given, *defaults[len(given) :])


def _add_rows(operator: TracedOperator) -> Lowered | None:
    a, b = operator.args
    if not isinstance(a, Ref) or not isinstance(b, Ref) or operator.kwargs.get("alpha", 1) != 1:
        return None
    if prod(a.shape) == prod(b.shape) or not _trails(b, a):
        return None
    rows = {"m": prod(a.shape) // prod(b.shape), "n": prod(b.shape)}
    return _lowered("add_rows", rows, (a, b), operator.outputs[0])


def _trails(small: Ref, large: Ref) -> bool:
    """Whether ``small`` is repeated over the first axes of ``large``."""
    extents = list(small.shape)
    while extents and extents[0] == 1:
        extents.pop(0)
    return extents == list(large.shape[len(large.shape) - len(extents) :])


def nano(fraction: float) -> int | None:
    """A fraction as it stands among an operator's parameters; None if that is farther off than f32's precision."""
    if not isfinite(fraction):
        return None
    rounded = round(fraction * NANO)
    return rounded if abs(rounded / NANO - fraction) <= F32_ROUNDING * abs(fraction) else None


def f32(number: float) -> int | None:
    """The bits of a number in single precision; None beyond its range."""
    try:
        (bits,) = struct.unpack("<i", struct.pack("<f", number))
    except OverflowError:
        return None
    return int(bits)


def _mean_backward(operator: TracedOperator) -> Lowered | None:
    """A gradient spread over some axes and divided by their size: the backward pass of a mean over them."""
    x, divisor = operator.args
    if isinstance(divisor, Ref) or not isinstance(x, Ref):
        return None
    views = [str(view.target) for view in x.views]
    if views.count(EXPAND) != 1 or views[-1] != EXPAND:
        return None
    axes = [axis for axis, step in enumerate(x.stride) if step == 0 and x.shape[axis] != 1]
    windows = _axes_windows(x.shape, axes)
    if windows is None or divisor != windows["r"] * windows["s"]:
        return None
    shape = tuple(1 if axis in axes else extent for axis, extent in enumerate(x.shape))
    spread = Ref(x.source, x.views[:-1], shape, x.stride, x.dtype)
    return _lowered("avg_pool2d_backward", windows, (spread,), operator.outputs[0])


def _mean(operator: TracedOperator) -> Lowered | None:
    x, axes, *_ = _defaults(operator.args, (None, None))
    every = range(len(x.shape))
    return _lowered("avg_pool2d", _axes_windows(x.shape, axes if axes else every), (x,), operator.outputs[0])


def _axes_windows(shape: Sequence[int], axes: Iterable[int]) -> dict[str, int] | None:
    """The pooling that takes the mean over neighbouring axes: over planes, or over the rows of one plane."""
    reduced = sorted(axis % len(shape) for axis in axes)
    if not reduced or reduced != list(range(reduced[0], reduced[-1] + 1)):
        return None
    if len(shape) == 4 and reduced == [2, 3]:
        n, c, height, width = shape
        return _windows(n, c, height, width, height, width)
    outer, rows, inner = shape[: reduced[0]], shape[reduced[0] : reduced[-1] + 1], shape[reduced[-1] + 1 :]
    return _windows(prod(outer), 1, prod(rows), prod(inner), prod(rows), 1)


def _windows(n: int, c: int, height: int, width: int, r: int, s: int) -> dict[str, int]:
    """Pooling windows that lie side by side."""
    return {
        **{"n": n, "c": c, "h": height, "w": width},
        **{"r": r, "s": s, "sh": r, "sw": s, "ph": 0, "pw": 0},
    }


def _batch_norm(operator: TracedOperator) -> Lowered | None:
    x, weight, bias, mean, variance, training, momentum, eps = operator.args
    momentum_nano = nano(momentum)
    if weight is None or bias is None:
        return None
    if not training:
        n, c, size = _planes(x)
        params = {"n": n, "c": c, "size": size, "eps_nano": nano(eps)}
        return _lowered("batch_norm_eval", params, (x, weight, bias, mean, variance), operator.outputs[0])
    # Writes: the module is used twice, and the next use reads the statistics that this one leaves.
    if momentum_nano is None or operator.writes:
        return None
    n, c, size = _planes(x)
    params = {"n": n, "c": c, "size": size, "eps_nano": nano(eps)}
    main = _lowered("batch_norm", params, (x, weight, bias), *_yielded(operator, 0, 1, 2))
    if main is None or mean is None:
        return main
    statistics = tuple(Ref(id, (), (c,), (1,), x.dtype) for id in main.results[1:])
    update = Lowered(
        "batch_norm_update",
        {"c": c, "count": n * size, "momentum_nano": momentum_nano, "eps_nano": main.params["eps_nano"]},
        (*statistics, mean, variance),
        (mean.source, variance.source),
    )
    return replace(main, update=update)


def _batch_norm_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, weight, running_mean, running_variance, mean, invstd, training, eps, wanted = operator.args
    if weight is None:
        return None
    n, c, size = _planes(x)
    params = {"n": n, "c": c, "size": size}
    if not training:
        operands = (gy, x, weight, running_mean, running_variance)
        return _batch_norm_eval_backward(operator, {**params, "eps_nano": nano(eps)}, operands, wanted)
    return _lowered("batch_norm_backward", params, (gy, x, weight, mean, invstd), *_yielded(operator, 0, 1, 2))


def _batch_norm_eval_backward(
    operator: TracedOperator, params: dict[str, int | None], operands: tuple[Any, ...], wanted: Sequence[bool]
) -> Lowered | None:
    gy, x, weight, mean, variance = operands
    wants_x, wants_w, wants_b = wanted
    if wants_x and not wants_w and not wants_b:
        return _lowered("batch_norm_eval_backward_input", params, (gy, weight, variance), operator.outputs[0])
    if wants_x:
        return None
    return _lowered("batch_norm_eval_backward_weight", params, (gy, x, mean, variance), *_yielded(operator, 1, 2))


def _planes(x: Ref) -> tuple[int, int, int]:
    """Samples, channels, elements of a channel."""
    return x.shape[0], x.shape[1], prod(x.shape[2:])


def _layer_norm(operator: TracedOperator) -> Lowered | None:
    x, extents, weight, bias, eps = operator.args
    if weight is None or bias is None:
        return None
    params = {**_normalised(x, extents), "eps_nano": nano(eps)}
    return _lowered("layer_norm", params, (x, weight, bias), *_yielded(operator, 0, 1, 2))


def _layer_norm_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, extents, mean, invstd, weight, _, (wants_x, wants_w, wants_b) = operator.args
    params = _normalised(x, extents)
    if wants_x and not wants_w and not wants_b:
        return _lowered("layer_norm_backward_input", params, (gy, x, weight, mean, invstd), operator.outputs[0])
    if wants_x:
        return None
    return _lowered("layer_norm_backward_weight", params, (gy, x, mean, invstd), *_yielded(operator, 1, 2))


def _group_norm(operator: TracedOperator) -> Lowered | None:
    x, weight, bias, n, c, size, g, eps = operator.args
    params = {"n": n, "c": c, "size": size, "g": g, "eps_nano": nano(eps)}
    return _lowered("group_norm", params, (x, weight, bias), *_yielded(operator, 0, 1, 2))


def _group_norm_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, mean, invstd, weight, n, c, size, g, (wants_x, wants_w, wants_b) = operator.args
    params = {"n": n, "c": c, "size": size, "g": g}
    if wants_x and not wants_w and not wants_b:
        return _lowered("group_norm_backward_input", params, (gy, x, weight, mean, invstd), operator.outputs[0])
    if wants_x:
        return None
    return _lowered("group_norm_backward_weight", params, (gy, x, mean, invstd), *_yielded(operator, 1, 2))


def _normalised(x: Ref | Blank, extents: Sequence[int]) -> dict[str, int]:
    return {"m": prod(x.shape) // prod(extents), "n": prod(extents)}


def _embedding(operator: TracedOperator) -> Lowered | None:
    weight, tokens, *_ = operator.args
    (v, d), m = weight.shape, prod(tokens.shape)
    return _lowered("embedding", {"m": m, "v": v, "d": d}, (weight, tokens), operator.outputs[0])


def _embedding_backward(operator: TracedOperator) -> Lowered | None:
    gy, tokens, rows, padding, by_frequency = operator.args
    if padding != -1 or by_frequency:
        return None
    params = {"m": prod(tokens.shape), "v": rows, "d": gy.shape[-1]}
    return _lowered("embedding_backward", params, (gy, tokens), operator.outputs[0])


def _mean_loss(op: str) -> Rule:
    """The mean over all elements, none weighted."""

    def rule(operator: TracedOperator) -> Lowered | None:
        x, target, *weights, reduction = _loss_arguments(operator)
        if reduction != MEAN or x.shape != target.shape or any(weight is not None for weight in weights):
            return None
        return _lowered(op, {"size": prod(x.shape)}, (x, target), operator.outputs[0])

    return rule


def _mean_loss_backward(op: str) -> Rule:
    def rule(operator: TracedOperator) -> Lowered | None:
        gloss, x, target, *weights, reduction = _loss_arguments(operator)
        if reduction != MEAN or x.shape != target.shape or any(weight is not None for weight in weights):
            return None
        return _lowered(op, {"size": prod(x.shape)}, (gloss, x, target), operator.outputs[0])

    return rule


def _loss_arguments(operator: TracedOperator) -> tuple[Any, ...]:
    """A loss's arguments, the weights among them, and the reduction after them; the schema ends with it."""
    before_reduction = len(operator.target._schema.arguments) - 1
    return _defaults(operator.args, (*(None,) * before_reduction, MEAN))


def _rows(shape: Sequence[int], axis: int) -> dict[str, int] | None:
    if axis % len(shape) != len(shape) - 1:
        return None
    return {"m": prod(shape[:-1]), "n": shape[-1]}


def _rows_rule(op: str) -> Rule:
    def rule(operator: TracedOperator) -> Lowered | None:
        x, axis, _ = operator.args
        return _lowered(op, _rows(x.shape, axis), (x,), operator.outputs[0])

    return rule


def _rows_backward_rule(op: str) -> Rule:
    def rule(operator: TracedOperator) -> Lowered | None:
        gy, y, axis, _ = operator.args
        return _lowered(op, _rows(y.shape, axis), (gy, y), operator.outputs[0])

    return rule


def _nll_loss(operator: TracedOperator) -> Lowered | None:
    """The plain mean: `losses` has rewritten the others."""
    logp, target, weight, reduction, _ = operator.args
    if weight is not None or reduction != MEAN:
        return None
    return _lowered("nll_loss", {"m": prod(target.shape), "n": logp.shape[-1]}, (logp, target), operator.outputs[0])


def _nll_loss_backward(operator: TracedOperator) -> Lowered | None:
    gloss, logp, target, weight, reduction, *_ = operator.args
    if weight is not None or reduction != MEAN:
        return None
    params = {"m": prod(target.shape), "n": logp.shape[-1]}
    return _lowered("nll_loss_backward", params, (gloss, target), operator.outputs[0])


def _gathered(operator: TracedOperator) -> Lowered | None:
    x, index, axis, ignored = operator.args
    if len(x.shape) == 1:
        return _lowered("gather", _labels((prod(index.shape),), 0, x.shape[0], ignored), (x, index), *_first(operator))
    return _lowered("gather", _labels(index.shape, axis, x.shape[axis], ignored), (x, index), *_first(operator))


def _gathered_backward(operator: TracedOperator) -> Lowered | None:
    gy, index, axis, extent, ignored = operator.args
    params = _labels(index.shape, axis, extent, ignored)
    return _lowered("gather_backward", params, (gy, index), *_first(operator))


def _labels(shape: Sequence[int], axis: int, extent: int, ignored: int | None) -> dict[str, int]:
    sizes = {"m": prod(shape[:axis]), "v": extent, "d": shape[axis], "size": prod(shape[axis + 1 :])}
    return {**sizes, "ignores": int(ignored is not None), "ignored": ignored or 0}


def _range_s8(zero: str, ends: Sequence[int]) -> dict[str, int]:
    """The zero of an operator's result by its parameter's name, and what it is clamped to."""
    return dict(zip((zero, "low", "high"), ends, strict=True))


def _quantize_s8(operator: TracedOperator) -> Lowered | None:
    x, inverse, ends = operator.args
    params = {"size": prod(x.shape), **_range_s8("zero", ends), "inverse_f32": f32(inverse)}
    return _lowered("quantize_s8", params, (x,), operator.outputs[0])


def _dequantize_s8(operator: TracedOperator) -> Lowered | None:
    x, scale, zero = operator.args
    params = {"size": prod(x.shape), "zero": zero, "scale_f32": f32(scale)}
    return _lowered("dequantize_s8", params, (x,), operator.outputs[0])


def _conv2d_s8(operator: TracedOperator) -> Lowered | None:
    x, w, start, scale, stride, padding, groups, zero_x, ends = operator.args
    params = _convolution_params(x, w, False, stride, padding, (1,), groups)
    if params is None:
        return None
    del params["bias"]
    params |= {"zero_x": zero_x, **_range_s8("zero_y", ends)}
    return _lowered("conv2d_s8", params, (x, w, start, scale), operator.outputs[0])


def _linear_s8(operator: TracedOperator) -> Lowered | None:
    x, w, start, scale, ends = operator.args
    (m, k), n = x.shape, w.shape[0]
    params = {"m": m, "k": k, "n": n, **_range_s8("zero_y", ends)}
    return _lowered("linear_s8", params, (x, w, start, scale), operator.outputs[0])


def _max_pool2d_s8(operator: TracedOperator) -> Lowered | None:
    x, window, stride, padding = operator.args
    return _lowered("max_pool2d_s8", _pool_params(x, window, stride, padding), (x,), operator.outputs[0])


def _avg_pool2d_s8(operator: TracedOperator) -> Lowered | None:
    x, window, stride, padding, scale, zero_x, ends = operator.args
    params = _pool_params(x, window, stride, padding) | {"zero_x": zero_x, **_range_s8("zero_y", ends)}
    return _lowered("avg_pool2d_s8", {**params, "scale_f32": f32(scale)}, (x,), operator.outputs[0])


def _add_s8(operator: TracedOperator) -> Lowered | None:
    a, b, scale_a, zero_a, scale_b, zero_b, inverse, ends = operator.args
    params = {"size": prod(a.shape), "zero_a": zero_a, "zero_b": zero_b, **_range_s8("zero_y", ends)}
    scales = {"scale_a_f32": f32(scale_a), "scale_b_f32": f32(scale_b), "inverse_y_f32": f32(inverse)}
    return _lowered("add_s8", {**params, **scales}, (a, b), operator.outputs[0])


def _look_up(operator: TracedOperator) -> Lowered | None:
    x, table = operator.args
    return _lowered(LOOK_UP, {"size": prod(x.shape)}, (x, table), operator.outputs[0])


def _map_s8(operator: TracedOperator) -> Lowered | None:
    x, table = operator.args
    return _lowered("map_s8", {"size": prod(x.shape)}, (x, table), operator.outputs[0])


def _levels_s8(operator: TracedOperator) -> Lowered | None:
    x, levels, low = operator.args
    params = {"size": prod(x.shape), "low": low, "levels": prod(levels.shape)}
    return _lowered("levels_s8", params, (x, levels), operator.outputs[0])


def _recurrent(operator: TracedOperator) -> Lowered | None:
    """Flags among the arguments, and operands that may be missing, have the names of the parameters that say so."""
    name = operator.target._schema.name.removeprefix("poet::")
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    operands = [value for value in given.values() if isinstance(value, Ref)]
    (s, n, width), h = operands[0].shape, given["w" if "w" in given else "h0"].shape[-1]
    known = {flag: int(value if isinstance(value, bool) else value is not None) for flag, value in given.items()}
    known |= {"s": s, "n": n, "h": h, "gates": width // h}
    params = {param: known[param] for param in OPERATORS[name].params}
    return _lowered(name, params, operands, *_yielded(operator, *range(len(operator.outputs))))


def _ones(operator: TracedOperator) -> Lowered | None:
    (like,) = operator.args
    return _lowered("fill", {"size": prod(like.shape), "value_nano": NANO}, (), operator.outputs[0])


def _shifted(operator: TracedOperator) -> Lowered | None:
    x, held, axis = operator.args
    rows, inner, new = prod(held.shape[:axis]), prod(held.shape[axis + 1 :]), x.shape[axis]
    params = {"rows": rows, "kept": (held.shape[axis] - new) * inner, "count": new * inner}
    return _lowered("shift_s8" if x.dtype == torch.int8 else "shift", params, (x, held), operator.outputs[0])


SHIFTED = "poet.shift.default"
RULES: dict[str, Rule] = {
    "convolution.default": _convolution,
    "convolution_backward.default": _convolution_backward,
    "addmm.default": _linear,
    "mm.default": _matrix_product,
    "bmm.default": _matrix_product,
    "matmul.default": _matrix_product,
    "sum.default": _sum,
    "sum.dim_IntList": _sum,
    "amax.default": _reduced(0),
    "prod.default": _reduced(1),
    "prod.dim_int": _reduced(1),
    "cumsum.default": _scanned(0),
    "logcumsumexp.default": _scanned(1),
    "cumprod.default": _scanned(2),
    "max_pool2d_with_indices.default": _max_pool,
    "max_pool2d_with_indices_backward.default": _max_pool_backward,
    "avg_pool2d.default": _avg_pool,
    "avg_pool2d_backward.default": _avg_pool_backward,
    "_adaptive_avg_pool2d.default": _adaptive_avg_pool,
    "_adaptive_avg_pool2d_backward.default": _adaptive_avg_pool_backward,
    "adaptive_max_pool2d.default": _adaptive_max_pool,
    "adaptive_max_pool2d_backward.default": _adaptive_max_pool_backward,
    "mean.default": _mean,
    "mean.dim": _mean,
    "add.Tensor": _add_rows,
    "div.Tensor": _mean_backward,
    "div.Scalar": _mean_backward,
    "native_batch_norm.default": _batch_norm,
    "native_batch_norm_backward.default": _batch_norm_backward,
    "native_layer_norm.default": _layer_norm,
    "native_layer_norm_backward.default": _layer_norm_backward,
    "native_group_norm.default": _group_norm,
    "native_group_norm_backward.default": _group_norm_backward,
    "_softmax.default": _rows_rule("softmax"),
    "_softmax_backward_data.default": _rows_backward_rule("softmax_backward"),
    "_log_softmax.default": _rows_rule("log_softmax"),
    "_log_softmax_backward_data.default": _rows_backward_rule("log_softmax_backward"),
    "embedding.default": _embedding,
    "embedding_dense_backward.default": _embedding_backward,
    "mse_loss.default": _mean_loss("mse_loss"),
    "mse_loss_backward.default": _mean_loss_backward("mse_loss_backward"),
    "binary_cross_entropy.default": _mean_loss("binary_cross_entropy"),
    "binary_cross_entropy_backward.default": _mean_loss_backward("binary_cross_entropy_backward"),
    "binary_cross_entropy_with_logits.default": _mean_loss("binary_cross_entropy_with_logits"),
    "nll_loss_forward.default": _nll_loss,
    "nll_loss_backward.default": _nll_loss_backward,
    "poet.gather.default": _gathered,
    "poet.gather_backward.default": _gathered_backward,
    "ones_like.default": _ones,
    SHIFTED: _shifted,
    **dict.fromkeys((f"poet.{name}.default" for name in RECURRENT), _recurrent),
    "poet.quantize_s8.default": _quantize_s8,
    "poet.dequantize_s8.default": _dequantize_s8,
    "poet.conv2d_s8.default": _conv2d_s8,
    "poet.linear_s8.default": _linear_s8,
    "poet.max_pool2d_s8.default": _max_pool2d_s8,
    "poet.avg_pool2d_s8.default": _avg_pool2d_s8,
    "poet.add_s8.default": _add_s8,
    "poet.map_s8.default": _map_s8,
    "poet.levels_s8.default": _levels_s8,
    "poet.look_up.default": _look_up,
}


def firmware_operator(operator: TracedOperator) -> Lowered | None:
    """The firmware's operator for a traced one, or None where it has none, as for tensors without elements."""
    if any(0 in ref.shape for ref in operator.refs):
        return None
    rule = RULES.get(aten_name(operator))
    lowered = rule(operator) if rule else None
    return lowered if lowered and lowered.op in OPERATORS else None


def aten_name(operator: TracedOperator) -> str:
    """Such as ``add.Tensor``."""
    return str(operator.target).removeprefix("aten.")


def with_transposed_result(lowered: Lowered) -> Lowered | None:
    """The same product with its result stored transposed, for a gradient that PyTorch keeps as a transposed view."""
    if lowered.op != "matmul" or lowered.params["b"] != 1:
        return None
    a, c = lowered.operands
    p = lowered.params
    params = {**p, "m": p["n"], "n": p["m"], "ta": 1 - p["tb"], "tb": 1 - p["ta"]}
    return Lowered("matmul", params, (c, a), lowered.results, frozenset(1 - place for place in lowered.transposed))
