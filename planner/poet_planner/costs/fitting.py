# SPDX-License-Identifier: Apache-2.0
"""Coefficients of costs: least squares of relative errors, none of them negative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

GAIN = 1e-9  # of a column, against the largest that one can have: less is rounding


def fit_relative(table: Array, costs: Array, weights: Array | None = None) -> tuple[float, ...]:
    """Coefficients, none negative, of least squared relative error.

    Of equally good columns a later one is taken, so that the constant is the last.

    Parameters
    ----------
    table : array, shape (rows, columns)
        Features of each row.
    costs : array, shape (rows,)
        In seconds or joules; rows of zero cost carry no relative error and are left out.
    weights : array, shape (rows,), optional
        Of the rows' errors; all the same unless given.
    """
    matrix, target, scale = _relative(table, costs, weights)
    solution, _ = _non_negative(matrix, target, [])
    return tuple(float(coefficient) for coefficient in solution / scale)


def left_out_error(table: Array, costs: Array, weights: Array | None = None) -> float | None:
    """Mean relative error of each row's prediction by a model fitted on the others; None for a single row.

    Of rows of less weight than others nothing is said, nor of one that alone has a feature: the others know no cost of
    it.
    """
    matrix, target, _ = _relative(table, costs, weights)
    if len(target) < 2:
        return None
    _, chosen = _non_negative(matrix, target, [])
    errors = []
    for index in np.flatnonzero(target == target.max()):
        others = np.arange(len(target)) != index
        if (matrix[index][~matrix[others].any(axis=0)] != 0).any():
            continue
        solution, _ = _non_negative(matrix[others], target[others], chosen)
        errors.append(abs(float(matrix[index] @ solution) / target[index] - 1))
    return float(np.mean(errors)) if errors else None


def _relative(table: Array, costs: Array, weights: Array | None) -> tuple[Array, Array, Array]:
    """Rows by their costs, and columns of one scale, which keeps the small systems well conditioned."""
    used = costs > 0
    target = np.ones(len(costs)) if weights is None else np.asarray(weights, dtype=float)
    matrix = table[used] * (target[used] / costs[used])[:, None]
    scale = np.maximum(np.abs(matrix).max(axis=0, initial=0.0), np.finfo(float).tiny)
    return matrix / scale, target[used], scale


def _non_negative(matrix: Array, target: Array, start: Sequence[int]) -> tuple[Array, list[int]]:
    """The optimum, and its columns that are not zero, by Lawson's and Hanson's active sets from those of ``start``."""
    columns = matrix.shape[1]
    solution = np.zeros(columns)
    chosen = list(start)
    for _ in range(3 * columns + 1):
        while chosen:  # a step towards the unconstrained optimum, as far as all stay positive
            wanted, *_ = np.linalg.lstsq(matrix[:, chosen], target, rcond=None)
            if (wanted > 0).all():
                solution[:] = 0.0
                solution[chosen] = wanted
                break
            now = solution[chosen]
            falls = wanted <= 0
            step = float(np.min(now[falls] / np.maximum(now[falls] - wanted[falls], np.finfo(float).tiny)))
            now = now + step * (wanted - now)
            solution[:] = 0.0
            solution[chosen] = np.where(falls & (now <= now.max(initial=0.0) * 1e-15), 0.0, now)
            chosen = [column for column in chosen if solution[column] > 0]
        gains = matrix.T @ (target - matrix @ solution)
        gains[chosen] = 0.0
        best = columns - 1 - int(np.argmax(gains[::-1])) if columns else 0
        if not columns or gains[best] <= GAIN * len(target):
            break
        chosen.append(best)
    return solution, chosen
