# SPDX-License-Identifier: Apache-2.0
"""Frozen layers between `dequantize` and `quantize`, as PyTorch's quantisation leaves them, become operators on int8.

Such a graph computes in f32 what it has as int8. Here the sums are of whole numbers, and exact: one operator of
`poet_runtime.integers` stands for the f32 operator with what is around it, a ReLU too. Operators that have no such form
stay what they are, between a `dequantize_s8` and a `quantize_s8`. What changes nothing, is gone: a `quantize` of what
has just been dequantized, and views.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import poet_runtime.integers
import torch
from poet_profiles.errors import UserError
from poet_profiles.firmware.steps import steps_in
from poet_runtime.traced_graph import (
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    View,
    map_refs,
    row_major,
)
from torch import Tensor

from poet_planner.lowering.int8.bytes_looked_up import Function, functions_of, is_whole
from poet_planner.lowering.int8.folded_norms import lies_by_outputs
from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import SHIFTED, Lowered, aten_name, is_row_major, reshaped
from poet_planner.lowering.operators.steps import lowered_alone
from poet_planner.lowering.rewrites.constants import computed_constants
from poet_planner.tracing.schema import bound_arguments

_QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
_DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
_DEQUANTIZE_CHANNELS = "quantized_decomposed.dequantize_per_channel.default"
_S8 = torch.ops.poet
_MOST_SUM = 2**31 - 1
# Functions of one value: a table has what they give for every byte.
OF_ONE_VALUE = frozenset(
    {"relu", "clampc", "sigmoid", "hardswish", "hardsigmoid", "silu", "gelu", "tanh", "leaky_relu"}
)
assert poet_runtime.integers.__doc__  # the import registers the operators


def with_integers(traced: TracedGraph) -> TracedGraph:
    """The same graph with operators on int8 wherever a frozen part is quantised.

    Raises
    ------
    UserError
        If the weights of a layer have zero points, or its sums may leave 32 bits; or if what is trained is quantised.
    """
    if not has_integers(traced):
        return traced
    for parameter in sorted(traced.without_gradient):
        _refuse_quantised(parameter, traced)
    return _Fusing(traced).graph()


def _refuse_quantised(parameter: str, traced: TracedGraph) -> None:
    """Without a gradient a parameter would stay as it is, and nothing would say so."""
    reached = {parameter}
    for operator in traced.operators:
        if reached.isdisjoint(ref.source for ref in operator.refs):
            continue
        if str(operator.target) == _QUANTIZE:
            raise UserError(
                f"{parameter} is trained, and no gradient passes {operator.id}, which is quantised; freeze it"
            )
        reached.update(operator.values)


def has_integers(traced: TracedGraph) -> bool:
    """Whether a part of it is quantised, or is to be."""
    return bool(traced.int8_ranges) or any(str(operator.target) == _QUANTIZE for operator in traced.operators)


@dataclass(frozen=True)
class _Bytes:
    """An int8 operand, and what its numbers stand for."""

    ref: Ref
    scale: float
    zero: int


@dataclass(frozen=True)
class _Made:
    """What stands for a chain of operators: its name, and the operator on int8 with its arguments."""

    by: TracedOperator
    target: Any
    args: tuple[Any, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Ends:
    """Of a quantised value: its scale, and what it is clamped to."""

    scale: float
    zero: int
    low: int
    high: int

    @property
    def numbers(self) -> list[int]:
        return [self.zero, self.low, self.high]

    def of(self, number: float) -> int:
        return int(_S8.quantize_s8(torch.tensor([number]), 1.0 / self.scale, [self.zero, -128, 127]))


class _Fusing:
    """The operators of a graph, one after another; ``_names`` are new sources, and views, of quantised values."""

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self._makers = {id: operator for operator in traced.operators for id in operator.values}
        self._readers = Counter(ref.source for operator in traced.operators for ref in operator.refs)
        self._readers.update([traced.loss.source, *(ref.source for ref in traced.gradients.values())])
        self._fixed = {*traced.constants, *(one.id for one in computed_constants(traced))}
        self._names: dict[str, Ref] = {}
        self._values = dict(traced.values)
        self._constants: dict[str, Tensor] = {}
        self._made: dict[str, TracedOperator] = {}
        self._inputs = {one.id: one for one in traced.residents if one.kind is Kind.INPUT and one.dtype == torch.int16}
        self._of_int16 = functions_of(traced, self._inputs)

    def graph(self) -> TracedGraph:
        instead = [made for operator in self._traced.operators for made in self._instead(operator)]
        operators = self._wanted([one for one in instead if self._made.get(one.id, one) is one])
        kept = {id for operator in operators for id in operator.values}
        residents = (_resident(id, data) for id, data in self._constants.items())
        return replace(
            self._traced,
            operators=tuple(operators),
            values={id: value for id, value in self._values.items() if id in kept},
            residents=(*self._traced.residents, *residents),
            constants={**self._traced.constants, **self._constants},
        )

    def _instead(self, operator: TracedOperator) -> list[TracedOperator]:
        if str(operator.target) == _QUANTIZE and operator.values[0] not in self._fixed:
            return self._quantized(operator)
        if str(operator.target) == _DEQUANTIZE and operator.values[0] not in self._fixed:
            found = self._bytes(_whole(self._traced.values[operator.values[0]]))
            if found is not None:
                dequantized = (found.ref, found.scale, found.zero)
                return [replace(operator, target=_S8.dequantize_s8.default, args=dequantized, kwargs={})]
        if aten_name(operator) == SHIFTED and self._traced.values[operator.values[0]].dtype == torch.int8:
            self._names[operator.values[0]] = _whole(self._traced.values[operator.values[0]])
        return [replace(operator, args=map_refs(operator.args, self._renamed))]

    def _renamed(self, ref: Ref) -> Ref:
        held = self._names.get(ref.source)
        return ref if held is None else replace(ref, source=held.source, views=(*held.views, *ref.views))

    def _quantized(self, operator: TracedOperator) -> list[TracedOperator]:
        given = bound_arguments(operator.target, operator.args, operator.kwargs)
        if given["dtype"] != torch.int8:
            return [operator]
        x = given["input"]
        ends = _Ends(given["scale"], given["zero_point"], given["quant_min"], given["quant_max"])
        same = self._bytes(x)
        if same and (same.scale, same.zero) == (ends.scale, ends.zero) and (ends.low, ends.high) == (-128, 127):
            self._names[operator.values[0]] = same.ref
            return []
        made = (self._table(operator, same, ends, []) if same else self._mapped(operator, x, ends)) or _Made(
            operator, _S8.quantize_s8.default, (x, 1.0 / ends.scale, ends.numbers), x.shape
        )
        return [self._put(operator.values[0], made)]

    def _put(self, quantized: str, made: _Made) -> TracedOperator:
        """The operator in the place of what quantises its value, named as what it stands for."""
        id = made.by.id
        value = TracedValue(id, prod(made.shape), made.shape, torch.int8, row_major(made.shape))
        self._names[quantized] = reshaped(_whole(value), self._values[quantized].shape)
        self._values[id] = value
        self._made[id] = replace(made.by, target=made.target, args=made.args, kwargs={}, outputs=(id,))
        return self._made[id]

    def _wanted(self, operators: list[TracedOperator]) -> list[TracedOperator]:
        """Those whose results something reads; and those of which nothing was read before: they do more than that."""
        read = {self._traced.loss.source, *(ref.source for ref in self._traced.gradients.values())}
        kept = []
        for operator in reversed(operators):
            unread = not any(self._readers[id] for id in operator.values)
            if unread or operator.updates or operator.random or not read.isdisjoint(operator.values):
                kept.append(operator)
                read.update(ref.source for ref in operator.refs)
        return kept[::-1]

    def _bytes(self, ref: Any) -> _Bytes | None:
        """What an operand has been dequantized from, if that lies in memory as it is read."""
        maker = self._makers.get(ref.source) if isinstance(ref, Ref) else None
        if maker is None or str(maker.target) != _DEQUANTIZE or ref.source in self._fixed:
            return None
        given = bound_arguments(maker.target, maker.args, maker.kwargs)
        inner = given["input"]
        held = self._names.get(inner.source)
        if held is None or given["dtype"] != torch.int8 or not self._lies(ref) or not self._lies(inner):
            return None
        views = (*held.views, *inner.views, *ref.views)
        return _Bytes(
            replace(ref, source=held.source, views=views, dtype=torch.int8), given["scale"], given["zero_point"]
        )

    def _lies(self, ref: Ref) -> bool:
        value = self._traced.values[ref.source]
        whole = prod(ref.shape) == prod(value.shape) and is_row_major(value.shape, value.stride)
        return whole and is_row_major(ref.shape, ref.stride)

    def _alone(self, ref: Ref) -> TracedOperator | None:
        """The operator whose only result this is, read by nobody else."""
        maker = self._makers.get(ref.source)
        if maker is None or self._readers[ref.source] != 1 or maker.outputs[0] != ref.source or not self._lies(ref):
            return None
        return maker if all(id is None or not self._readers[id] for id in maker.outputs[1:]) else None

    def _mapped(self, operator: TracedOperator, x: Ref, ends: _Ends) -> _Made | None:
        """Of an input's bytes that are looked up, by a table of their own; else as `_fused`."""
        maker = self._makers.get(x.source)
        if maker is None or not self._lies(x):
            return self._fused(x, ends)
        if (function := self._of_int16.get(x.source)) is not None:
            return self._levelled(operator, function, ends) or self._fused(x, ends)
        if maker.target is not _S8.look_up.default:
            return self._fused(x, ends)
        given, table = maker.args
        numbers = self._traced.constants[table.source].roll(128)  # of the byte -128 first
        mapped = self._constant(operator, "table", _S8.quantize_s8(numbers, 1.0 / ends.scale, ends.numbers))
        read = replace(given, views=(View(torch.ops.aten.view.dtype, (torch.int8,)),), dtype=torch.int8)
        return _Made(operator, _S8.map_s8.default, (read, mapped), given.shape)

    def _levelled(self, operator: TracedOperator, function: Function, ends: _Ends) -> _Made | None:
        """Of an input of int16, where no number has a smaller result than the one below it."""
        made = _S8.quantize_s8(function.table.roll(1 << 15), 1.0 / ends.scale, ends.numbers).int()  # -32768's first
        low, high = int(made[0]), int(made[-1])
        if not is_whole(function.of, self._inputs) or low == high or (made.diff() < 0).any():
            return None
        levels = torch.searchsorted(made, torch.arange(low + 1, high + 1)) - (1 << 15) - 1
        rising = self._constant(operator, "levels", levels.to(torch.int16))
        return _Made(operator, _S8.levels_s8.default, (function.of, rising, low), function.of.shape)

    def _fused(self, x: Ref, ends: _Ends) -> _Made | None:
        """What a quantised value is computed by, with the ReLUs before it; None where that is nothing on int8."""
        maker = self._alone(x)
        if maker is None:
            return None
        lowered = lowered_alone(maker, self._traced.values)
        if lowered is not None and lowered.kind in OF_ONE_VALUE:
            source = self._bytes(maker.args[0])
            if source is not None:
                return self._table(maker, source, ends, [maker])
            clipped = _clipped(lowered, ends)
            return self._fused(maker.args[0], clipped) if clipped else None
        forms = {"conv2d": self._layer, "linear": self._layer, "matmul": self._layer}
        forms |= {"max_pool2d": self._max_pool, "avg_pool2d": self._avg_pool, "add": self._sum}
        form = forms.get(lowered.kind) if lowered is not None else None
        return form(maker, lowered, ends) if form and lowered else None

    def _table(self, by: TracedOperator, x: _Bytes, ends: _Ends, chain: list[TracedOperator]) -> _Made:
        """By what PyTorch gives for each of 256 numbers."""
        numbers = _S8.dequantize_s8(torch.arange(-128, 128).to(torch.int8), x.scale, x.zero)
        for operator in chain:
            numbers = operator.target(numbers, *operator.args[1:], **operator.kwargs)
        table = _S8.quantize_s8(numbers, 1.0 / ends.scale, ends.numbers)
        return _Made(by, _S8.map_s8.default, (x.ref, self._constant(by, "table", table)), x.ref.shape)

    def _sum(self, by: TracedOperator, lowered: Lowered, ends: _Ends) -> _Made | None:
        a, b = (self._bytes(operand) for operand in by.args[:2])
        if a is None or b is None or a.ref.shape != b.ref.shape:
            return None
        args = (a.ref, b.ref, a.scale, a.zero, b.scale, b.zero, 1.0 / ends.scale, ends.numbers)
        return _Made(by, _S8.add_s8.default, args, a.ref.shape)

    def _max_pool(self, by: TracedOperator, lowered: Lowered, ends: _Ends) -> _Made | None:
        x = self._bytes(lowered.operands[0])
        whole = (ends.low, ends.high) == (-128, 127)
        if x is None or (x.scale, x.zero) != (ends.scale, ends.zero) or not whole:
            return None
        p = lowered.params
        return _Made(by, _S8.max_pool2d_s8.default, (_planes(x.ref, p), *_windows(p)), _extents(p, p["c"]))

    def _avg_pool(self, by: TracedOperator, lowered: Lowered, ends: _Ends) -> _Made | None:
        x, p = self._bytes(lowered.operands[0]), lowered.params
        if x is None:
            return None
        scale = float(_f32(x.scale) / (_f32(float(p["r"] * p["s"])) * _f32(ends.scale)))
        args = (_planes(x.ref, p), *_windows(p), scale, x.zero, ends.numbers)
        return _Made(by, _S8.avg_pool2d_s8.default, args, _extents(p, p["c"]))

    def _layer(self, by: TracedOperator, lowered: Lowered, ends: _Ends) -> _Made | None:
        """A convolution or a linear layer of bytes, whose weights are constants of int8."""
        x, *others = lowered.operands
        source, weights = self._bytes(x), self._weights(by, others[0])
        bias = None if len(others) < 2 else self._traced.constants.get(others[1].source)
        if source is None or weights is None or (len(others) > 1 and (bias is None or others[1].views)):
            return None
        ref, w_scale = weights
        w = self._traced.constants[ref.source]
        start, scale = _sums(_where(by, self._traced), w, w_scale, bias, source, ends)
        if start is None:
            return None
        tensors = (ref, self._constant(by, "start", start), self._constant(by, "scale", scale))
        p = lowered.params
        if lowered.op != "conv2d":
            if lowered.op == "matmul" and (p["b"] != 1 or not p["tb"] or p["ta"] or len(x.shape) != 2):
                return None
            rows = reshaped(ref, (p["n"], p["k"]))
            return _Made(by, _S8.linear_s8.default, (source.ref, rows, *tensors[1:], ends.numbers), (p["m"], p["n"]))
        window, *sliding = _windows(p)
        w_ref = reshaped(ref, (p["k"], p["c"] // p["g"], *window))
        args = (_planes(source.ref, p), w_ref, *tensors[1:], *sliding, p["g"], source.zero, ends.numbers)
        return _Made(by, _S8.conv2d_s8.default, args, _extents(p, p["k"]))

    def _weights(self, by: TracedOperator, ref: Ref) -> tuple[Ref, Tensor] | None:
        """Weights as they lie, and the scale of each filter."""
        maker = self._makers.get(ref.source)
        if maker is None or str(maker.target) not in (_DEQUANTIZE, _DEQUANTIZE_CHANNELS):
            return None
        given = bound_arguments(maker.target, maker.args, maker.kwargs)
        held = given["input"]
        w = self._traced.constants.get(held.source)
        if w is None or held.views or w.dtype != torch.int8 or not w.is_contiguous():
            return None
        if not lies_by_outputs(ref, w):
            return None
        if str(maker.target) == _DEQUANTIZE:
            scale, zeros = torch.full((w.shape[0],), given["scale"]), torch.tensor([given["zero_point"]])
        else:
            numbers = [self._traced.constants.get(given[name].source) for name in ("scales", "zero_points")]
            if given["axis"] != 0 or any(one is None for one in numbers):
                return None
            scale, zeros = (one for one in numbers if one is not None)
        if zeros.any():
            raise UserError(
                f"{_where(by, self._traced)}: weights have a zero point; the firmware has symmetric ones; choose "
                "per_channel_symmetric"
            )
        return Ref(held.source, (), tuple(w.shape), row_major(w.shape), torch.int8), scale.float()

    def _constant(self, by: TracedOperator, what: str, data: Tensor) -> Ref:
        id = added(by.id, what)
        self._constants[id] = data.contiguous()
        return Ref(id, (), tuple(data.shape), row_major(data.shape), data.dtype)


def _f32(number: float) -> Tensor:
    return torch.tensor(number, dtype=torch.float32)


def _where(operator: TracedOperator, traced: TracedGraph) -> str:
    return f"{operator.id} ({traced.layers.get(operator.module, 'the model')})"


def _sums(
    where: str, w: Tensor, w_scale: Tensor, bias: Tensor | None, x: _Bytes, ends: _Ends
) -> tuple[Tensor | None, Tensor]:
    """What each filter's sum begins with, and by what it is multiplied; None where no f32 has that factor."""
    by_filter = _f32(x.scale) * w_scale
    factor = by_filter / _f32(ends.scale)
    filters = w.reshape(w.shape[0], -1).to(torch.int64)
    whole = torch.zeros(len(w)) if bias is None else torch.round(bias / by_filter)
    if not (torch.isfinite(factor).all() and (factor > 0).all() and torch.isfinite(whole).all()):
        return None, factor
    start = whole.double() - x.zero * filters.sum(1).double()
    if (start.abs() + 128.0 * filters.abs().sum(1) > _MOST_SUM).any():
        taps = filters.shape[1]
        raise UserError(f"{where}: sums of {taps} taps may leave 32 bits; leave this layer in f32")
    pairs = filters[:, : filters.shape[1] // 2 * 2].reshape(len(w), -1, 2)
    if (pairs == -128).all(2).any():
        raise UserError(f"{where}: two neighbouring weights are -128; quantise weights to -127…127")
    return start.to(torch.int32), factor


def _clipped(lowered: Lowered, ends: _Ends) -> _Ends | None:
    """A ReLU, plain or clipped, is what the result is clamped to."""
    if lowered.kind == "relu":
        return replace(ends, low=max(ends.low, min(ends.zero, ends.high)))
    if lowered.kind == "clampc":
        (step,) = steps_in(lowered.params)
        low, high = (min(max(ends.of(number), ends.low), ends.high) for number in step.numbers)
        return replace(ends, low=low, high=high)
    return None


def _windows(p: dict[str, int]) -> tuple[list[int], list[int], list[int]]:
    return [p["r"], p["s"]], [p["sh"], p["sw"]], [p["ph"], p["pw"]]


def _extents(p: dict[str, int], channels: int) -> tuple[int, ...]:
    height = (p["h"] + 2 * p["ph"] - p["r"]) // p["sh"] + 1
    return p["n"], channels, height, (p["w"] + 2 * p["pw"] - p["s"]) // p["sw"] + 1


def _planes(ref: Ref, p: dict[str, int]) -> Ref:
    return reshaped(ref, (p["n"], p["c"], p["h"], p["w"]))


def _whole(value: TracedValue) -> Ref:
    return Ref(value.id, (), value.shape, value.stride, value.dtype)


def _resident(id: str, data: Tensor) -> TracedResident:
    return TracedResident(id, Kind.CONSTANT, data.nbytes, tuple(data.shape), data.dtype)
