# SPDX-License-Identifier: Apache-2.0
"""RAM and deadlines as people write them."""

from __future__ import annotations

import pytest
from poet_planner.report import quantities
from poet_profiles.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("200000", 200_000), ("256KB", 262_144), ("256 kib", 262_144), ("1.5MB", 1_572_864), ("50%", 500), ("12.5%", 125)],
)
def test_ram(text: str, expected: int) -> None:
    assert quantities.ram_bytes(text, store_all_peak_bytes=1000) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("2.5s", 2.5), ("2.5", 2.5), ("800ms", 0.8), ("1.5x", 6.0), ("2 min", 120), ("none", None)]
)
def test_deadline(text: str, expected: float | None) -> None:
    assert quantities.deadline_s(text, store_all_time_s=4.0) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "KB", "-5KB", "0", "5 parsecs", "50x", "nan", "1e999KB"])
def test_bad_ram_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--ram"):
        quantities.ram_bytes(text, 1000)


@pytest.mark.parametrize("text", ["", "x", "-1s", "0s", "5KB", "50%"])
def test_bad_deadline_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--deadline"):
        quantities.deadline_s(text, 1.0)


def test_amounts_are_shown_with_three_digits_and_a_unit() -> None:
    assert [
        quantities.energy_text(joules) for joules in (0.0444715, 0.00354864, 1.0, 0.9999, 12345.6, 7.25e-8, 0.0)
    ] == [*("44.5 mJ", "3.55 mJ", "1 J", "1 J", "12345.6 J", "72.5 nJ", "0 J")]
    assert quantities.time_text(0.901179) == "901 ms"
    assert [quantities.bytes_text(count) for count in (36, 1024, 198_260, 1_038_336, 3 << 20)] == [
        *("36 B", "1.0 KB", "193.6 KB", "1014 KB", "3.0 MB")
    ]


def test_shares_are_shown_as_people_say_them() -> None:
    assert [quantities.share_text(share) for share in (0.27189, 1.0, 3e-8, -1e-17, 0.0)] == [
        *("27.2 %", "100 %", "< 0.001 %", "0 %", "0 %")
    ]
    assert [quantities.more_text(share) for share in (0.03214, 11.531994, -0.02)] == ["+3.21 %", "12.5 times", "-2 %"]
