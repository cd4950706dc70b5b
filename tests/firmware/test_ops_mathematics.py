# SPDX-License-Identifier: Apache-2.0
"""The elementary functions against double precision, over the whole range of f32."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pytest
from poet_planner.torch_reference.board_random import kept, threefry
from scipy.special import expit, ndtr

from tests.support.firmware.host_operators import Operators

Floats = npt.NDArray[np.float32]


def computed(operators: Operators, name: str, x: Floats) -> Floats:
    function = getattr(operators.library, name)
    function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    return np.array([function(value) for value in x.tolist()], np.float32)


def every_magnitude(count: int) -> Floats:
    """Positive floats of every exponent, subnormal ones included, and the edges."""
    bits = np.random.default_rng(1).integers(1, 0x7F800000, count).astype(np.uint32)
    edges = np.array([1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF], np.uint32)
    return np.concatenate([edges, bits]).view(np.float32)


def units(x: Floats, exact: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Distance in units in the last place of the exact result."""
    return np.abs(x.astype(np.float64) - exact) / np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


def test_square_root_is_correctly_rounded(operators: Operators) -> None:
    x = every_magnitude(20000)
    assert np.array_equal(computed(operators, "poet_sqrt", x), np.sqrt(x))


def test_exponential(operators: Operators) -> None:
    x = np.random.default_rng(2).uniform(-103, 88.7, 20000).astype(np.float32)
    assert units(computed(operators, "poet_exp", x), np.exp(x.astype(np.float64))).max() < 2


def test_logarithm(operators: Operators) -> None:
    x = np.concatenate([every_magnitude(20000), np.random.default_rng(3).uniform(0.5, 2, 20000).astype(np.float32)])
    assert units(computed(operators, "poet_log", x), np.log(x.astype(np.float64))).max() < 2


def test_hyperbolic_tangent(operators: Operators) -> None:
    random = np.random.default_rng(5)
    x = np.concatenate([random.uniform(-12, 12, 20000), random.uniform(-1, 1, 20000)]).astype(np.float32)
    assert units(computed(operators, "poet_hyperbolic_tangent", x), np.tanh(x.astype(np.float64))).max() < 4


def test_logistic(operators: Operators) -> None:
    x = np.random.default_rng(6).uniform(-85, 85, 20000).astype(np.float32)
    assert units(computed(operators, "poet_logistic", x), expit(x.astype(np.float64))).max() < 4
    assert computed(operators, "poet_logistic", np.float32([-np.inf, -200, 200, np.inf])).tolist() == [0, 0, 1, 1]


def test_logarithm_of_one_plus(operators: Operators) -> None:
    tiny = every_magnitude(20000)
    x = np.concatenate([tiny, -tiny[tiny < 1], np.random.default_rng(7).uniform(-1, 1, 20000).astype(np.float32)])
    assert units(computed(operators, "poet_log_one_plus", x), np.log1p(x.astype(np.float64))).max() < 4
    assert computed(operators, "poet_log_one_plus", np.float32([-1, 0]))[0] == -np.inf


def test_normal_distribution(operators: Operators) -> None:
    x = np.random.default_rng(4).uniform(-12, 12, 20000).astype(np.float32)
    exact = ndtr(x.astype(np.float64))
    assert np.max(np.abs(computed(operators, "poet_normal_distribution", x) / exact - 1)) < 1e-5


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("poet_sqrt", [0.0, np.inf, -1.0, np.nan], [0.0, np.inf, np.nan, np.nan]),
        ("poet_exp", [0.0, np.inf, -np.inf, 89.0, -104.0, np.nan], [1.0, np.inf, 0.0, np.inf, 0.0, np.nan]),
        ("poet_log", [1.0, 0.0, np.inf, -1.0, np.nan], [0.0, -np.inf, np.inf, np.nan, np.nan]),
        ("poet_hyperbolic_tangent", [0.0, np.inf, -np.inf, np.nan], [0.0, 1.0, -1.0, np.nan]),
        ("poet_normal_distribution", [0.0, np.inf, -np.inf, np.nan], [0.5, 1.0, 0.0, np.nan]),
    ],
)
def test_special_values(operators: Operators, name: str, x: list[float], expected: list[float]) -> None:
    assert np.array_equal(
        computed(operators, name, np.array(x, np.float32)), np.array(expected, np.float32), equal_nan=True
    )


def test_threefry_gives_its_authors_known_answers(operators: Operators) -> None:
    """Of Random123's known-answer tests, threefry2x32 with 20 rounds."""
    answers = {
        (0, 0, 0, 0): (0x6B200159, 0x99BA4EFE),
        (0xFFFFFFFF,) * 4: (0x1CB996FC, 0xBB002BE7),
        (0x13198A2E, 0x03707344, 0x243F6A88, 0x85A308D3): (0xC4923A9C, 0x483DF7A0),
    }
    words = ctypes.c_uint32 * 2
    for (*key, first, second), expected in answers.items():
        out = words()
        operators.library.poet_threefry(words(*key), words(first, second), out)
        assert tuple(out) == expected
        pair = threefry((key[0], key[1]), np.array([first], np.uint32), np.array([second], np.uint32))
        assert tuple(int(word[0]) for word in pair) == expected


def test_a_mask_keeps_the_share_that_it_should_and_no_two_are_alike() -> None:
    masks = [
        kept(seed, step, stream, 100_000, 0.7) for seed, step, stream in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    for mask in masks:
        assert abs(mask.mean() - 0.7) < 0.01
    agreement = np.corrcoef(masks)
    assert np.abs(agreement - np.eye(len(masks))).max() < 0.02
