# SPDX-License-Identifier: Apache-2.0
"""Operators that add to a sum so far: part after part, they give the bits of the operator that has all at once.

Parts of a convolution by Winograd's algorithm are of whole eights of channels.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.firmware.operators import rows_together

from tests.support.firmware.host_operators import Array, Operators, StatusError
from tests.support.firmware.operator_references import REFERENCES, Draw
from tests.support.firmware.operator_shapes import CONFIGURATIONS, Params
from tests.support.levels import examples

SUMMED = {"conv2d": "c", "conv2d_backward_input": "k", "linear": "k", "matmul": "k"}
"""The parameter that says over how much each operator sums."""


def _part(op: str, p: Params, inputs: tuple[Array, ...], part: slice) -> tuple[Array, ...]:
    """What is read of the two factors."""
    a, w, *_ = inputs
    if op == "conv2d":
        return a[:, part], w[:, part]
    if op == "conv2d_backward_input":
        return a[:, part], w[part]
    if op == "linear":
        return a[:, part], w[:, part]
    return (a[:, part] if p["ta"] else a[:, :, part]), (w[:, :, part] if p["tb"] else w[:, part])


def _by_parts(operators: Operators, op: str, p: Params, inputs: tuple[Array, ...], ends: list[int]) -> bytes:
    """The first part by the operator itself; a convolution's bias goes with it, a linear layer's with the last."""
    total: list[Array] = []
    for begin, end in zip([0, *ends], [*ends, p[SUMMED[op]]], strict=True):
        has_bias = p.get("bias", 0) and (not total if op == "conv2d" else end == p[SUMMED[op]])
        params = {**p, SUMMED[op]: end - begin, **({"bias": int(has_bias)} if "bias" in p else {})}
        factors = [np.ascontiguousarray(array) for array in _part(op, p, inputs, slice(begin, end))]
        bias = inputs[2:] if has_bias else ()
        total = operators.run(f"{op}_accumulate" if total else op, params, (*factors, *total, *bias))
        total = [total[0].view(np.float32)]
    return total[0].tobytes()


@pytest.mark.parametrize("op", SUMMED)
def test_parts_of_a_sum_give_the_bits_of_the_whole(operators: Operators, op: str) -> None:
    most_parts = 0

    @settings(max_examples=examples(150), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[op], st.integers(0, 2**16), st.data())
    def equal(params: Params, seed: int, data: st.DataObject) -> None:
        nonlocal most_parts
        params = params | {"g": 1} if "g" in params else params
        together = rows_together("backward_input", params)
        places = range(together, params[SUMMED[op]] - together + 1, together)
        ends = sorted(data.draw(st.sets(st.sampled_from(places), max_size=3))) if places else []
        inputs = REFERENCES[op](params, Draw(seed)).inputs
        whole = operators.run(op, params, inputs)[0].tobytes()
        assert _by_parts(operators, op, params, inputs, ends) == whole
        most_parts = max(most_parts, len(ends) + 1)

    equal()
    assert most_parts == 4


@pytest.mark.parametrize("op", ["conv2d_accumulate", "streamed_conv2d_accumulate"])
def test_a_bias_goes_with_the_first_part_of_a_convolution(operators: Operators, op: str) -> None:
    @settings(max_examples=examples(5), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[op])
    def refused(params: Params) -> None:
        with pytest.raises(StatusError) as failed:
            operators.sizes(op, params | {"bias": 1})
        assert failed.value.status == -1

    refused()
