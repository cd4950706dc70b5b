# SPDX-License-Identifier: Apache-2.0
"""Recall at a bound of false accepts, against brute force, a listener, and scikit-learn."""

from __future__ import annotations

from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.plan_folder.plan import Plan
from poet_harness.training.detection import Detector, heights_of, read_bound
from poet_harness.training.evaluation import Evaluation
from poet_planner.models import Model
from poet_planner.tracing.known_loss import known_loss
from poet_planner.tracing.traced_loss import traced_loss
from poet_profiles.errors import UserError
from poet_profiles.graph import Resident
from poet_profiles.losses import Loss
from sklearn.metrics import roc_curve
from torch import nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, mse_loss, soft_margin_loss

from tests.support.harness.made_plans import inference_of, plan_of

LOGITS, CLASSES, SQUARES = (Loss("binary_cross_entropy_with_logits"), Loss("cross_entropy", 1), Loss("mse_loss"))
COUNT = 400
DRAW = np.random.default_rng(3)
THERE = DRAW.random(COUNT) < 0.15
HEIGHTS = (DRAW.standard_normal(COUNT) + 1.5 * THERE).astype(np.float32).round(1)  # some are equal


def plan(scores: int, target: tuple[int, ...] = (), loss: Loss | None = LOGITS, **more: Any) -> Plan:
    residents = (Resident("x", "input", 16, 0, (4, 1)), Resident("y", "target", 16, 16, (4, *target)))
    output = Resident("output", "output", 4 * scores, 64, (1, scores))
    choices = {"choices": {"y": scores}} if loss == CLASSES else {}
    return plan_of(residents, inference=inference_of(*residents, output, loss=loss, **more), **choices)


def evaluation(scores: NDArray[Any], targets: NDArray[Any]) -> Evaluation:
    return Evaluation(None, 0, len(scores), 0.0, None, scores.reshape(len(scores), -1), targets=(targets,))


def detector(hop_s: float | None = None) -> Detector:
    return Detector(heights_of(plan(1), None), evaluation(HEIGHTS, THERE.astype("f4")), hop_s)


def test_the_curve_is_scikit_learns() -> None:
    table = pd.read_csv(StringIO(detector().curve_csv("emulated")))
    false, true, limits = roc_curve(THERE, HEIGHTS, drop_intermediate=False)
    # theirs are accepted from the threshold on, and not above it
    np.testing.assert_allclose(table["recall"].iloc[1:], true[1:-1])
    np.testing.assert_allclose(table["rate"].iloc[1:], 1000 * false[1:-1])
    np.testing.assert_allclose(table["threshold"], limits[1:])


@pytest.mark.parametrize("most", [0, 3, 10.5, 400, 1000])
def test_the_most_is_found_within_a_bound(most: float) -> None:
    found, others = detector().within(most), HEIGHTS[~THERE]
    limits = [-np.inf, *np.unique(HEIGHTS)]
    allowed = most * len(others) / 1000
    best = max((THERE & (one < HEIGHTS)).sum() for one in limits if (others > one).sum() <= allowed)
    assert (found.found, found.there) == (best, THERE.sum())
    assert found.false_accepts == (others > found.threshold).sum() <= allowed
    assert found.threshold not in HEIGHTS  # so that no rounding of it changes an answer
    assert found.rate == pytest.approx(1000 * found.false_accepts / len(others))


def test_of_a_stream_utterances_are_found_and_calls_within_a_second_are_one() -> None:
    hop = 0.25
    found = detector(hop).at(0.5)
    utterances = np.split(np.arange(COUNT), np.flatnonzero(np.diff(THERE)) + 1)
    heard = [HEIGHTS[one].max() > 0.5 for one in utterances if THERE[one[0]]]
    assert (found.found, found.there) == (sum(heard), len(heard))
    left, calls = np.where(THERE, -np.inf, HEIGHTS), 0
    while left.max() > 0.5:  # the highest of all that are left, and it takes a second on either side
        at = int(left.argmax())
        left[max(0, at - 4) : at + 5], calls = -np.inf, calls + 1
    assert (found.false_accepts, found.unit) == (calls, "an hour")
    assert found.rate == pytest.approx(calls / ((~THERE).sum() * hop / 3600))


def test_heights_of() -> None:
    scores = DRAW.standard_normal((60, 3)).astype("f4")
    labels = DRAW.integers(0, 3, 60).astype("i4")
    three = plan(3, loss=CLASSES, classes=("a", "b", "c"))
    for name in ("b", "1"):
        found = Detector(heights_of(three, name), evaluation(scores, labels), None).at(0.0)
        answers = scores.argmax(1)
        assert found.found == ((answers == 1) & (labels == 1)).sum()
        assert found.false_accepts == ((answers == 1) & (labels != 1)).sum()
    two = Detector(heights_of(plan(2, loss=CLASSES), None), evaluation(scores[:, :2], labels % 2), None).at(0.3)
    assert two.found == ((scores[:, 1] - scores[:, 0] > 0.3) & (labels % 2 == 1)).sum()
    yes = (DRAW.random((60, 3)) < 0.4).astype("f4")
    many = Detector(heights_of(plan(3, (3,), classes=("a", "b", "c")), "c"), evaluation(scores, yes), None).at(0.3)
    assert many.found == ((scores[:, 2] > 0.3) & (yes[:, 2] == 1)).sum()
    signs = Detector(heights_of(plan(1, (1,), None), None), evaluation(scores[:, :1], 2 * yes[:, :1] - 1), None)
    assert signs.at(0.3).there == yes[:, 0].sum()
    named = Detector(heights_of(plan(1, classes=("nothing", "it")), "it"), evaluation(scores[:, :1], yes[:, 0]), None)
    assert named.at(0.3).found == ((scores[:, 0] > 0.3) & (yes[:, 0] == 1)).sum()


@pytest.mark.parametrize(
    ("made", "name", "targets", "words"),
    [
        (plan(3, loss=CLASSES), None, None, "--detect: none is given; there are 0, 1, 2"),
        (plan(3, loss=CLASSES), "d", None, "--detect: there is no d; there are 0, 1, 2"),
        (plan(3, (2,)), None, None, "the targets do not say what the scores are of"),
        (plan(1, loss=SQUARES), None, [0.2, 0.7, 1.0], "neither yes nor no"),
        (plan(1), None, [0, 0, 0], "there is none of what is detected"),
        (plan(1), None, [1, 1, 1], "there is nothing else"),
    ],
)
def test_refusals(made: Plan, name: str | None, targets: list[float] | None, words: str) -> None:
    with pytest.raises(UserError, match=words):
        Detector(heights_of(made, name), evaluation(np.zeros(3, "f4"), np.array(targets, "f4")), None)


@pytest.mark.parametrize(
    ("text", "hop_s", "words"),
    [("2/day", None, "2/hour or 5/1000"), ("2/hour", None, "give --hop"), ("5/1000", 0.1, "leave --hop out")],
)
def test_refused_bounds(text: str, hop_s: float | None, words: str) -> None:
    assert (read_bound("2.5/h", 0.03), read_bound("5/1000", None)) == (2.5, 5.0)
    with pytest.raises(UserError, match=words):
        read_bound(text, hop_s)


RARE = torch.tensor(9.0)
LOSSES: dict[str, tuple[Any, float | None]] = {
    "plain": (lambda y, t: binary_cross_entropy_with_logits(y[:, 0], t), 0.0),
    "rare": (lambda y, t: binary_cross_entropy_with_logits(y.squeeze(1), t, pos_weight=RARE), 0.0),
    "by hand": (lambda y, t: (binary_cross_entropy_with_logits(y[:, 0], t, reduction="none") * (1 + 8 * t)).sum(), 0.0),
    "sigmoid within": (lambda y, t: binary_cross_entropy(y.sigmoid()[:, 0], t), 0.0),
    "probability": (lambda y, t: binary_cross_entropy(y.view(-1), t), 0.5),
    "weighted": (lambda y, t: binary_cross_entropy(y.view(-1), t, weight=1 + 8 * t), 0.5),
    "moved": (lambda y, t: binary_cross_entropy_with_logits(y[:, 0] - 3, t), None),
    "squares": (lambda y, t: mse_loss(y[:, 0], t), None),
    "margin": (lambda y, t: soft_margin_loss(y[:, 0], 2 * t - 1), None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_where_a_lone_score_says_yes(name: str) -> None:
    loss, boundary = LOSSES[name]
    target = (torch.rand(4) > 0.5).float()
    model = Model("lone", nn.Linear(1, 1), (torch.rand(4, 1),), (target,), loss)
    found = known_loss(model, (1,)) or traced_loss(model, (1,))
    assert found is not None
    assert found.boundary == boundary
