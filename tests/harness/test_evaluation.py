# SPDX-License-Identifier: Apache-2.0
"""Inferences over a data set: what is counted, what is metered, and whose inference it has to be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.meters.meter import Mark, Meter, MeterError, Window
from poet_harness.plan_folder.plan import Plan
from poet_harness.protocol.device import InferenceReport
from poet_harness.training.evaluation import MOST_METERED, evaluate
from poet_harness.training.metering import Metering
from poet_profiles.errors import UserError
from poet_profiles.graph import Resident
from poet_profiles.losses import Loss
from poet_profiles.quantised import Normalising
from poet_profiles.samples import Samples

from tests.support.harness.made_plans import inference_of, plan_of

FEATURES, CLASSES, COUNT = 4, 40, 60
TIME_S, POWER_W, IDLE_W = 2e-3, 0.02, 0.004
GENERATOR = np.random.default_rng(1)
WEIGHTS = GENERATOR.standard_normal((CLASSES, FEATURES)).astype(np.float32)
X = GENERATOR.standard_normal((COUNT, FEATURES)).astype(np.float32)
SCORES = X @ WEIGHTS.T
LABELS = np.where(np.arange(COUNT) % 3, SCORES.argmax(1), (SCORES.argmax(1) + 1) % CLASSES).astype("<i4")

RESIDENTS = (Resident("input", "input", 16 * FEATURES, 0, (4, FEATURES)), Resident("target", "target", 16, 400, (4,)))
OWN = Resident("inference.input", "input", 4 * FEATURES, 900, (1, FEATURES))
SCORED = Resident("inference.output", "output", 4 * CLASSES, 916, (1, CLASSES))
INFERENCE = inference_of(*RESIDENTS, OWN, SCORED, time_s=TIME_S)
HASH = INFERENCE.schedule_hash
PLAN = plan_of(RESIDENTS, choices={"target": CLASSES}, types={"target": "<i4"}, inference=INFERENCE)


@dataclass
class Board:
    """It multiplies by WEIGHTS; the answer has the first 128 bytes of the scores, as docs/SPEC.md says."""

    inference: str = HASH
    link: Any = field(default_factory=lambda: SimpleNamespace(name="board"))
    held: bytes = b""
    scores: bytes = b""

    @property
    def hello(self) -> Any:
        return SimpleNamespace(inference=self.inference)

    def put(self, index: int, data: bytes, at: int = 0) -> None:
        assert (index, at) == (2, 0)
        self.held = data

    def get(self, index: int, count: int, at: int = 0) -> bytes:
        assert index == 3
        return self.scores[at : at + count]

    def infer(self, expected_s: float = 0.0, kept_as: int | None = None) -> InferenceReport:
        sample = np.frombuffer(self.held, "<f4")
        self.scores = (WEIGHTS @ sample).astype("<f4").tobytes()
        return InferenceReport(TIME_S, 0, 0, self.scores[:128], 0.0, TIME_S)


class Recorder(Meter):
    identity, voltage_v = "recorder", 3.3

    def __init__(self, fails: bool = False) -> None:
        self.recordings = 0
        self._fails = fails

    def begin(self) -> None:
        self.recordings += 1

    def end(self, marks: Any) -> list[Window]:
        if self._fails:
            raise MeterError("the cable is loose")
        return [Window(mark.device_s, POWER_W * mark.device_s, samples=1) for mark in marks if isinstance(mark, Mark)]


def samples(x: NDArray[Any] = X, labels: NDArray[Any] = LABELS) -> Samples:
    return Samples("set", len(x), lambda numbers: {0: x[numbers], 1: labels[numbers]})


def evaluated(board: Board, meter: Meter, plan: Plan = PLAN, given: Samples | None = None, **options: Any) -> Any:
    return evaluate(board, Metering(meter, IDLE_W), plan, given or samples(), **options)  # type: ignore[arg-type]


def test_right_answers_time_and_energy_of_one() -> None:
    meter, counts = Recorder(), []
    found = evaluated(Board(), meter, done=counts.append)
    assert (found.correct, found.labels, found.count) == (int((np.arange(COUNT) % 3 > 0).sum()), COUNT, COUNT)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.time_s == pytest.approx(TIME_S)
    assert found.energy_j == pytest.approx((POWER_W - IDLE_W) * TIME_S)
    np.testing.assert_allclose(found.scores, SCORES, rtol=1e-5, atol=1e-5)
    assert counts == [*range(1, COUNT + 1)]
    assert meter.recordings == MOST_METERED


def test_small_integers_are_normalised_first() -> None:
    whole = np.clip(np.round(X * 20), -127, 127).astype(np.int8)
    found = evaluated(Board(), Recorder(), given=samples(whole), normalising=Normalising((0.0,), (0.05,)))
    np.testing.assert_allclose(found.scores, whole * np.float32(0.05) @ WEIGHTS.T, rtol=1e-5, atol=1e-5)


def test_a_sequence_has_a_label_for_each_place() -> None:
    plan = replace(
        PLAN,
        residents=(RESIDENTS[0], Resident("target", "target", 80, 400, (4, 5))),
        choices={"target": 8},
        inference=inference_of(*RESIDENTS, OWN, Resident("inference.output", "output", 160, 916, (1, 5, 8))),
    )
    rows = SCORES.reshape(COUNT, 5, 8)
    labels = rows.argmax(2).astype("<i4")
    labels[:, 4] = (labels[:, 4] + 1) % 8
    found = evaluated(Board(), Recorder(), plan, samples(labels=labels))
    assert (found.correct, found.labels, found.scores.shape) == (4 * COUNT, 5 * COUNT, (COUNT, 5, 8))


def test_the_loss_is_pytorchs_and_the_answers_are_kept() -> None:
    plan = replace(PLAN, inference=replace(INFERENCE, loss=Loss("cross_entropy", 1)))
    found = evaluated(Board(), Recorder(), plan)
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(X @ WEIGHTS.T), torch.from_numpy(LABELS).long())
    assert found.loss == pytest.approx(float(expected), rel=1e-6)
    np.testing.assert_array_equal(found.answers, [LABELS, SCORES.argmax(1)])
    assert evaluated(Board(), Recorder()).loss is None


def test_labels_that_are_left_out_are_not_counted() -> None:
    labels = LABELS.copy()
    labels[::4] = -100
    plan = replace(PLAN, ignored={"target": -100})
    found = evaluated(Board(), Recorder(), plan, samples(labels=labels))
    kept = labels >= 0
    assert (found.correct, found.labels) == (int((SCORES.argmax(1) == labels).sum()), int(kept.sum()))
    np.testing.assert_array_equal(found.answers, [labels[kept], SCORES.argmax(1)[kept]])
    none = evaluated(Board(), Recorder(), plan, samples(labels=np.full_like(labels, -100)))
    assert (none.correct, none.labels, none.accuracy) == (0, 0, None)


def test_an_autoencoder_of_small_integers_has_a_loss_and_no_answers() -> None:
    whole = np.clip(np.round(X * 20), -127, 127).astype(np.int8)
    wanted = np.arange(COUNT * CLASSES, dtype=np.int16).reshape(COUNT, CLASSES) % 37
    residents = (RESIDENTS[0], Resident("target", "target", 16 * CLASSES, 400, (4, CLASSES)))
    inference = replace(INFERENCE, loss=Loss("mse_loss"))
    plan = replace(PLAN, residents=residents, choices={}, types={}, inference=inference)
    given = samples(whole, wanted)
    found = evaluated(Board(), Recorder(), plan, given, normalising=Normalising((2.0,), (0.05,)))
    normal = [torch.from_numpy((array - np.float32(2)) * np.float32(0.05)) for array in (whole, wanted)]
    expected = torch.nn.functional.mse_loss(normal[0] @ torch.from_numpy(WEIGHTS).T, normal[1])
    assert found.loss == pytest.approx(float(expected), rel=1e-5)
    assert (found.correct, found.answers) == (None, None)


def test_classes_may_be_any_axis_of_the_scores() -> None:
    residents = (RESIDENTS[0], Resident("target", "target", 80, 400, (4, 5)))
    output = Resident("inference.output", "output", 160, 916, (1, 8, 5))
    inference = inference_of(*RESIDENTS, OWN, output, loss=Loss("cross_entropy", 1))
    plan = replace(PLAN, residents=residents, choices={"target": 8}, inference=inference)
    rows = torch.from_numpy((X @ WEIGHTS.T).reshape(COUNT, 8, 5))
    labels = rows.argmax(1).numpy().astype("<i4")
    labels[:, 4] = (labels[:, 4] + 1) % 8
    found = evaluated(Board(), Recorder(), plan, samples(labels=labels))
    assert (found.correct, found.labels) == (4 * COUNT, 5 * COUNT)
    expected = torch.nn.functional.cross_entropy(rows, torch.from_numpy(labels).long())
    assert found.loss == pytest.approx(float(expected), rel=1e-6)


def test_without_classes_nothing_is_right_or_wrong() -> None:
    plan = replace(PLAN, choices={}, types={})
    found = evaluated(Board(), Recorder(), plan)
    assert (found.correct, found.accuracy, found.count) == (None, None, COUNT)


def test_without_a_meter_the_energy_is_unknown() -> None:
    found = evaluated(Board(), Recorder(fails=True))
    assert found.energy_j is None
    assert set(found.unmetered) == {"the cable is loose"}
    assert found.correct == 40


def test_whose_inference_it_has_to_be() -> None:
    with pytest.raises(UserError, match="the plan has no inference"):
        evaluated(Board(), Recorder(), replace(PLAN, inference=None))
    with pytest.raises(UserError, match=f"has the hash bbb, the plan's {HASH}; run poet-harness flash first"):
        evaluated(Board(inference="bbb"), Recorder())
    with pytest.raises(UserError, match="has the hash none"):
        evaluated(Board(inference=""), Recorder())


def test_a_score_that_is_no_number_is_no_answer() -> None:
    broken = X.copy()
    broken[3, 0] = np.inf
    with pytest.raises(UserError, match="a score of sample 3 is no number: are those the weights"):
        evaluated(Board(), Recorder(), given=samples(broken))


def test_weights_that_are_no_numbers_are_told_of_a_score_that_is_none() -> None:
    @dataclass
    class Spoiled(Board):
        def get(self, index: int, count: int, at: int = 0) -> bytes:
            if index != 2:
                return super().get(3, count, at)
            weights = WEIGHTS.astype("<f4")
            weights[1:, 0] = np.nan
            return weights.tobytes()

        def infer(self, expected_s: float = 0.0, kept_as: int | None = None) -> InferenceReport:
            self.held = np.full(FEATURES, np.nan, "<f4").tobytes()
            return super().infer(expected_s)

        def put(self, index: int, data: bytes, at: int = 0) -> None:
            assert index == 3

    residents = (*RESIDENTS, Resident("w", "parameter", WEIGHTS.nbytes, 420, WEIGHTS.shape))
    own = inference_of(*residents, OWN, SCORED, time_s=TIME_S)
    with pytest.raises(UserError, match=f"the weights have {CLASSES - 1} values that are no numbers"):
        evaluated(Spoiled(), Recorder(), replace(PLAN, residents=residents, inference=own))
