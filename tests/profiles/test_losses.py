# SPDX-License-Identifier: Apache-2.0
"""Losses that NumPy computes, held against PyTorch's functions of the same names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from poet_profiles.losses import OF_CLASSES, OF_NUMBERS, Loss
from torch.nn import functional

DRAWN = np.random.default_rng(4)


@pytest.mark.parametrize("name", OF_CLASSES)
@pytest.mark.parametrize("shape", [(7, 5), (7, 5, 4), (7, 5, 4, 3)])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_loss_of_classes_is_pytorchs_along_any_axis(name: str, shape: tuple[int, ...], scale: float) -> None:
    scores = (scale * DRAWN.standard_normal(shape)).astype("f4")
    labels = DRAWN.integers(0, 5, (7, *shape[2:]), "i4")
    expected = getattr(functional, name)(torch.from_numpy(scores).double(), torch.from_numpy(labels).long())
    for axis in range(1, len(shape)):
        found = Loss(name, axis).mean(np.moveaxis(scores, 1, axis), labels)
        assert found == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_loss_of_numbers_is_pytorchs(name: str) -> None:
    scores, targets = DRAWN.random((6, 3, 2), "f4"), DRAWN.random((6, 3, 2), "f4")
    scores[0, 0] = 0, 1  # of a saturated sigmoid
    expected = getattr(functional, name)(torch.from_numpy(scores).double(), torch.from_numpy(targets).double())
    assert Loss(name).mean(scores, targets) == pytest.approx(float(expected), rel=1e-12)


def test_large_scores_overflow_nothing() -> None:
    scores, targets = np.array([[-3e38], [3e38]], "f4"), np.array([[0], [1]], "f4")
    assert Loss("binary_cross_entropy_with_logits").mean(scores, targets) == 0
