# SPDX-License-Identifier: Apache-2.0
"""From an elementwise ATen operator to steps of the firmware's ``pointwise``, a line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import e, log, pi, prod, sqrt
from typing import Any

import torch
from poet_profiles.firmware.steps import COPY, FLOAT, KINDS, POINTWISE, SPREAD, WIDEN, Step
from poet_runtime.traced_graph import Ref, TracedOperator, TracedValue, View

from poet_planner.lowering.operators.groups import Group
from poet_planner.lowering.operators.rules import Lowered, aten_name, firmware_operator
from poet_planner.tracing.schema import bound_arguments

_WHOLE = (torch.int64, torch.int32)
_READ = (torch.float32, torch.bool, *_WHOLE)
LEAST_INVERTED = 2.0**-126
GELU_ROOT, GELU_CUBE = sqrt(2 / pi), 0.044715


class Steps:
    """Steps in the making.

    Called with a step's name, what it reads and its numbers, it gives its result's name. What is smaller than the
    result is spread. Whole numbers become f32, and so do flags that are none of ``values``: residents and constants
    hold them as such.
    """

    def __init__(self, shape: Sequence[int], values: Mapping[str, TracedValue]) -> None:
        self._shape, self._values = tuple(shape), values
        self.steps: list[Step] = []
        self.operands: list[Ref] = []
        self._read: list[tuple[Ref, str]] = []

    def __call__(self, name: str, *given: Any) -> str:
        kind = KINDS[name]
        count = kind.operands + kind.reads_y
        sources = tuple(self._place(one) for one in given[:count])
        return self._step(name, sources, tuple(float(number) for number in given[count:]))

    def _step(self, name: str, sources: tuple[str, ...], numbers: tuple[float, ...] = ()) -> str:
        self.steps.append(Step(name, f"s{len(self.steps)}", sources, numbers))
        return self.steps[-1].y

    def _place(self, one: Any) -> str:
        if not isinstance(one, Ref):
            return str(one)
        known = next((place for ref, place in self._read if ref == one), None)
        if known is None:
            known = self._operand(one)
            self._read.append((one, known))
        return known

    def _operand(self, ref: Ref) -> str:
        place, spread = f"x{len(self.operands)}", _spread(ref.shape, self._shape)
        whole = prod(ref.shape) == prod(self._shape)
        self.operands.append(ref if whole or spread else _expanded(ref, self._shape))
        if not whole and spread:
            place = self._step(SPREAD, (place,), spread)
        as_stored = ref.dtype in _WHOLE or (ref.dtype == torch.bool and ref.source not in self._values)
        return self._step(FLOAT, (place,)) if as_stored else place


def elementwise(operator: TracedOperator, known: Mapping[str, TracedValue]) -> Lowered | None:
    """The firmware's operator for an elementwise one.

    None where it has none for these arguments.
    """
    rule = STEPS.get(aten_name(operator))
    ids = [id for id in operator.outputs if id is not None]
    if rule is None or not ids or (rule != WIDEN and any(ref.dtype not in _READ for ref in operator.refs)):
        return None
    values = [known[id] for id in ids]
    if any(value.dtype not in (torch.float32, torch.bool) or value.shape != values[0].shape for value in values):
        return None
    steps = Steps(values[0].shape, known)
    given = [*bound_arguments(operator.target, operator.args, operator.kwargs).values()]
    made = steps(rule, *given) if isinstance(rule, str) else rule(steps, *given)
    results = (made,) if isinstance(made, str) else made
    if not results:
        return None
    pairs = zip(operator.outputs, results, strict=False)
    names = [name if name[0] == "s" else steps(COPY, name) for id, name in pairs if id is not None]
    group = Group(prod(values[0].shape), tuple(ref.source for ref in steps.operands), tuple(steps.steps), tuple(names))
    try:
        params = group.params()
    except OverflowError:  # a number beyond f32
        return None
    return None if params is None else Lowered(POINTWISE, params, tuple(steps.operands), tuple(ids))


def lowered_alone(operator: TracedOperator, known: Mapping[str, TracedValue]) -> Lowered | None:
    """The firmware's operator for one of ATen's, where no operand is spread."""
    whole = len({ref.shape for ref in operator.refs}) == 1
    return firmware_operator(operator) or (elementwise(operator, known) if whole else None)


def _spread(small: Sequence[int], large: Sequence[int]) -> tuple[int, int] | None:
    """How a small tensor is repeated: each element so often, and the whole of it, of so many.

    None where the axes that it has do not lie side by side.
    """
    padded = (1,) * (len(large) - len(small)) + tuple(small)
    own = [axis for axis, extent in enumerate(padded) if extent != 1]
    first, end = (own[0], own[-1] + 1) if own else (len(large), len(large))
    if tuple(padded[first:end]) != tuple(large[first:end]):
        return None
    return prod(large[end:]) if own else prod(large), prod(small)


def _expanded(ref: Ref, shape: Sequence[int]) -> Ref:
    layout = torch.empty_strided(ref.shape, ref.stride, device="meta").expand(tuple(shape))
    view = View(torch.ops.aten.expand.default, (list(shape),))
    return replace(ref, views=(*ref.views, view), shape=tuple(shape), stride=layout.stride())


Made = str | tuple[str, ...] | None
Rule = str | Callable[..., Made]


def _with_number(step: str, of_number: str, of_first: str) -> Rule:
    """By whether one operand is a number."""

    def rule(s: Steps, x: Any, z: Any, *_: Any) -> str:
        if not isinstance(x, Ref):
            return s(of_first, z, x)
        return s(step, x, z) if isinstance(z, Ref) else s(of_number, x, z)

    return rule


def _compared(step: str, turned: bool = False, negated: bool = False) -> Rule:
    """``x < z`` is ``z > x``, and with a number ``-x > -z``; what is not equal is 1 less what is."""

    def rule(s: Steps, x: Any, z: Any) -> str:
        if isinstance(z, Ref):
            found = s(step, *((z, x) if turned else (x, z)))
        else:
            found = s(f"{step}c", s("neg", x), -z) if turned else s(f"{step}c", x, z)
        return s("rsubc", found, 1) if negated else found

    return rule


def _add(s: Steps, x: Any, z: Any, alpha: float) -> Made:
    if not isinstance(x, Ref):
        return None
    if not isinstance(z, Ref):
        return s("addc", x, z * alpha)
    return s("add", x, z if alpha == 1 else s("mulc", z, alpha))


def _sub(s: Steps, x: Any, z: Any, alpha: float) -> Made:
    if not isinstance(x, Ref):
        return _rsub(s, z, x, alpha)
    if not isinstance(z, Ref):
        return s("addc", x, -z * alpha)
    return s("sub", x, z if alpha == 1 else s("mulc", z, alpha))


def _rsub(s: Steps, x: Any, z: Any, alpha: float) -> Made:
    scaled = x if alpha == 1 else s("mulc", x, alpha)
    return s("sub", z, scaled) if isinstance(z, Ref) else s("rsubc", scaled, z)


def _divided(s: Steps, x: Any, z: Any) -> Made:
    """A number divides by its inverse, which is one more rounding and far quicker, where f32 has that."""
    if not isinstance(x, Ref):
        return s("rdivc", z, x)
    if isinstance(z, Ref) or not LEAST_INVERTED < abs(z) < 1 / LEAST_INVERTED:
        return _quotient(s, x, z)
    return s("mulc", x, 1 / z)


def _pow(s: Steps, x: Any, exponent: float) -> Made:
    """Small whole numbers by products; others by logarithms, as which negative numbers have none."""
    if exponent < 0:
        return s("rdivc", _pow(s, x, -exponent), 1)
    if exponent in (0.5, 1.5):
        root = s("sqrt", x)
        return root if exponent == 0.5 else s("mul", x, root)
    if exponent != int(exponent):
        return s("exp", s("mulc", s("log", x), exponent))
    if exponent > 16:
        return None
    power = x if exponent else s("addc", s("mulc", x, 0), 1)
    for _ in range(int(exponent) - 1):
        power = s("mul", power, x)
    return power if exponent != 1 else s(COPY, x)


def _pow_of_number(s: Steps, base: float, x: Any) -> Made:
    return s("exp", s("mulc", x, log(base))) if base > 0 else None


def _clamp(s: Steps, x: Any, low: Any = None, high: Any = None) -> Made:
    if isinstance(low, Ref) or isinstance(high, Ref):
        x = x if low is None else s("max", x, low)
        return s(COPY, x) if high is None else s("min", x, high)
    if low is None or high is None:
        return s("minc", x, high) if low is None else s("maxc", x, low)
    return s("clampc", x, low, high)


def _where(s: Steps, mask: Any, x: Any, z: Any) -> Made:
    """A number that is chosen is one that a constant gives: the mask times nothing, and the number."""

    def chosen(one: Any) -> Any:
        return one if isinstance(one, Ref) else s("addc", s("mulc", mask, 0), one)

    return s("select", mask, chosen(x), chosen(z))


def _elu(s: Steps, x: Any, alpha: float, scale: float, input_scale: float) -> Made:
    if input_scale == 1:
        y = s("elu", x, alpha)
    else:
        y = s("select", s("gtc", x, 0), x, s("mulc", s("expm1", s("mulc", x, input_scale)), alpha))
    return y if scale == 1 else s("mulc", y, scale)


def _elu_backward(s: Steps, gy: Any, alpha: float, scale: float, input_scale: float, is_result: bool, x: Any) -> Made:
    slope = s("addc", x, alpha * scale) if is_result else s("mulc", s("exp", s("mulc", x, input_scale)), alpha * scale)
    below = s("mul", gy, s("mulc", slope, input_scale))
    return s("select", s("gtc", x, 0), s("mulc", gy, scale), below)


def _softplus(s: Steps, x: Any, beta: float, threshold: float) -> Made:
    if (beta, threshold) == (1, 20):
        return s("softplus", x)
    scaled = s("mulc", x, beta)
    return s("select", s("gtc", scaled, threshold), x, s("divc", s("log1p", s("exp", scaled)), beta))


def _softplus_backward(s: Steps, gy: Any, x: Any, beta: float, threshold: float) -> Made:
    scaled = s("mulc", x, beta)
    return s("select", s("gtc", scaled, threshold), gy, s("mul", gy, s("sigmoid", scaled)))


def _mish_backward(s: Steps, gy: Any, x: Any) -> Made:
    """``t + x (1 - t^2) sigmoid x``, with the hyperbolic tangent t of softplus."""
    t = s("tanh", s("softplus", x))
    rest = s("mul", s("mul", x, s("sigmoid", x)), s("rsubc", s("mul", t, t), 1))
    return s("mul", gy, s("add", t, rest))


def _gelu(s: Steps, x: Any, approximate: str) -> Made:
    if approximate == "none":
        return s("gelu", x)
    return s("mul", s("mulc", x, 0.5), s("addc", s("tanh", _gelu_inner(s, x)), 1))


def _gelu_inner(s: Steps, x: Any) -> str:
    cube = s("mul", s("mul", x, x), x)
    return s("mulc", s("add", x, s("mulc", cube, GELU_CUBE)), GELU_ROOT)


def _gelu_backward(s: Steps, gy: Any, x: Any, approximate: str) -> Made:
    """``(1 + t) / 2 + x (1 - t^2) u' / 2``, with the hyperbolic tangent t of the inner function u."""
    if approximate == "none":
        return s("gelu_backward", gy, x)
    t = s("tanh", _gelu_inner(s, x))
    slope = s("mulc", s("addc", s("mulc", s("mul", x, x), 3 * GELU_CUBE), 1), GELU_ROOT)
    rest = s("mul", s("mul", x, s("rsubc", s("mul", t, t), 1)), slope)
    return s("mul", gy, s("mulc", s("add", s("addc", t, 1), rest), 0.5))


def _prelu_backward(s: Steps, gy: Any, x: Any, weight: Any) -> Made:
    above = s("gtc", x, 0)
    nothing = s("mulc", above, 0)
    return s("select", above, gy, s("mul", weight, gy)), s("select", above, nothing, s("mul", x, gy))


def _threshold_backward(s: Steps, gy: Any, x: Any, threshold: float) -> Made:
    if threshold == 0:
        return s("relu_backward", gy, x)
    above = s("gtc", x, threshold)
    return s("select", above, gy, s("mulc", above, 0))


def _xlogy(s: Steps, x: Any, z: Any) -> Made:
    if not isinstance(z, Ref):
        return s("mulc", x, log(z)) if z > 0 else None
    none = s("eqc", x, 0)
    return s("select", none, s("mulc", none, 0), s("mul", x, s("log", z)))


def _quotient(s: Steps, x: Any, z: Any) -> str:
    return s("div", x, z) if isinstance(z, Ref) else s("divc", x, z)


def _divide_rounded(s: Steps, x: Any, z: Any, rounding_mode: str | None) -> Made:
    quotient = _quotient(s, x, z)
    return s("floor", quotient) if rounding_mode == "floor" else _trunc(s, quotient) if rounding_mode else quotient


def _trunc(s: Steps, x: Any) -> str:
    return s("mul", s("sign", x), s("floor", s("abs", x)))


def _remainder(s: Steps, x: Any, z: Any) -> Made:
    whole = s("floor", _quotient(s, x, z))
    return s("sub", x, s("mul", whole, z) if isinstance(z, Ref) else s("mulc", whole, z))


def _as_flags(s: Steps, x: Any) -> str:
    """Ones where a number is not zero."""
    return str(s._place(x)) if isinstance(x, Ref) and x.dtype == torch.bool else s("rsubc", s("eqc", x, 0), 1)


def _converted(s: Steps, x: Any, dtype: torch.dtype | None = None, *_: Any) -> Made:
    return _as_flags(s, x) if dtype == torch.bool else s(COPY, x)


def _addcmul(s: Steps, x: Any, first: Any, second: Any, value: float) -> Made:
    product = s("mul", first, second)
    return s("add", x, product if value == 1 else s("mulc", product, value))


def _addcdiv(s: Steps, x: Any, first: Any, second: Any, value: float) -> Made:
    return s("add", x, s("div", first if value == 1 else s("mulc", first, value), second))


def _lerp(s: Steps, x: Any, z: Any, weight: Any) -> Made:
    difference = s("sub", z, x)
    return s("add", x, s("mul", weight, difference) if isinstance(weight, Ref) else s("mulc", difference, weight))


def _only_flags(rule: Callable[..., Made]) -> Rule:
    """Whole numbers have other bits."""

    def of_flags(s: Steps, *given: Any) -> Made:
        return rule(s, *given) if all(isinstance(x, Ref) and x.dtype == torch.bool for x in given) else None

    return of_flags


# ATen has an overload for tensors and one for numbers; the rule tells them apart.
_BOTH: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "rsub": _rsub,
    "mul": _with_number("mul", "mulc", "mulc"),
    "div": _divided,
    "eq": _compared("eq"),
    "ne": _compared("eq", negated=True),
    "gt": _compared("gt"),
    "ge": _compared("ge"),
    "lt": _compared("gt", turned=True),
    "le": _compared("ge", turned=True),
    "remainder": _remainder,
    "lerp": _lerp,
    "xlogy": _xlogy,
    "clamp_min": lambda s, x, low: _clamp(s, x, low),
    "clamp_max": lambda s, x, high: _clamp(s, x, None, high),
    "masked_fill": lambda s, x, mask, number: _where(s, mask, number, x),
}
STEPS: dict[str, Rule] = {
    **{f"{name}.{overload}": rule for name, rule in _BOTH.items() for overload in ("Tensor", "Scalar")},
    **{
        f"{name}.default": name for name in ("neg", "abs", "sign", "sqrt", "exp", "expm1", "log", "log1p", "sin", "cos")
    },
    **{f"{name}.default": name for name in ("floor", "round", "relu", "sigmoid", "tanh", "silu", "hardswish")},
    **{f"{name}_backward.default": f"{name}_backward" for name in ("sigmoid", "tanh", "silu", "hardswish")},
    "poet.widen.default": WIDEN,
    "lerp.Scalar": _lerp,
    "xlogy.Scalar_Other": _xlogy,
    "clamp_min.default": lambda s, x, low: _clamp(s, x, low),
    "clamp_max.default": lambda s, x, high: _clamp(s, x, None, high),
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp,
    "maximum.default": "max",
    "minimum.default": "min",
    "div.Tensor_mode": _divide_rounded,
    "div.Scalar_mode": _divide_rounded,
    "pow.Tensor_Scalar": _pow,
    "pow.Scalar": _pow_of_number,
    "sgn.default": "sign",
    "ceil.default": lambda s, x: s("neg", s("floor", s("neg", x))),
    "trunc.default": _trunc,
    "rsqrt.default": lambda s, x: s("rdivc", s("sqrt", x), 1),
    "reciprocal.default": lambda s, x: s("rdivc", x, 1),
    "exp2.default": lambda s, x: s("exp", s("mulc", x, log(2))),
    "log2.default": lambda s, x: s("mulc", s("log", x), 1 / log(2)),
    "log10.default": lambda s, x: s("mulc", s("log", x), log(e) / log(10)),
    "tan.default": lambda s, x: s("div", s("sin", x), s("cos", x)),
    "erf.default": lambda s, x: s("addc", s("mulc", s("normal", s("mulc", x, sqrt(2))), 2), -1),
    "erfc.default": lambda s, x: s("mulc", s("normal", s("mulc", x, -sqrt(2))), 2),
    "where.self": _where,
    "where.ScalarSelf": _where,
    "where.ScalarOther": _where,
    "where.Scalar": _where,
    "bitwise_and.Tensor": _only_flags(lambda s, x, z: s("mul", x, z)),
    "bitwise_or.Tensor": _only_flags(lambda s, x, z: s("max", x, z)),
    "bitwise_xor.Tensor": _only_flags(lambda s, x, z: s("rsubc", s("eq", x, z), 1)),
    "bitwise_not.default": _only_flags(lambda s, x: s("rsubc", x, 1)),
    "logical_and.default": lambda s, x, z: s("mul", _as_flags(s, x), _as_flags(s, z)),
    "logical_or.default": lambda s, x, z: s("max", _as_flags(s, x), _as_flags(s, z)),
    "logical_xor.default": lambda s, x, z: s("rsubc", s("eq", _as_flags(s, x), _as_flags(s, z)), 1),
    "logical_not.default": lambda s, x: s("eqc", x, 0),
    "isnan.default": lambda s, x: s("rsubc", s("eq", x, x), 1),
    "isinf.default": lambda s, x: s("eqc", s("abs", x), float("inf")),
    "_to_copy.default": _converted,
    "clone.default": lambda s, x, _: s(COPY, x),
    "addcmul.default": _addcmul,
    "addcdiv.default": _addcdiv,
    "threshold.default": lambda s, x, threshold, number: _where(s, s("gtc", x, threshold), x, number),
    "threshold_backward.default": _threshold_backward,
    "gelu.default": _gelu,
    "gelu_backward.default": _gelu_backward,
    "hardtanh.default": _clamp,
    "hardtanh_backward.default": "hardtanh_backward",
    "hardsigmoid.default": "hardsigmoid",
    "hardsigmoid_backward.default": "hardsigmoid_backward",
    "leaky_relu.default": "leaky_relu",
    "leaky_relu_backward.default": lambda s, gy, x, slope, _: s("leaky_relu_backward", gy, x, slope),
    "elu.default": _elu,
    "elu_backward.default": _elu_backward,
    "softplus.default": _softplus,
    "softplus_backward.default": _softplus_backward,
    "mish.default": lambda s, x: s("mul", x, s("tanh", s("softplus", x))),
    "mish_backward.default": _mish_backward,
    "_prelu_kernel.default": lambda s, x, weight: s("select", s("gtc", x, 0), x, s("mul", weight, x)),
    "_prelu_kernel_backward.default": _prelu_backward,
}
