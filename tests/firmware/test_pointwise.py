# SPDX-License-Identifier: Apache-2.0
"""Groups of steps by blocks, against step after step over whole tensors.

They are equal bit for bit. Words that make no sense are refused.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from poet_profiles.firmware.compiled_operators import CSizes, StatusError
from poet_profiles.firmware.operators import OPERATORS, params_key, parse_params
from poet_profiles.firmware.steps import KINDS, SPREAD, SUM, WIDEN, Step, pointwise_params, steps_in

from tests.support import ROOT
from tests.support.firmware.groups_of_steps import EXACT, groups_of_steps
from tests.support.firmware.host_operators import Operators
from tests.support.levels import examples

Floats = NDArray[np.float32]
ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3.4e38, -88.7, 104.0], np.float32)


def drawn(params: dict[str, int], seed: int) -> list[Floats]:
    """Inputs, a twentieth of them odd numbers."""
    random = np.random.default_rng(seed)
    inputs = [
        random.standard_normal(size // 4).astype(np.float32) for size in OPERATORS["pointwise"].sizes(params).inputs
    ]
    for array in inputs:
        chosen = random.random(len(array)) < 0.05
        array[chosen] = random.choice(ODD, int(chosen.sum()))
    return inputs


def one_by_one(operators: Operators, params: dict[str, int], inputs: list[Floats]) -> list[Floats]:
    """Every step a call of its own."""
    places = {f"x{place}": array for place, array in enumerate(inputs)}
    for step in steps_in(params):
        names = ((step.y,) if KINDS[step.name].reads_y else ()) + step.sources
        steps = [Step(step.name, "y0", tuple(f"x{place}" for place in range(len(names))), step.numbers)]
        if KINDS[step.name].reads_y:
            steps = [Step("copy", "y0", ("x0",)), Step(step.name, "y0", ("x1", "x2"))]
        alone = pointwise_params(params["size"], steps)
        (result,) = operators.run("pointwise", alone, [places[name] for name in names])
        places[step.y] = result.view(np.float32)
    return [places[name] for name in sorted(name for name in places if name[0] == "y")]


def same(one: Floats, other: Floats) -> bool:
    return np.array_equal(np.where(np.isnan(one), 0, one), np.where(np.isnan(other), 0, other)) and np.array_equal(
        np.isnan(one), np.isnan(other)
    )


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(groups_of_steps(), st.integers(0, 2**16))
def test_blocks_give_what_steps_give_one_by_one(operators: Operators, params: dict[str, int], seed: int) -> None:
    inputs = drawn(params, seed)
    expected = one_by_one(operators, params, inputs)
    for over in (None, *OPERATORS["pointwise"].sizes(params).takes_over):
        found = operators.run("pointwise", params, inputs, over=over)
        assert all(same(one.view(np.float32), other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("size", [1, 63, 64, 65, 131, 300])
def test_int16_is_read_block_by_block_beside_words(operators: Operators, size: int) -> None:
    random = np.random.default_rng(size)
    x, z = random.integers(-(1 << 15), 1 << 15, size).astype(np.int16), random.standard_normal(size).astype(np.float32)
    numbers = x.astype(np.float32)
    wanted = {
        "widen(y0,x0)": numbers,
        "widen(r0,x0);mulc(r0,r0,0.0390625);mul(y0,r0,x1)": numbers * np.float32(10 / 256) * z,
        "mulc(r1,x1,2);widen(r0,x0);widen(r2,x0);add(r0,r0,r2);sub(y0,r0,r1)": numbers + numbers - z * np.float32(2),
    }
    for steps, expected in wanted.items():
        params = parse_params(f"size={size} steps={steps}")
        inputs: list[NDArray[Any]] = [x, z] if "x1" in steps else [x]
        assert OPERATORS["pointwise"].sizes(params).takes_over == ((1,) if len(inputs) > 1 else ())
        for over in (None, *OPERATORS["pointwise"].sizes(params).takes_over):
            (found,) = operators.run("pointwise", params, inputs, over=over)
            assert np.array_equal(found.view(np.float32), expected)


@given(groups_of_steps())
def test_a_key_says_all_of_a_group(params: dict[str, int]) -> None:
    assert parse_params(params_key("pointwise", params)) == params


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(groups_of_steps(), st.data())
def test_a_changed_word_is_refused_or_stays_inside(
    operators: Operators, params: dict[str, int], data: st.DataObject
) -> None:
    """The buffers end where `sizes` says: the sanitizers' test runs what is drawn here, too."""
    place = data.draw(st.integers(0, params["words"] - 1))
    byte = data.draw(st.integers(0, 3))
    word = (params[f"word{place}"] & 0xFFFFFFFF).to_bytes(4, "little")
    changed = word[:byte] + bytes([data.draw(st.integers(0, 255))]) + word[byte + 1 :]
    other = params | {f"word{place}": int.from_bytes(changed, "little", signed=True)}
    try:
        sizes = operators.sizes("pointwise", other)
    except StatusError as refused:
        assert refused.status == -1
        return
    operators.run("pointwise", other, [np.ones(size, np.uint8) for size in sizes.input_bytes[: sizes.inputs]])


@pytest.mark.parametrize(
    "steps",
    [
        "add(r0,x0,x1)",  # no output
        "add(y0,x0,x2)",  # an input left out
        "add(y0,x0,r0)",  # a register before it is written
        "relu(y1,x0)",  # an output left out
        "relu(x0,x1)",  # an input is written
        "spread(y0,x0,1,7)",  # that does not divide the size
        "spread(r0,x0,1,5);add(y0,r0,x0)",  # an input small and whole
        "spread(r0,x0,1,5);spread(r1,x0,1,10);add(y0,r0,r1)",  # of two lengths
        "sum(r0,x0,1);copy(y0,r0)",  # a sum in a register
        "sum(y0,x0,1);copy(y1,y0)",  # a sum is read
        "sum(y0,x0,1);sum(y0,x0,1)",  # and written twice
        "select(y0,x0,x1)",  # what was never there
        "widen(r0,x0);add(y0,r0,x0)",  # an input of i16 and of words
        "copy(r0,x0);widen(r1,x0);add(y0,r0,r1)",
        "spread(r0,x0,1,5);widen(r1,x0);add(y0,r0,r1)",
        "widen(r0,x0);spread(r1,x0,1,5);add(y0,r0,r1)",
        "relu(r0,x0);widen(y0,r0)",  # i16 in a register
    ],
)
def test_steps_that_make_no_sense_are_refused(operators: Operators, steps: str) -> None:
    with pytest.raises(StatusError):
        operators.sizes("pointwise", parse_params(f"size=30 steps={steps}"))


@pytest.mark.parametrize("words", [0, -1, 47, 2**31 - 1])
def test_as_many_words_as_there_cannot_be_are_refused(operators: Operators, words: int) -> None:
    """Before one of them is read."""
    params = (ctypes.c_int32 * 2)(4, words)
    assert operators.table["pointwise"].sizes(params, ctypes.byref(CSizes())) == -1


@pytest.mark.parametrize(
    "key", ["size=4 steps=", "size=4 steps=relu(y0)", "size=4 steps=nothing(y0,x0)", "size=4 steps=relu(z0,x0)"]
)
def test_text_that_is_no_step_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="step"):
        parse_params(key)


def test_every_step_is_in_the_tables() -> None:
    assert {*EXACT, SPREAD, SUM, WIDEN} == set(KINDS)


def test_an_activation_is_named_in_two_files() -> None:
    named = re.compile(r"\b(softplus|SOFTPLUS)\b")
    folders = [ROOT / name for name in ("firmware", "harness", "planner", "profiles")]
    files = [path for folder in folders for end in ("py", "c", "h", "def") for path in folder.rglob(f"*.{end}")]
    found = {str(path.relative_to(ROOT)) for path in files if named.search(path.read_text())}
    assert found == {"firmware/include/poet/steps.def", "planner/poet_planner/lowering/operators/steps.py"}
