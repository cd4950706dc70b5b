"""From an ATen operator to one of the firmware's: name, parameters and operands.

A rule looks at one traced operator and answers with the firmware operator that computes the same, or with None where
the firmware has none for these arguments (a dilated convolution, a loss with class weights). Views cost nothing on the
board as long as they leave the elements where they are; a transposition goes into the flags of a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from poet_planner.tracing.ir import Blank, Ref, TracedOperator, TracedResident, TracedValue

MEAN = 1
NANO = 1_000_000_000


@dataclass(frozen=True)
class Lowered:
    """A firmware operator. ``results`` are the traced operator's values that it yields, in the firmware's order."""

    op: str
    params: dict[str, int]
    operands: tuple[Ref, ...]
    results: tuple[str, ...]


Rule = Callable[[TracedOperator], Lowered | None]

Tensors = Mapping[str, TracedValue | TracedResident]
"""Values and residents by id."""


def is_row_major(ref: Ref) -> bool:
    """Whether the operand's elements lie behind one another in the order of its shape."""
    return _same_layout(ref.shape, ref.stride)


def _same_layout(shape: Sequence[int], stride: Sequence[int]) -> bool:
    return _strides(shape, stride) == _strides(shape, _row_major(shape))


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _strides(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    """Strides of the axes that have one: an axis of one element never takes a step."""
    return [step for extent, step in zip(shape, stride, strict=True) if extent != 1]


def _plain(op: str, params: dict[str, int], operands: Sequence[Any], *results: str | None) -> Lowered | None:
    """The operator, provided that every operand lies row-major."""
    if not all(isinstance(operand, Ref) and is_row_major(operand) for operand in operands):
        return None
    return Lowered(op, params, tuple(operands), tuple(result for result in results if result is not None))


def _pair(value: Sequence[int]) -> tuple[int, int]:
    first, *rest = value
    return first, rest[0] if rest else first


def _convolution_params(
    x: Ref | Blank, w: Ref | Blank, bias: bool, stride: Any, padding: Any, dilation: Any, transposed: bool, groups: int
) -> dict[str, int] | None:
    if transposed or len(x.shape) != 4 or any(step != 1 for step in dilation):
        return None
    (n, c, height, width), (k, _, r, s) = x.shape, w.shape
    (sh, sw), (ph, pw) = _pair(stride), _pair(padding)
    return {
        **{"n": n, "c": c, "h": height, "w": width, "k": k, "r": r, "s": s},
        **{"sh": sh, "sw": sw, "ph": ph, "pw": pw, "g": groups, "bias": int(bias)},
    }


def _convolution(operator: TracedOperator) -> Lowered | None:
    x, w, b, stride, padding, dilation, transposed, _, groups = operator.args
    params = _convolution_params(x, w, b is not None, stride, padding, dilation, transposed, groups)
    if params is None:
        return None
    return _plain("conv2d", params, (x, w) if b is None else (x, w, b), operator.outputs[0])


def _convolution_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, w, _, stride, padding, dilation, transposed, _, groups, (wants_x, wants_w, wants_b) = operator.args
    params = _convolution_params(x, w, wants_b, stride, padding, dilation, transposed, groups)
    if params is None or wants_x == wants_w:
        return None
    if wants_x:
        return _plain("conv2d_backward_input", params, (gy, w), operator.outputs[0])
    return _plain("conv2d_backward_weight", params, (gy, x), *operator.outputs[1:])


def _matrix(operand: Any) -> bool | None:
    """Whether a stack of matrices is stored transposed; None where it is stored otherwise."""
    if not isinstance(operand, Ref) or len(operand.shape) < 2:
        return None
    if is_row_major(operand):
        return False
    *stack, rows, columns = operand.shape
    *outer, row, column = operand.stride
    return True if _same_layout((*stack, columns, rows), (*outer, column, row)) else None


def _matrix_product(operator: TracedOperator) -> Lowered | None:
    a, c = operator.args
    a_transposed, c_transposed = _matrix(a), _matrix(c)
    if a_transposed is None or c_transposed is None:
        return None
    *stack, m, k = a.shape
    params = {"b": prod(stack), "m": m, "k": k, "n": c.shape[-1], "ta": int(a_transposed), "tb": int(c_transposed)}
    return Lowered("matmul", params, (a, c), _first(operator))


def _linear(operator: TracedOperator) -> Lowered | None:
    """``addmm(bias, x, w.t())`` is a linear layer."""
    b, x, w = operator.args
    if operator.kwargs.get("beta", 1) != 1 or operator.kwargs.get("alpha", 1) != 1:
        return None
    if not _matrix(w) or _matrix(x) is not False or len(b.shape) != 1:
        return None
    (m, k), n = x.shape, w.shape[1]
    return Lowered("linear", {"m": m, "k": k, "n": n, "bias": 1}, (x, w, b), _first(operator))


def _first(operator: TracedOperator) -> tuple[str, ...]:
    return tuple(result for result in operator.outputs[:1] if result is not None)


def _sum(operator: TracedOperator) -> Lowered | None:
    x, axes, *_ = operator.args
    if [axis % len(x.shape) for axis in axes] != list(range(len(axes))) or len(axes) == len(x.shape):
        return None
    m = prod(x.shape[: len(axes)])
    return _plain("sum_rows", {"m": m, "n": prod(x.shape[len(axes) :])}, (x,), operator.outputs[0])


def _relu(operator: TracedOperator) -> Lowered | None:
    (x,) = operator.args
    return _plain("relu", {"size": prod(x.shape)}, (x,), operator.outputs[0])


def _relu_backward(operator: TracedOperator) -> Lowered | None:
    gy, y, threshold = operator.args
    if threshold != 0:
        return None
    return _plain("relu_backward", {"size": prod(y.shape)}, (gy, y), operator.outputs[0])


def _pool_params(x: Ref | Blank, kernel: Any, stride: Any, padding: Any) -> dict[str, int]:
    *stack, c, height, width = x.shape
    (r, s), (sh, sw), (ph, pw) = _pair(kernel), _pair(stride or kernel), _pair(padding)
    return {
        **{"n": prod(stack), "c": c, "h": height, "w": width},
        **{"r": r, "s": s, "sh": sh, "sw": sw, "ph": ph, "pw": pw},
    }


def _max_pool(operator: TracedOperator) -> Lowered | None:
    x, kernel, stride, padding, dilation, ceil = _defaults(operator.args, (None, None, [], [0, 0], [1, 1], False))
    if ceil or any(step != 1 for step in dilation) or len(operator.values) != 2:
        return None
    return _plain("max_pool2d", _pool_params(x, kernel, stride, padding), (x,), *operator.outputs)


def _max_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, kernel, stride, padding, dilation, ceil, indices = operator.args
    if ceil or any(step != 1 for step in dilation):
        return None
    params = _pool_params(x, kernel, stride, padding)
    return _plain("max_pool2d_backward", params, (gy, indices), operator.outputs[0])


def _avg_pool(operator: TracedOperator) -> Lowered | None:
    defaults: tuple[Any, ...] = (None, None, [], [0, 0], False, True, None)
    x, kernel, stride, padding, ceil, count_padding, divisor = _defaults(operator.args, defaults)
    if ceil or divisor is not None or not (count_padding or not any(padding)):
        return None
    return _plain("avg_pool2d", _pool_params(x, kernel, stride, padding), (x,), operator.outputs[0])


def _avg_pool_backward(operator: TracedOperator) -> Lowered | None:
    gy, x, kernel, stride, padding, ceil, count_padding, divisor = operator.args
    if ceil or divisor is not None or not (count_padding or not any(padding)):
        return None
    return _plain("avg_pool2d_backward", _pool_params(x, kernel, stride, padding), (gy,), operator.outputs[0])


def _defaults(given: Sequence[Any], defaults: Sequence[Any]) -> tuple[Any, ...]:
    return (*given, *defaults[len(given) :])


def _add(operator: TracedOperator) -> Lowered | None:
    a, b = operator.args
    if not isinstance(b, Ref) or a.shape != b.shape or operator.kwargs.get("alpha", 1) != 1:
        return None
    return _plain("add", {"size": prod(a.shape)}, (a, b), operator.outputs[0])


def _rows(shape: Sequence[int], axis: int) -> dict[str, int] | None:
    if axis % len(shape) != len(shape) - 1:
        return None
    return {"m": prod(shape[:-1]), "n": shape[-1]}


def _log_softmax(operator: TracedOperator) -> Lowered | None:
    x, axis, _ = operator.args
    params = _rows(x.shape, axis)
    return _plain("log_softmax", params, (x,), operator.outputs[0]) if params else None


def _log_softmax_backward(operator: TracedOperator) -> Lowered | None:
    gy, y, axis, _ = operator.args
    params = _rows(y.shape, axis)
    return _plain("log_softmax_backward", params, (gy, y), operator.outputs[0]) if params else None


def _nll_loss(operator: TracedOperator) -> Lowered | None:
    logp, target, weight, reduction, _ = operator.args
    if weight is not None or reduction != MEAN:
        return None
    return _plain("nll_loss", {"m": prod(target.shape), "n": logp.shape[-1]}, (logp, target), operator.outputs[0])


def _nll_loss_backward(operator: TracedOperator) -> Lowered | None:
    gloss, logp, target, weight, reduction, _, _ = operator.args
    if weight is not None or reduction != MEAN:
        return None
    params = {"m": prod(target.shape), "n": logp.shape[-1]}
    return _plain("nll_loss_backward", params, (gloss, target), operator.outputs[0])


def _filled(value: float) -> Rule:
    def rule(operator: TracedOperator) -> Lowered | None:
        (like,) = operator.args
        return _plain("fill", {"size": prod(like.shape), "value_nano": round(value * NANO)}, (), operator.outputs[0])

    return rule


RULES: dict[str, Rule] = {
    "convolution.default": _convolution,
    "convolution_backward.default": _convolution_backward,
    "addmm.default": _linear,
    "mm.default": _matrix_product,
    "bmm.default": _matrix_product,
    "sum.dim_IntList": _sum,
    "relu.default": _relu,
    "threshold_backward.default": _relu_backward,
    "max_pool2d_with_indices.default": _max_pool,
    "max_pool2d_with_indices_backward.default": _max_pool_backward,
    "avg_pool2d.default": _avg_pool,
    "avg_pool2d_backward.default": _avg_pool_backward,
    "add.Tensor": _add,
    "_log_softmax.default": _log_softmax,
    "_log_softmax_backward_data.default": _log_softmax_backward,
    "nll_loss_forward.default": _nll_loss,
    "nll_loss_backward.default": _nll_loss_backward,
    "ones_like.default": _filled(1.0),
}


def firmware_operator(operator: TracedOperator, tensors: Tensors) -> Lowered | None:
    """The firmware's operator for a traced one, or None where it has none.

    An operand that is a part of its tensor has no number on the firmware, and a result is stored row-major there.
    """
    rule = RULES.get(str(operator.target).removeprefix("aten."))
    lowered = rule(operator) if rule else None
    if lowered is None:
        return None
    whole = all(prod(operand.shape) == prod(tensors[operand.source].shape) for operand in lowered.operands)
    results = [tensors[id] for id in lowered.results]
    row_major = all(isinstance(result, TracedValue) and _same_layout(result.shape, result.stride) for result in results)
    return lowered if whole and row_major else None


def with_transposed_result(lowered: Lowered) -> Lowered | None:
    """The same product with its result stored transposed, for a gradient that PyTorch keeps as a transposed view."""
    if lowered.op != "matmul" or lowered.params["b"] != 1:
        return None
    a, c = lowered.operands
    p = lowered.params
    params = {**p, "m": p["n"], "n": p["m"], "ta": 1 - p["tb"], "tb": 1 - p["ta"]}
    return Lowered("matmul", params, (c, a), lowered.results)
