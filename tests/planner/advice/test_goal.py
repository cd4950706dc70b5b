# SPDX-License-Identifier: Apache-2.0
"""Metrics and intervals, against scikit-learn and SciPy; what is no goal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from poet_planner.advice.goal import Goal, goal_of, wilson
from poet_profiles.errors import UserError
from scipy.stats import binomtest
from sklearn import metrics


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    return 0.25


def test_metrics_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    scores, labels = random.normal(size=(40, 4)).astype(np.float32), random.integers(0, 3, 40)
    answers = scores.argmax(1)
    with pytest.warns(UserWarning, match="y_pred contains classes not in y_true"):
        balanced = metrics.balanced_accuracy_score(labels, answers)
    expected = {
        "accuracy": metrics.accuracy_score(labels, answers),
        "balanced accuracy": balanced,
        "macro f1": metrics.f1_score(labels, answers, average="macro"),
    }
    given = torch.from_numpy(scores), torch.from_numpy(labels)
    assert {name: goal_of(f"{name} 0.5", loss).measure(*given) for name in expected} == pytest.approx(expected)
    made, wanted = random.normal(size=(2, 30))
    of_numbers = {
        "mae": metrics.mean_absolute_error(wanted, made),
        "rmse": metrics.root_mean_squared_error(wanted, made),
        "r2": metrics.r2_score(wanted, made),
    }
    numbers = torch.from_numpy(made), torch.from_numpy(wanted)
    assert {name: goal_of(f"{name} 0.5", loss).measure(*numbers) for name in of_numbers} == pytest.approx(of_numbers)


@pytest.mark.parametrize(("right", "count"), [(0, 5), (51, 60), (76, 76)])
def test_the_interval_is_wilsons(right: int, count: int) -> None:
    found = binomtest(right, count).proportion_ci(method="wilson")
    assert wilson(right / count, count) == pytest.approx((found.low, found.high))


def test_a_goal_is_reached_where_three_epochs_keep_it() -> None:
    goal, falls = goal_of("accuracy 0.8", loss), goal_of("loss 0.5", loss)
    assert goal.least_epoch([0.1, 0.9, 0.9, 0.7, 0.8, 0.8, 0.9]) == (4, True)
    assert goal.least_epoch([0.1, 0.9, 0.9]) == (1, False)
    assert goal.least_epoch([0.1, 0.2]) == (2, False)
    assert falls.least_epoch([0.9, 0.4, 0.5, 0.1]) == (1, True)


@pytest.mark.parametrize("text", ["accuracy", "0.85", "accuracy 85", "accurasy 0.8", "accuracy nan"])
def test_what_is_no_goal_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=rf"--goal {text}: "):
        assert isinstance(goal_of(text, loss), Goal)
