# SPDX-License-Identifier: Apache-2.0
"""Views that the firmware cannot read in place: where they start, how they step, and the operator that copies them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
from poet_runtime.traced_graph import Ref, TracedOperator, row_major

from poet_planner.lowering.operators.rules import Lowered, aten_name

AXES = 4
_GRADIENTS_OF = {
    "select_backward.default": torch.ops.aten.select.int,
    "slice_backward.default": torch.ops.aten.slice.Tensor,
    "diagonal_backward.default": torch.ops.aten.diagonal.default,
    "unfold_backward.default": torch.ops.aten.unfold.default,
}


def copied(view: Ref, source_shape: Sequence[int], result: str) -> Lowered | None:
    """The operator that copies a view of a row-major tensor into a row-major tensor of its own.

    None if the view has more than four axes that do not step alike, or PyTorch's tensor lies otherwise and only so can
    be seen like that.
    """
    layout = layout_of(view, source_shape)
    params = None if layout is None else _strided(layout, prod(source_shape))
    return None if params is None else Lowered("strided_copy", params, (_whole(view, source_shape),), (result,))


def strided_operator(operator: TracedOperator, source_shape: Sequence[int]) -> Lowered | None:
    """The firmware's operator for one of ATen's that only moves elements.

    A clone, a repetition, an enlarged image, padding with zeros, a select's or slice's gradient.
    """
    name, result = aten_name(operator), operator.outputs[0]
    if result is None:
        return None
    x = operator.args[0] if operator.args else None
    if name in ("clone.default", "_to_copy.default") and isinstance(x, Ref):
        same = operator.kwargs.get("dtype") in (None, x.dtype)
        return copied(x, source_shape, result) if same else None
    if name == "repeat.default":
        x, times = operator.args
        return _copied_view(x, _repeated(_meta(x.shape), times), result)
    if name.startswith("upsample_nearest"):
        return _enlarged(operator, result)
    if name == "constant_pad_nd.default":
        return _padded(*operator.args, result=result)
    if name == "flip.default":
        return _flipped(operator.args[0], operator.args[1], result)
    if name in _GRADIENTS_OF:
        gradient, extents, *where = operator.args
        return _placed_in_zeros(gradient, _GRADIENTS_OF[name](_meta(extents), *where), extents, result)
    return None


def _padded(x: Ref, widths: Sequence[int], value: float = 0.0, *, result: str) -> Lowered | None:
    """Zeros around a tensor; a negative width cuts, as its gradient does."""
    starts, ends = widths[::2], widths[1::2]
    axes = [len(x.shape) - 1 - place for place in range(len(starts))]
    if all(width >= 0 for width in widths) and value == 0:
        extents = list(x.shape)
        for axis, start, end in zip(axes, starts, ends, strict=True):
            extents[axis] += start + end
        view = _meta(extents)
        for axis, start in zip(axes, starts, strict=True):
            view = view.narrow(axis, start, x.shape[axis])
        return _placed_in_zeros(x, view, extents, result)
    if all(width <= 0 for width in widths):
        view = _meta(x.shape)
        for axis, start, end in zip(axes, starts, ends, strict=True):
            view = view.narrow(axis, -start, x.shape[axis] + start + end)
        return _copied_view(x, view, result)
    return None


def _flipped(x: Ref, axes: Sequence[int], result: str) -> Lowered | None:
    """From the last element of each axis to the first; an axis of its own has another sign."""
    flipped = {axis % len(x.shape) for axis in axes}
    steps = [-step if axis in flipped else step for axis, step in enumerate(row_major(x.shape))]
    axes_left = _merged(x.shape, steps)
    if len(axes_left) > AXES:
        return None
    offset = -sum((extent - 1) * step for extent, step in axes_left if step < 0)
    return Lowered("strided_copy", _parameters(axes_left, offset, prod(x.shape)), (x,), (result,))


def _enlarged(operator: TracedOperator, result: str) -> Lowered | None:
    """Each element of an image as often as the factors say, or the gradient of that."""
    x, extents, *_ = operator.args
    backward = "backward" in aten_name(operator)
    shape = operator.args[2] if backward else x.shape
    if not extents or any(large % small for large, small in zip(extents, shape[2:], strict=True)):
        return None
    factors = [large // small for large, small in zip(extents, shape[2:], strict=True)]
    ones = _meta([*shape[:2], *(extent for small in shape[2:] for extent in (small, 1))])
    pairs = zip(shape[2:], factors, strict=True)
    view = ones.expand([*shape[:2], *(extent for pair in pairs for extent in pair)])
    return _placed_in_zeros(x, view, shape, result) if backward else _copied_view(x, view, result)


def _repeated(x: torch.Tensor, times: Sequence[int]) -> torch.Tensor:
    """What ``repeat`` copies, as a view: an axis of steps of nothing before each axis."""
    shape = (1,) * (len(times) - x.dim()) + tuple(x.shape)
    pairs = list(zip(times, shape, strict=True))
    ones = x.reshape([extent for _, own in pairs for extent in (1, own)])
    return ones.expand([extent for pair in pairs for extent in pair])


def _copied_view(x: Ref, view: torch.Tensor, result: str) -> Lowered | None:
    params = _strided(view, prod(x.shape))
    return None if params is None else Lowered("strided_copy", params, (x,), (result,))


def _placed_in_zeros(x: Ref, view: torch.Tensor, extents: Sequence[int], result: str) -> Lowered | None:
    params = _strided(view, prod(extents))
    return None if params is None else Lowered("strided_copy_backward", params, (x,), (result,))


def _meta(shape: Sequence[int]) -> torch.Tensor:
    return torch.empty(tuple(shape), device="meta")


def can_be_copied(view: torch.Tensor) -> bool:
    """Whether one copy of the firmware's makes it row-major."""
    return len(_merged(view.shape, view.stride())) <= AXES


def layout_of(view: Ref, source_shape: Sequence[int]) -> torch.Tensor | None:
    """As `viewed`, or None where a row-major tensor cannot be seen so."""
    try:
        return viewed(view, source_shape)
    except RuntimeError:
        return None


def viewed(view: Ref, source_shape: Sequence[int]) -> torch.Tensor:
    """The view of a row-major tensor: shape, strides and start, without data.

    Raises
    ------
    RuntimeError
        If a row-major tensor cannot be seen so without being copied.
    """
    return _seen(view, _meta(source_shape))


def _seen(view: Ref, tensor: torch.Tensor) -> torch.Tensor:
    for step in view.views:
        tensor = step.target(tensor, *step.args, **step.kwargs)
        if step.index is not None:
            tensor = tensor[step.index]
    return tensor


def places(view: Ref, source_shape: Sequence[int]) -> set[int]:
    """The elements of a row-major tensor that a view shows."""
    return set(_seen(view, torch.arange(prod(source_shape)).view(tuple(source_shape))).flatten().tolist())


def _strided(view: torch.Tensor, size: int) -> dict[str, int] | None:
    axes = _merged(view.shape, view.stride())
    return None if len(axes) > AXES else _parameters(axes, int(view.storage_offset()), size)


def _parameters(axes: Sequence[tuple[int, int]], offset: int, size: int) -> dict[str, int]:
    axes = [(1, 1)] * (AXES - len(axes)) + [*axes]
    extents = {f"d{axis}": extent for axis, (extent, _) in enumerate(axes)}
    strides = {f"s{axis}": stride for axis, (_, stride) in enumerate(axes)}
    return {**extents, **strides, "offset": offset, "size": size}


def _merged(shape: Sequence[int], stride: Sequence[int]) -> list[tuple[int, int]]:
    """Extents and strides with axes of one element left out, and neighbours that step like one axis made one."""
    axes: list[tuple[int, int]] = []
    for extent, step in zip(shape, stride, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == extent * step:
            axes[-1] = (axes[-1][0] * extent, step)
        else:
            axes.append((extent, step))
    return axes


def _whole(view: Ref, source_shape: Sequence[int]) -> Ref:
    """The tensor that a view is of."""
    shape = tuple(source_shape)
    return Ref(view.source, (), shape, row_major(shape), view.dtype)
