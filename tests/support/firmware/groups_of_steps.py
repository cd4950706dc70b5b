# SPDX-License-Identifier: Apache-2.0
"""Groups of elementwise steps drawn at random.

PyTorch says in double precision what they make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from poet_profiles.firmware.steps import KINDS, SPREAD, SUM, Step, pointwise_params, steps_in
from torch import Tensor
from torch.nn import functional

LOWEST, HIGHEST = 0.25, 0.75  # numbers of steps


def _gradient(function: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    def backward(gradient: Tensor, x: Tensor, *_: float) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, gradient)[0]

    return backward


EXACT: dict[str, Callable[..., Tensor]] = {
    "copy": lambda x: x,
    "neg": torch.neg,
    "abs": torch.abs,
    "relu": torch.relu,
    "relu_backward": lambda gradient, y: torch.where(y <= 0, 0.0, gradient),
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "max": torch.maximum,
    "min": torch.minimum,
    "gt": lambda x, z: (x > z).double(),
    "ge": lambda x, z: (x >= z).double(),
    "eq": lambda x, z: (x == z).double(),
    "addc": torch.add,
    "mulc": torch.mul,
    "rsubc": torch.rsub,
    "divc": torch.div,
    "rdivc": lambda x, number: number / x,
    "gtc": lambda x, number: (x > number).double(),
    "gec": lambda x, number: (x >= number).double(),
    "eqc": lambda x, number: (x == number).double(),
    "maxc": lambda x, number: x.clamp(min=number),
    "minc": lambda x, number: x.clamp(max=number),
    "clampc": torch.clamp,
    "select": lambda mask, x, z: torch.where(mask != 0, x, z),
    "float": lambda x: x.float().view(torch.int32).double(),
    "sign": torch.sign,
    "sqrt": torch.sqrt,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "sin": torch.sin,
    "cos": torch.cos,
    "floor": torch.floor,
    "round": torch.round,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "normal": lambda x: torch.special.ndtr(x),
    "silu": functional.silu,
    "gelu": functional.gelu,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "softplus": functional.softplus,
    "elu": functional.elu,
    "leaky_relu": functional.leaky_relu,
    "leaky_relu_backward": lambda gradient, x, slope: torch.where(x > 0, gradient, gradient * slope),
    "hardtanh_backward": lambda gradient, x, low, high: torch.where((x > low) & (x < high), gradient, 0.0),
    "sigmoid_backward": lambda gradient, y: gradient * (1 - y) * y,
    "tanh_backward": lambda gradient, y: gradient * (1 - y * y),
    **{
        f"{function.__name__}_backward": _gradient(function)
        for function in (functional.silu, functional.gelu, functional.hardswish, functional.hardsigmoid)
    },
}


@st.composite
def single_steps(draw: DrawFn) -> dict[str, int]:
    """One step, of numbers that it is defined for.

    At times a spread input comes before it, and a sum after it.
    """
    kind = KINDS[draw(st.sampled_from(list(EXACT)))]
    inner, count = draw(st.integers(2, 9)), draw(st.integers(2, 9))
    size, y = inner * count * draw(st.integers(1, 2)), "r0" if kind.reads_y else "y0"
    operands = kind.operands + kind.reads_y
    sources = [f"x{place}" for place in range(operands)]
    steps = []
    if kind.name in ("sqrt", "log", "log1p"):
        steps, sources = [Step("abs", "r0", ("x0",))], ["r0"]
    if operands > 1 and draw(st.booleans()):
        steps, sources[-1] = [Step(SPREAD, "r1", (sources[-1],), (inner, count))], "r1"
    if kind.reads_y:
        steps.append(Step("gtc", "r0", (sources.pop(0),), (0.0,)))
    steps.append(Step(kind.name, y, tuple(sources), (LOWEST, HIGHEST)[: kind.numbers]))
    if kind.reads_y:
        steps.append(Step("copy", "y0", ("r0",)))
    if draw(st.booleans()):
        steps += [Step("abs", "r2", (y,)), Step(SUM, "y1", ("r2",), (float(draw(st.integers(1, size))),))]
    return pointwise_params(size, steps)


@st.composite
def groups_of_steps(draw: DrawFn) -> dict[str, int]:
    """Up to ten steps on up to six registers.

    At times an input is spread, and one of up to three outputs is a sum.
    """
    inner, count = draw(st.integers(2, 30)), draw(st.integers(2, 9))
    size, whole = inner * count * draw(st.integers(1, 2)), draw(st.integers(1, 3))
    have = [f"x{place}" for place in range(whole)]
    steps = [Step("add", "r0", (have[0], have[-1])), *(Step("max", "r0", ("r0", x)) for x in have[1:])]
    if draw(st.booleans()):
        steps += [Step(SPREAD, "r1", (f"x{whole}",), (inner, count)), Step("mul", "r0", ("r0", "r1"))]
    have.append("r0")
    for _ in range(draw(st.integers(0, 8))):
        kind = KINDS[draw(st.sampled_from(list(EXACT)))]
        y = draw(st.sampled_from(have[whole:] if kind.reads_y else [f"r{place}" for place in range(6)]))
        sources = tuple(draw(st.sampled_from(have)) for _ in range(kind.operands))
        steps.append(Step(kind.name, y, sources, (LOWEST, HIGHEST)[: kind.numbers]))
        have = list(dict.fromkeys((*have, y)))
    outputs = draw(st.integers(1, 2))
    steps += [Step("copy", f"y{place}", (draw(st.sampled_from(have)),)) for place in range(outputs)]
    if draw(st.booleans()):
        steps.append(Step(SUM, f"y{outputs}", (draw(st.sampled_from(have)),), (float(size),)))
    return pointwise_params(size, steps)


def computed(params: Mapping[str, int], inputs: Sequence[Tensor]) -> list[Tensor]:
    """Outputs, step after step over whole tensors, in double precision."""
    places = {f"x{place}": tensor.double() for place, tensor in enumerate(inputs)}
    for step in steps_in(params):
        sources = [places[name] for name in ((step.y,) if KINDS[step.name].reads_y else ()) + step.sources]
        if step.name == SPREAD:
            inner, count = map(int, step.numbers)
            places[step.y] = sources[0].repeat_interleave(inner).repeat(params["size"] // (inner * count))
        elif step.name == SUM:
            places[step.y] = (sources[0].sum() / step.numbers[0]).reshape(1)
        else:
            places[step.y] = EXACT[step.name](*sources, *step.numbers)
    return [places[name] for name in sorted(name for name in places if name[0] == "y")]
