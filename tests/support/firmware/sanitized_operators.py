# SPDX-License-Identifier: Apache-2.0
"""Runs every operator of a library built with sanitizers, on buffers that end where `sizes` says, and uneven bands.

Arguments: the library, and how many per cent of the examples to draw. Run by test_ops_sanitized.py with
PYTHONMALLOC=malloc, so that the sanitizer knows where each buffer ends.
"""

from __future__ import annotations

import ctypes
import random
import sys

import numpy as np
from hypothesis import given, settings
from poet_profiles.firmware.operators import params_key, taken_over

from tests.firmware import test_ops_rows
from tests.support.firmware.host_operators import CArguments, Operators, params_array
from tests.support.firmware.operator_shapes import CONFIGURATIONS, Params
from tests.support.firmware.operators_on_card import KEPT_INPUT, run_on_card

Buffer = ctypes.Array[ctypes.c_uint8]


def buffer(size: int) -> Buffer:
    return (ctypes.c_uint8 * size)()


def fill(target: Buffer, index_bytes: int, index_bound: int, noise: random.Random) -> None:
    if index_bound:
        for at in range(0, len(target), index_bytes):
            target[at : at + index_bytes] = list(noise.randrange(index_bound).to_bytes(index_bytes, "little"))
    else:
        floats = (ctypes.c_float * (len(target) // 4)).from_buffer(target)
        floats[:] = [noise.gauss(0, 1) for _ in floats]


def run(operators: Operators, name: str, params: Params, over: int | None = None) -> None:
    """With ``over``, the first output lies in the place of that input."""
    noise = random.Random(0)
    sizes = operators.sizes(name, params)
    inputs = [buffer(size) for size in sizes.input_bytes[: sizes.inputs]]
    for place, target in enumerate(inputs):
        fill(target, sizes.index_bytes, sizes.index_bound if place == sizes.index_input else 0, noise)
    lengths = sizes.output_bytes[: sizes.outputs]
    outputs = inputs[-sizes.outputs :] if sizes.in_place else [buffer(size) for size in lengths]
    if over is not None:
        outputs[0] = inputs[over]
    workspace = buffer(sizes.workspace_bytes)
    arguments = CArguments(
        params_array(name, params),
        (ctypes.c_void_p * 12)(*map(ctypes.addressof, inputs)),
        (ctypes.c_void_p * 6)(*map(ctypes.addressof, outputs)),
        ctypes.addressof(workspace),
        0.125,
    )
    assert operators.table[name].run(ctypes.byref(arguments)) == 0, (name, params)
    if sizes.kept & KEPT_INPUT and name != "fetch":
        arrays = [np.frombuffer(target, np.uint8) for target in inputs]
        for overlaps in (False, True):
            run_on_card(operators, name, params, arrays, 0.125, overlaps=overlaps, guard=0)


def check(operators: Operators, name: str, percent: int) -> None:
    count = (60 if "conv2d" in name else 15) * percent // 100

    @settings(max_examples=count, deadline=None, derandomize=True, database=None)
    @given(CONFIGURATIONS[name])
    def clean(params: Params) -> None:
        for over in (None, *taken_over(name, params_key(name, params))):
            run(operators, name, params, over)

    clean()


if __name__ == "__main__":
    library = Operators(ctypes.CDLL(sys.argv[1]))
    for operator in CONFIGURATIONS:
        check(library, operator, int(sys.argv[2]))
    settings.register_profile("bands", max_examples=max(1, int(sys.argv[2]) // 2))
    settings.load_profile("bands")
    for bands in (
        test_ops_rows.test_bands_of_a_convolution_and_of_its_weights_gradient,
        test_ops_rows.test_bands_of_a_convolutions_input_gradient,
        test_ops_rows.test_features_of_a_dense_layer,
    ):
        bands(library)
