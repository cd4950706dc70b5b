# SPDX-License-Identifier: Apache-2.0
"""Recall, precision and F1 by class, and the confusion matrix, held against scikit-learn's."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from poet_harness.training.classes import class_figures, class_names, confusion, confusion_csv
from poet_profiles.errors import UserError
from poet_profiles.graph import Resident
from poet_profiles.losses import Loss
from sklearn import metrics

from tests.support.harness.made_plans import inference_of

OUTPUT = Resident("inference.output", "output", 60, 0, (1, 3, 5))
INFERENCE = inference_of(OUTPUT)


@pytest.mark.parametrize("count", [2, 4, 9])
def test_figures_are_scikit_learns(count: int) -> None:
    drawn = np.random.default_rng(count)
    labels, found = drawn.integers(0, count, (2, 50), "i4")
    labels[labels == count - 1] = 0  # a class without a label
    if count > 2:
        found[found == 1] = 0  # and one without an answer
    matrix = confusion((labels, found), count)
    np.testing.assert_array_equal(matrix, metrics.confusion_matrix(labels, found, labels=range(count)))
    expected = metrics.precision_recall_fscore_support(labels, found, labels=range(count), zero_division=np.nan)
    figures = class_figures(matrix, [str(number) for number in range(count)])
    rows = [(one.precision, one.recall, one.f1, one.count) for one in figures]
    np.testing.assert_allclose(np.array(rows, float), np.array(expected).T)
    assert figures[-1].recall is None


def test_the_file_is_read_by_pandas_whatever_the_names() -> None:
    names = ['a "b"', "c, d", "e"]
    table = pd.read_csv(io.StringIO(confusion_csv(np.arange(9).reshape(3, 3), names)), index_col="label")
    assert [*table.index] == [*table.columns] == names
    assert table.loc["c, d", "e"] == 5  # of the label "c, d" the answer "e"


def test_names_are_the_models_or_numbers() -> None:
    assert class_names(INFERENCE) == ("0", "1", "2", "3", "4")
    along = replace(INFERENCE, loss=Loss("cross_entropy", 1))
    assert class_names(along) == ("0", "1", "2")
    assert class_names(replace(along, classes=("a", "b", "c"))) == ("a", "b", "c")
    with pytest.raises(UserError, match="names for 3 classes, and scores for 5"):
        class_names(replace(INFERENCE, classes=("a", "b", "c")))
