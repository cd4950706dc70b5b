# SPDX-License-Identifier: Apache-2.0
"""Figures as people read them, read back."""

from __future__ import annotations

import math
import random

import pytest
from poet_profiles.amounts import energy_text, loss_text, time_text

SCALES = {"": 1.0, "m": 1e-3, "\u00b5": 1e-6, "n": 1e-9}


@pytest.mark.parametrize(("text_of", "unit"), [(energy_text, "J"), (time_text, "s")])
@pytest.mark.parametrize("digits", [3, 5])
def test_an_amount_has_its_digits_in_every_unit(text_of: object, unit: str, digits: int) -> None:
    drawn = random.Random(digits)
    for _ in range(500):
        amount = drawn.uniform(1, 10) * 10 ** drawn.randrange(-9, 6)
        number, named = text_of(amount, digits).split(" ")  # type: ignore[operator]
        assert named.endswith(unit)
        shown = float(number) * SCALES[named.removesuffix(unit)]
        assert shown == pytest.approx(amount, rel=0.5 * 10 ** (1 - digits))
        assert "e" not in number and (len(number) <= digits + 2 or amount >= 1000)


def test_a_loss_is_read_whatever_its_size() -> None:
    assert [*map(loss_text, (2.302585, 0.0, -0.5, 1.5e37, 3.2e-6, 87654.3, math.inf))] == [
        *("2.3026", "0.0000", "-0.5000", "1.5e+37", "3.2e-06", "87654.3000", "inf")
    ]
    drawn = random.Random(0)
    for _ in range(500):
        loss = drawn.uniform(1, 10) * 10 ** drawn.randrange(-12, 38)
        assert float(loss_text(loss)) == pytest.approx(loss, rel=0.06) and len(loss_text(loss)) <= 10
