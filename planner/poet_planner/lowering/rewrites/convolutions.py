# SPDX-License-Identifier: Apache-2.0
"""Dilated and transposed convolutions become plain ones.

With a dilation of d, every d-th column is read together with every d-th: the columns, parted by their number modulo d,
are so many more samples of a plain convolution. A transposed one is the input gradient of a plain one, as the rules
know; here its bias is added, apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator, View, row_major

from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import each, permuted, reshaped
from poet_planner.lowering.rewrites.rewriting import CLONE, Rewriting

aten = torch.ops.aten
_FORWARD = aten.convolution.default
_BACKWARD = aten.convolution_backward.default


def with_plain_convolutions(traced: TracedGraph) -> TracedGraph:
    """The same graph without dilated convolutions, and without biases of transposed ones."""
    parting = _Parting(traced)
    return parting.by(dict.fromkeys((_FORWARD, _BACKWARD), parting.take))


@dataclass(frozen=True)
class _Axis:
    """One axis of a dilated convolution: zeros before and after, and the padding of the plain convolution."""

    dilation: int
    extent: int
    before: int
    after: int
    padding: int
    results: int  # of one phase

    @property
    def length(self) -> int:
        """Of one phase."""
        return (self.before + self.extent + self.after) // self.dilation

    def of_results(self, extent: int) -> _Axis:
        """The same for results, which have nothing but zeros behind them."""
        return replace(self, extent=extent, before=0, after=self.results * self.dilation - extent)


def _axis(extent: int, kernel: int, stride: int, padding: int, dilation: int) -> _Axis:
    inner = padding // dilation if padding % dilation == 0 else 0
    before = 0 if padding % dilation == 0 else padding
    after = -(extent + 2 * before) % dilation + before
    length = (before + extent + after) // dilation
    return _Axis(dilation, extent, before, after, inner, (length + 2 * inner - kernel) // stride + 1)


class _Parting(Rewriting):
    """``_parted`` are the phases of what has been parted."""

    def __init__(self, traced: TracedGraph) -> None:
        super().__init__(traced)
        self._parted: dict[tuple[Any, ...], Ref] = {}

    def take(self, operator: TracedOperator, given: dict[str, Any]) -> bool:
        if not given["transposed"]:
            dilated = given["weight"].dtype == torch.float32 and _is_dilated(given)
            if dilated:
                self._dilated(operator, given)
            return dilated
        if operator.target is _BACKWARD or given["bias"] is None:
            return False
        shape = self.values[operator.values[0]].shape
        args = (*operator.args[:2], None, *operator.args[3:])
        product = self.put(replace(operator, args=args), added(operator.id, "product"), shape)
        bias = reshaped(given["bias"], (shape[1], *(1 for _ in shape[2:])))
        total = replace(operator, id=added(operator.id, "bias"), target=aten.add.Tensor, args=(product, bias))
        self.operators.append(replace(total, kwargs={}))
        return True

    def _dilated(self, operator: TracedOperator, given: dict[str, Any]) -> None:
        axes = _axes(given)
        phases, padding = prod(axis.dilation for axis in axes), [axis.padding for axis in axes]
        ones, zeros = [1] * len(axes), [0] * len(axes)
        rest = (given["stride"], padding, ones, False, zeros, given["groups"])
        if operator.target is _FORWARD:
            parted = self._phases(operator, "input", given["input"], axes)
            shape = (parted.shape[0], given["weight"].shape[0], *(axis.results for axis in axes))
            plain = replace(operator, args=(parted, given["weight"], given["bias"], *rest), kwargs={})
            return self._whole(operator, self.put(plain, added(operator.id, "phases"), shape), axes, zeros)
        gy, mask = given["grad_output"], given["output_mask"]
        ends = [axis.of_results(extent) for axis, extent in zip(axes, gy.shape[2:], strict=True)]
        gradient = self._phases(operator, "gradient", gy, ends)
        shape = (phases * gy.shape[0], given["input"].shape[1], *(axis.length for axis in axes))
        x: Ref | Blank = Blank(shape, row_major(shape), torch.float32)
        if not mask[0]:
            x = self._phases(operator, "input", given["input"], axes)
        plain = replace(operator, args=(gradient, x, given["weight"], given["bias_sizes"], *rest, mask), kwargs={})
        if not mask[0]:
            return self.operators.append(plain)
        made = self.put(plain, added(operator.id, "phases"), shape)
        return self._whole(operator, made, axes, [axis.before for axis in axes])

    def _phases(self, operator: TracedOperator, name: str, x: Ref, axes: Sequence[_Axis]) -> Ref:
        """A tensor's phases one after another as samples; the way back finds what the way forward has made."""
        key = (x.source, str(x.views), *axes)
        if key not in self._parted:
            if any(axis.before or axis.after for axis in axes):
                widths = [width for axis in reversed(axes) for width in (axis.before, axis.after)]
                shape = (*x.shape[:2], *(axis.length * axis.dilation for axis in axes))
                x = self.emit(operator, f"{name}_padded", shape, aten.constant_pad_nd.default, x, widths, 0.0)
            split = (*x.shape[:2], *(n for axis in axes for n in (axis.length, axis.dilation)))
            parted = permuted(reshaped(x, split), [*range(3, len(split), 2), 0, 1, *range(2, len(split), 2)])
            copy = self.emit(operator, f"{name}_phases", parted.shape, CLONE, parted)
            shape = parted.shape
            self._parted[key] = reshaped(copy, (prod(shape[: len(axes) + 1]), *shape[len(axes) + 1 :]))
        return self._parted[key]

    def _whole(self, operator: TracedOperator, made: Ref, axes: Sequence[_Axis], starts: Sequence[int]) -> None:
        """Phases back in their places, and of these what the operator yields."""
        (id,) = operator.values
        extents, dilations = self.values[id].shape[2:], [axis.dilation for axis in axes]
        split = (*dilations, made.shape[0] // prod(dilations), *made.shape[1:])
        pairs = [place for axis in range(len(axes)) for place in (len(axes) + 2 + axis, axis)]
        placed = permuted(reshaped(made, split), [len(axes), len(axes) + 1, *pairs])
        whole = (*placed.shape[:2], *(n * d for n, d in zip(made.shape[2:], dilations, strict=True)))
        kwargs = {"memory_format": torch.contiguous_format}
        last = replace(operator, target=CLONE, args=(placed,), kwargs=kwargs)
        if whole[2:] == extents:
            self.put(replace(last, id=added(operator.id, "whole")), id, placed.shape)
            self.views[id] = View(aten.view.default, (list(whole),))
            return
        cut = reshaped(self.emit(operator, "whole", placed.shape, CLONE, placed), whole)
        for axis, (start, extent) in enumerate(zip(starts, extents, strict=True), 2):
            view = View(aten.slice.Tensor, (axis, start, start + extent))
            cut = replace(cut, views=(*cut.views, view), shape=(*cut.shape[:axis], extent, *cut.shape[axis + 1 :]))
        self.put(replace(last, id=added(operator.id, "cut"), args=(cut,)), id, cut.shape)


def _axes(given: dict[str, Any]) -> list[_Axis]:
    """Of a dilated convolution."""
    extents, kernel = given["input"].shape[2:], given["weight"].shape[2:]
    numbers = (each(given[name], extents) for name in ("stride", "padding", "dilation"))
    return [_axis(*one) for one in zip(extents, kernel, *numbers, strict=True)]


def _is_dilated(given: dict[str, Any]) -> bool:
    """Whether it is one, along an axis or two, of which every column is read."""
    extents = given["input"].shape[2:]
    strides, dilations = each(given["stride"], extents), each(given["dilation"], extents)
    columns = all(stride == 1 or dilation == 1 for stride, dilation in zip(strides, dilations, strict=True))
    return len(extents) in (1, 2) and columns and any(dilation != 1 for dilation in dilations)
