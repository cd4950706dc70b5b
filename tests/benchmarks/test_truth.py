# SPDX-License-Identifier: Apache-2.0
"""The emulated boards against published cycles, as far as that needs no download; and a broken one is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.firmware import emulated_core
from benchmarks.truth import own_fir, soft_float


def test_soft_floats_and_filters_take_what_was_published(tmp_path: Path) -> None:
    figures = [*soft_float.figures(tmp_path), *own_fir.figures(tmp_path)]
    assert [figure.what for figure in figures if figure.missed] == []
    assert sum(figure.least is not None for figure in figures) == 6


def test_a_flash_that_never_waits_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(emulated_core.FLASH_WAIT, "cortex-m0plus", 0)
    missed = [figure.what for figure in own_fir.figures(tmp_path) if figure.missed]
    assert missed == ["plain filter, 256 taps, float, per sample, SAM D21"]
