# SPDX-License-Identifier: Apache-2.0
"""What ATen operators are made of, where PyTorch does not say it as the firmware needs it.

Each function takes the operator's arguments and is traced. Whole numbers that are constants are given with their data,
and everything else without. A function that does not hold for its arguments raises NotImplementedError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from math import log, prod
from typing import Any

import torch
from poet_runtime.traced_graph import View, row_major, through
from torch import Tensor
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import _disable_current_modes

aten: Any = torch.ops.aten
Function = Callable[..., Any]


def _constant(make: Callable[[], Tensor]) -> Tensor:
    """A tensor with data, which becomes a constant of the traced graph."""
    with _disable_current_modes():
        return make().clone()


# Along each axis a product with a constant matrix: enlarging, padding by what is there, means over windows.


def _resampled(forward: OpOverload, axes: int, options: Function, backward: bool) -> Function:
    """``options`` gives the input's extents, and the arguments of the operator along one axis alone."""

    def made(x: Tensor, *args: Any) -> Tensor:
        args = tuple(tuple(one.shape) if isinstance(one, Tensor) else one for one in args)
        extents, along, factor = options(axes, tuple(x.shape), *args)
        y = x
        for axis, extent in enumerate(extents[-axes:]):
            shape = [extent if other == axis else 1 for other in range(axes)]
            matrix = _constant(partial(_matrix, forward, shape, along(axis), backward))
            if not _is_unit(matrix):
                y = _product(y, axis - axes, matrix)
        return y if factor == 1 else y * factor

    return made


def _matrix(forward: OpOverload, shape: Sequence[int], given: Sequence[Any], backward: bool) -> Any:
    matrix = forward(_unit(shape), *given).flatten(1)
    return (matrix.t() if backward else matrix).contiguous()


def _is_unit(matrix: Tensor) -> bool:
    rows, columns = matrix.shape
    with _disable_current_modes():
        return rows == columns and torch.equal(matrix, torch.eye(rows))


def _unit(shape: Sequence[int]) -> Tensor:
    extent = prod(shape)
    return torch.eye(extent).view(extent, 1, *shape)


def _product(x: Tensor, axis: int, matrix: Tensor) -> Tensor:
    """Each row along an axis, multiplied by a matrix."""
    rows = x.movedim(axis, -1)
    product = torch.mm(rows.reshape(-1, rows.shape[-1]), matrix)
    return product.view(*rows.shape[:-1], matrix.shape[1]).movedim(-1, axis)


def _one(values: Sequence[Any], axis: int, other: Any) -> list[Any]:
    return [value if place == axis else other for place, value in enumerate(values)]


def _each(value: Sequence[int], axes: int) -> list[int]:
    return list(value) if len(value) == axes else [value[0]] * axes


def _enlarged(backward: bool, flags: int) -> Function:
    def options(axes: int, shape: tuple[int, ...], *args: Any) -> Any:
        extents, size = (args[1], args[0]) if backward else (shape, args[0])
        rest = args[2:] if backward else args[1:]
        scales = rest[flags:]
        return extents, lambda axis: (_one(size, axis, 1), *rest[:flags], *_one(scales, axis, None)), 1

    return options


def _adaptive(backward: bool) -> Function:
    def options(axes: int, shape: tuple[int, ...], *args: Any) -> Any:
        extents, size = (args[0], shape[-axes:]) if backward else (shape, args[0])
        return extents, lambda axis: (_one(size, axis, 1),), 1

    return options


def _padding(backward: bool) -> Function:
    def options(axes: int, shape: tuple[int, ...], *args: Any) -> Any:
        extents, widths = (args[0], args[1]) if backward else (shape, args[0])

        def along(axis: int) -> tuple[Any, ...]:
            place = 2 * (axes - 1 - axis)
            return ([width if place <= other < place + 2 else 0 for other, width in enumerate(widths)],)

        return extents, along, 1

    return options


def _windows(backward: bool) -> Function:
    defaults: tuple[Any, ...] = (None, [], [0], False, True, None)

    def options(axes: int, shape: tuple[int, ...], *args: Any) -> Any:
        extents, given = (args[0], args[1:]) if backward else (shape, args)
        kernel, stride, padding, ceil, counted, divisor = (*given, *defaults[len(given) :])
        kernel, padding = _each(kernel, axes), _each(padding, axes)
        stride = _each(stride, axes) if stride else kernel

        def along(axis: int) -> tuple[Any, ...]:
            window = (_one(kernel, axis, 1), _one(stride, axis, 1), _one(padding, axis, 0))
            return (*window, ceil, counted, divisor and 1)

        return extents, along, 1 / divisor if divisor else 1

    return options


def _resamplings() -> dict[OpOverload, Function]:
    kinds: dict[str, tuple[int, Function]] = {
        **{f"{kind}{axes}d": (axes, partial(_enlarged, flags=0))
           for kind in ("upsample_nearest", "_upsample_nearest_exact") for axes in (1, 2, 3)},
        **{name: (axes, partial(_enlarged, flags=1)) for name, axes in (
            ("upsample_linear1d", 1), ("upsample_bilinear2d", 2), ("upsample_bicubic2d", 2), ("upsample_trilinear3d", 3)
        )},
        **{f"{kind}_pad{axes}d": (axes, _padding) for kind in ("reflection", "replication") for axes in (1, 2, 3)},
        **{f"_adaptive_avg_pool{axes}d": (axes, _adaptive) for axes in (2, 3)},
        **{f"avg_pool{axes}d": (axes, _windows) for axes in (2, 3)},
    }  # fmt: skip
    made = {}
    for name, (axes, options) in kinds.items():
        forward = getattr(aten, name).default
        made[forward] = _resampled(forward, axes, options(False), False)
        made[getattr(aten, f"{name}_backward").default] = _resampled(forward, axes, options(True), True)
    return made


# Rows by their numbers: of a constant, or of a tensor of labels.


def _is_known(index: Tensor) -> bool:
    return not isinstance(index, FakeTensor)


def _rows(x: Tensor, axis: int, index: Tensor) -> Any:
    """Those that an index of one axis names."""
    rows = x.movedim(axis, 0)
    picked = aten.embedding(rows.reshape(rows.shape[0], -1), index)
    return picked.view(index.numel(), *rows.shape[1:]).movedim(0, axis)


def _rows_back(gradient: Tensor, axis: int, index: Tensor, extent: int) -> Any:
    """Rows added up where an index puts them."""
    rows = gradient.movedim(axis, 0)
    total = aten.embedding_dense_backward(rows.reshape(rows.shape[0], -1), index, extent, -1, False)
    return total.view(extent, *rows.shape[1:]).movedim(0, axis)


def _numbered(shape: Sequence[int], seen: Callable[[Tensor], Tensor]) -> Tensor:
    """The places in a tensor of what is seen of it."""
    return _constant(lambda: seen(torch.arange(prod(shape)).view(tuple(shape))).contiguous())


def _picked(x: Tensor, places: Tensor) -> Any:
    return aten.embedding(x.reshape(-1, 1), places).view(places.shape)


def _put(x: Tensor, places: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    """Elements at places in a tensor, added to what is there or instead of it."""
    flat = _constant(places.flatten)
    rows = source.expand(places.shape).reshape(-1, 1)
    placed = aten.embedding_dense_backward(rows, flat, x.numel(), -1, False).view(x.shape)
    if accumulate:
        return x + placed
    if _constant(flat.unique).numel() < flat.numel():
        raise NotImplementedError
    inside = _constant(lambda: torch.zeros(prod(x.shape), dtype=torch.bool).index_fill(0, flat, True).view(x.shape))
    return torch.where(inside, placed, x)


def _embedded(rows: Tensor, index: Tensor, *args: Any) -> Tensor:
    """Rows by numbers that are computed: a product with ones."""
    hits = _hits(index.reshape(-1), 0, rows.shape[0]).to(torch.float32)
    return torch.mm(hits.t(), rows).view(*index.shape, rows.shape[1])


def _embedded_backward(gradient: Tensor, index: Tensor, count: int, padding: int, by_frequency: bool) -> Tensor:
    if padding >= 0 or by_frequency:
        raise NotImplementedError
    hits = _hits(index.reshape(-1), 0, count).to(torch.float32)
    return torch.mm(hits, gradient.reshape(-1, gradient.shape[-1]))


def _index_select(x: Tensor, axis: int, index: Tensor) -> Any:
    return _rows(x, axis, index)


def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    axis, index = _only(indices)
    if index is not None and index.dtype == torch.int64:
        known = _is_known(index)
        flat = _constant(lambda: (index % x.shape[axis]).flatten()) if known else index.reshape(-1)
        rows = _rows(x, axis, flat)
        return rows.reshape(*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return _picked(x, _numbered(x.shape, lambda places: aten.index(places, _all_known(indices))))


def _index_put(x: Tensor, indices: Sequence[Tensor | None], source: Tensor, accumulate: bool = False) -> Any:
    axis, index = _only(indices)
    if accumulate and index is not None and index.dtype == torch.int64 and not _is_known(index):
        shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
        rows = source.expand(shape).reshape(*x.shape[:axis], index.numel(), *x.shape[axis + 1 :])
        return x + _rows_back(rows, axis, index.reshape(-1), x.shape[axis])
    return _put(x, _numbered(x.shape, lambda places: aten.index(places, _all_known(indices))), source, accumulate)


def _only(indices: Sequence[Tensor | None]) -> tuple[int, Tensor | None]:
    """The index, where it is of one axis alone."""
    given = [(axis, index) for axis, index in enumerate(indices) if index is not None]
    return given[0] if len(given) == 1 else (0, None)


def _all_known(indices: Sequence[Tensor | None]) -> list[Tensor | None]:
    if not all(index is None or _is_known(index) for index in indices):
        raise NotImplementedError
    return list(indices)


def _hits(index: Tensor, axis: int, extent: int) -> Tensor:
    """By one axis more, before ``axis``, whether the index is the number of a place on it."""
    numbers = _constant(lambda: torch.arange(float(extent)).view(extent, *[1] * (index.dim() - axis)))
    return torch.eq(index.to(torch.float32).unsqueeze(axis), numbers)


def _gather(x: Tensor, axis: int, index: Tensor, sparse_grad: bool = False) -> Any:
    axis %= x.dim()
    if _is_known(index):
        return _picked(x, _numbered(x.shape, lambda places: places.gather(axis, index)))
    for other, extent in enumerate(index.shape):
        x = x if other == axis else x.narrow(other, 0, extent)
    hits = _hits(index, axis, x.shape[axis])
    return torch.where(hits, x.unsqueeze(axis + 1), 0.0).sum(axis)


def _scattered(x: Tensor, axis: int, index: Tensor, source: Tensor, accumulate: bool) -> Any:
    axis %= x.dim()
    for other, extent in enumerate(index.shape):
        source = source.narrow(other, 0, extent)
    if _is_known(index):
        return _put(x, _numbered(x.shape, lambda places: places.gather(axis, index)), source, accumulate)
    if any(one != other for place, (one, other) in enumerate(zip(index.shape, x.shape, strict=True)) if place != axis):
        raise NotImplementedError
    hits = _hits(index, axis, x.shape[axis])
    if accumulate:
        return x + torch.where(hits, source.unsqueeze(axis), 0.0).sum(axis + 1)
    if index.shape[axis] == 1:
        return torch.where(hits.squeeze(axis + 1), source, x)
    # PyTorch does not say which of two that go to one place stays there: here it is the greatest.
    placed = aten.amax(torch.where(hits, source.unsqueeze(axis), float("-inf")), [axis + 1])
    return torch.where(torch.eq(placed, float("-inf")), x, placed)


def _scatter(x: Tensor, axis: int, index: Tensor, source: Tensor | float) -> Any:
    if not isinstance(source, Tensor):
        source = torch.full(index.shape, source, dtype=torch.float32)
    if x.dtype == torch.int64:
        return _scattered(x.to(torch.float32), axis, index, source, False).to(torch.int64)
    return _scattered(x, axis, index, source, False)


def _scatter_add(x: Tensor, axis: int, index: Tensor, source: Tensor) -> Any:
    return _scattered(x, axis, index, source, True)


def _unpooled(x: Tensor, places: Tensor, shape: Sequence[int], *args: Any) -> Any:
    flat = x.reshape(-1, prod(x.shape[-len(shape) :]))
    rows = x.new_zeros(flat.shape[0], prod(shape))
    return _scatter(rows, 1, places.reshape(flat.shape), flat).view(*x.shape[: -len(shape)], *shape)


def _index_add(x: Tensor, axis: int, index: Tensor, source: Tensor, alpha: float = 1) -> Any:
    rows = source if alpha == 1 else source * alpha
    return x + _rows_back(rows, axis, index, x.shape[axis])


# Element by element.


def _sinh(x: Tensor) -> Tensor:
    grown = torch.expm1(torch.abs(x))
    return torch.sign(x) * (grown + grown / (grown + 1)) / 2


def _asinh(x: Tensor) -> Tensor:
    size = torch.abs(x)
    square = size * size
    return torch.sign(x) * torch.log1p(size + square / (1 + torch.sqrt(square + 1)))


def _compared(target: OpOverload) -> Function:
    """Whole numbers with one that f32 holds: none that it rounds comes to lie on the other side, or there."""

    def made(x: Tensor, number: float) -> Any:
        if x.is_floating_point() or abs(number) >= 2**24:
            raise NotImplementedError
        return target(x.to(torch.float32), number)

    return made


def _shrunk_backward(gradient: Tensor, x: Tensor, threshold: float) -> Tensor:
    return torch.where(torch.abs(x) > threshold, gradient, 0.0)


def _logit_backward(gradient: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    slope = gradient / (x * (1 - x))
    return slope if eps is None else torch.where((x < eps) | (x > 1 - eps), 0.0, slope)


def _hypotenuse(a: Tensor, b: Tensor) -> Tensor:
    most, least = torch.maximum(a.abs(), b.abs()), torch.minimum(a.abs(), b.abs())
    share = least / torch.where(most == 0, 1.0, most)
    return most * torch.sqrt(1 + share * share)


# The greatest, and where.


def _greatest(x: Tensor) -> Any:
    return aten.amax(x, list(range(x.dim())))


def _least(x: Tensor, axes: Sequence[int] = (), keepdim: bool = False) -> Any:
    return -aten.amax(-x, list(axes) or list(range(x.dim())), keepdim)


def _place(x: Tensor, extreme: Tensor, axis: int, keepdim: bool) -> Any:
    """The first place along an axis of what is greatest there."""
    extent = x.shape[axis]
    numbers = _constant(lambda: torch.arange(float(extent)).view(extent, *[1] * (x.dim() - 1 - axis)))
    first = aten.amin(torch.where(torch.eq(x, extreme), numbers, float(extent)), [axis], keepdim)
    return first.to(torch.int64)


def _with_place(extreme: OpOverload) -> Function:
    def made(x: Tensor, axis: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
        axis %= x.dim()
        found = extreme(x, [axis], True)
        return found if keepdim else found.squeeze(axis), _place(x, found, axis, keepdim)

    return made


def _place_alone(extreme: OpOverload) -> Function:
    def made(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Any:
        if axis is None:
            x, axis = x.reshape(-1), 0
        axis %= x.dim()
        return _place(x, extreme(x, [axis], True), axis, keepdim)

    return made


def _any(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Any:
    return aten.amax(x.to(torch.float32), [] if axis is None else [axis], keepdim) != 0


def _all(x: Tensor, axis: int | None = None, keepdim: bool = False) -> Any:
    return aten.amin(x.to(torch.float32), [] if axis is None else [axis], keepdim) != 0


def _of_whole_numbers(function: OpOverload) -> Function:
    """A sum of a mask: the sum of floats, which other whole numbers may exceed."""

    def made(x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if x.dtype != torch.bool:
            raise NotImplementedError
        dtype = kwargs.pop("dtype", None)
        return function(x.to(torch.float32), *args, **kwargs).to(dtype or torch.int64)

    return made


# Means and deviations.


def _axes(x: Tensor, axes: Sequence[int] | None) -> list[int]:
    return list(axes or range(x.dim()))


def _mean(x: Tensor, axes: Sequence[int] | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    return x.sum(_axes(x, axes), keepdim) / prod(x.shape[axis] for axis in _axes(x, axes))


def _variance(
    x: Tensor, axes: Sequence[int] | None = None, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """With the mean."""
    axes = _axes(x, axes)
    mean = x.mean(axes, keepdim=True)
    apart = x - mean
    count = prod(x.shape[axis] for axis in axes) - (1 if correction is None else correction)
    return (apart * apart).sum(axes, keepdim) / max(count, 0), mean if keepdim else mean.squeeze(axes)


def _deviation(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    variance, mean = _variance(*args, **kwargs)
    return variance.sqrt(), mean


def _first(function: Function) -> Function:
    return lambda *args, **kwargs: function(*args, **kwargs)[0]


# Distances.


def _distances(a: Tensor, b: Tensor, p: float, mode: int | None = None) -> Any:
    return torch.linalg.vector_norm(a.unsqueeze(-2) - b.unsqueeze(-3), p, dim=-1)


def _distances_backward(gradient: Tensor, a: Tensor, b: Tensor, p: float, distances: Tensor) -> Tensor:
    """Of the first; where two points are one there is none."""
    if p != 2:
        raise NotImplementedError
    share = torch.where(distances == 0, 0.0, gradient / torch.where(distances == 0, 1.0, distances))
    return (share.unsqueeze(-1) * (a.unsqueeze(-2) - b.unsqueeze(-3))).sum(-2)


def _sorted_out(x: Tensor, k: int, axis: int = -1, largest: bool = True, sort: bool = True) -> tuple[Tensor, Tensor]:
    """The greatest, one after the other."""
    if k > 16:
        raise NotImplementedError
    axis %= x.dim()
    extent = x.shape[axis]
    numbers = _constant(lambda: torch.arange(float(extent)).view(extent, *[1] * (x.dim() - 1 - axis)))
    free = _constant(lambda: torch.ones(extent, *[1] * (x.dim() - 1 - axis), dtype=torch.bool))
    left, found, places = x if largest else -x, [], []
    for _ in range(k):
        most = aten.amax(left, [axis], True)
        place = aten.amin(torch.where(torch.eq(left, most) & free, numbers, float(extent)), [axis], True)
        free = free & torch.ne(numbers, place)
        left = torch.where(free, x if largest else -x, float("-inf"))
        found.append(most)
        places.append(place)
    values = torch.cat(found, axis)
    return values if largest else -values, torch.cat(places, axis).to(torch.int64)


def _sorted(x: Tensor, axis: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    return _sorted_out(x, x.shape[axis], axis, descending)


def _sorted_stably(
    x: Tensor, stable: bool | None = None, axis: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    return _sorted(x, axis, descending)


def _median(x: Tensor, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    return _nth(x, (x.shape[axis] + 1) // 2, axis, keepdim)


def _nth(x: Tensor, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, places = _sorted_out(x, k, axis, False)
    last = values.shape[axis] - 1
    if keepdim:
        return values.narrow(axis, last, 1), places.narrow(axis, last, 1)
    return values.select(axis, last), places.select(axis, last)


# The greatest of windows that the firmware's pooling lacks: dilated ones, uneven ones, those of volumes.


def _spread_windows(
    axes: int, shape: Sequence[int], kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool
) -> Any:
    """Along each axis the places of each window."""
    kernel, padding, dilation = _each(kernel, axes), _each(padding, axes), _each(dilation, axes)
    stride = _each(stride, axes) if stride else kernel
    for extent, k, s, p, d in zip(shape, kernel, stride, padding, dilation, strict=True):
        count = (extent + 2 * p - d * (k - 1) - 1 + (s - 1) * ceil) // s + 1
        count -= ceil and (count - 1) * s >= extent + p
        yield [[first * s - p + d * tap for tap in range(k)] for first in range(count)]


def _uneven_windows(shape: Sequence[int], positions: Sequence[int]) -> Any:
    for extent, count in zip(shape, positions, strict=True):
        yield [range(i * extent // count, -(-(i + 1) * extent // count)) for i in range(count)]


def _taps(shape: Sequence[int], windows: Sequence[Any]) -> Tensor:
    """By position and tap, the place in a plane; -1 outside."""

    def inside(place: int, extent: int) -> int:
        return place if 0 <= place < extent else -1

    rows = []
    for position in product(*windows):
        places = [[inside(p, n) for p in axis] for axis, n in zip(position, shape, strict=True)]
        taps = [tap for tap in product(*places) if min(tap) >= 0]
        rows.append([sum(p * step for p, step in zip(tap, row_major(shape), strict=True)) for tap in taps])
    return _constant(lambda: pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1))


def _most_of(x: Tensor, windows: Sequence[Any]) -> tuple[Tensor, Tensor]:
    axes = len(windows)
    plane, stack = x.shape[-axes:], x.shape[:-axes]
    taps = _taps(plane, windows)
    outside, numbers = _constant(lambda: (taps < 0)[..., None]), _constant(lambda: taps.float()[..., None])
    picked = aten.embedding(x.reshape(-1, prod(plane)).t(), _constant(lambda: taps.clamp(0)))
    held = torch.where(outside, float("-inf"), picked)
    most = aten.amax(held, [1], True)
    place = aten.amin(torch.where(torch.eq(held, most) & ~outside, numbers, float(prod(plane))), [1])
    shape = (*stack, *(len(axis) for axis in windows))
    return most.squeeze(1).t().reshape(shape), place.t().reshape(shape).to(torch.int64)


def _most_of_backward(gradient: Tensor, x: Tensor, windows: Sequence[Any], indices: Tensor) -> Any:
    axes = len(windows)
    plane = x.shape[-axes:]
    taps = _taps(plane, windows)
    numbers = _constant(lambda: taps.float()[..., None])
    rows = [one.reshape(-1, taps.shape[0]).t().unsqueeze(1) for one in (gradient, indices.to(torch.float32))]
    spread = torch.where(torch.eq(rows[1], numbers), rows[0], 0.0)
    index = _constant(lambda: taps.clamp(0).flatten())
    total = aten.embedding_dense_backward(spread.reshape(index.numel(), -1), index, prod(plane), -1, False)
    return total.t().reshape(x.shape)


def _max_pool(axes: int) -> Function:
    def made(
        x: Tensor, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil: bool = False
    ) -> Any:
        return _most_of(x, [*_spread_windows(axes, x.shape[-axes:], kernel, stride, padding, dilation, ceil)])

    return made


def _max_pool_backward(axes: int) -> Function:
    def made(gradient: Tensor, x: Tensor, *args: Any) -> Any:
        *window, indices = args
        return _most_of_backward(gradient, x, [*_spread_windows(axes, x.shape[-axes:], *window)], indices)

    return made


def _adaptive_max_pool(x: Tensor, positions: Sequence[int]) -> Any:
    return _most_of(x, [*_uneven_windows(x.shape[-len(positions) :], positions)])


def _adaptive_max_pool_backward(axes: int) -> Function:
    def made(gradient: Tensor, x: Tensor, indices: Tensor) -> Any:
        windows = [*_uneven_windows(x.shape[-axes:], gradient.shape[-axes:])]
        return _most_of_backward(gradient, x, windows, indices)

    return made


# Losses by margins, and bags of rows.


def _gradient(function: Function) -> Function:
    """Of the first operand, behind the result's gradient."""

    def made(gradient: Tensor, x: Tensor, *args: Any) -> Any:
        with torch.enable_grad():
            whole = x.detach().requires_grad_()
            result = function(whole, *args)
            return torch.autograd.grad(result[0] if isinstance(result, tuple) else result, whole, gradient)[0]

    return made


def _reduced(each: Tensor, reduction: int) -> Tensor:
    return each.mean() if reduction == 1 else each.sum() if reduction else each


def _multi_margin(
    x: Tensor, labels: Tensor, p: float = 1, margin: float = 1, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    if x.dim() != 2:
        raise NotImplementedError
    own = _hits(labels, 1, x.shape[1])
    lack = torch.clamp_min(x - torch.where(own, x, 0.0).sum(1, True) + margin, 0)
    lack = torch.where(own, 0.0, lack if p == 1 else lack * lack)
    if weight is not None:
        lack = lack * torch.where(own, weight, 0.0).sum(1, True)
    return _reduced(lack.sum(1) / x.shape[1], reduction)


def _multilabel_margin(x: Tensor, labels: Tensor, reduction: int = 1, *args: Any) -> tuple[Tensor, Tensor]:
    """Labels end at the first that is less than nothing."""
    if x.dim() != 2:
        raise NotImplementedError
    counts = (labels.to(torch.float32) < 0).to(torch.float32).cumsum(1) == 0
    own = _hits(labels, 2, x.shape[1]) & counts.unsqueeze(2)
    one = aten.amax(own.to(torch.float32), [1])
    own_scores = torch.where(own, x.unsqueeze(1), 0.0).sum(2, True)
    lack = torch.clamp_min(1 - own_scores + x.unsqueeze(1), 0) * counts.unsqueeze(2) * (1 - one).unsqueeze(1)
    return _reduced(lack.sum([1, 2]) / x.shape[1], reduction), one


def _bags(index: Tensor, offsets: Tensor, mode: int, ends: bool, plain: bool) -> Tensor:
    """What each bag takes of each row: all of it, or a share."""
    if not _is_known(offsets) or mode > 1 or not plain:
        raise NotImplementedError

    def made() -> Tensor:
        starts = offsets[:-1] if ends else offsets
        bags = torch.searchsorted(starts, torch.arange(index.numel()), right=True) - 1
        shares = (torch.arange(len(starts))[:, None] == bags).float()
        return shares / shares.sum(1, True).clamp(min=1) if mode else shares

    return _constant(made)


def _bag(
    rows: Tensor, index: Tensor, offsets: Tensor, by_frequency: bool = False, mode: int = 0, sparse: bool = False,
    weights: Tensor | None = None, ends: bool = False, padding: int = -1,
) -> tuple[Tensor, ...]:  # fmt: skip
    shares = _bags(index, offsets, mode, ends, weights is None and padding < 0 and not by_frequency)
    bags = _constant(lambda: shares.argmax(0))
    sizes = _constant(lambda: (shares > 0).sum(1))
    return torch.mm(shares, aten.embedding(rows, index)), bags, sizes, sizes


def _bag_backward(gradient: Tensor, index: Tensor, offsets: Tensor, *given: Any) -> Any:
    _bag_of, _sizes, _most, count, by_frequency, mode, _sparse, weights, padding = (*given, -1)[:9]
    plain = weights is None and padding < 0 and not by_frequency
    shares = _bags(index, offsets, mode, offsets.numel() > gradient.shape[0], plain)
    return _rows_back(torch.mm(_constant(lambda: shares.t().contiguous()), gradient), 0, index, count)


# Others.


def _batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, variance: Tensor, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """With the running statistics that it leaves."""
    y, own, invstd = aten.native_batch_norm(x, weight, bias, None, None, True, momentum, eps)
    count = x.numel() // x.shape[1]
    spread = (1 / (invstd * invstd) - eps) * (count / (count - 1))
    return y, own, invstd, mean + momentum * (own - mean), variance + momentum * (spread - variance)


def _index_fill(x: Tensor, axis: int, index: Tensor, value: float | Tensor) -> Tensor:
    if not _is_known(index):
        raise NotImplementedError
    inside = _constant(lambda: torch.zeros(x.shape, dtype=torch.bool).index_fill(axis, index, True))
    return torch.where(inside, value, x)


def _copied(x: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(x.dtype).expand(x.shape).clone(memory_format=torch.contiguous_format)


def _product_sum(x: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return x * beta + torch.bmm(a, b).sum(0) * alpha


def _along_last(target: OpOverload, tensors: int) -> Function:
    """What the firmware does along the last axis, along another."""

    def made(*args: Any) -> Any:
        axis, rest = args[tensors], args[tensors + 1 :]
        if axis % args[0].dim() == args[0].dim() - 1:
            raise NotImplementedError
        rows = [x.transpose(axis, -1).contiguous() for x in args[:tensors]]
        return target(*rows, -1, *rest).transpose(axis, -1)

    return made


def _padded(x: Tensor, widths: Sequence[int], value: float = 0.0) -> Any:
    """With a number other than 0 around it, or cut at one end and padded at another."""
    if any(width < 0 for width in widths) and any(width > 0 for width in widths):
        x = aten.constant_pad_nd(x, [min(width, 0) for width in widths])
        return aten.constant_pad_nd(x, [max(width, 0) for width in widths], value)
    shape = x.shape
    around = _constant(lambda: aten.constant_pad_nd(torch.zeros(shape), widths, float(value)))
    return aten.constant_pad_nd(x, widths) + around


def _weight_norm_backward(gradient: Tensor, v: Tensor, g: Tensor, norms: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    axes = [other for other in range(v.dim()) if other != axis % v.dim()]
    product = (gradient * v).sum(axes, keepdim=True) / norms
    return (gradient - v * (product / norms)) * (g / norms), product


def _trilinear(
    a: Tensor, b: Tensor, c: Tensor, of_a: Any, of_b: Any, of_c: Any, summed: Any, unroll: int = 1
) -> Tensor:
    for axes, place in ((of_a, 0), (of_b, 1), (of_c, 2)):
        for axis in axes:
            a, b, c = (x.unsqueeze(axis) if at == place else x for at, x in enumerate((a, b, c)))
    return (a * b * c).sum(summed)


def _replaced(view: OpOverload) -> Function:
    """A tensor of which a view is replaced by another."""

    def made(x: Tensor, source: Tensor, *args: Any) -> Any:
        return _through(x, lambda whole: view(whole, *args), lambda _: source)

    return made


def _through(
    x: Tensor, seen: Callable[[Tensor], Tensor], new: Callable[[Tensor], Tensor], by_strides: bool = False
) -> Any:
    """A tensor of which what is seen is new: the gradient of the view puts it in its place."""
    old = seen(x)
    source = new(old).expand(old.shape)
    if by_strides:
        return _put(x, _numbered(x.shape, seen), source, False)
    with torch.enable_grad():
        whole = torch.empty(x.shape).requires_grad_()
        part = seen(whole)
        placed, inside = (
            torch.autograd.grad(part, whole, one, retain_graph=True)[0] for one in (source, torch.ones(part.shape))
        )
    return torch.where(inside != 0, placed, x)


def written_through(pure: OpOverload, views: Sequence[View]) -> Function:
    """What writes into views of a tensor, as a function that makes a new tensor."""
    seen = partial(through, views)
    by_strides = any(view.target is aten.as_strided.default for view in views)
    return lambda whole, *args, **kwargs: _through(whole, seen, lambda part: pure(part, *args, **kwargs), by_strides)


MADE_OF: dict[OpOverload, Function] = {
    **_resamplings(),
    aten.index_select.default: _index_select,
    aten.index.Tensor: _index,
    aten._unsafe_index.Tensor: _index,
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.embedding.default: _embedded,
    aten.embedding_dense_backward.default: _embedded_backward,
    aten.gather.default: _gather,
    aten.put.default: _put,
    aten.scatter.src: _scatter,
    aten.scatter.value: _scatter,
    aten.scatter_add.default: _scatter_add,
    aten.index_add.default: _index_add,
    aten.multi_margin_loss.default: _multi_margin,
    aten.multi_margin_loss_backward.default: _gradient(_multi_margin),
    aten.multilabel_margin_loss_forward.default: _multilabel_margin,
    aten.multilabel_margin_loss_backward.default: _gradient(_multilabel_margin),
    aten._embedding_bag.default: _bag,
    aten._embedding_bag_backward.default: _bag_backward,
    aten.max_unpool2d.default: _unpooled,
    aten.max_unpool3d.default: _unpooled,
    aten.max.default: _greatest,
    aten.min.default: _least,
    aten.amin.default: _least,
    aten.max.dim: _with_place(aten.amax.default),
    aten.min.dim: _with_place(aten.amin.default),
    aten.argmax.default: _place_alone(aten.amax.default),
    aten.argmin.default: _place_alone(aten.amin.default),
    aten.any.default: _any,
    aten.any.dim: _any,
    aten.all.default: _all,
    aten.all.dim: _all,
    **{target: _of_whole_numbers(target) for target in (aten.sum.default, aten.sum.dim_IntList, aten.cumsum.default)},
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.var.correction: _first(_variance),
    aten.var_mean.correction: _variance,
    aten.std.correction: _first(_deviation),
    aten.std_mean.correction: _deviation,
    aten._cdist_forward.default: _distances,
    aten._cdist_backward.default: _distances_backward,
    aten.topk.default: _sorted_out,
    aten.sort.default: _sorted,
    aten.sort.stable: _sorted_stably,
    aten.median.dim: _median,
    aten.median.default: lambda x: _median(x.reshape(-1), 0)[0],
    aten.kthvalue.default: _nth,
    aten.index_fill.int_Scalar: _index_fill,
    aten.index_fill.int_Tensor: _index_fill,
    aten.copy.default: _copied,
    aten.addbmm.default: _product_sum,
    aten.new_empty.default: lambda x, size, **_: x.new_zeros(size),
    aten.empty_like.default: lambda x, **_: torch.zeros_like(x),
    aten._softmax.default: _along_last(aten._softmax.default, 1),
    aten._log_softmax.default: _along_last(aten._log_softmax.default, 1),
    aten._softmax_backward_data.default: _along_last(aten._softmax_backward_data.default, 2),
    aten._log_softmax_backward_data.default: _along_last(aten._log_softmax_backward_data.default, 2),
    aten.constant_pad_nd.default: _padded,
    aten.max_pool2d_with_indices.default: _max_pool(2),
    aten.max_pool2d_with_indices_backward.default: _max_pool_backward(2),
    aten.max_pool3d_with_indices.default: _max_pool(3),
    aten.max_pool3d_with_indices_backward.default: _max_pool_backward(3),
    aten.adaptive_max_pool2d.default: _adaptive_max_pool,
    aten.adaptive_max_pool2d_backward.default: _adaptive_max_pool_backward(2),
    aten.adaptive_max_pool3d.default: _adaptive_max_pool,
    aten.adaptive_max_pool3d_backward.default: _adaptive_max_pool_backward(3),
    aten.native_batch_norm.default: _batch_norm,
    **dict.fromkeys((aten.softshrink_backward.default, aten.hardshrink_backward.default), _shrunk_backward),
    aten.acosh.default: lambda x: torch.log1p((x - 1) + torch.sqrt((x - 1) * (x + 1))),
    aten.sgn.default: torch.sign,
    **{one.Scalar: _compared(one.Scalar) for one in (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)},
    aten.sinh.default: _sinh,
    aten.cosh.default: lambda x: (torch.exp(x) + torch.exp(-x)) / 2,
    aten.tan.default: lambda x: torch.sin(x) / torch.cos(x),
    aten.asinh.default: _asinh,
    aten.atanh.default: lambda x: (torch.log1p(x) - torch.log1p(-x)) / 2,
    aten.fmod.Scalar: lambda x, z: x - torch.trunc(x / z) * z,
    aten.log2.default: lambda x: torch.log(x) * (1 / log(2)),
    aten.log10.default: lambda x: torch.log(x) * (1 / log(10)),
    aten.exp2.default: lambda x: torch.exp(x * log(2)),
    aten.trunc.default: lambda x: torch.sign(x) * torch.floor(torch.abs(x)),
    aten.frac.default: lambda x: x - torch.trunc(x),
    aten.logit_backward.default: _logit_backward,
    aten.hypot.default: _hypotenuse,
    aten._weight_norm_interface_backward.default: _weight_norm_backward,
    aten._trilinear.default: _trilinear,
    aten.select_scatter.default: _replaced(aten.select.int),
    aten.slice_scatter.default: _replaced(aten.slice.Tensor),
    aten.diagonal_scatter.default: _replaced(aten.diagonal.default),
}
# Those that write into operands as well: their functions return what they write last.
WITH_WRITES = (aten.native_batch_norm.default,)
