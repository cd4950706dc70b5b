# SPDX-License-Identifier: Apache-2.0
"""A grid of configurations from which a planner can fit costs of shapes that nobody measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from poet_profiles.firmware.operators import ACCUMULATE, OPERATORS, RECURRENT, params_key
from poet_profiles.firmware.steps import KINDS, POINTWISE, SPREAD, SUM

from . import small_shapes
from .configurations import PAGE_OPS, PATTERNS, TRANSFERS, Configuration, page

PAGE_SIZES = tuple(512 << shift for shift in range(12))

# Parameters that do not change what an operator costs.
CONSTANTS = {
    "eps_nano": 10_000,
    "momentum_nano": 900_000_000,
    "value_nano": 0,
    "factor_nano": 500_000_000,
    "divisor": 1,
    "low_f32": 0,  # the bits of 0, 1/2, 1/4 and 5/2
    "high_f32": 0x3F000000,
    "slope_f32": 0x3E800000,
    "factor_f32": 0x40200000,
    "keep_nano": 700_000_000,
    "beta1_nano": 900_000_000,
    "beta2_nano": 999_000_000,
    "eps_f32": 0x322BCC77,  # the bits of 1e-8, 1/128 and 1
    "decay_f32": 0x3C000000,
    "clip_f32": 0x3F800000,
    "stream": 0,
    "zero": 0,
    "zero_x": 0,
    "zero_y": 0,
    "zero_a": 0,
    "zero_b": 0,
    "low": -128,
    "high": 127,
    "scale_f32": 0x3C000000,
    "scale_a_f32": 0x3C000000,
    "scale_b_f32": 0x3C000000,
    "inverse_f32": 0x42800000,  # the bits of 64
    "inverse_y_f32": 0x42800000,
    "ignores": 1,
    "ignored": -100,
}


def grid() -> list[Configuration]:
    """Every operator, forward and backward, over a few shapes each, and page transfers over sizes and patterns."""
    pages = [page(op, size, pattern) for op in PAGE_OPS for pattern in PATTERNS for size in PAGE_SIZES]
    return [*_operators(), *pages]


def _operators() -> Iterator[Configuration]:
    """Those of an operator that adds to a sum so far are predicted from rows of the one that does not, and those of an
    update on the card that is not plain from rows of the plain one.

    But input gradients of convolutions: with weights tile by tile, all tiles but the first are added, and for strides
    there are no kernels that do it as quickly. And products of one column and one row, which no tile computes.
    """
    shapes = {names: list(shapes) for names, shapes in _shapes().items()}
    for operator in OPERATORS.values():
        if operator.name in TRANSFERS or (operator.name.endswith(ACCUMULATE) and operator.name not in shapes):
            continue
        extents = " ".join(name for name in operator.shape if name not in CONSTANTS)
        for shape in shapes.get(operator.name, shapes.get(extents, [])):
            given = {name: value for name, value in CONSTANTS.items() if name in operator.shape}
            yield Configuration(operator.name, params_key(operator.name, {**given, **shape}))
    for size, steps in _groups():
        yield Configuration(POINTWISE, f"size={size} steps={steps}")


def _groups() -> Iterator[tuple[int, str]]:
    """Each step alone, some at other sizes, and steps in a row."""
    for kind in KINDS.values():
        if kind.name in (SPREAD, SUM):
            continue
        sources = ",".join(f"x{place}" for place in range(kind.operands))
        numbers = "".join(f",{number}" for number in (0.5, 1)[: kind.numbers])
        yield (
            1024,
            "copy(r0,x0);select(r0,x1,x2);copy(y0,r0)" if kind.reads_y else f"{kind.name}(y0,{sources}{numbers})",
        )
    for size in (64, 512, 1536):
        yield size, "add(y0,x0,x1)"
        yield size, "add(r0,x0,x1);relu(y0,r0)"
        yield size, "sub(r0,x0,x1);mul(r0,r0,r0);mul(r1,x0,x1);mulc(r1,r1,0.5);add(y0,r0,r1)"
        yield size, f"sub(r0,x0,x1);abs(r0,r0);sum(y0,r0,{size})"
    for size in (64, 192):
        for inner, count in ((1, 16), (16, size // 16)):
            yield size, f"spread(r0,x1,{inner},{count});mul(y0,x0,r0)"


def _shapes() -> dict[str, Iterable[Mapping[str, int]]]:
    """Shapes by the parameters that they give, as the operator table lists them, or by an operator that has its own."""
    rows = ((1, 10), (8, 10), (32, 10), (8, 64), (32, 64))
    dense = ((1, 64, 10), (8, 64, 10), (8, 128, 64), (32, 64, 64))
    linear = [{"m": m, "k": k, "n": n, "bias": 1} for m, k, n in dense]
    small = list(small_shapes.products())
    convolutions = [*_convolutions(), *small_shapes.convolutions()]
    of_convolution, of_pooling, of_view = (
        " ".join(OPERATORS[op].params) for op in ("conv2d", "max_pool2d", "strided_copy")
    )
    return {
        of_convolution: convolutions,
        of_pooling: [
            *(_pool(n, c, extent) for n, c, extent in ((1, 8, 8), (1, 16, 16), (8, 16, 8))),
            *small_shapes.pools(),
        ],
        of_view: [
            *(_transposed(d0, d1) for d0, d1 in ((8, 8), (16, 64), (64, 64))),
            *(
                _transposed(1, 1) | {"d2": c, "d3": n, "s2": of * n, "s3": 1, "size": of * n * c}
                for c, n, of in ((4, 124, 2), (8, 60, 2), (4, 62, 8))
            ),
        ],
        "m k n bias": [*linear, *({"m": m, "k": k, "n": n, "bias": m % 2} for m, k, n in small)],
        "m k n bias tile": [{**shape, "tile": min(shape["n"], 16)} for shape in linear],
        f"{of_convolution} tile": [{**shape, "tile": min(shape["k"], 16)} for shape in _convolutions()],
        of_convolution.removesuffix(" bias"): _convolutions(),
        "m k n": linear,
        "m k n tile": [{"m": m, "k": k, "n": n, "tile": min(n, 16)} for m, k, n in dense],
        "b m k n ta tb": [_matmul(m, k, n, ta, tb) for m, k, n in dense for ta, tb in ((0, 0), (1, 0), (0, 1))]
        + [_matmul(*shape) for m, k, n in small for shape in ((m, n, k, 0, 0), (n, m, k, 1, 0), (m, k, n, 0, 1))]
        + [{**_matmul(10, 6, 10, ta, tb), "b": 8} for ta, tb in ((0, 0), (1, 0), (0, 1))],
        "m n": [{"m": m, "n": n} for m, n in rows],
        "size": [{"size": size} for size in (64, 512, 4096, 16384)],
        "size levels": [{"size": size, "levels": levels} for size in (64, 4096) for levels in (15, 255)],
        "size tile": [{"size": size, "tile": min(size, 512)} for size in (64, 512, 4096)],
        "n c size": [
            {"n": n, "c": c, "size": size} for n, c, size in ((1, 8, 64), (8, 8, 64), (8, 16, 64), (4, 16, 256))
        ],
        "n c size g": [
            {"n": n, "c": c, "size": size, "g": g} for n, c, size, g in ((1, 8, 64, 2), (8, 16, 64, 4), (4, 16, 256, 1))
        ],
        "sgd_general": [
            {"size": size, "momentum_nano": momentum, "nesterov": nesterov}
            for size in (64, 512, 4096)
            for momentum, nesterov in ((0, 0), (900_000_000, 0), (900_000_000, 1))
        ],
        "conv2d_backward_input_accumulate": _tiles_of_convolutions(),
        "matmul_accumulate": [_matmul(m, 1, n, 0, 0) for m, n in ((1, 10), (10, 10), (10, 64), (3, 1024), (33, 5))],
        **{op: [*_steps(gates)] for op, (gates, _) in RECURRENT.items()},
        "recurrent_weights": [shape for gates in (1, 4) for shape in _steps(gates)],
        "adam_factors": [{}],
        "reduce": [
            {"outer": n, "length": length, "inner": inner, "kind": 0}
            for n, length, inner in ((1, 16, 16), (8, 16, 16), (32, 28, 1))
        ],
        "scan": [
            {"outer": n, "length": 16, "inner": 16, "kind": kind, "reverse": 0} for n in (1, 8) for kind in (0, 1)
        ],
        "rows kept count": [
            {"rows": rows, "kept": kept, "count": count}
            for rows, kept, count in ((32, 3, 1), (32, 15, 1), (1, 511, 1), (8, 58, 232), (4, 248, 217))
        ],
        **{f"max_pool2d{way}_rows": [*_pooled_bands()] for way in ("", "_backward")},
        "matmul_rows": [
            {"k": k, "c": c, "of": 2 * size, "at": 0, "size": size}
            for k, c, size in ((3, 8, 116), (10, 4, 16), (10, 8, 28), (3, 4, 150))
        ],
        "steps": [{"steps": 1}],
        "c count": [{"c": c, "count": 512} for c in (8, 64)],
        "m v d": [{"m": m, "v": v, "d": d} for m, v, d in ((8, 64, 16), (32, 128, 32), (64, 256, 32))],
        "m v d size": [
            {"m": m, "v": v, "d": d, "size": size} for m, v, d, size in ((32, 10, 1, 1), (1, 10, 32, 1), (4, 8, 1, 64))
        ],
        **{
            op: [{"m": m, "v": v, "d": 128} for m, v in ((4, 16), (16, 64), (32, 64))]
            for op in ("streamed_embedding", "streamed_embedding_update")
        },
    }


def _pooled_bands() -> Iterator[dict[str, int]]:
    """Of other bands a model of the whole operator says enough: these do little, and go plane by plane."""
    for c, h, w, of in ((4, 8, 62, 12), (8, 8, 16, 8), (4, 16, 30, 16), (16, 4, 12, 8)):
        yield {"c": c, "h": h, "w": w, "r": 2, "s": 2, "sh": 2, "sw": 2, "of": of, "at": 0, "own": 1}


def _steps(gates: int) -> Iterator[dict[str, int]]:
    """Of recurrent layers; of gradients those of all results come in."""
    flags = {"gates": gates, "reverse": 0, "relu": 0, "bias": 1, "apart": 0, "gy": 1, "gh": 0, "gc": 0}
    for s, n, h in ((8, 1, 16), (32, 1, 32), (8, 8, 16), (16, 8, 32)):
        yield {"s": s, "n": n, "h": h, **flags}


def _matmul(m: int, k: int, n: int, ta: int, tb: int) -> dict[str, int]:
    return {"b": 1, "m": m, "k": k, "n": n, "ta": ta, "tb": tb}


def _convolutions() -> Iterator[dict[str, int]]:
    for channels, filters, extent in ((1, 8, 8), (3, 16, 16), (8, 8, 8), (8, 16, 12), (16, 16, 8), (16, 32, 12)):
        for kernel, stride in ((3, 1), (3, 2), (1, 1)):
            yield _convolution(channels, filters, extent, kernel, stride, groups=1)
    for channels, extent in ((8, 8), (16, 16)):
        yield _convolution(channels, channels, extent, 3, 1, groups=channels)
    for channels, filters, groups in ((8, 16, 1), (16, 16, 16)):
        row = {"h": 1, "w": 64, "r": 1, "ph": 0, "sh": 1}
        yield {**_convolution(channels, filters, 1, 3, 1, groups), **row}


def _tiles_of_convolutions() -> list[dict[str, int]]:
    """Whole layers, and a few filters alone."""
    layers = [shape for shape in _convolutions() if shape["c"] >= 8 and shape["g"] == 1]
    return [*layers, *(_convolution(16, 4, extent, kernel, 2, 1) for extent in (8, 16) for kernel in (3, 1))]


def _convolution(c: int, k: int, extent: int, kernel: int, stride: int, groups: int) -> dict[str, int]:
    window = {"r": kernel, "s": kernel, "sh": stride, "sw": stride, "ph": kernel // 2, "pw": kernel // 2}
    return {"n": 1, "c": c, "h": extent, "w": extent, "k": k, **window, "g": groups, "bias": 1}


def _pool(n: int, c: int, extent: int) -> dict[str, int]:
    return {"n": n, "c": c, "h": extent, "w": extent, "r": 2, "s": 2, "sh": 2, "sw": 2, "ph": 0, "pw": 0}


def _transposed(rows: int, columns: int) -> dict[str, int]:
    extents = {"d0": 1, "d1": 1, "d2": columns, "d3": rows}
    return {**extents, "s0": 0, "s1": 0, "s2": 1, "s3": columns, "offset": 0, "size": rows * columns}
