# SPDX-License-Identifier: Apache-2.0
"""Every operator against PyTorch, over shapes made by hypothesis."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.operators import OPERATORS

from tests.support.firmware.host_operators import Operators
from tests.support.firmware.operator_references import REFERENCES, Draw, assert_close
from tests.support.firmware.operator_shapes import CONFIGURATIONS


def test_every_operator_has_a_reference() -> None:
    assert set(REFERENCES) == set(CONFIGURATIONS) == set(OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_equals_pytorch(operators: Operators, name: str) -> None:
    @settings(max_examples=150 if "conv2d" in name else 60, deadline=None, derandomize=True)
    @given(CONFIGURATIONS[name], st.integers(0, 2**16))
    def equal(params: dict[str, int], seed: int) -> None:
        golden = REFERENCES[name](params, Draw(seed))
        outputs = operators.run(name, params, golden.inputs, golden.learning_rate)
        assert_close(outputs, golden.outputs)

    equal()
