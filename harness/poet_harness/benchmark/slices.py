"""The largest part of a configuration that fits a board's RAM, where the whole does not.

Work is cut along an axis along which it grows in proportion: the batch first, then rows, then output channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from poet_profiles.operators import OPERATORS

_AXES = {
    "conv2d": ("n", "k"),
    "conv2d_backward_input": ("n", "k"),
    "conv2d_backward_weight": ("n", "k"),
    "linear": ("m", "n"),
    "matmul": ("b", "m", "n"),
    "max_pool2d": ("n", "c"),
    "max_pool2d_backward": ("n", "c"),
    "avg_pool2d": ("n", "c"),
    "avg_pool2d_backward": ("n", "c"),
    "batch_norm": ("n", "size"),
    "batch_norm_backward": ("n", "size"),
    "batch_norm_update": ("c",),
    "strided_copy": (),
    "strided_copy_backward": (),
}


def ram_bytes(op: str, params: Mapping[str, int]) -> int:
    """Bytes of all inputs, outputs and workspace, each rounded up to 4."""
    sizes = OPERATORS[op].sizes(params)
    return sum(-(-size // 4) * 4 for size in (*sizes.inputs, *sizes.outputs, sizes.workspace))


def slices(op: str, params: Mapping[str, int], limit_bytes: int) -> Iterator[tuple[float, dict[str, int]]]:
    """Ever smaller parts of a configuration whose operands fit ``limit_bytes``, each with its fraction of the whole.

    The whole comes first if it fits. Further ones follow in case the board has less room than it says.
    """
    cut = dict(params)
    fraction = 1.0
    if ram_bytes(op, cut) <= limit_bytes:
        yield fraction, dict(cut)
    for axis in _cuttable(op, params):
        while cut[axis] > 1:
            smaller = cut[axis] // 2
            fraction *= smaller / cut[axis]
            cut[axis] = smaller
            if ram_bytes(op, cut) <= limit_bytes:
                grown = _grow(op, cut, axis, 2 * smaller, limit_bytes)
                yield fraction * grown[axis] / smaller, grown


def _cuttable(op: str, params: Mapping[str, int]) -> list[str]:
    axes = _AXES.get(op, ("m", "size"))
    # The output channels of a grouped convolution belong to their group's inputs: no proportion there.
    return [axis for axis in axes if axis in params and not (axis == "k" and params.get("g", 1) > 1 and "r" in params)]


def _grow(op: str, fits: Mapping[str, int], axis: str, too_large: int, limit_bytes: int) -> dict[str, int]:
    """The largest extent between one that fits and one that does not."""
    low, high = fits[axis], too_large
    while high - low > 1:
        middle = (low + high) // 2
        if ram_bytes(op, {**fits, axis: middle}) <= limit_bytes:
            low = middle
        else:
            high = middle
    return {**fits, axis: low}
