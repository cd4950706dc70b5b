# SPDX-License-Identifier: Apache-2.0
"""Why the firmware lacks an operator, for whoever made the network: where, what, the cure."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from poet_profiles.firmware.operators import LOOK_UP, S8
from poet_profiles.firmware.steps import POINTWISE
from poet_profiles.graph import Refusal
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator, TracedValue
from torch import nn

from poet_planner.lowering.operators.cures import LINUX, cure
from poet_planner.lowering.operators.rules import MOST_WINDOW_PLACES, Lowered, aten_name, is_row_major, nano
from poet_planner.lowering.operators.steps import STEPS
from poet_planner.tracing.schema import bound_arguments

aten = torch.ops.aten
# Operands that are whole numbers, by the operator that reads them: labels, tokens, places in a window, a seed.
WHOLE_OPERANDS = {
    "nll_loss": 1,
    "nll_loss_backward": 1,
    "embedding": 1,
    "embedding_backward": 1,
    "max_pool2d_backward": 1,
    "gather": 1,
    "gather_backward": 1,
    "bernoulli": 0,
    LOOK_UP: 0,
}
NORMS = ("native_batch_norm", "native_layer_norm", "native_group_norm")
WORDS = (torch.float32, torch.int64, torch.int32, torch.bool)
MOVING = ("strided_copy", "strided_copy_backward")


def odd_type(
    operator: TracedOperator, lowered: Lowered | None, values: Mapping[str, TracedValue]
) -> torch.dtype | None:
    """A type that PyTorch computes with here, and the firmware does not, if there is one.

    ``lowered`` is the firmware's operator, if it has one for such shapes.
    """
    op = lowered.op if lowered else ""
    moves = aten_name(operator).startswith(("_to_copy", "clone"))
    if op.endswith(S8) or op == POINTWISE or (lowered is None and (moves or aten_name(operator) not in STEPS)):
        return None
    read, made = (lowered.operands, lowered.results) if lowered else (operator.refs, operator.values)
    operands = [ref.dtype for place, ref in enumerate(read) if WHOLE_OPERANDS.get(op) != place]
    results = [values[id].dtype for id in made if id in values]
    known = WORDS if op in MOVING else (torch.float32,)
    odd = [dtype for dtype in operands if dtype not in known]
    odd += [dtype for dtype in results if dtype.is_floating_point and dtype != torch.float32]
    return odd[0] if odd else None


def refusal(operator: TracedOperator, traced: TracedGraph, odd: torch.dtype | None) -> Refusal:
    """Where in the network it stands, what the firmware lacks, and what to do.

    ``odd`` is the type that is in the way, where nothing else is.
    """
    layer = traced.layers.get(operator.module, "")
    where = _where(operator, layer)
    kind = _kind(operator)
    if odd is None and _is_complex(operator) and "fft" not in kind:
        odd = torch.complex64
    if odd is None:
        if operator.updates and kind == "copy":
            return Refusal(where, "buffer that a step changes so", f"change it outside of the step, or {LINUX}")
        return Refusal(where, *(cure(kind, layer, operator.written.text) or _lacking(operator, layer, kind)))
    name = str(odd).removeprefix("torch.")
    if odd.is_complex:
        return Refusal(where, f"arithmetic in {name}", "compute real and imaginary parts as two tensors of float32")
    if odd.is_floating_point:
        return Refusal("the model", f"arithmetic in {name}", "make the model and its batch float32, with .float()")
    instead = "make its operands .float(); labels and tokens stay whole"
    return Refusal(where, f"arithmetic on whole numbers ({name})", instead)


def _is_complex(operator: TracedOperator) -> bool:
    views = (view.target for ref in operator.refs for view in ref.views)
    complex_numbers = any(ref.dtype.is_complex for ref in operator.refs) or operator.target is aten.complex.default
    return complex_numbers or aten.view_as_real.default in views


def _where(operator: TracedOperator, layer: str) -> str:
    """What the user wrote; of a layer of PyTorch's its name, for what is written only calls it."""
    written, inside = operator.written, f"{operator.module} ({layer}" if operator.module else ""
    if inside and (hasattr(nn, layer) or layer.startswith("_") or not written.text):
        return f"{inside}, {written.line})" if written.line else f"{inside})"
    if written.in_loss and not written.line:
        return f"the loss ({written.text})"
    if not written.text:
        return f"the loss, or {layer}'s own forward"
    inside = f"{inside}, " if inside else "the loss (" if written.in_loss else f"{layer} ("
    return f"`{written.text}` in {inside}{written.line})"


def _lacking(operator: TracedOperator, layer: str, kind: str) -> tuple[str, str]:
    """What the firmware lacks, and the cure."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    if any(0 in ref.shape for ref in operator.refs):
        return "tensor without elements", "leave it out"
    if kind == "clone" or any(len(ref.shape) > 4 and not is_row_major(ref.shape, ref.stride) for ref in operator.refs):
        return "permutation of so many axes", f"permute fewer axes at once, or {LINUX}"
    if kind == "convolution":
        return _convolution(given)
    if "pool" in kind:
        return _pooling(given)
    if "quantize" in kind:
        instead = "choose a quantizer with int8 and one scale a tensor of activations"
        return _quantising(str(operator.target), given), instead
    if operator.random:
        return f"random numbers as {kind} draws them", "draw them with the batch, as one more input of the model"
    if kind == "to_copy":
        return _conversion(given)
    if kind in NORMS:
        return _norm(kind, given)
    return f"operator for this ({kind})", f"write it with what docs/layers.md lists, or {LINUX}"


def _kind(operator: TracedOperator) -> str:
    """The name without what tells forward from backward: one layer is to be named once."""
    name = aten_name(operator).partition(".")[0]
    for ending in ("_backward_data", "_backward", "_forward"):
        name = name.removesuffix(ending)
    return name.strip("_")


def _convolution(given: Mapping[str, object]) -> tuple[str, str]:
    weight = given["weight"]
    if _is_dilated(given) and given["transposed"]:
        return "dilated transposed convolution", "use dilation=1 and a larger kernel"
    if _is_dilated(given):
        return "convolution with a stride and a dilation along one axis", "use stride=1, or dilation=1"
    if isinstance(weight, Ref | Blank) and len(weight.shape) > 4:
        return "convolution of volumes", "use Conv2d, with depth among the channels"
    return "convolution as here", LINUX


def _conversion(given: Mapping[str, object]) -> tuple[str, str]:
    to, read = given.get("dtype"), given["self"]
    if to in (torch.float64, torch.float16, torch.bfloat16):
        return f"conversion to {str(to).removeprefix('torch.')}", "leave it out: all is computed in float32"
    if to in (torch.int64, torch.int32) and isinstance(read, Ref | Blank) and read.dtype == torch.float32:
        return "whole numbers that are computed", "leave them float32: torch.trunc(x), F.one_hot(i, n).float()"
    made = str(read.dtype).removeprefix("torch.") if isinstance(read, Ref | Blank) else "numbers"
    return f"conversion of {made}", "convert the data beforehand"


def _norm(kind: str, given: Mapping[str, object]) -> tuple[str, str]:
    """A norm's numbers that billionths do not hold, or a second use of its statistics."""
    for name in ("eps", "momentum"):
        number = given.get(name)
        if isinstance(number, float) and nano(number) is None:
            return f"{name} of {number:g} in a norm", f"use {name}={max(round(number, 9), 1e-9):g}"
    if kind == "native_batch_norm":
        return "batch norm used twice in a step, or over statistics of samples", "use one of its own each time"
    return f"{kind} as here", LINUX


def _pooling(given: Mapping[str, object]) -> tuple[str, str]:
    if _is_dilated(given):
        return "dilated pooling", "use dilation=1"
    return f"pooling in windows of more than {MOST_WINDOW_PLACES} places", "pool twice, in smaller windows"


def _quantising(target: str, given: Mapping[str, object]) -> str:
    if "per_channel" in target:
        return "activations quantised per channel"
    if given["dtype"] != torch.int8:
        return f"activations quantised as {str(given['dtype']).removeprefix('torch.')}"
    return "activations quantised by scales that are computed"


def _is_dilated(given: Mapping[str, object]) -> bool:
    dilation = given.get("dilation")
    return isinstance(dilation, list | tuple) and any(step != 1 for step in dilation)
