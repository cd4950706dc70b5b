# SPDX-License-Identifier: Apache-2.0
"""Every operator against PyTorch, and in place against itself, over shapes made by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.firmware.operators import OPERATORS

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.operator_references import REFERENCES, Draw, assert_close
from tests.support.firmware.operator_shapes import CONFIGURATIONS
from tests.support.levels import examples


def test_every_operator_has_a_reference() -> None:
    assert set(REFERENCES) == set(CONFIGURATIONS) == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_pytorch(operators: Operators, name: str) -> None:
    @settings(max_examples=examples(150 if "conv2d" in name else 60), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: dict[str, int], seed: int) -> None:
        golden = REFERENCES[name](params, Draw(seed))
        outputs = operators.run(name, params, golden.inputs, golden.learning_rate)
        assert_close(outputs, golden.outputs)

    equal()


@pytest.mark.parametrize(
    ("name", "over"), [(name, over) for name, operator in OPERATORS.items() for over in operator.takes_over]
)
def test_in_place_gives_the_same_bits(operators: Operators, name: str, over: int) -> None:
    @settings(max_examples=examples(40), deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: dict[str, int], seed: int) -> None:
        golden = REFERENCES[name](params, Draw(seed))
        apart = operators.run(name, params, golden.inputs)
        in_place = operators.run(name, params, golden.inputs, over=over)
        assert [output.tobytes() for output in in_place] == [output.tobytes() for output in apart]

    equal()
