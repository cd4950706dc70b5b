"""RAM and deadlines as people write them."""

from __future__ import annotations

import pytest
from poet_planner.amounts import deadline_s, ram_bytes
from poet_profiles.errors import UserError


@pytest.mark.parametrize(
    ("text", "expected"),
    [("200000", 200_000), ("256KB", 262_144), ("256 kib", 262_144), ("1.5MB", 1_572_864), ("50%", 500), ("12.5%", 125)],
)
def test_ram(text: str, expected: int) -> None:
    assert ram_bytes(text, plain_peak_bytes=1000) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("2.5s", 2.5), ("2.5", 2.5), ("800ms", 0.8), ("1.5x", 6.0), ("2 min", 120)]
)
def test_deadline(text: str, expected: float) -> None:
    assert deadline_s(text, plain_time_s=4.0) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "KB", "-5KB", "0", "5 parsecs", "50x", "nan", "1e999KB"])
def test_bad_ram_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--ram"):
        ram_bytes(text, 1000)


@pytest.mark.parametrize("text", ["", "x", "-1s", "0s", "5KB", "50%"])
def test_bad_deadline_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--deadline"):
        deadline_s(text, 1.0)
