# SPDX-License-Identifier: Apache-2.0
"""Epochs of a training on the card: steps that count, though a reset kept the board from telling them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from poet_harness.data.batches import TrainingData, read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_harness.training.course import Course
from poet_harness.training.epochs import Epochs
from poet_harness.training.feeding import Order
from poet_harness.training.observed import NOTHING_MADE
from poet_harness.training.rates import Rates
from poet_profiles.samples import Samples

from tests.support.harness.tiny_plan import write_plan

STEPS, PER_EPOCH = 6, 2


@dataclass
class Telling:
    """Trains, and tells of no step that is among the ``unseen``."""

    unseen: set[int]
    data: TrainingData
    steps_done: int = 0
    device: Any = None

    def __post_init__(self) -> None:
        self.device = SimpleNamespace(hello=SimpleNamespace(room=0), put=lambda *_: None)

    def train(self, data: Any, _rate: Any, _every: int, resume: bool, done: Callable[[Any], None], **more: Any) -> None:
        assert not resume  # the plan has its weights in RAM
        for number in range(STEPS):
            more["feed"](number, 0)
            self.steps_done = number + 1
            if number not in self.unseen:
                report = SimpleNamespace(work_s=1.0)
                done(SimpleNamespace(number=number, loss=8.0, energy_j=0.5, report=report, features=NOTHING_MADE))

    def keep_here(self) -> TrainingData:
        return replace(self.data, step=self.steps_done)


@pytest.mark.parametrize("unseen", [{0}, {1}, {2, 3}])
def test_an_epoch_with_such_a_step_has_a_row_without_its_figures(tmp_path: Path, unseen: set[int]) -> None:
    plan = read_plan(write_plan(tmp_path / "plan"))
    data = read_training_data(tmp_path / "plan" / "data.npz", plan, 0)
    batch = len(plan.residents) - 1
    rows = {batch: np.arange(4, dtype=np.float32)}
    samples = Samples("four", 4, lambda numbers: {index: tensor[numbers] for index, tensor in rows.items()})
    order = Order(4, 2, None, 1)
    rates = Rates(base=0.25, schedule="constant", warmup=0, steps=STEPS, steps_per_epoch=PER_EPOCH, every=1, factor=1.0)
    epochs = Epochs(Course(plan, data, samples, order, STEPS // PER_EPOCH, rates, None), None, resume=False)
    epochs.train(Telling(unseen, data), 0, "emulated", lambda _: None)  # type: ignore[arg-type]
    assert [row.epoch for row in epochs.rows] == [1, 2, 3]
    for row in epochs.rows:
        told = unseen.isdisjoint(range((row.epoch - 1) * PER_EPOCH, row.epoch * PER_EPOCH))
        assert (row.loss, row.time_s, row.energy_j) == (8.0, 2.0, 1.0) if told else math.isnan(row.loss)
        assert told or (math.isnan(row.time_s) and row.energy_j is None)
