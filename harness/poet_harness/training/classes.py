# SPDX-License-Identifier: Apache-2.0
"""Right and wrong answers by class: the confusion matrix, and recall, precision and F1 from it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.beside import Inference

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ClassFigures:
    """``count`` labels name the class. ``recall`` is the share of them that was answered so, ``precision`` the share of
    such answers that was right; None where there was none, and ``f1`` None where there was neither.
    """

    name: str
    count: int
    recall: float | None
    precision: float | None
    f1: float | None


def class_names(inference: Inference) -> tuple[str, ...]:
    """Names of the classes that an inference has scores for: the model's, or else their numbers."""
    count, names = inference.class_count, inference.classes
    if names and len(names) != count:
        raise UserError(f"the model has names for {len(names)} classes, and scores for {count}; name each class")
    return names or tuple(map(str, range(count)))


def confusion(answers: tuple[NDArray[Any], NDArray[Any]], count: int) -> Counts:
    """How often each label, a row, was given each answer, a column."""
    labels, found = (numbers.astype(np.int64) for numbers in answers)
    return np.bincount(labels * count + found, minlength=count * count).reshape(count, count)


def class_figures(matrix: Counts, names: Sequence[str]) -> list[ClassFigures]:
    """Of each class of a confusion matrix."""
    right, wanted, found = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    return [
        ClassFigures(name, int(label), _share(hit, label), _share(hit, answer), _share(2 * hit, label + answer))
        for name, hit, label, answer in zip(names, right, wanted, found, strict=True)
    ]


def _share(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def confusion_csv(matrix: Counts, names: Sequence[str]) -> str:
    """A row a label, with its name, and a column an answer."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["label", *names])
    writer.writerows([name, *row] for name, row in zip(names, matrix.tolist(), strict=True))
    return text.getvalue()
