# SPDX-License-Identifier: Apache-2.0
"""operators.def, the firmware's table and the planner's vocabulary are one list, with the same sizes."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.plan_folder.plan import CHOICES
from poet_profiles.operators import GENERAL_UPDATE, OPERATORS, WINOGRAD_WORKSPACE, is_winograd

from tests.support.firmware.host_operators import FIRMWARE, FLAGS, CArguments, CSizes, Operators, StatusError
from tests.support.firmware.operator_shapes import CONFIGURATIONS
from tests.support.firmware.operators_on_card import KEPT_INPUT, KEPT_OUTPUTS

UNSUPPORTED = -8
MAY_BE_ZERO = ("ph", "pw", "bias", "ta", "tb", "s0", "s1", "s2", "s3", "offset", "stream", "nesterov")
MAY_BE_ZERO += ("zero", "zero_x", "zero_y", "zero_a", "zero_b", "low", "high")
LINE = re.compile(r"^POET_OPERATOR\((\d+), (\w+), (\w+), ([\w, ]+)\)", re.MULTILINE)
TAKES_OVER = re.compile(r"^POET_TAKES_OVER\((\w+), (\d+)u\)", re.MULTILINE)


def smallest(name: str) -> dict[str, int]:
    """The least parameters that the operator takes."""
    least = {param: 0 if param in MAY_BE_ZERO else 2 if param == "count" else 1 for param in OPERATORS[name].params}
    return least | {"momentum_nano": 0} if name.endswith(GENERAL_UPDATE) else least


def test_definition_and_vocabulary_agree() -> None:
    text = (FIRMWARE / "include" / "poet" / "operators.def").read_text()
    defined = {name: (int(code), tuple(params.split(", "))) for code, _, name, params in LINE.findall(text)}
    assert defined == {operator.name: (operator.code, operator.params) for operator in OPERATORS.values()}
    assert all(upper == name.upper() for _, upper, name, _ in LINE.findall(text))
    assert len({code for code, _ in defined.values()}) == len(defined)


def test_what_is_computed_in_place_agrees(operators: Operators) -> None:
    """And an output has as many bytes as each input that it may take over."""
    text = (FIRMWARE / "include" / "poet" / "takes_over.def").read_text()
    defined = {name.lower(): int(bits) for name, bits in TAKES_OVER.findall(text)}
    assert len(defined) == text.count("\nPOET_TAKES_OVER(")
    found = {name: sum(1 << place for place in operator.takes_over) for name, operator in OPERATORS.items()}
    assert defined == {name: bits for name, bits in found.items() if bits}
    for name, operator in OPERATORS.items():
        sizes = operators.sizes(name, smallest(name))
        assert all(sizes.input_bytes[place] == sizes.output_bytes[0] for place in operator.takes_over)
        assert not (operator.takes_over and (sizes.in_place or sizes.kept & KEPT_OUTPUTS))


def test_table_and_vocabulary_agree(operators: Operators) -> None:
    table = {name: (entry.code, entry.param_count) for name, entry in operators.table.items()}
    assert table == {operator.name: (operator.code, len(operator.params)) for operator in OPERATORS.values()}


@pytest.mark.parametrize("name", OPERATORS)
def test_sizes_agree(operators: Operators, name: str) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name])
    def agree(params: dict[str, int]) -> None:
        assert set(params) == set(OPERATORS[name].params)
        theirs = operators.sizes(name, params)
        ours = OPERATORS[name].sizes(params)
        assert tuple(theirs.input_bytes[: theirs.inputs]) == ours.inputs
        assert tuple(theirs.output_bytes[: theirs.outputs]) == ours.outputs
        assert theirs.workspace_bytes == ours.workspace
        assert (theirs.kept_input if theirs.kept & KEPT_INPUT else None) == ours.kept_input
        assert theirs.kept_rows == ours.kept_rows
        assert bool(theirs.kept & KEPT_OUTPUTS) == ours.kept_outputs

    agree()


@pytest.mark.parametrize("name", ["conv2d", "conv2d_backward_input", "conv2d_backward_weight"])
def test_firmware_and_vocabulary_choose_the_same_algorithm(operators: Operators, name: str) -> None:
    """Around each limit of the rule: no direct convolution of these sizes has that workspace."""
    seen = set()
    ranges = {"n": (1, 3), "c": (7, 9), "h": (1, 8), "w": (1, 8), "k": (7, 9), "r": (2, 3), "s": (3, 3), "sh": (1, 2)}
    ranges |= {"sw": (1, 1), "ph": (0, 2), "pw": (1, 1), "bias": (0, 1)}
    others = st.fixed_dictionaries({param: st.integers(*limits) for param, limits in ranges.items()})

    @settings(max_examples=400, deadline=None, derandomize=True)
    @given(others, st.booleans())
    def agree(params: dict[str, int], grouped: bool) -> None:
        params["g"] = params["c"] if grouped and params["c"] == params["k"] else 1
        try:
            workspace = operators.sizes(name, params).workspace_bytes
        except StatusError:
            return
        assert (workspace == WINOGRAD_WORKSPACE) == is_winograd(params)
        seen.add(is_winograd(params))

    agree()
    assert seen == {False, True}


def test_the_harness_knows_which_operands_are_whole_numbers(operators: Operators) -> None:
    found = {}
    for name in OPERATORS:
        sizes = operators.sizes(name, smallest(name))
        if sizes.index_bound and sizes.index_bytes == 4:  # places in a window, a byte each, never come from a host
            found[name] = sizes.index_input
    assert found == {name: place for name, (place, choices) in CHOICES.items() if choices is not None}


@pytest.mark.parametrize("name", OPERATORS)
def test_nonsense_is_refused_and_nothing_overflows(operators: Operators, name: str) -> None:
    """Any 32-bit parameters: either refused, or sizes that exact arithmetic confirms."""
    extremes = st.one_of(st.integers(-2, 70000), st.sampled_from([-(2**31), 2**31 - 1, 2**28, 2**28 + 1, 65536]))

    @settings(max_examples=150, deadline=None, derandomize=True)
    @given(st.fixed_dictionaries({param: extremes for param in OPERATORS[name].params}))
    def safe(params: dict[str, int]) -> None:
        try:
            theirs = operators.sizes(name, params)
        except StatusError as refused:
            assert refused.status == -1
            return
        ours = OPERATORS[name].sizes(params)
        assert tuple(theirs.input_bytes[: theirs.inputs]) == ours.inputs
        assert tuple(theirs.output_bytes[: theirs.outputs]) == ours.outputs

    safe()


@pytest.mark.parametrize("name", OPERATORS)
def test_a_shape_parameter_of_zero_is_refused(operators: Operators, name: str) -> None:
    params = smallest(name)
    operators.sizes(name, params)
    for param, value in params.items():
        if value and not param.endswith(("_nano", "_f32")):
            with pytest.raises(StatusError):
                operators.sizes(name, {**params, param: 0})


def test_a_convolution_whose_kernels_are_not_linked_is_refused(tmp_path: Path) -> None:
    """As in a program that has not named them: neither its sizes nor its results are computed."""
    needed = ("conv", "conv_suits", "conv2d", "convolution", "gemm", "gemm_add", "im2col", "shape")
    sources = [str(FIRMWARE / "src" / "ops" / f"{name}.c") for name in needed]
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
