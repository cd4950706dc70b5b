# SPDX-License-Identifier: Apache-2.0
"""The multiply-add for cores without a floating-point unit, on this machine, against the machine's own arithmetic."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.firmware.host_operators import FIRMWARE, FLAGS

Bits = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

COLUMNS = 4
SPECIAL = np.array([0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000], np.uint32)


class GemmNt(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int32) for name in ["rows", "columns", "k_rows", "taps", "a_row", "b_k_row", "b_tap", "out_row"]
    )


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("soft") / "gemm.so"
    build(library, *(FIRMWARE / "src" / "kernels" / name for name in ("gemm_nt.c", "multiply_add_soft.c")))
    return ctypes.CDLL(str(library))


def build(library: Path, *sources: Path) -> None:
    subprocess.run(
        ["gcc", *FLAGS, "-DPOET_SOFT_MULTIPLY_ADD", "-shared", "-fPIC", *map(str, sources), "-o", str(library)],
        check=True,
    )


def multiply_add(kernels: ctypes.CDLL, sums: Floats, a: Floats, b: Floats) -> Floats:
    """``sums[i, j] + a[i] * b[j]``."""
    out = sums.copy()
    columns = (ctypes.c_void_p * COLUMNS)(*[b.ctypes.data + 4 * j for j in range(COLUMNS)])
    gemm = GemmNt(rows=len(a), columns=COLUMNS, k_rows=1, taps=1, a_row=1, b_k_row=1, b_tap=1, out_row=COLUMNS)
    kernels.poet_gemm_nt_add(
        ctypes.byref(gemm), a.ctypes.data_as(ctypes.c_void_p), columns, out.ctypes.data_as(ctypes.c_void_p)
    )
    return out


def assert_same(kernels: ctypes.CDLL, sums: Floats, a: Floats, b: Floats) -> None:
    with np.errstate(all="ignore"):
        expected = sums + a[:, None] * b[None, :]
    computed = multiply_add(kernels, sums, a, b)
    same = (computed.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(computed) & np.isnan(expected))
    assert same.all(), (sums[~same][:3], computed[~same][:3], expected[~same][:3])


def floats(bits: Bits) -> Floats:
    return np.ascontiguousarray(bits, np.uint32).view(np.float32)


def of_exponents(random: np.random.Generator, low: int, high: int, *shape: int) -> Bits:
    sign_and_mantissa = random.integers(0, 2**32, shape, np.uint32) & np.uint32(0x807FFFFF)
    return sign_and_mantissa | (random.integers(low, high, shape).astype(np.uint32) << np.uint32(23))


@pytest.mark.parametrize("seed", range(40))
def test_near_each_other(kernels: ctypes.CDLL, seed: int) -> None:
    """Exponents close enough for every distance, carry and cancellation; short mantissas make ties."""
    random = np.random.default_rng(seed)
    kept = np.uint32(0xFFFFFFFF << random.integers(0, 16) & 0xFFFFFFFF)
    a, b = of_exponents(random, 120, 134, 20000) & kept, of_exponents(random, 120, 134, COLUMNS) & kept
    sums = of_exponents(random, 110, 150, 20000, COLUMNS) & kept
    assert_same(kernels, floats(sums), floats(a), floats(b))


@pytest.mark.parametrize("seed", range(10))
def test_cancellation(kernels: ctypes.CDLL, seed: int) -> None:
    """Sums within a few units in the last place of minus the product."""
    random = np.random.default_rng(seed)
    a, b = floats(of_exponents(random, 100, 150, 20000)), floats(of_exponents(random, 100, 150, COLUMNS))
    near = (-(a[:, None] * b[None, :])).view(np.uint32) + random.integers(0, 5, (20000, COLUMNS)).astype(np.uint32)
    assert_same(kernels, floats(near - np.uint32(2)), a, b)


@pytest.mark.parametrize("seed", range(10))
def test_whole_range(kernels: ctypes.CDLL, seed: int) -> None:
    """Any bits at all, with overflow, underflow, NaNs and infinities among them."""
    random = np.random.default_rng(seed)
    a, b = random.integers(0, 2**32, 20000, np.uint32), random.integers(0, 2**32, COLUMNS, np.uint32)
    assert_same(kernels, floats(random.integers(0, 2**32, (20000, COLUMNS), np.uint32)), floats(a), floats(b))


def test_special_values(kernels: ctypes.CDLL) -> None:
    """Every zero, subnormal, extreme, infinity and NaN with every other."""
    signed = np.concatenate([SPECIAL, SPECIAL | np.uint32(0x80000000)])
    sums, a = np.meshgrid(signed, signed)
    for b in np.split(signed, len(signed) // COLUMNS):
        assert_same(kernels, floats(np.repeat(sums.reshape(-1, 1), COLUMNS, axis=1)), floats(a.ravel()), floats(b))
