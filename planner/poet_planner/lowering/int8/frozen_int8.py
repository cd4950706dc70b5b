# SPDX-License-Identifier: Apache-2.0
"""Frozen layers on int8, as `--frozen int8` asks for: quantised as PyTorch's own flow would leave them.

What hangs on the batch and on constants alone is frozen. Of it convolutions and linear layers with constant weights are
quantised, and so are pools, sums and functions of one value of what is quantised already. Here `quantize` and
`dequantize` are put around them, and `with_integers` makes operators on int8 of both. Activations have one scale, by
the range that they were seen in; weights have one for each filter, and no zero point.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil, frexp, inf, ldexp, prod
from typing import Any

import torch
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action, Step
from poet_runtime.executor import Execution
from poet_runtime.traced_graph import (
    Kind,
    Ref,
    TracedGraph,
    TracedOperator,
    TracedResident,
    TracedValue,
    map_refs,
    row_major,
)
from torch import Tensor

from poet_planner.lowering.int8.folded_norms import lies_by_outputs, with_folded_norms
from poet_planner.lowering.int8.integers import OF_ONE_VALUE
from poet_planner.lowering.operators.draft import added
from poet_planner.lowering.operators.rules import SHIFTED, Lowered, aten_name
from poet_planner.lowering.operators.steps import lowered_alone
from poet_planner.lowering.rewrites.frozen_parameters import with_frozen
from poet_planner.lowering.rewrites.row_major import with_rows_in_order, without_stored

_LAYERS = frozenset({"conv2d", "linear", "matmul"})
_CLIPS = frozenset({"relu", "clampc"})
_FOLLOWING = frozenset({"max_pool2d", "avg_pool2d", "add", *OF_ONE_VALUE})
_BEFORE_CLIPS = _LAYERS | {"add"}
_SCALE_BITS = 12  # so that the last bits of sums in f32, which hang on the machine, do not move a scale
_MOST_START = 2.0**30  # of a sum: the other half of 31 bits is for the products
_MOST_TAPS = 2**15  # of products below 2^15
_LEAST_SCALE = 2.0**-23
WEIGHT_ON_INT8 = "weight_int8"  # of a layer, as `added` to its id
Range = tuple[float, float]
Made = Callable[[Ref, Ref, str], TracedOperator]


def with_int8(traced: TracedGraph) -> TracedGraph:
    """The same graph with everything between `quantize` and `dequantize` for which it has a range."""
    return _Inserting(traced).graph() if traced.int8_ranges else traced


def folded(traced: TracedGraph) -> TracedGraph:
    """The same graph as `with_int8` takes it."""
    return with_folded_norms(with_frozen(with_rows_in_order(traced)))


def quantised(traced: TracedGraph) -> TracedGraph:
    """The same graph with norms folded, and what has a range quantised, of PyTorch's operators alone."""
    return with_int8(folded(traced))


def ranges_of(traced: TracedGraph, batches: Iterable[Mapping[str, Tensor]]) -> dict[str, Range]:
    """The ranges of all that is to be on int8, by id, as some batches have them; empty: no layer is frozen.

    ``batches`` hold the tensors of the graph's inputs, by id.

    Raises
    ------
    UserError
        If a number is not finite.
    """
    frozen = _Frozen(folded(traced))
    wanted = frozen.to_quantise()
    ranges = dict.fromkeys(wanted, (0.0, 0.0))  # which has a number of int8, as padding reads it
    for batch in batches if wanted else ():
        seen = frozen.values(batch)
        for id, (least, greatest) in ranges.items():
            low, high = (float(one) for one in torch.aminmax(seen[id]))
            if not -inf < low <= high < inf:
                raise UserError(f"{traced.name}: {id} is not finite for a sample that its range is taken from")
            ranges[id] = min(least, low), max(greatest, high)
    for pool, source in wanted.items():
        if source is not None:  # a maximum is one of the numbers: it keeps their scale
            ranges[pool] = ranges[source]
    return {without_stored(id): ends for id, ends in ranges.items()}


class _Frozen:
    """The operators of a graph that hang on the batch and on constants alone; ``known`` are what they read and make."""

    def __init__(self, traced: TracedGraph) -> None:
        self._traced = traced
        self._readers = Counter(ref.source for operator in traced.operators for ref in operator.refs)
        self._readers.update([traced.loss.source, *(ref.source for ref in traced.gradients.values())])
        self.known = {one.id for one in traced.residents if one.kind in (Kind.INPUT, Kind.HISTORY, Kind.CONSTANT)}
        self.operators: dict[str, tuple[TracedOperator, Lowered | None]] = {}
        for operator in traced.operators:
            if self._is_frozen(operator):
                self.operators[operator.id] = operator, lowered_alone(operator, traced.values)
                self.known.update(operator.values)
        clips = (one for one, lowered in self.operators.values() if lowered and lowered.kind in _CLIPS)
        self._clips = {clip.refs[0].source: clip.values[0] for clip in clips}

    def _is_frozen(self, operator: TracedOperator) -> bool:
        if operator.backward or operator.random or operator.updates or operator.writes:
            return False
        return all(ref.source in self.known for ref in operator.refs)

    def clipped(self, lowered: Lowered, id: str) -> str | None:
        """The ReLU that alone reads a sum: it is what the sum is clamped to."""
        return self._clips.get(id) if lowered.kind in _BEFORE_CLIPS and self._readers[id] == 1 else None

    def to_quantise(self) -> dict[str, str | None]:
        """Ids of values; beside that of a max pool the value whose numbers it keeps."""
        wanted: dict[str, str | None] = {}
        unclipped: set[str] = set()
        for operator, lowered in self.operators.values():
            if lowered is None:
                continue
            sources, id = [ref.source for ref in lowered.operands], operator.values[0]
            if weights_of(lowered, self._traced) is not None:
                wanted.setdefault(sources[0], None)
            elif aten_name(operator) == SHIFTED and sources[0] in wanted:
                wanted[id] = None
            elif lowered.kind not in _FOLLOWING or not wanted.keys() | unclipped >= set(sources):
                continue
            if self.clipped(lowered, id):
                unclipped.add(id)
            else:
                wanted[id] = sources[0] if lowered.op == "max_pool2d" else None
        return wanted

    def values(self, batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What its operators make of a batch, and the batch."""
        operators = tuple(operator for operator, _ in self.operators.values())
        execution = Execution(replace(self._traced, operators=operators, residents=()), batch)
        for operator in operators:
            execution.step(Step(Action.COMPUTE, operator.id))
        return {**batch, **execution.values}


def weights_of(lowered: Lowered, traced: TracedGraph) -> Ref | None:
    """The constant weights of a convolution or a linear layer that has a form on int8."""
    if lowered.op not in _LAYERS or (lowered.op == "matmul" and lowered.params["b"] != 1):
        return None
    weight = lowered.operands[1]
    data = traced.constants.get(weight.source)
    if data is None or data.dtype != torch.float32 or not lies_by_outputs(weight, data):
        return None
    return weight if data[0].numel() < _MOST_TAPS else None


class _Inserting:
    """``_on_int8`` are the values that operators on int8 make; others that have a range exist in f32, too."""

    def __init__(self, traced: TracedGraph) -> None:
        import torch.ao.quantization.fx._decomposed  # noqa: F401  registers quantized_decomposed

        self._traced = traced
        self._frozen = _Frozen(traced)
        given = traced.int8_ranges
        wanted = self._frozen.to_quantise()
        self._ranges = {id: given[without_stored(id)] for id in wanted if without_stored(id) in given}
        self._layers: dict[str, Lowered] = {}
        self._on_int8: set[str] = set()
        for operator, lowered in self._frozen.operators.values():
            if lowered is not None and self._is_on_int8(operator, lowered):
                self._on_int8.update(operator.values)
                if lowered.op in _LAYERS:
                    self._layers[operator.id] = lowered
            elif aten_name(operator) == SHIFTED and operator.values[0] in self._ranges:
                self._on_int8.update(operator.values)
        self._residents: list[TracedResident] = []
        self._bytes: set[str] = set()  # histories of a stream
        self._values = dict(traced.values)
        self._constants: dict[str, Tensor] = {}

    def _is_on_int8(self, operator: TracedOperator, lowered: Lowered) -> bool:
        id = operator.values[0]
        if id not in self._ranges and self._frozen.clipped(lowered, id) not in self._ranges:
            return False
        if lowered.op in _LAYERS:
            return lowered.operands[0].source in self._ranges and weights_of(lowered, self._traced) is not None
        return lowered.kind in _FOLLOWING and all(
            ref.source in self._ranges or ref.source in self._on_int8 for ref in lowered.operands
        )

    def graph(self) -> TracedGraph:
        inputs = (one for one in self._traced.residents if one.id in self._ranges)
        operators = [made for one in inputs for made in self._pair(one.id, one.shape, "")]
        for operator in self._traced.operators:
            if aten_name(operator) == SHIFTED and operator.values[0] in self._ranges:
                operators += self._remembered(operator)
                continue
            operators += self._with_weights(operator)
            for id in operator.values:
                if id in self._ranges and operator.id in self._frozen.operators:
                    operators += self._pair(id, self._values[id].shape, operator.module)
        return replace(
            self._traced,
            loss=self._read_by_all(self._traced.loss),
            operators=tuple(operators),
            values=self._values,
            residents=(
                *(replace(one, dtype=torch.int8) if one.id in self._bytes else one for one in self._traced.residents),
                *self._residents,
            ),
            constants={**self._traced.constants, **self._constants},
            int8_ranges={},
        )

    def _pair(self, id: str, shape: tuple[int, ...], module: str) -> Iterator[TracedOperator]:
        """`quantize` and `dequantize` of a value."""
        quantize, dequantize = self._two_ways(id)
        on_int8 = self._made(added(id, "int8"), shape, torch.int8)
        yield quantize(_ref(id, shape, torch.float32), on_int8, module)
        yield dequantize(on_int8, self._made(_dequantized(id), shape, torch.float32), module)

    def _remembered(self, shift: TracedOperator) -> Iterator[TracedOperator]:
        """What a stream remembers of a value, in bytes: new columns alone are quantised."""
        id, (fresh, held, axis) = shift.values[0], shift.args
        quantize, dequantize = self._two_ways(id)
        new = self._made(added(id, "new_int8"), fresh.shape, torch.int8)
        yield quantize(self._read_by_all(fresh), new, shift.module)
        now = self._made(added(id, "int8"), held.shape, torch.int8)
        self._values[now.source] = replace(self._values[now.source], resident=held.source)
        self._bytes.add(held.source)
        yield replace(shift, args=(new, replace(held, dtype=torch.int8), axis), outputs=(now.source,))
        yield dequantize(now, self._made(_dequantized(id), held.shape, torch.float32), shift.module)

    def _two_ways(self, id: str) -> tuple[Made, Made]:
        """What makes int8 of a value, and f32 of that, as operators."""
        scale, zero = _scale_and_zero(*self._ranges[id])
        numbers, decomposed = (scale, zero, -128, 127, torch.int8), torch.ops.quantized_decomposed
        targets = decomposed.quantize_per_tensor.default, decomposed.dequantize_per_tensor.default
        quantize, dequantize = (
            lambda read, made, module, target=target: _operator(target, (read, *numbers), made, module)
            for target in targets
        )
        return quantize, dequantize

    def _with_weights(self, operator: TracedOperator) -> Iterator[TracedOperator]:
        """An operator that reads what has been dequantized, weights of a layer among it."""
        instead: dict[str, str] = {}
        if operator.id in self._layers:
            lowered = self._layers[operator.id]
            weight = lowered.operands[1].source
            bias = [self._traced.constants.get(ref.source) for ref in lowered.operands[2:]]
            scale, _ = _scale_and_zero(*self._ranges[lowered.operands[0].source])
            instead[weight] = added(operator.id, "weight_f32")
            data = self._traced.constants[weight]
            yield self._weights(operator, data, bias[0] if bias else None, scale)
        reads_int8 = not self._on_int8.isdisjoint(operator.values)

        def seen(ref: Ref) -> Ref:
            if reads_int8 and ref.source in self._ranges:
                return replace(ref, source=_dequantized(ref.source))
            return self._read_by_all(replace(ref, source=instead.get(ref.source, ref.source)))

        yield replace(operator, args=map_refs(operator.args, seen), kwargs=map_refs(operator.kwargs, seen))

    def _read_by_all(self, ref: Ref) -> Ref:
        on_int8 = ref.source in self._ranges and ref.source in self._on_int8
        return replace(ref, source=_dequantized(ref.source)) if on_int8 else ref

    def _weights(self, layer: TracedOperator, w: Tensor, bias: Tensor | None, x_scale: float) -> TracedOperator:
        """Weights as numbers of int8, and what makes f32 of them."""
        filters = w.reshape(len(w), -1).double()
        scale = filters.abs().amax(1) / 127
        if bias is not None:
            scale = torch.maximum(scale, bias.double().abs() / (x_scale * _MOST_START))
        scale = torch.where(scale > 0, scale, 1.0).float()
        numbers = torch.round(filters / scale[:, None].double()).clamp(-127, 127).to(torch.int8).reshape(w.shape)
        held = (
            self._constant(layer.id, WEIGHT_ON_INT8, numbers),
            self._constant(layer.id, "weight_scales", scale),
            self._constant(layer.id, "weight_zeros", torch.zeros(len(w), dtype=torch.int64)),
        )
        made = self._made(added(layer.id, "weight_f32"), tuple(w.shape), torch.float32)
        dequantize = torch.ops.quantized_decomposed.dequantize_per_channel.default
        return _operator(dequantize, (*held, 0, -128, 127, torch.int8), made, layer.module)

    def _constant(self, layer: str, what: str, data: Tensor) -> Ref:
        id, shape = added(layer, what), tuple(data.shape)
        self._constants[id] = data
        self._residents.append(TracedResident(id, Kind.CONSTANT, data.nbytes, shape, data.dtype))
        return _ref(id, shape, data.dtype)

    def _made(self, id: str, shape: tuple[int, ...], dtype: torch.dtype) -> Ref:
        ref = _ref(id, shape, dtype)
        self._values[id] = TracedValue(id, dtype.itemsize * prod(shape), shape, dtype, ref.stride)
        return ref


def _scale_and_zero(low: float, high: float) -> tuple[float, int]:
    """Of numbers from -128 to 127 that hold a range."""
    mantissa, exponent = frexp(max((high - low) / 255, _LEAST_SCALE))
    scale = ldexp(ceil(ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)
    return scale, max(-128, min(127, round(-128 - low / scale)))


def _dequantized(id: str) -> str:
    return added(id, "f32")


def _ref(id: str, shape: tuple[int, ...], dtype: torch.dtype) -> Ref:
    return Ref(id, (), shape, row_major(shape), dtype)


def _operator(target: Any, args: tuple[Any, ...], made: Ref, module: str) -> TracedOperator:
    return TracedOperator(made.source, target, args, {}, (made.source,), backward=False, module=module)
