# SPDX-License-Identifier: Apache-2.0
"""Asking the firmware's operators: clean C, exact parameters, one line where it fails."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from poet_profiles.errors import UserError
from poet_profiles.firmware import compiled_operators
from poet_profiles.firmware.compiled_operators import RECORDER, StatusError, blocks, recorded
from poet_profiles.firmware.operators import OPERATORS, products_of, rows_together, way_of

from tests.support.firmware.host_operators import FLAGS

CONVOLUTION = {"n": 2, "c": 8, "h": 8, "w": 8, "k": 16, "r": 3, "s": 3, "sh": 1, "sw": 1, "ph": 1, "pw": 1, "g": 1}
CONVOLUTION |= {"bias": 1}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_recorder_is_clean_c(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    command = [compiler, *FLAGS, "-c", str(RECORDER), "-o", str(tmp_path / "recorder.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_number_beyond_32_bits_is_refused_and_not_cut_off() -> None:
    assert OPERATORS["fetch"].sizes({"size": 4}).outputs == (16,)
    for size in (2**32 + 4, -(2**33), 0):
        with pytest.raises(StatusError, match="the firmware takes no such shape"):
            OPERATORS["fetch"].sizes({"size": size})


def test_too_many_kinds_of_products_are_no_silent_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_operators, "_entries", lambda: (compiled_operators.Recorded * 1)())
    operator = OPERATORS["conv2d_backward_input"]
    with pytest.raises(RuntimeError, match="more than 1 kinds"):
        recorded.__wrapped__(operator.code, operator.values(CONVOLUTION | {"c": 3, "sh": 2}), True)


def test_what_is_computed_is_that_of_the_shape() -> None:
    """Winograd's algorithm, and with three channels products: two images of eight rows."""
    assert way_of(CONVOLUTION) == "winograd"
    assert rows_together("conv2d_backward_input", CONVOLUTION) == blocks().winograd_part
    [job] = products_of("conv2d", CONVOLUTION, fpu=True)
    assert (job.door, job.times, job.n, job.channels, job.rows, job.height) == ("winograd", 1, 2, 8, 16, 8)
    filled, product = products_of("conv2d", CONVOLUTION | {"c": 3}, fpu=True)
    assert (filled.door, filled.times, filled.rows, filled.columns) == ("fill", 16, 3, 8)
    assert (product.times, product.rows, product.columns, product.k_rows * product.taps) == (16, 16, 8, 27)
    assert product.kernels == ["triples"]
    assert products_of("conv2d", CONVOLUTION | {"c": 3}, fpu=False)[1].kernels == ["general"]


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CC", "nothing")
    compiled_operators.library.cache_clear()
    yield
    compiled_operators.library.cache_clear()


def test_without_a_compiler_names_are_known_and_sizes_are_one_line(nothing_built: None) -> None:
    assert OPERATORS["conv2d"].code == 1 and OPERATORS["add_s8"].takes_over == (0, 1)
    with pytest.raises(UserError, match=r"^what the planner asks of the firmware is not compiled here[^\n]*C compiler"):
        OPERATORS["fetch"].sizes({"size": 999983})  # which no other test has asked for
