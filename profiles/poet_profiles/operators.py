# SPDX-License-Identifier: Apache-2.0
"""The operator vocabulary: names, codes, parameters and sizes (docs/SPEC.md, section 1).

Mirrors ``firmware/include/poet/operators.def`` and ``takes_over.def``; tests compare them, and the sizes with the
firmware's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

Params = Mapping[str, int]

CONV_PARAMS = "n c h w k r s sh sw ph pw g bias"
POOL_PARAMS = "n c h w r s sh sw ph pw"
BLOCK = 4  # the firmware computes 4 rows and 4 columns of results at a time
POSITIONS_AT_A_TIME = 32  # and as many positions, at least, of a weight gradient
WINOGRAD_PART = 8  # channels that Winograd's algorithm sums at a time, which decides bits
WINOGRAD_TILES = 8  # of 2 x 2 results each, at a time
WINOGRAD_WORKSPACE = 7168  # bytes, whatever the shape
DEPTHWISE_COLUMNS = 3  # of results that a depthwise convolution computes at a time
GENERATOR = 8  # bytes: its seed and the number of the step
ADAM_FACTORS = 24  # bytes: what Adam's updates of a step have in common
SUM_SO_FAR = 2  # place among the inputs of an accumulating operator
UPDATE_BUFFER = 512  # bytes, beside its tile: a block of the card that an update has not filled yet
ACCUMULATE = "_accumulate"  # ends the name of an operator that adds to a sum so far
S8 = "_s8"  # of one on int8
INFER = "_infer"  # of one that yields nothing for a way back
# What ends a step: one of these a parameter.
OPTIMIZERS = frozenset({"sgd", "sgd_momentum", "sgd_general", "adam"})
DESCENT_PARAMS = "momentum_nano decay_f32 clip_f32 nesterov"  # of sgd_general, beside its size
UPDATE = "_update"  # ends the name of an operator that writes next versions of tensors on the card
GENERAL_UPDATE = "_general_update"  # and of one that descends as sgd_general does
S8_PIXELS = ((64, 16), (128, 8))  # up to so many filters, a convolution of int8 holds sums of so many pixels; else of 4
S8_ALONE_SUMS = 64  # and one of channels by themselves so many, at least a row's
STRIDED_PARAMS = "d0 d1 d2 d3 s0 s1 s2 s3 offset size"


@dataclass(frozen=True)
class Sizes:
    """Unpadded operand sizes of one configuration, in bytes, and its arithmetic.

    ``flops`` counts a multiply-accumulate as two operations; ``workspace`` is the firmware's scratch memory in bytes.
    Tensors on the card are the input ``kept_input``, if there is one, and all outputs if ``kept_outputs``; if
    ``kept_rows`` is not 0, they are read and written row by row, of so many.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    flops: int
    workspace: int = 0
    kept_input: int | None = None
    kept_outputs: bool = False
    kept_rows: int = 0

    @property
    def ram(self) -> tuple[int, ...]:
        """Operands that are not on the card, and the workspace, in bytes."""
        inputs = (size for place, size in enumerate(self.inputs) if place != self.kept_input)
        return (*inputs, *(() if self.kept_outputs else self.outputs), self.workspace)


@dataclass(frozen=True)
class Operator:
    """One entry of the vocabulary. The first output may take over the place of one of the inputs ``takes_over``."""

    code: int
    name: str
    params: tuple[str, ...]
    sizes: Callable[[Params], Sizes]
    takes_over: tuple[int, ...] = ()


def output_extent(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Length of one spatial axis after a convolution or a pooling window."""
    return (extent + 2 * padding - kernel) // stride + 1


def _planes(p: Params) -> tuple[int, int]:
    height = output_extent(p["h"], p["r"], p["sh"], p["ph"])
    width = output_extent(p["w"], p["s"], p["sw"], p["pw"])
    return height, width


def _conv(p: Params) -> tuple[int, int, int, int, int]:
    """Bytes of x, w, b, y and the flops of one pass."""
    height, width = _planes(p)
    taps = p["c"] // p["g"] * p["r"] * p["s"]
    y = p["n"] * p["k"] * height * width
    return 4 * p["n"] * p["c"] * p["h"] * p["w"], 4 * p["k"] * taps, 4 * p["k"], 4 * y, 2 * y * taps


def _padded_rows(channels: int, rows: int, width: int) -> int:
    """Bytes of a convolution's workspace: the rows that one row of results reads, padding included."""
    return 4 * channels * rows * width


def laid_out(p: Params) -> Params:
    """As the firmware sees the planes: of a pointwise convolution without stride, all positions are one row."""
    if _is_pointwise(p) and p["sh"] == p["sw"] == 1:
        return {**p, "h": 1, "w": p["h"] * p["w"]}
    return p


def _is_pointwise(p: Params) -> bool:
    return (p["r"], p["s"], p["ph"], p["pw"]) == (1, 1, 0, 0)


def is_winograd(p: Params) -> bool:
    """Whether the firmware computes a convolution and its gradients by Winograd's algorithm, and not directly.

    ``p`` are parameters of any operator; only those of a convolution can be such.
    """
    if not {"r", "g"} <= p.keys() or (p["r"], p["s"], p["sh"], p["sw"], p["g"]) != (3, 3, 1, 1, 1):
        return False
    rows, columns = _planes(p)
    tiles = p["n"] * -(-rows // 2) * -(-columns // 2)
    planes_suit = all(extent == 4 or extent > 5 for extent in (rows, columns))
    return min(p["c"], p["k"]) >= WINOGRAD_PART and planes_suit and tiles >= WINOGRAD_TILES


def is_depthwise(p: Params) -> bool:
    """Whether the firmware reads the planes of a direct convolution where they lie, and lays no padded rows out.

    ``p`` are parameters of any operator; only those of a convolution can be such.
    """
    if not {"r", "g"} <= p.keys():
        return False
    alone = p["g"] == p["c"] == p["k"] and (p["r"], p["s"], p["ph"], p["pw"]) == (3, 3, 1, 1)
    even = p["h"] % 2 == p["w"] % 2 == 0
    strides = [(1, 1), (2, 2)] if even else [(1, 1)]
    return alone and (p["sh"], p["sw"]) in strides and _planes(p)[1] >= DEPTHWISE_COLUMNS


def is_small_planes(p: Params) -> bool:
    """Whether the firmware computes a convolution on planes of 2 x 2 image by image side by side, and pads none.

    ``p`` are parameters of any operator; only those of a convolution can be such.
    """
    if not {"r", "g"} <= p.keys():
        return False
    form = tuple(p[name] for name in ("h", "w", "r", "s", "sh", "sw", "ph", "pw", "g"))
    return form == (2, 2, 3, 3, 1, 1, 1, 1, 1) and min(p["n"], p["c"]) >= BLOCK


def rows_together(op: str, p: Params) -> int:
    """Rows of weights that an operator computes together: tiles of it, and their halves, have a multiple of so many.

    An input gradient sums over them, so that its tiles must; other tiles had better.
    """
    if not is_winograd(p):
        return 1
    return WINOGRAD_PART if "backward_input" in op else BLOCK


def _conv2d_workspace(p: Params) -> int:
    if is_winograd(p):
        return WINOGRAD_WORKSPACE
    if is_depthwise(p):
        return 0
    if is_small_planes(p):
        return 16 * p["k"]
    rows, columns = _planes(p)
    if _is_pointwise(p) and columns >= BLOCK:
        return 0
    channels = p["c"] // p["g"]
    at_a_time = rows if channels == 1 else 1
    return _padded_rows(channels, (at_a_time - 1) * p["sh"] + p["r"], (max(columns, BLOCK) - 1) * p["sw"] + p["s"])


def _conv2d_backward_input_workspace(p: Params) -> int:
    if is_winograd(p):
        return WINOGRAD_WORKSPACE
    if is_depthwise(p):
        return 0
    if is_small_planes(p):
        return 16 * p["c"]
    if _is_pointwise(p) and _planes(p)[1] >= BLOCK:
        return 0
    in_group = p["k"] // p["g"]
    channels = min(in_group, p.get("tile", in_group))
    strides = -(-p["h"] // p["sh"]) if in_group == 1 else 1
    rows = positions_met(strides * p["sh"], p["r"], p["sh"], p["ph"])
    return _padded_rows(channels, rows, positions_met(max(p["w"], BLOCK * p["sw"]), p["s"], p["sw"], p["pw"]))


def positions_met(extent: int, kernel: int, stride: int, padding: int) -> int:
    """Positions of a convolution whose windows meet so many elements of its input."""
    return (extent - 1 + padding) // stride + (kernel - 1 - padding) // stride + 1


def _conv2d_backward_weight_workspace(p: Params) -> int:
    if is_winograd(p):
        return WINOGRAD_WORKSPACE
    if is_depthwise(p):
        return 0
    if is_small_planes(p):
        return 36 * p["k"]
    if (p["ph"], p["pw"]) == (0, 0):
        return 0
    rows, columns = _planes(p)
    channels = p["c"] // p["g"]
    at_a_time = rows if channels == 1 else min(-(-POSITIONS_AT_A_TIME // columns), rows)
    return _padded_rows(channels, (at_a_time - 1) * p["sh"] + p["r"], (columns - 1) * p["sw"] + p["s"])


def _conv2d(p: Params) -> Sizes:
    x, w, b, y, flops = _conv(p)
    return Sizes((x, w, b) if p["bias"] else (x, w), (y,), flops, _conv2d_workspace(laid_out(p)))


def _conv2d_relu(p: Params) -> Sizes:
    sizes = _conv2d(p)
    return Sizes(sizes.inputs, sizes.outputs, sizes.flops + sizes.outputs[0] // 4, sizes.workspace)


def _conv2d_backward_input(p: Params) -> Sizes:
    x, w, _, y, flops = _conv(p)
    return Sizes((y, w), (x,), flops, _conv2d_backward_input_workspace(laid_out(p)))


def _conv2d_backward_weight(p: Params) -> Sizes:
    x, w, b, y, flops = _conv(p)
    return Sizes((y, x), (w, b) if p["bias"] else (w,), flops, _conv2d_backward_weight_workspace(p))


def _linear(p: Params) -> Sizes:
    m, k, n = p["m"], p["k"], p["n"]
    inputs = (4 * m * k, 4 * n * k, 4 * n) if p["bias"] else (4 * m * k, 4 * n * k)
    return Sizes(inputs, (4 * m * n,), 2 * m * k * n)


def _matmul(p: Params) -> Sizes:
    b, m, k, n = p["b"], p["m"], p["k"], p["n"]
    return Sizes((4 * b * m * k, 4 * b * k * n), (4 * b * m * n,), 2 * b * m * k * n)


def _pool(p: Params) -> tuple[int, int, int]:
    height, width = _planes(p)
    y = p["n"] * p["c"] * height * width
    return 4 * p["n"] * p["c"] * p["h"] * p["w"], y, y * p["r"] * p["s"]


def _max_pool2d(p: Params) -> Sizes:
    x, y, flops = _pool(p)
    return Sizes((x,), (4 * y, y), flops)


def _max_pool2d_infer(p: Params) -> Sizes:
    x, y, flops = _pool(p)
    return Sizes((x,), (4 * y,), flops)


def _max_pool2d_backward(p: Params) -> Sizes:
    x, y, _ = _pool(p)
    return Sizes((4 * y, y), (x,), y + x // 4)


def _avg_pool2d(p: Params) -> Sizes:
    x, y, flops = _pool(p)
    return Sizes((x,), (4 * y,), flops)


def _avg_pool2d_backward(p: Params) -> Sizes:
    x, y, flops = _pool(p)
    return Sizes((4 * y,), (x,), flops)


def _elementwise(inputs: int, flops_per_element: int = 1) -> Callable[[Params], Sizes]:
    return lambda p: Sizes((4 * p["size"],) * inputs, (4 * p["size"],), flops_per_element * p["size"])


def _loss(flops_per_element: int) -> Callable[[Params], Sizes]:
    return lambda p: Sizes((4 * p["size"],) * 2, (4,), flops_per_element * p["size"])


def _loss_backward(flops_per_element: int) -> Callable[[Params], Sizes]:
    return lambda p: Sizes((4, 4 * p["size"], 4 * p["size"]), (4 * p["size"],), flops_per_element * p["size"])


def _batch_norm(p: Params) -> Sizes:
    x, c = p["n"] * p["c"] * p["size"], 4 * p["c"]
    return Sizes((4 * x, c, c), (4 * x, c, c), 7 * x)


def _batch_norm_backward(p: Params) -> Sizes:
    x, c = p["n"] * p["c"] * p["size"], 4 * p["c"]
    return Sizes((4 * x, 4 * x, c, c, c), (4 * x, c, c), 11 * x)


def _batch_norm_eval(p: Params) -> Sizes:
    x, c = p["n"] * p["c"] * p["size"], 4 * p["c"]
    return Sizes((4 * x, c, c, c, c), (4 * x,), 3 * x)


def _batch_norm_eval_backward_input(p: Params) -> Sizes:
    x, c = p["n"] * p["c"] * p["size"], 4 * p["c"]
    return Sizes((4 * x, c, c), (4 * x,), x)


def _batch_norm_eval_backward_weight(p: Params) -> Sizes:
    x, c = p["n"] * p["c"] * p["size"], 4 * p["c"]
    return Sizes((4 * x, 4 * x, c, c), (c, c), 4 * x)


def _group_norm(p: Params) -> Sizes:
    x, c, groups = p["n"] * p["c"] * p["size"], 4 * p["c"], 4 * p["n"] * p["g"]
    return Sizes((4 * x, c, c), (4 * x, groups, groups), 8 * x)


def _group_norm_backward_input(p: Params) -> Sizes:
    x, c, groups = p["n"] * p["c"] * p["size"], 4 * p["c"], 4 * p["n"] * p["g"]
    return Sizes((4 * x, 4 * x, c, groups, groups), (4 * x,), 12 * x)


def _group_norm_backward_weight(p: Params) -> Sizes:
    x, c, groups = p["n"] * p["c"] * p["size"], 4 * p["c"], 4 * p["n"] * p["g"]
    return Sizes((4 * x, 4 * x, groups, groups), (c, c), 5 * x)


def _layer_norm(p: Params) -> Sizes:
    x, m, n = p["m"] * p["n"], 4 * p["m"], 4 * p["n"]
    return Sizes((4 * x, n, n), (4 * x, m, m), 7 * x)


def _layer_norm_backward_input(p: Params) -> Sizes:
    x, m, n = p["m"] * p["n"], 4 * p["m"], 4 * p["n"]
    return Sizes((4 * x, 4 * x, n, m, m), (4 * x,), 12 * x)


def _layer_norm_backward_weight(p: Params) -> Sizes:
    x, m, n = p["m"] * p["n"], 4 * p["m"], 4 * p["n"]
    return Sizes((4 * x, 4 * x, m, m), (n, n), 5 * x)


def _embedding(p: Params) -> Sizes:
    return Sizes((4 * p["v"] * p["d"], 4 * p["m"]), (4 * p["m"] * p["d"],), 0)


def _embedding_backward(p: Params) -> Sizes:
    return Sizes((4 * p["m"] * p["d"], 4 * p["m"]), (4 * p["v"] * p["d"],), p["m"] * p["d"])


def _strided_copy(p: Params) -> Sizes:
    return Sizes((4 * p["size"],), (4 * p["d0"] * p["d1"] * p["d2"] * p["d3"],), 0)


def _strided_copy_backward(p: Params) -> Sizes:
    count = p["d0"] * p["d1"] * p["d2"] * p["d3"]
    return Sizes((4 * count,), (4 * p["size"],), count)


def _rows(inputs: int, flops_per_element: int) -> Callable[[Params], Sizes]:
    def sizes(p: Params) -> Sizes:
        size = p["m"] * p["n"]
        return Sizes((4 * size,) * inputs, (4 * size,), flops_per_element * size)

    return sizes


def _sgd_update(p: Params) -> Sizes:
    size = 4 * p["size"]
    return Sizes((size, size), (size,), 2 * p["size"], UPDATE_BUFFER + 4 * p["tile"], kept_outputs=True)


def _sgd_general(p: Params) -> Sizes:
    size = 4 * p["size"]
    tensors = 2 if p["momentum_nano"] else 1
    flops = 6 + 2 * (tensors - 1) + 2 * p["nesterov"]
    return Sizes((size,) * (tensors + 1), (size,) * tensors, flops * p["size"])


def _adam(p: Params) -> Sizes:
    size = 4 * p["size"]
    return Sizes((ADAM_FACTORS, *(size,) * 4), (size,) * 3, 20 * p["size"])


def _general(plain: Sizes) -> Sizes:
    """The same, with the descent of sgd_general."""
    return replace(plain, flops=plain.flops + sum(plain.outputs))


def _conv2d_update(p: Params) -> Sizes:
    x, w, b, y, flops = _conv(p)
    tensors = (w, b) if p["bias"] else (w,)
    tile = w // p["k"] * p["tile"]
    workspace = UPDATE_BUFFER + tile + _conv2d_backward_weight_workspace(laid_out(p))
    return Sizes((y, x, *tensors), tensors, flops + sum(tensors) // 2, workspace, kept_outputs=True)


def _linear_update(p: Params) -> Sizes:
    m, k, n = p["m"], p["k"], p["n"]
    tensors = (4 * n * k, 4 * n) if p["bias"] else (4 * n * k,)
    workspace = UPDATE_BUFFER + 4 * p["tile"] * k
    flops = 2 * m * k * n + sum(tensors) // 2
    return Sizes((4 * m * n, 4 * m * k, *tensors), tensors, flops, workspace, kept_outputs=True)


def _streamed(whole: Sizes, weights: int, rows: int, tile: int) -> Sizes:
    """The same with the input ``weights``, which has so many rows, on the card, and a tile of it in the workspace."""
    workspace = whole.workspace + whole.inputs[weights] // rows * tile
    return replace(whole, workspace=workspace, kept_input=weights)


def _streamed_conv2d_update(p: Params) -> Sizes:
    return _streamed(_conv2d_update(p), 2, p["k"], p["tile"])


def _streamed_linear_update(p: Params) -> Sizes:
    return _streamed(_linear_update(p), 2, p["n"], p["tile"])


def _streamed_linear_backward_input(p: Params) -> Sizes:
    m, k, n = p["m"], p["k"], p["n"]
    return _streamed(Sizes((4 * m * n, 4 * n * k), (4 * m * k,), 2 * m * k * n), 1, n, p["tile"])


def _accumulating(added: Sizes) -> Sizes:
    """The same added to a sum so far, the third input; a bias stands after it."""
    inputs = (*added.inputs[:SUM_SO_FAR], *added.outputs, *added.inputs[SUM_SO_FAR:])
    return replace(added, inputs=inputs, flops=added.flops + added.outputs[0] // 4)


def _streamed_embedding_update(p: Params) -> Sizes:
    row, tokens, y = 4 * p["d"], 4 * p["m"], 4 * p["m"] * p["d"]
    w = p["v"] * row
    flops = 3 * p["m"] * p["d"]
    return Sizes((y, tokens, w), (w,), flops, 2 * row, kept_input=2, kept_outputs=True, kept_rows=p["v"])


def _column_s8(taps: int) -> int:
    """Bytes of all taps of two pixels."""
    return -(-taps // 4) * 16


def _conv2d_s8(p: Params) -> Sizes:
    rows, columns = _planes(p)
    plane, channels, filters = rows * columns, p["c"] // p["g"], p["k"] // p["g"]
    taps, width = channels * p["r"] * p["s"], p["w"] + 2 * p["pw"]
    y = p["n"] * p["k"] * plane
    if channels == 1 and (p["r"], p["s"]) == (3, 3) and p["sw"] <= 2:
        sums = max(columns, min(plane, S8_ALONE_SUMS))
        workspace = 4 * (sums + 2) + 3 * width + 4
    else:
        pixels = min(plane + plane % 2, next((pixels for most, pixels in S8_PIXELS if filters <= most), 4))
        laid_out = 0 if _is_pointwise(p) and p["sh"] == p["sw"] == 1 else channels * p["r"] * width
        workspace = _column_s8(taps) + 4 * (filters * pixels + 2) + laid_out
    x = p["n"] * p["c"] * p["h"] * p["w"]
    return Sizes((x, p["k"] * taps, 4 * p["k"], 4 * p["k"]), (y,), 2 * y * taps, workspace)


def _linear_s8(p: Params) -> Sizes:
    m, k, n = p["m"], p["k"], p["n"]
    return Sizes((m * k, n * k, 4 * n, 4 * n), (m * n,), 2 * m * k * n, _column_s8(k) + 8 * n + 8)


def _pool_s8(p: Params) -> Sizes:
    x, y, flops = _pool(p)
    return Sizes((x // 4,), (y,), flops)


_TABLE: tuple[tuple[int, str, str, Callable[[Params], Sizes]], ...] = (
    (1, "conv2d", CONV_PARAMS, _conv2d),
    (2, "conv2d_backward_input", CONV_PARAMS, _conv2d_backward_input),
    (3, "conv2d_backward_weight", CONV_PARAMS, _conv2d_backward_weight),
    (4, "linear", "m k n bias", _linear),
    (5, "matmul", "b m k n ta tb", _matmul),
    (6, "sum_rows", "m n", lambda p: Sizes((4 * p["m"] * p["n"],), (4 * p["n"],), p["m"] * p["n"])),
    (7, "relu", "size", _elementwise(1)),
    (8, "relu_backward", "size", _elementwise(2)),
    (9, "max_pool2d", POOL_PARAMS, _max_pool2d),
    (10, "max_pool2d_backward", POOL_PARAMS, _max_pool2d_backward),
    (11, "avg_pool2d", POOL_PARAMS, _avg_pool2d),
    (12, "avg_pool2d_backward", POOL_PARAMS, _avg_pool2d_backward),
    (13, "add", "size", _elementwise(2)),
    (14, "log_softmax", "m n", _rows(1, 20)),
    (15, "log_softmax_backward", "m n", _rows(2, 20)),
    (16, "nll_loss", "m n", lambda p: Sizes((4 * p["m"] * p["n"], 4 * p["m"]), (4,), p["m"])),
    (17, "nll_loss_backward", "m n", lambda p: Sizes((4, 4 * p["m"]), (4 * p["m"] * p["n"],), p["m"] * p["n"])),
    (18, "fill", "size value_nano", lambda p: Sizes((), (4 * p["size"],), p["size"])),
    (19, "sgd", "size", _elementwise(2, 2)),
    (20, "batch_norm", "n c size eps_nano", _batch_norm),
    (21, "batch_norm_backward", "n c size", _batch_norm_backward),
    (
        22,
        "batch_norm_update",
        "c count momentum_nano eps_nano",
        lambda p: Sizes((4 * p["c"],) * 4, (4 * p["c"],) * 2, 10 * p["c"]),
    ),
    (23, "layer_norm", "m n eps_nano", _layer_norm),
    (24, "layer_norm_backward_input", "m n", _layer_norm_backward_input),
    (25, "layer_norm_backward_weight", "m n", _layer_norm_backward_weight),
    (26, "gelu", "size", _elementwise(1, 30)),
    (27, "gelu_backward", "size", _elementwise(2, 50)),
    (28, "softmax", "m n", _rows(1, 20)),
    (29, "softmax_backward", "m n", _rows(2, 4)),
    (30, "embedding", "m v d", _embedding),
    (31, "embedding_backward", "m v d", _embedding_backward),
    (32, "mul", "size", _elementwise(2)),
    (33, "scale", "size factor_nano divisor", _elementwise(1)),
    (
        34,
        "add_rows",
        "m n",
        lambda p: Sizes((4 * p["m"] * p["n"], 4 * p["n"]), (4 * p["m"] * p["n"],), p["m"] * p["n"]),
    ),
    (35, "mse_loss", "size", _loss(3)),
    (36, "mse_loss_backward", "size", _loss_backward(2)),
    (
        37,
        "sgd_momentum",
        "size momentum_nano",
        lambda p: Sizes((4 * p["size"],) * 3, (4 * p["size"],) * 2, 4 * p["size"]),
    ),
    (38, "strided_copy", STRIDED_PARAMS, _strided_copy),
    (39, "strided_copy_backward", STRIDED_PARAMS, _strided_copy_backward),
    (40, "tanh", "size", _elementwise(1, 20)),
    (41, "tanh_backward", "size", _elementwise(2, 3)),
    (42, "hardtanh", "size low_f32 high_f32", _elementwise(1, 2)),
    (43, "hardtanh_backward", "size low_f32 high_f32", _elementwise(2, 2)),
    (44, "leaky_relu", "size slope_f32", _elementwise(1, 2)),
    (45, "leaky_relu_backward", "size slope_f32", _elementwise(2, 2)),
    (46, "sigmoid", "size", _elementwise(1, 20)),
    (47, "sigmoid_backward", "size", _elementwise(2, 3)),
    (48, "silu", "size", _elementwise(1, 20)),
    (49, "silu_backward", "size", _elementwise(2, 25)),
    (50, "hardswish", "size", _elementwise(1, 5)),
    (51, "hardswish_backward", "size", _elementwise(2, 5)),
    (52, "hardsigmoid", "size", _elementwise(1, 4)),
    (53, "hardsigmoid_backward", "size", _elementwise(2, 3)),
    (54, "sub", "size", _elementwise(2)),
    (55, "binary_cross_entropy", "size", _loss(45)),
    (56, "binary_cross_entropy_backward", "size", _loss_backward(6)),
    (57, "binary_cross_entropy_with_logits", "size", _loss(45)),
    (58, "group_norm", "n c size g eps_nano", _group_norm),
    (59, "group_norm_backward_input", "n c size g", _group_norm_backward_input),
    (60, "group_norm_backward_weight", "n c size g", _group_norm_backward_weight),
    (61, "batch_norm_eval", "n c size eps_nano", _batch_norm_eval),
    (62, "batch_norm_eval_backward_input", "n c size eps_nano", _batch_norm_eval_backward_input),
    (63, "batch_norm_eval_backward_weight", "n c size eps_nano", _batch_norm_eval_backward_weight),
    (64, "scale_by", "size factor_f32", _elementwise(1)),
    (65, "bernoulli", "size keep_nano stream", lambda p: Sizes((GENERATOR,), (4 * p["size"],), 30 * p["size"])),
    (66, "advance", "steps", lambda p: Sizes((GENERATOR,), (GENERATOR,), 1)),
    (67, "fetch", "size", lambda p: Sizes((4 * p["size"],), (4 * p["size"],), 0, kept_input=0)),
    (68, "store", "size", lambda p: Sizes((4 * p["size"],), (4 * p["size"],), 0, kept_outputs=True)),
    (69, "commit", "steps", lambda _: Sizes((), (), 0)),
    (70, "sgd_update", "size tile", _sgd_update),
    (71, "conv2d_update", f"{CONV_PARAMS} tile", _conv2d_update),
    (72, "linear_update", "m k n bias tile", _linear_update),
    (73, "conv2d_relu", CONV_PARAMS, _conv2d_relu),
    (74, "streamed_conv2d", f"{CONV_PARAMS} tile", lambda p: _streamed(_conv2d(p), 1, p["k"], p["tile"])),
    (
        75,
        "streamed_conv2d_backward_input",
        f"{CONV_PARAMS} tile",
        lambda p: _streamed(_conv2d_backward_input(p), 1, p["k"], p["tile"]),
    ),
    (76, "streamed_conv2d_update", f"{CONV_PARAMS} tile", _streamed_conv2d_update),
    (77, "streamed_linear", "m k n bias tile", lambda p: _streamed(_linear(p), 1, p["n"], p["tile"])),
    (78, "streamed_linear_backward_input", "m k n tile", _streamed_linear_backward_input),
    (79, "streamed_linear_update", "m k n bias tile", _streamed_linear_update),
    (80, "streamed_embedding", "m v d", lambda p: replace(_embedding(p), kept_input=0, kept_rows=p["v"])),
    (81, "streamed_embedding_update", "m v d", _streamed_embedding_update),
    (82, "conv2d_accumulate", CONV_PARAMS, lambda p: _accumulating(_conv2d(p))),
    (83, "conv2d_backward_input_accumulate", CONV_PARAMS, lambda p: _accumulating(_conv2d_backward_input(p))),
    (84, "linear_accumulate", "m k n bias", lambda p: _accumulating(_linear(p))),
    (85, "matmul_accumulate", "b m k n ta tb", lambda p: _accumulating(_matmul(p))),
    (
        86,
        "streamed_conv2d_accumulate",
        f"{CONV_PARAMS} tile",
        lambda p: _accumulating(_streamed(_conv2d(p), 1, p["k"], p["tile"])),
    ),
    (
        87,
        "streamed_conv2d_backward_input_accumulate",
        f"{CONV_PARAMS} tile",
        lambda p: _accumulating(_streamed(_conv2d_backward_input(p), 1, p["k"], p["tile"])),
    ),
    (
        88,
        "streamed_linear_accumulate",
        "m k n bias tile",
        lambda p: _accumulating(_streamed(_linear(p), 1, p["n"], p["tile"])),
    ),
    (
        89,
        "streamed_linear_backward_input_accumulate",
        "m k n tile",
        lambda p: _accumulating(_streamed_linear_backward_input(p)),
    ),
    (90, "sgd_general", "size momentum_nano decay_f32 clip_f32 nesterov", _sgd_general),
    (91, "adam_factors", "beta1_nano beta2_nano decay_f32", lambda p: Sizes((4,), (ADAM_FACTORS,), 200)),
    (92, "adam", "size eps_f32 decay_f32 clip_f32", _adam),
    (93, "count_steps", "steps", lambda p: Sizes((4,), (4,), 1)),
    (94, f"max_pool2d{INFER}", POOL_PARAMS, _max_pool2d_infer),
    (95, "quantize_s8", "size zero low high inverse_f32", lambda p: Sizes((4 * p["size"],), (p["size"],), p["size"])),
    (96, "dequantize_s8", "size zero scale_f32", lambda p: Sizes((p["size"],), (4 * p["size"],), p["size"])),
    (97, "conv2d_s8", "n c h w k r s sh sw ph pw g zero_x zero_y low high", _conv2d_s8),
    (98, "linear_s8", "m k n zero_y low high", _linear_s8),
    (99, "max_pool2d_s8", POOL_PARAMS, _pool_s8),
    (100, "avg_pool2d_s8", f"{POOL_PARAMS} zero_x zero_y low high scale_f32", _pool_s8),
    (
        101,
        "add_s8",
        "size zero_a zero_b zero_y low high scale_a_f32 scale_b_f32 inverse_y_f32",
        lambda p: Sizes((p["size"],) * 2, (p["size"],), p["size"]),
    ),
    (102, "map_s8", "size", lambda p: Sizes((p["size"], 256), (p["size"],), 0)),
    (103, "sgd_general_update", f"size tile {DESCENT_PARAMS}", lambda p: _general(_sgd_update(p))),
    (104, "conv2d_general_update", f"{CONV_PARAMS} tile {DESCENT_PARAMS}", lambda p: _general(_conv2d_update(p))),
    (105, "linear_general_update", f"m k n bias tile {DESCENT_PARAMS}", lambda p: _general(_linear_update(p))),
    (
        106,
        "streamed_conv2d_general_update",
        f"{CONV_PARAMS} tile {DESCENT_PARAMS}",
        lambda p: _general(_streamed_conv2d_update(p)),
    ),
    (
        107,
        "streamed_linear_general_update",
        f"m k n bias tile {DESCENT_PARAMS}",
        lambda p: _general(_streamed_linear_update(p)),
    ),
)

_ACTIVATIONS = ("relu", "gelu", "tanh", "hardtanh", "leaky_relu", "sigmoid", "silu", "hardswish", "hardsigmoid")
_TAKES_OVER: dict[str, tuple[int, ...]] = {
    **dict.fromkeys((*_ACTIVATIONS, "softmax", "log_softmax", "scale", "scale_by"), (0,)),
    **dict.fromkeys(("add_rows", "batch_norm_eval", "batch_norm_eval_backward_input"), (0,)),
    **dict.fromkeys((f"{name}_backward" for name in (*_ACTIVATIONS, "softmax", "log_softmax", "batch_norm")), (0, 1)),
    **dict.fromkeys(("add", "sub", "mul", "layer_norm_backward_input", "add_s8"), (0, 1)),
    "map_s8": (0,),
    **dict.fromkeys((name for _, name, _, _ in _TABLE if name.endswith(ACCUMULATE)), (SUM_SO_FAR,)),
}

OPERATORS: dict[str, Operator] = {
    name: Operator(code, name, tuple(params.split()), sizes, _TAKES_OVER.get(name, ()))
    for code, name, params, sizes in _TABLE
}


def descends(op: str) -> bool:
    """Whether an operator's parameters say how it descends: those of an update without them are plain."""
    return op in OPTIMIZERS or op.endswith(GENERAL_UPDATE)


def plain_update(op: str) -> str:
    """The operator that does the same with plain gradient descent; any other operator itself."""
    return op.replace(GENERAL_UPDATE, UPDATE)


def dtype_of(op: str) -> str:
    """Of the numbers that an operator computes with, as a profile has it; page operations and others count as f32."""
    return "s8" if op in OPERATORS and op.endswith(S8) else "f32"


def params_key(op: str, params: Params) -> str:
    """Canonical key of a configuration.

    Raises
    ------
    KeyError
        If the operator is not in the vocabulary or a parameter is missing.
    """
    return " ".join(f"{name}={params[name]}" for name in OPERATORS[op].params)


def parse_params(key: str) -> dict[str, int]:
    """Inverse of :func:`params_key`.

    Raises
    ------
    ValueError
        If the key is not ``name=integer`` pairs joined by single spaces.
    """
    pairs = (pair.partition("=") for pair in key.split(" ")) if key else ()
    return {name: int(value) for name, _, value in pairs}
