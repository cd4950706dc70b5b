# SPDX-License-Identifier: Apache-2.0
"""The firmware's table is what the planner's vocabulary has read, and its sizes are exact or refused."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.plan_folder.plan import CHOICES
from poet_profiles.firmware.operators import OPERATORS
from poet_profiles.firmware.steps import POINTWISE, Step, pointwise_params

from tests.support.firmware.host_operators import FIRMWARE, FLAGS, CArguments, CSizes, Operators, StatusError
from tests.support.firmware.operators_on_card import KEPT_OUTPUTS
from tests.support.levels import examples

UNSUPPORTED = -8
MAY_BE_ZERO = ("ph", "pw", "bias", "ta", "tb", "s0", "s1", "s2", "s3", "offset", "stream", "nesterov")
MAY_BE_ZERO += ("ignores", "ignored", "zero", "zero_x", "zero_y", "zero_a", "zero_b", "low", "high")
MAY_BE_ZERO += ("kind", "reverse", "relu", "gy", "gh", "gc", "apart", "top", "at")


def smallest(name: str) -> dict[str, int]:
    """The least parameters that the operator takes."""
    if name == POINTWISE:
        return pointwise_params(1, [Step("relu", "y0", ("x0",))])
    least = {param: 0 if param in MAY_BE_ZERO else 2 if param == "count" else 1 for param in OPERATORS[name].params}
    return least | {"momentum_nano": 0, "nesterov": 0} if OPERATORS[name].descends else least


def tensors(name: str, p: dict[str, int]) -> set[int]:
    """Elements of some of an operator's tensors, exactly."""
    if "r" in p:
        weights = {p["k"] * (p["c"] // p.get("g", 1)) * p["r"] * p["s"]} if "k" in p else set()
        return {p.get("n", 1) * p["c"] * p["h"] * p["w"], *weights}
    if {"rows", "c"} <= p.keys():
        return {p["c"] * p["h"] * p["w"], p["c"] * p["rows"] * p["w"]}
    if "k" in p:
        return {p.get("b", 1) * p["m"] * p["k"], p.get("b", 1) * p["m"] * p["n"]}
    if "s" in p:
        return {p["s"] * p["n"] * p["h"]}
    if "d0" in p:
        return {p["d0"] * p["d1"] * p["d2"] * p["d3"], p["size"]}
    extents = [p[param] for param in ("n", "c", "m", "d", "size") if param in p]
    return {math.prod(extents)} if extents else set()


def test_what_takes_over_an_input_is_as_large(operators: Operators) -> None:
    text = (FIRMWARE / "include" / "poet" / "takes_over.def").read_text()
    assert sum(bool(operator.takes_over) for operator in OPERATORS.values()) == text.count("\nPOET_TAKES_OVER(")
    for name, operator in OPERATORS.items():
        sizes = operators.sizes(name, smallest(name))
        assert all(sizes.input_bytes[place] == sizes.output_bytes[0] for place in operator.takes_over)
        assert not (operator.takes_over and (sizes.in_place or sizes.kept & KEPT_OUTPUTS))


def test_table_and_vocabulary_agree(operators: Operators) -> None:
    table = {name: (entry.code, entry.param_count) for name, entry in operators.table.items()}
    assert table == {operator.name: (operator.code, len(operator.params)) for operator in OPERATORS.values()}


def test_the_harness_knows_which_operands_are_whole_numbers(operators: Operators) -> None:
    found = {}
    for name in OPERATORS:
        sizes = operators.sizes(name, smallest(name))
        if sizes.index_bound and sizes.index_bytes == 4:  # places in a window, a byte each, never come from a host
            found[name] = sizes.index_input
    assert found == {name: place for name, (place, choices) in CHOICES.items() if choices is not None}


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != POINTWISE])
def test_nonsense_is_refused_and_nothing_overflows(operators: Operators, name: str) -> None:
    """Any 32-bit parameters: either refused, or sizes that exact arithmetic confirms."""
    extremes = st.one_of(st.integers(-2, 70000), st.sampled_from([-(2**31), 2**31 - 1, 2**28, 2**28 + 1, 65536]))

    @settings(max_examples=examples(150), deadline=None, derandomize=True)
    @given(st.fixed_dictionaries({param: extremes for param in OPERATORS[name].params}))
    def safe(params: dict[str, int]) -> None:
        try:
            theirs = operators.sizes(name, params)
        except StatusError as refused:
            assert refused.status == -1
            return
        sizes = {*theirs.input_bytes[: theirs.inputs], *theirs.output_bytes[: theirs.outputs]}
        assert all({count, 4 * count} & sizes for count in tensors(name, params))
        assert OPERATORS[name].sizes(params).inputs == tuple(theirs.input_bytes[: theirs.inputs])

    safe()


@pytest.mark.parametrize("name", OPERATORS)
def test_a_shape_parameter_of_zero_is_refused(operators: Operators, name: str) -> None:
    params = smallest(name)
    operators.sizes(name, params)
    for param, value in params.items():
        if value and not param.endswith(("_nano", "_f32")):
            with pytest.raises(StatusError):
                operators.sizes(name, {**params, param: 0})


@pytest.mark.parametrize("name", [name for name, operator in OPERATORS.items() if "ph" in operator.params])
def test_windows_that_step_over_the_tensors_are_refused(operators: Operators, name: str) -> None:
    """A loop over a stride's phases, or a place in a padded row, would go on past 32 bits."""
    params = smallest(name)
    for stride, padding in (("sh", "ph"), ("sw", "pw")):
        operators.sizes(name, {**params, stride: params["h" if stride == "sh" else "w"]})
        for absurd in ({stride: 2**31 - 1}, {stride: 2**20}, {padding: 2**28}, {stride: 2**27, padding: 2**27}):
            with pytest.raises(StatusError):
                operators.sizes(name, {**params, **absurd})


def test_a_convolution_whose_kernels_are_not_linked_is_refused(tmp_path: Path) -> None:
    """As in a program that has not named them: neither its sizes nor its results are computed."""
    needed = ("conv", "conv_suits", "conv2d", "convolution", "gemm", "gemm_add", "im2col", "shape")
    sources = [
        str(path)
        for part in ("kernels", "ops")
        for path in sorted((FIRMWARE / "src" / part).glob("*.c"))
        if path.stem in needed
    ]
    subprocess.run(["gcc", *FLAGS, "-shared", "-fPIC", *sources, "-o", str(tmp_path / "some.so")], check=True)
    some = ctypes.CDLL(str(tmp_path / "some.so"))

    def statuses(channels: int, groups: int) -> tuple[int, int]:
        p = {name: 1 for name in OPERATORS["conv2d"].params}
        p |= {"c": channels, "h": 8, "w": 8, "k": channels, "r": 3, "s": 3, "g": groups, "bias": 0}
        params = (ctypes.c_int32 * len(p))(*p.values())
        tensors = [(ctypes.c_float * 8192)() for _ in range(4)]
        inputs = (ctypes.c_void_p * 2)(*map(ctypes.addressof, tensors[:2]))
        outputs = (ctypes.c_void_p * 1)(ctypes.addressof(tensors[2]))
        arguments = CArguments(params, inputs, outputs, ctypes.addressof(tensors[3]))
        sizes = CSizes()
        return some.poet_conv2d_sizes(params, ctypes.byref(sizes)), some.poet_conv2d_run(ctypes.byref(arguments))

    assert statuses(4, 1) == (0, 0)
    assert statuses(8, 1) == (UNSUPPORTED, UNSUPPORTED)  # Winograd's algorithm
    assert statuses(4, 4) == (UNSUPPORTED, UNSUPPORTED)  # depthwise
