# SPDX-License-Identifier: Apache-2.0
"""A training on a simulated device, over a line that waits for nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from poet_harness.data.batches import read_training_data
from poet_harness.meters.nominal import NominalMeter
from poet_harness.plan_folder.plan import read_plan
from poet_harness.ports import open_port
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_harness.training.observed import ObservedStep
from poet_harness.training.trainer import Trainer
from poet_profiles.boards import load_board
from poet_profiles.program.stopping import Stopped

from tests.support.harness.simulated_device import SimulatedDevice, serve

EAGER = Patience(acknowledge_s=0.03, answer_s=0.05, attempts=8)


def device_at(url: str) -> Device:
    return Device(Link(open_port(url, 115_200), url, EAGER))


def trained(
    device: SimulatedDevice, folder: Path, batches: int | None, learning_rate: float, **options: Any
) -> tuple[Trainer, list[ObservedStep]]:
    """By the plan in a folder and the data beside it."""
    plan = read_plan(folder)
    data = read_training_data(folder / "data.npz", plan, batches)
    with serve(device) as url:
        trainer = Trainer(device_at(url), NominalMeter(load_board("nrf52840")), plan)
        return trainer, trainer.train(data, learning_rate, **options)


def end_in_step(patch: pytest.MonkeyPatch, last: int) -> None:
    """Let a signal end a training as that step begins."""
    whole = Trainer._step

    def interrupted(self: Trainer, number: int, *arguments: Any, **options: Any) -> ObservedStep:
        if number == last:
            raise Stopped(signal.SIGINT)
        return whole(self, number, *arguments, **options)

    patch.setattr(Trainer, "_step", interrupted)
