# SPDX-License-Identifier: Apache-2.0
"""Why the firmware does not have an operator, in words for whoever made the network: where, what, and the cure."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from poet_profiles.firmware.operators import S8
from poet_profiles.graph import Refusal
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator

from poet_planner.lowering.rules import MEAN, RULES, Lowered, aten_name
from poet_planner.tracing.schema import bound_arguments

LINUX = "train it on a Linux board"
LOSSES = "it has cross entropy, mean squared error and binary cross entropy, each as the mean, without weights"
WITH_WEIGHTS = ("nll_loss", "nll_loss2d", "mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
# Operands that are whole numbers, by the operator that reads them: labels, tokens, places in a window, a seed.
WHOLE_OPERANDS = {
    "nll_loss": 1,
    "nll_loss_backward": 1,
    "embedding": 1,
    "embedding_backward": 1,
    "max_pool2d_backward": 1,
    "bernoulli": 0,
}
WORDS = (torch.float32, torch.int64, torch.int32)
MOVING = ("strided_copy", "strided_copy_backward")


def odd_type(operator: TracedOperator, lowered: Lowered, traced: TracedGraph) -> torch.dtype | None:
    """A type that PyTorch computes with here and the firmware does not; None where all is single precision."""
    if lowered.op.endswith(S8):
        return None
    operands = [ref.dtype for place, ref in enumerate(lowered.operands) if WHOLE_OPERANDS.get(lowered.op) != place]
    results = [traced.values[id].dtype for id in lowered.results if id in traced.values]
    known = WORDS if lowered.op in MOVING else (torch.float32,)
    odd = [dtype for dtype in operands if dtype not in known]
    odd += [dtype for dtype in results if dtype.is_floating_point and dtype != torch.float32]
    return odd[0] if odd else None


def refusal(operator: TracedOperator, traced: TracedGraph, odd: torch.dtype | None) -> Refusal:
    """Where in the network it stands, what the firmware lacks, and what to do.

    ``odd`` is the type that is in the way, where nothing else is.
    """
    layer = traced.layers.get(operator.module, "")
    where = f"{operator.module} ({layer})" if operator.module else f"the loss, or {layer}'s own forward"
    if odd is None:
        return Refusal(where, *_lacking(operator, layer))
    name = str(odd).removeprefix("torch.")
    if odd.is_floating_point or odd.is_complex:
        return Refusal("the model", f"arithmetic in {name}", "make the model and its batch float32, with .float()")
    cure = "make its operands .float(); labels and tokens stay whole"
    return Refusal(where, f"arithmetic on whole numbers ({name})", cure)


def _lacking(operator: TracedOperator, layer: str) -> tuple[str, str]:
    """What the firmware lacks, and the cure."""
    given = bound_arguments(operator.target, operator.args, operator.kwargs)
    kind = _kind(operator)
    if layer == "LSTM" or "rnn" in kind:
        return (
            "recurrent layer as here (proj_size, autocast)",
            f"{LINUX}, or let a Linear project what the layer yields",
        )
    if kind == "convolution":
        return _convolution(given)
    if "pool" in kind:
        return _pooling(kind, given)
    if kind in WITH_WEIGHTS:
        return _loss(given), LOSSES
    if "quantize" in kind:
        cure = "choose a quantizer with int8 and one scale a tensor of activations"
        return _quantising(str(operator.target), given), cure
    if operator.random:
        return f"random numbers as {kind} draws them", f"{LINUX}, or use Dropout"
    if kind == "to_copy":
        return "conversion between types of numbers", "convert the data beforehand"
    if "norm" in kind:
        reasons = "a batch norm used twice, no weight and bias, eps or momentum that billionths do not hold"
        return f"{kind} as here ({reasons})", LINUX
    known = any(kind == rule.partition(".")[0].strip("_") for rule in RULES)
    cure = f"{LINUX}, or use what docs/planning.md lists" if operator.module else LOSSES
    return f"{kind} as here" if known else kind, cure


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
        return "convolution of volumes", f"{LINUX}, or use Conv2d"
    return "convolution as here", LINUX


def _pooling(kind: str, given: Mapping[str, object]) -> tuple[str, str]:
    if given.get("ceil_mode"):
        return "pooling with ceil_mode", "use ceil_mode=False"
    if _is_dilated(given):
        return "dilated pooling", "use dilation=1"
    if given.get("divisor_override") is not None or given.get("count_include_pad") is False:
        return "average that leaves the padding out", "use count_include_pad=True and no divisor_override"
    return f"{kind} as here", f"{LINUX}, or pool planes, in windows of at most 256 places that lie side by side"


def _quantising(target: str, given: Mapping[str, object]) -> str:
    if "per_channel" in target:
        return "activations quantised per channel"
    if given["dtype"] != torch.int8:
        return f"activations quantised as {str(given['dtype']).removeprefix('torch.')}"
    return "activations quantised by scales that are computed"


def _is_dilated(given: Mapping[str, object]) -> bool:
    dilation = given.get("dilation")
    return isinstance(dilation, list | tuple) and any(step != 1 for step in dilation)


def _loss(given: Mapping[str, object]) -> str:
    if given.get("weight") is not None or given.get("pos_weight") is not None:
        return "class weights"
    if given.get("reduction", MEAN) != MEAN:
        return "loss that is no mean"
    return "loss that leaves rows out (ignore_index), or of operands that differ in shape"
