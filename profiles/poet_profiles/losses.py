# SPDX-License-Identifier: Apache-2.0
"""Losses that NumPy computes from a network's scores, as PyTorch's functions of these names do (mean reduction)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
LOWEST_LOG = -100.0  # as PyTorch's binary_cross_entropy has it
# Above which a lone score says that something is there: a logarithm of odds, or a probability.
BOUNDARIES = {
    "binary_cross_entropy_with_logits": 0.0,
    "binary_cross_entropy": 0.5,
    "sigmoid binary_cross_entropy": 0.0,
}


def _log_softmax(scores: Array) -> Array:
    shifted = scores - scores.max(-1, keepdims=True)
    logs: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return logs


def _nll(log_probabilities: Array, labels: Array) -> Array:
    losses: Array = -np.take_along_axis(log_probabilities, labels[:, None].astype(np.int64), 1)
    return losses


def _squared(scores: Array, targets: Array) -> Array:
    losses: Array = (scores - targets) ** 2
    return losses


def _binary(probabilities: Array, targets: Array) -> Array:
    with np.errstate(divide="ignore"):
        log, log_of_rest = (np.maximum(np.log(one), LOWEST_LOG) for one in (probabilities, 1 - probabilities))
    losses: Array = -(targets * log + (1 - targets) * log_of_rest)
    return losses


def _binary_with_logits(scores: Array, targets: Array) -> Array:
    losses: Array = np.maximum(scores, 0) - scores * targets + np.log1p(np.exp(-np.abs(scores)))
    return losses


# Of rows of scores and a label each, or of scores and as many targets; their mean is the loss.
OF_CLASSES: dict[str, Callable[[Array, Array], Array]] = {
    "cross_entropy": lambda scores, labels: _nll(_log_softmax(scores), labels),
    "nll_loss": _nll,
}
OF_NUMBERS: dict[str, Callable[[Array, Array], Array]] = {
    "mse_loss": _squared,
    "binary_cross_entropy": _binary,
    "binary_cross_entropy_with_logits": _binary_with_logits,
}


@dataclass(frozen=True)
class Loss:
    """How a loss reads scores.

    Attributes
    ----------
    name : str
        A key of ``OF_CLASSES`` or ``OF_NUMBERS``.
    class_axis : int or None
        The axis of the scores that has one a class; None for a loss of numbers.
    """

    name: str
    class_axis: int | None = None

    @property
    def boundary(self) -> float | None:
        """Above which a lone score says that something is there; None if this is no loss of that."""
        return BOUNDARIES.get(self.name)

    def reads(self, shape: tuple[int, ...]) -> bool:
        """Whether it is one of these, and reads scores of a shape whose first axis counts samples."""
        if self.name in OF_CLASSES:
            return self.class_axis in range(1, len(shape))
        return self.name in OF_NUMBERS and self.class_axis is None

    def rows(self, scores: Array) -> Array:
        """Scores as rows of one a class."""
        assert self.class_axis is not None
        return np.moveaxis(scores, self.class_axis, -1).reshape(-1, scores.shape[self.class_axis])

    def mean(self, scores: Array, targets: Array) -> float:
        """The loss of some samples, computed in f64.

        Parameters
        ----------
        scores, targets : array
            Their first axis counts samples.
        """
        wide = scores.astype(np.float64)
        if self.class_axis is not None:
            return float(OF_CLASSES[self.name](self.rows(wide), targets.reshape(-1)).mean())
        return float(OF_NUMBERS[self.name](wide.reshape(-1), targets.astype(np.float64).reshape(-1)).mean())
