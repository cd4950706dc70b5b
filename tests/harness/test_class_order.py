# SPDX-License-Identifier: Apache-2.0
"""Sets whose order spoils a training are told in a line; mixed ones are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from poet_harness.data.class_order import words_on_order
from poet_profiles.samples import BatchTensor, Samples

COUNT = 64
RANDOM = np.random.default_rng(0)
MIXED = RANDOM.permutation(np.repeat(np.arange(4), 16))
RARE = RANDOM.permutation(np.repeat([0, 1], [900, 100]))


def told(
    labels: NDArray[Any], other: NDArray[Any] | None = None, in_order: bool = True, made: bool = False
) -> list[str]:
    """What is said of a set with such labels, and of another to validate with."""
    choices = 1000 if labels.dtype.kind == "i" else None
    tensor = BatchTensor(1, "target", "target", labels.shape[1:], labels.dtype, choices)
    sets = [_samples(one, made) if one is not None else None for one in (labels, other)]
    assert sets[0] is not None
    return list(words_on_order([tensor], sets[0], sets[1], in_order))


def _samples(labels: NDArray[Any], made: bool) -> Samples:
    return Samples("set", len(labels), lambda numbers: {1: labels[numbers]}, {} if made else {1: labels})


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize(
    ("labels", "in_rows"),
    [
        (np.sort(MIXED), True),
        (np.sort(MIXED)[::-1].copy(), True),
        (MIXED, False),
        (np.repeat([3, 0, 2, 1], 16), True),  # not by number
        (np.tile(np.repeat([0, 1], 16), 2), True),  # again by a second writer
        (np.tile([0, 1], 32), False),
        (np.repeat([0.0, 1.0], 32).astype("f4")[:, None], True),  # of binary cross entropy
        (np.arange(COUNT) / COUNT, False),  # numbers, and not classes
        (np.zeros(COUNT, int), False),
        (np.sort(RARE), True),
        (RARE, False),
        (np.repeat(np.arange(500), 8), True),  # more classes than are looked at
        (RANDOM.permutation(np.repeat(np.arange(500), 8)), False),
        (np.array([0, 0, 1]), False),
    ],
)
def test_samples_of_one_class_in_a_row_are_told(labels: NDArray[Any], in_rows: bool, made: bool) -> None:
    assert bool(told(labels, made=made)) == in_rows
    assert not told(labels, in_order=False, made=made)


@given(st.integers(2, 20), st.integers(10, 60), st.integers(0, 2**31))
def test_a_mixed_set_is_let_be(classes: int, each: int, seed: int) -> None:
    sorted_labels = np.repeat(np.arange(classes), each)
    assert told(sorted_labels)
    assert not told(np.random.default_rng(seed).permutation(sorted_labels))


def test_classes_that_are_not_learnt_are_named() -> None:
    labels = np.sort(MIXED)
    words = told(labels[:40], labels[40:], in_order=False)
    assert words == ["the validation has classes that the training lacks (3): split after shuffling, by class"]
    assert not told(MIXED[:40], MIXED[40:])
    assert told(np.arange(40), np.arange(50))[0].count("(40, 41, 42, 43, 44, …)") == 1
    assert not told(np.arange(1000), np.arange(500, 1500) % 1000, made=True)  # not all are made for this
