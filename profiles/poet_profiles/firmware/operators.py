# SPDX-License-Identifier: Apache-2.0
"""The operators: names, codes, parameters, sizes and arithmetic (docs/SPEC.md, section 1).

Names, codes and parameters stand in the firmware's ``operators.def`` and ``takes_over.def``. Sizes, and what a shape is
computed by, the firmware's own operators say (`compiled_operators`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from poet_profiles.firmware import compiled_operators
from poet_profiles.firmware.compiled_operators import KEPT_INPUT, KEPT_OUTPUTS, Recorded, StatusError, blocks
from poet_profiles.firmware.steps import KINDS, POINTWISE, parsed, pointwise_params, steps_in, steps_of, text_of
from poet_profiles.shipped import FIRMWARE

Params = Mapping[str, int]

SUM_SO_FAR = 2  # place among the inputs of an accumulating operator
MATMUL, LOOK_UP = "matmul", "look_up"
ACCUMULATE = "_accumulate"  # ends the name of an operator that adds to a sum so far
ROWS = "_rows"  # of one that computes a band of what the one without it does
RELU = "_relu"  # of one that keeps what is positive
S8 = "_s8"  # of one on int8
INFER = "_infer"  # of one that yields nothing for a way back
STREAMED = "streamed_"  # begins that of one whose weights are on the card
# Of recurrent layers: gates, and operations beside the products for each number of each state.
RECURRENT = {
    **{"lstm": (4, 105), "lstm_backward": (4, 45), "gru": (3, 70), "gru_backward": (3, 25)},
    **{"rnn": (1, 20), "rnn_backward": (1, 5), "recurrent_weights": (1, 0)},
}
_BLOCKS = frozenset({"gather", "gather_backward", "reduce", "scan"})
# What ends a step: one of these a parameter.
OPTIMIZERS = frozenset({"sgd", "sgd_momentum", "sgd_general", "adam"})
# How an update of tensors on the card descends: as sgd_general or adam; all 0, as they are where left out: plainly.
DESCENT_PARAMS = ("momentum_nano", "decay_f32", "clip_f32", "nesterov", "adam", "eps_f32")
UPDATE = "_update"  # ends the name of an operator that writes next versions of tensors on the card
# Operations an element, of operators that are neither products nor poolings.
_PER_ELEMENT = {
    0: "embedding gather strided_copy shift shift_s8 fetch store commit map_s8 look_up",
    1: "sum_rows add_rows nll_loss nll_loss_backward fill advance embedding_backward gather_backward"
    " strided_copy_backward batch_norm_eval_backward_input count_steps quantize_s8 dequantize_s8 add_s8 reduce",
    2: "sgd mse_loss_backward",
    3: "mse_loss batch_norm_eval embedding_update",
    4: "softmax_backward sgd_momentum batch_norm_eval_backward_weight",
    5: "layer_norm_backward_weight group_norm_backward_weight",
    6: "binary_cross_entropy_backward",
    7: "batch_norm layer_norm",
    8: "group_norm levels_s8",
    10: "batch_norm_update",
    11: "batch_norm_backward",
    12: "layer_norm_backward_input group_norm_backward_input",
    20: "log_softmax log_softmax_backward softmax adam",
    30: "bernoulli",
    45: "binary_cross_entropy binary_cross_entropy_with_logits",
    200: "adam_factors",
}
_FLOPS_PER_ELEMENT = {name: count for count, names in _PER_ELEMENT.items() for name in names.split()}
_OPERATOR = re.compile(r"^POET_OPERATOR\((\d+), \w+, (\w+), ([\w, ]+)\)", re.MULTILINE)
_TAKES_OVER = re.compile(r"^POET_TAKES_OVER\((\w+), (\d+)u\)", re.MULTILINE)


@dataclass(frozen=True)
class Sizes:
    """Unpadded operand sizes of one configuration, in bytes, and its arithmetic.

    ``flops`` counts a multiply-accumulate as two operations; ``workspace`` is the firmware's scratch memory in bytes.
    Tensors on the card are the input ``kept_input``, if there is one, its states ``kept_also``, and all outputs if
    ``kept_outputs``; if ``kept_rows`` is not 0, they are read and written row by row, of so many.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flops: int
    workspace: int = 0
    kept_input: int | None = None
    kept_also: tuple[int, ...] = ()
    kept_outputs: bool = False
    kept_rows: int = 0
    takes_over: tuple[int, ...] = ()

    @property
    def ram(self) -> tuple[int, ...]:
        """Operands that are not on the card, and the workspace, in bytes."""
        inputs = (size for place, size in enumerate(self.inputs) if place not in (self.kept_input, *self.kept_also))
        return (*inputs, *(() if self.kept_outputs else self.outputs), self.workspace)


@dataclass(frozen=True)
class Operator:
    """One entry of the vocabulary.

    The first output may take over the place of one of the inputs ``takes_over``.
    """

    code: int
    name: str
    params: tuple[str, ...]
    takes_over: tuple[int, ...] = ()

    def values(self, params: Params) -> tuple[int, ...]:
        """Parameters in the firmware's order, the words of steps last."""
        words = range(params["words"] if self.name == POINTWISE else 0)
        descent = dict.fromkeys(DESCENT_PARAMS, 0) if self.descends else {}
        return tuple({**descent, **params}[name] for name in (*self.params, *(f"word{place}" for place in words)))

    @property
    def descends(self) -> bool:
        """Whether it updates tensors on the card as its last parameters say."""
        return self.params[-len(DESCENT_PARAMS) :] == DESCENT_PARAMS

    @property
    def shape(self) -> tuple[str, ...]:
        """Parameters but those: a plain update's key has no more."""
        return self.params[: -len(DESCENT_PARAMS)] if self.descends else self.params

    def sizes(self, params: Params) -> Sizes:
        """Sizes of a configuration.

        Raises
        ------
        KeyError, ValueError
            If a parameter is missing, or they make no sense.
        UserError
            If the firmware's operators cannot be compiled here.
        """
        return _sizes(self.name, self.values(params))


def _vocabulary() -> dict[str, Operator]:
    folder = FIRMWARE / "include" / "poet"
    bits = {name.lower(): int(bits) for name, bits in _TAKES_OVER.findall((folder / "takes_over.def").read_text())}
    return {
        name: Operator(
            int(code),
            name,
            tuple(params.split(", ")),
            tuple(place for place in range(8) if bits.get(name, 0) >> place & 1),
        )
        for code, name, params in _OPERATOR.findall((folder / "operators.def").read_text())
    }


OPERATORS = _vocabulary()


@cache
def _sizes(op: str, values: tuple[int, ...]) -> Sizes:
    found = compiled_operators.sizes(OPERATORS[op].code, values)
    outputs = tuple(found.output_bytes[: found.outputs])
    return Sizes(
        inputs=tuple(found.input_bytes[: found.inputs]),
        outputs=outputs,
        flops=_flops(op, values, outputs),
        workspace=found.workspace_bytes,
        kept_input=found.kept_input if found.kept & KEPT_INPUT else None,
        kept_also=tuple(place for place in range(found.inputs) if found.kept_also >> place & 1),
        kept_outputs=bool(found.kept & KEPT_OUTPUTS),
        kept_rows=found.kept_rows,
        takes_over=tuple(place for place in range(found.inputs) if found.takes_over >> place & 1),
    )


def _flops(op: str, values: tuple[int, ...], outputs: tuple[int, ...]) -> int:
    """Of products, with what is done to their results: an update takes two an element, or six unless it is plain."""
    if op == POINTWISE:
        return values[0] * sum(KINDS[step.name].flops for step in steps_of(values[2:]))
    p = dict(zip(OPERATORS[op].params, values, strict=True))
    if op in OF_BANDS:
        op, p = of_band(op, p)
        outputs = outputs[:1] if "weight" in op else OPERATORS[op].sizes(p).outputs
    base = op.removeprefix(STREAMED)
    if base in RECURRENT:
        gates, beside = RECURRENT[base]
        return p["s"] * p["n"] * p["h"] * (2 * p.get("gates", gates) * p["h"] + beside)
    if base == "scan":
        return (40 if p["kind"] == 1 else 1) * _elements(base, p)
    if base in _FLOPS_PER_ELEMENT:
        return _FLOPS_PER_ELEMENT[base] * _elements(base, p)
    if base == "sgd_general":
        return (6 + 2 * bool(p["momentum_nano"]) + 2 * p["nesterov"]) * p["size"]
    if "pool2d" in base:
        y, taps = p["n"] * p["c"] * math.prod(positions(p)), p["r"] * p["s"]
        return y + outputs[0] // 4 if base == "max_pool2d_backward" else y * taps
    elements = sum(outputs) // 4
    if base.endswith(UPDATE):
        elements *= 6 if any(p.get(name) for name in DESCENT_PARAMS) else 2
    elif not base.endswith((ACCUMULATE, RELU)):
        elements = 0
    return elements + 2 * _multiplications(p)


def _multiplications(p: Params) -> int:
    if "r" in p:
        return p["n"] * p["k"] * math.prod(positions(p)) * (p["c"] // p["g"]) * p["r"] * p["s"]
    return p.get("b", 1) * p["m"] * p["k"] * p["n"] if "k" in p else 0


def _elements(op: str, p: Params) -> int:
    """Of a tensor without a matrix's or a kernel's extent; of a loss by classes, its rows."""
    if op == "nll_loss":
        return p["m"]
    extents = ("d0", "d1", "d2", "d3") if "d0" in p else ("n", "c", "m", "d", "size", "outer", "length", "inner")
    return math.prod(p[name] for name in extents if name in p)


OF_BANDS = frozenset(name for name in OPERATORS if name.endswith(ROWS) and name not in ("sum_rows", "add_rows"))


def of_band(op: str, p: Params) -> tuple[str, dict[str, int]]:
    """The operator that computes a band as a tensor of its own, or each plane of it as a matrix."""
    whole = op.removesuffix(ROWS)
    own = {"n": 1, "g": 1, "ph": 0, "pw": 0, "bias": 0, "b": 1, "ta": 0, "tb": 0, "m": 1, **p}
    if whole == LOOK_UP:
        return whole, {"size": p["c"] * p["rows"] * p["w"]}
    if whole == "linear":
        whole += ACCUMULATE
    elif "size" in p:
        own |= {"b": p["c"], "n": p["size"], "k": p.get("k", 1)}
    elif "backward_input" in op:
        own["h"] = max(p["h"], p["r"])
    elif "rows" in p:
        own |= {"h": (p["rows"] - 1) * p["sh"] + p["r"], "k": p.get("filters", p["k"])}
    return whole, {name: own[name] for name in OPERATORS[whole].params}


def output_extent(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Length of one spatial axis after a convolution or a pooling window."""
    return (extent + 2 * padding - kernel) // stride + 1


def positions(p: Params) -> tuple[int, int]:
    """Rows and columns of what a convolution or a pooling yields."""
    return output_extent(p["h"], p["r"], p["sh"], p["ph"]), output_extent(p["w"], p["s"], p["sw"], p["pw"])


def is_convolution(p: Params) -> bool:
    """Whether an operator has the parameters of one."""
    return {"r", "g"} <= p.keys()


def way_of(p: Params) -> str:
    """Name the algorithm of a convolution, as `compiled_operators.way_of`.

    ``p`` are parameters of any operator; those of others, and of what makes no sense, are ``direct``.
    """
    if not is_convolution(p):
        return "direct"
    return compiled_operators.way_of(OPERATORS["conv2d"].values({"bias": 0, **p}))


def is_winograd(p: Params) -> bool:
    """Whether the firmware computes a convolution and its gradients by Winograd's algorithm."""
    return way_of(p) == "winograd"


def rows_together(op: str, p: Params) -> int:
    """Rows of weights that an operator computes together.

    Tiles of it, and their halves, have a multiple of so many. An input gradient sums over them, so that its tiles must;
    other tiles had better.
    """
    if not is_winograd(p):
        return 1
    return blocks().winograd_part if "backward_input" in op else blocks().winograd_filters


def products_of(op: str, p: Params, fpu: bool) -> tuple[Recorded, ...]:
    """Products of a convolution, a product, or a step of a recurrent layer, as `compiled_operators.recorded`.

    Other operators have none. A bias matters where a convolution's sums begin with it.
    """
    if op.endswith(S8) or not op.removeprefix(STREAMED).startswith(("conv2d", "linear", "matmul", *RECURRENT)):
        return ()
    p = {**p, "s": 1} if op in RECURRENT else p
    begins = "conv2d" in op and "backward" not in op and not op.endswith(UPDATE)
    unbiased = p if begins or "bias" not in p else {**p, "bias": 0}
    plain = {**unbiased, **dict.fromkeys(DESCENT_PARAMS, 0)}
    return compiled_operators.recorded(OPERATORS[op].code, OPERATORS[op].values(plain), fpu)


def kernels_of(op: str, p: Params) -> frozenset[str]:
    """Kernels that an operator enters on a core with a floating-point unit.

    Names are as POET_KERNELS takes them. Of operators that read tiles of weights from the card, which may come in
    halves: those for both.
    """
    own = set() if op.endswith(S8) else {way_of(p)} - {"direct"}
    kinds = products_of(op, p, fpu=True)
    if op.startswith(STREAMED) and "tile" in p and not op.endswith(UPDATE):
        with suppress(StatusError):  # half a tile is not whole blocks of the card
            kinds += products_of(op, {**p, "tile": p["tile"] // 2}, fpu=True)
    return frozenset(own.union(*(kind.kernels for kind in kinds)))


def descends(op: str) -> bool:
    """Whether parameters say how an operator descends."""
    return op in OPTIMIZERS or (op in OPERATORS and OPERATORS[op].descends)


def family_of(op: str) -> str | None:
    """The family in ``operators.def`` that an image without such operators leaves out."""
    if op in RECURRENT:
        return "RECURRENT"
    return "S8" if op.endswith(S8) else "BLOCKS" if op in _BLOCKS else None


def dtype_of(op: str) -> str:
    """Type of the numbers of an operator, as a profile has it; page operations count as f32."""
    return "s8" if op in OPERATORS and op.endswith(S8) else "f32"


def params_key(op: str, params: Params) -> str:
    """Canonical key of a configuration.

    Raises
    ------
    KeyError
        If the operator is not in the vocabulary or a parameter is missing.
    """
    if op == POINTWISE:
        return f"size={params['size']} steps={text_of(steps_in(params))}"
    operator = OPERATORS[op]
    is_plain = not any(params.get(name) for name in DESCENT_PARAMS)
    values = dict(zip(operator.params, operator.values(params), strict=False))
    return " ".join(f"{name}={values[name]}" for name in (operator.shape if is_plain else operator.params))


def names_in_key(op: str) -> tuple[str, ...]:
    """Names in an operator's key, in order."""
    return ("size", "steps") if op == POINTWISE else OPERATORS[op].params


def taken_over(op: str, key: str) -> tuple[int, ...]:
    """Inputs whose place the first output may take over."""
    return OPERATORS[op].sizes(parse_params(key)).takes_over if op == POINTWISE else OPERATORS[op].takes_over


def parse_params(key: str) -> dict[str, int]:
    """Inverse of :func:`params_key`.

    Raises
    ------
    ValueError
        If the key is not ``name=integer`` pairs joined by single spaces, the steps of a ``pointwise`` among them.
    """
    pairs = [pair.partition("=") for pair in key.split(" ")] if key else []
    if len(pairs) == 2 and pairs[1][0] == "steps":
        (_, _, size), (_, _, steps) = pairs
        return pointwise_params(int(size), parsed(steps))
    return {name: int(value) for name, _, value in pairs}
