# SPDX-License-Identifier: Apache-2.0
"""FLOPs of PyTorch's operators: its own counts, formulas, an operation for each element; or not known.

A multiply-accumulate is two operations, as everywhere. What only moves elements counts one for each that it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod
from typing import Any

import torch
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator
from torch.utils.flop_counter import flop_registry

from poet_planner.tracing import schema

Arguments = dict[str, Any]
Shapes = list[tuple[int, ...]]
Formula = Callable[[Arguments, Shapes], Any]  # A number; what stands among the arguments has no type.


def flops(operator: TracedOperator, traced: TracedGraph) -> int | None:
    """FLOPs of one call, or None where nobody has said how many it takes."""
    name = operator.target._schema.name.removeprefix("aten::")
    counted = _pytorchs_count(operator, traced)
    if counted is not None:
        return counted
    written = [traced.values[id].shape for id in operator.values]
    if name in _FORMULAS:
        arguments = schema.bound_arguments(operator.target, operator.args, operator.kwargs)
        count: float = _FORMULAS[name](arguments, written)
        return round(count)
    if torch.Tag.pointwise in operator.target.tags or name.strip("_") in _AN_ELEMENT_WRITTEN:
        return sum(prod(shape) for shape in written)
    if name.strip("_") in _AN_ELEMENT_READ:
        return max((prod(ref.shape) for ref in operator.refs), default=0)
    return None


def _pytorchs_count(operator: TracedOperator, traced: TracedGraph) -> int | None:
    packet = operator.target.overloadpacket
    # Of attention PyTorch counts the kernels for GPUs alone, which have the same operands.
    alike = str(packet).removeprefix("aten.").replace("_for_cpu", "")
    count = flop_registry.get(getattr(torch.ops.aten, alike, packet))
    if count is None:
        return None
    outputs = [traced.values[id].shape if id else None for id in operator.outputs]
    arguments = [argument.shape if isinstance(argument, Ref | Blank) else argument for argument in operator.args]
    return int(count(*arguments, out_val=outputs[0] if len(outputs) == 1 else outputs))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AN_ELEMENT_WRITTEN = _words(
    # Made from nothing, moved or copied.
    "arange linspace logspace eye full zeros ones empty empty_like new_empty new_zeros new_ones new_full zeros_like "
    "ones_like full_like fill zero scalar_tensor lift_fresh lift_fresh_copy clone copy to_copy complex cat stack "
    "repeat constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d "
    "replication_pad3d flip roll rot90 tril triu diag_embed diagonal_scatter slice_scatter select_scatter "
    "channel_shuffle pixel_shuffle pixel_unshuffle im2col index index_select index_fill gather scatter embedding "
    "select_backward slice_backward diagonal_backward squeeze unsqueeze transpose t resize as_strided_scatter "
    # Drawn.
    "rand rand_like randn randn_like randint randint_like randperm bernoulli uniform normal exponential random "
    "native_dropout multinomial "
    # Computed element by element, or row by row with a few passes over it.
    "softmax softmax_backward_data log_softmax log_softmax_backward_data safe_softmax native_batch_norm "
    "native_batch_norm_backward native_layer_norm native_layer_norm_backward native_group_norm "
    "native_group_norm_backward fused_rms_norm fused_rms_norm_backward prelu_kernel prelu_kernel_backward glu "
    "glu_backward rrelu_with_noise rrelu_with_noise_backward hardswish hardswish_backward hardsigmoid_backward "
    "hardtanh_backward hardshrink_backward elu_backward leaky_relu_backward log_sigmoid_forward log_sigmoid_backward "
    "mish_backward softplus_backward softshrink_backward nll_loss_forward nll_loss_backward nll_loss2d_forward "
    "nll_loss2d_backward mse_loss_backward smooth_l1_loss_backward huber_loss_backward soft_margin_loss_backward "
    "binary_cross_entropy_backward multi_margin_loss_backward multilabel_margin_loss_backward "
    "max_unpool2d max_unpool3d fake_quantize_per_tensor_affine_cachemask affine_grid_generator cross linalg_cross"
)
_AN_ELEMENT_READ = _words(
    # What PyTorch tags as reductions; older versions of it do not.
    "all amax amin aminmax any argmax argmin count_nonzero linalg_vector_norm logsumexp max mean min nansum norm prod "
    "std std_mean sum var var_mean "
    "cumsum cumprod logcumsumexp cummax cummin kthvalue median nanmedian renorm index_add scatter_add "
    "scatter_reduce index_put unsafe_index_put embedding_dense_backward col2im unfold_backward "
    "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward "
    "replication_pad2d_backward replication_pad3d_backward adaptive_avg_pool2d adaptive_avg_pool2d_backward "
    "adaptive_avg_pool3d adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward "
    "adaptive_max_pool3d adaptive_max_pool3d_backward fractional_max_pool2d fractional_max_pool2d_backward "
    "fractional_max_pool3d fractional_max_pool3d_backward max_pool2d_with_indices_backward "
    "max_pool3d_with_indices_backward mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits multi_margin_loss multilabel_margin_loss_forward"
)


def _recurrent(passes: int, *weights: str) -> Formula:
    """Products of the input, and of the state before, with the weights of all gates, for each time of each sequence."""

    def count(arguments: Arguments, _: Shapes) -> Any:
        calls = prod(arguments["input"].shape[:-1])
        return passes * 2 * calls * sum(prod(arguments[name].shape) for name in weights)

    return count


def _windows(arguments: Arguments, written: Shapes) -> Any:
    return prod(written[0]) * prod(arguments["kernel_size"])


def _windows_backward(arguments: Arguments, _: Shapes) -> Any:
    return prod(arguments["grad_output"].shape) * prod(arguments["kernel_size"])


def _interpolated(taps: int, backward: bool = False) -> Formula:
    """A weighted sum of ``taps`` pixels for each pixel of the larger picture; a copy where it is one."""
    each = 2 * taps if taps > 1 else 1
    if backward:
        return lambda arguments, _: each * prod(arguments["grad_output"].shape)
    return lambda _, written: each * prod(written[0])


def _grid(passes: int) -> Formula:
    taps = {0: 4, 1: 1, 2: 16}

    def count(arguments: Arguments, _: Shapes) -> Any:
        channels = arguments["input"].shape[1]
        points = prod(arguments["grid"].shape[:-1])
        return passes * 2 * taps[arguments["interpolation_mode"]] * channels * points

    return count


def _sorted(arguments: Arguments, _: Shapes) -> Any:
    shape = arguments["self"].shape
    return prod(shape) * _steps(shape[arguments["dim"]] if shape else 1)


def _largest(arguments: Arguments, _: Shapes) -> Any:
    return prod(arguments["self"].shape) * _steps(arguments["k"])


def _searched(arguments: Arguments, written: Shapes) -> Any:
    among = arguments["sorted_sequence"] if "sorted_sequence" in arguments else arguments["boundaries"]
    return prod(written[0]) * _steps(among.shape[-1])


def _steps(count: int) -> int:
    """Comparisons that tell ``count`` things apart."""
    return max(1, (count - 1).bit_length())


def _fourier(each: float) -> Formula:
    """By Cooley and Tukey; ``each`` is 5 of complex numbers, half of that where one side is real."""

    def count(arguments: Arguments, written: Shapes) -> Any:
        larger = max(arguments["self"].shape, written[0], key=prod)
        return each * prod(larger) * log2(max(2, prod(larger[axis] for axis in arguments["dim"])))

    return count


def _distances(arguments: Arguments, _: Shapes) -> Any:
    one, other = arguments["x1"].shape, arguments["x2"].shape
    return 3 * prod(one[:-2]) * one[-2] * other[-2] * one[-1]


def _trilinear(arguments: Arguments, _: Shapes) -> Any:
    shapes: list[list[int]] = []
    for index in (1, 2, 3):
        shape = list(arguments[f"i{index}"].shape)
        for axis in arguments[f"expand{index}"]:
            shape.insert(axis, 1)
        shapes.append(shape)
    return 3 * prod(map(max, *shapes))


def _bags(arguments: Arguments, _: Shapes) -> Any:
    rows = arguments["weight"] if "weight" in arguments else arguments["grad"]
    return prod(arguments["indices"].shape) * int(rows.shape[-1])


def _renormed(arguments: Arguments, written: Shapes) -> Any:
    """The table copied, and a norm and a product for each row that is looked up."""
    return prod(written[0]) + 3 * prod(arguments["indices"].shape) * int(written[0][-1])


def _cubic(share: float, of: str) -> Formula:
    """``share * n^3`` for each matrix of n rows and columns."""

    def count(arguments: Arguments, _: Shapes) -> Any:
        shape = arguments[of].shape
        return share * prod(shape[:-2]) * shape[-2] * shape[-1] * min(shape[-2:])

    return count


def _eliminated(arguments: Arguments, written: Shapes) -> Any:
    return _cubic(2 / 3, "A")(arguments, written) + 2 * prod(arguments["B"].shape) * arguments["A"].shape[-1]


def _solved(passes: int, matrix: str) -> Formula:
    def count(arguments: Arguments, written: Shapes) -> Any:
        return passes * prod(written[0]) * int(arguments[matrix].shape[-1])

    return count


def _product(matrix: str) -> Formula:
    return lambda arguments, _: 2 * prod(arguments[matrix].shape)


_FORMULAS: dict[str, Formula] = {
    "mkldnn_rnn_layer": _recurrent(1, "weight0", "weight1"),
    "mkldnn_rnn_layer_backward": _recurrent(2, "weight1", "weight2"),
    "max_pool2d_with_indices": _windows,
    "max_pool3d_with_indices": _windows,
    "avg_pool2d": _windows,
    "avg_pool3d": _windows,
    "avg_pool2d_backward": _windows_backward,
    "avg_pool3d_backward": _windows_backward,
    **{f"{kind}nearest{exact}{axes}d{way}": _interpolated(1, bool(way))
       for kind, exact in (("upsample_", ""), ("_upsample_", "_exact")) for axes in (1, 2, 3)
       for way in ("", "_backward")},
    **{f"upsample_{kind}{way}": _interpolated(taps, bool(way))
       for kind, taps in (("linear1d", 2), ("bilinear2d", 4), ("trilinear3d", 8), ("bicubic2d", 16))
       for way in ("", "_backward")},
    "grid_sampler_2d": _grid(1),
    "grid_sampler_2d_backward": _grid(3),
    "sort": _sorted,
    "argsort": _sorted,
    "mode": _sorted,
    "topk": _largest,
    "searchsorted": _searched,
    "bucketize": _searched,
    "_fft_c2c": _fourier(5.0),
    "_fft_r2c": _fourier(2.5),
    "_fft_c2r": _fourier(2.5),
    "_cdist_forward": _distances,
    "_cdist_backward": _distances,
    "_trilinear": _trilinear,
    "_embedding_bag": _bags,
    "_embedding_bag_backward": _bags,
    "embedding_renorm": _renormed,
    # A norm and a product; for the gradient a dot product, a product and a difference, scaled.
    "_weight_norm_interface": lambda arguments, _: 3 * prod(arguments["v"].shape),
    "_weight_norm_interface_backward": lambda arguments, _: 5 * prod(arguments["saved_v"].shape),
    "dot": _product("self"),
    "vdot": _product("self"),
    "mv": _product("self"),
    "addmv": _product("mat"),
    "addr": lambda _, written: 2 * prod(written[0]),
    "trace": lambda arguments, _: min(arguments["self"].shape),
    "linalg_cholesky_ex": _cubic(1 / 3, "self"),
    "linalg_lu_factor_ex": _cubic(2 / 3, "A"),
    "_linalg_det": _cubic(2 / 3, "A"),
    "_linalg_slogdet": _cubic(2 / 3, "A"),
    "linalg_inv_ex": _cubic(2.0, "A"),
    "linalg_qr": _cubic(4 / 3, "A"),
    "linalg_solve_triangular": _solved(1, "self"),
    "_linalg_solve_ex": _eliminated,
    "linalg_lu_solve": _solved(2, "LU"),
}  # fmt: skip
