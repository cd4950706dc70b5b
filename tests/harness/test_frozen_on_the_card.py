# SPDX-License-Identifier: Apache-2.0
"""Frozen weights on the card: put there once, and everything else as in RAM."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from poet_harness.card.contents import card_contents, for_inferences
from poet_harness.card.image import prepared_image
from poet_harness.card.sample_set import SampleSet
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_profiles.card.layout import FIRST_BLOCK
from poet_profiles.errors import UserError
from poet_profiles.graph.constants import write_constants
from poet_profiles.graph.file import graph_hash
from poet_profiles.protocol.f32 import f32_of_bits
from poet_profiles.samples import Samples
from poet_profiles.schedule.file import read_schedule, schedule_hash

from tests.support.graphs.kept_graphs import frozen_step
from tests.support.harness.kept_plan import B, W, X, write_data, write_kept_plan
from tests.support.harness.simulated_device import SimulatedDevice
from tests.support.harness.trained import trained

RATE = 0.25


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = write_kept_plan(tmp_path / "plan", frozen_step())
    write_constants({"w": W}, made, graph_hash(frozen_step()))
    return made


@dataclass
class FrozenDevice(SimulatedDevice):
    """Tensors 0 (b) and 1 (x) in RAM, 2 (w) on the card, whose record outlives a reset; a step adds the rate to b."""

    w: bytes = bytes(8)
    record: tuple[int, bytes] | None = None

    def _batches(self, count: str) -> str:
        return f"ok batches={count}" if count == "0" else "err -1 at least 1 batch; 0 of a model whose batch is in RAM"

    def _put(self, index: str, offset: str, data: str) -> str:
        if index != "2":
            return super()._put(index, offset, data)
        self.w = bytes.fromhex(data)
        return f"ok bytes={len(self.w)}"

    def _commit(self, step: str) -> str:
        self.record = (int(step), bytes(self.residents[0]))
        return "ok ticks=1 bytes=16"

    def _restore(self) -> str:
        if self.record is None:
            return "err -9 no commit of this model on the card"
        self.residents[0][:] = self.record[1]
        return f"ok step={self.record[0]} bytes=16 batches=0"

    def _step(self, rate: str, trace: str) -> str:
        if self.record is None:
            return "err -9 no card, no label on it, or no record of this model"
        b = struct.unpack("<2f", self.residents[0])
        self.residents[0][:] = struct.pack("<2f", *(value + f32_of_bits(rate) for value in b))
        loss = struct.pack(">f", sum(struct.unpack("<2f", self.residents[1]))).hex()
        return f"ok ticks={sum(self.schedule_ticks)} page_ins=0 page_outs=1 loss={loss}"


def board(folder: Path, **changes: object) -> FrozenDevice:
    schedule = read_schedule(folder / "schedule.json")
    ticks = (16_000,) * len(schedule.steps)
    hashes = {"graph_hash": schedule.graph_hash, "schedule_hash": schedule_hash(schedule)}
    return FrozenDevice(resident_bytes=(8, 8), schedule_ticks=ticks, **hashes, **changes)  # type: ignore[arg-type]


def train(device: FrozenDevice, folder: Path, **options: object) -> list[float]:
    return [step.loss for step in trained(device, folder, 3, RATE, **options)[1]]


def of(device: FrozenDevice, verb: str) -> list[str]:
    return [request for request in device.carried_out if request.startswith(verb)]


def test_an_empty_card_is_given_them_once_and_each_step_its_batch(folder: Path) -> None:
    device = board(folder)
    assert train(device, folder) == [float(x.sum()) for x in X]
    assert device.w == W.tobytes() and of(device, "batches") == ["batches 0"]
    assert device.residents[0] == (B + 3 * RATE).tobytes()
    assert train(device, folder) == [float(x.sum()) for x in X]
    assert len(of(device, "put 2")) == 1


def test_after_a_reset_it_goes_on_from_its_commit(folder: Path) -> None:
    device = board(folder, resets_after=[19])
    assert train(device, folder, commit_every=1) == [float(x.sum()) for x in X]
    assert device.boot == 2 and len(of(device, "put 2")) == 1
    assert device.record == (3, (B + 3 * RATE).tobytes())
    with pytest.raises(UserError, match="3 steps are committed already"):
        train(device, folder, resume=True)


def test_a_card_with_them_does_for_any_weights_and_data(folder: Path, tmp_path: Path) -> None:
    plan, image = read_plan(folder), tmp_path / "card.img"
    contents = card_contents(folder / "data.npz", plan)
    assert plan.card is not None and contents.record.batches == 0
    assert contents.blocks == plan.card.page_block(0) + plan.page_blocks
    with prepared_image(image, plan, read_training_data(folder / "data.npz", plan, 3), 3):
        pass
    write_data(folder, b=B + 1, x=X[::-1] + 1)
    with prepared_image(image, plan, read_training_data(folder / "data.npz", plan, 2), 2) as path:
        assert path == image
    with prepared_image(image, plan, for_inferences(plan, {}), 0):
        pass
    write_constants({"w": W + 1}, folder, graph_hash(frozen_step()))
    with (
        pytest.raises(UserError, match="holds other frozen weights than plan and data"),
        prepared_image(image, other := read_plan(folder), for_inferences(other, {}), 0),
    ):
        pass


def test_a_data_set_lies_after_them(folder: Path) -> None:
    plan = read_plan(folder)
    assert plan.card is not None
    rows = {1: np.ones((4, 2), np.float32)}
    samples = Samples("ones", 4, lambda numbers: {index: tensor[numbers] for index, tensor in rows.items()})
    assert SampleSet(plan, samples, None).block == plan.card.page_block(0) + plan.page_blocks > FIRST_BLOCK + 3
