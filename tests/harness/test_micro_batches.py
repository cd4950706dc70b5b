# SPDX-License-Identifier: Apache-2.0
"""A plan in micro-batches: the harness cuts each batch, sends it part by part, and reports one step."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_harness.profiling.in_place import costs_in_place
from poet_harness.training.comparison import compare
from poet_harness.training.feeding import Order
from poet_harness.training.trainer import Trainer
from poet_profiles.errors import UserError
from poet_profiles.graph.file import graph_hash, read_graph
from poet_profiles.protocol.f32 import f32_of_bits
from poet_profiles.schedule.file import read_schedule, schedule_hash

from tests.support.harness.simulated_device import TICKS_HZ, SimulatedDevice
from tests.support.harness.tiny_plan import SCHEDULE
from tests.support.harness.trained import trained

PARTS, STEPS = 3, 4
# The gradient is the input of a part: two samples of one number each. A third tensor is the same for all parts.
GRAPH: dict[str, Any] = {
    "format": "poet-graph/1",
    "name": "parts",
    "micro_batches": PARTS,
    "nodes": [
        {
            **{
                "id": "g",
                "time_s": 1e-3,
                "energy_j": 1e-5,
                "bytes": 8,
                "op": "pointwise",
                "params": "size=2 steps=add(y0,x0,x1)",
            },
            **{"page_out_time_s": 2e-3, "page_out_energy_j": 4e-5, "page_in_time_s": 1e-3, "page_in_energy_j": 3e-5},
            **{"inputs": ["input", "mask"], "results": ["g"]},
        },
        {
            **{
                "id": "w.grad..added",
                "time_s": 5e-4,
                "energy_j": 2e-6,
                "bytes": 0,
                "op": "pointwise",
                "params": "size=2 steps=add(y0,x0,x1)",
            },
            **{"inputs": ["g", "w.grad"], "results": ["w.grad"], "recomputable": False},
        },
        {"id": "..gradients", "time_s": 0, "energy_j": 0, "bytes": 0, "recomputable": False},
        {
            **{"id": "w..update", "time_s": 2e-3, "energy_j": 7e-6, "bytes": 0, "op": "sgd", "params": "size=2"},
            **{"inputs": ["w.grad", "w"], "results": ["w"], "recomputable": False},
        },
    ],
    "edges": [["g", "w.grad..added"], ["w.grad..added", "..gradients"], ["..gradients", "w..update"]],
    "resident_bytes": 32,
    "residents": [
        {"id": "w", "kind": "parameter", "bytes": 8, "offset": 0, "shape": [2]},
        {"id": "w.grad", "kind": "gradient", "bytes": 8, "offset": 8, "shape": [2]},
        {"id": "mask", "kind": "input", "bytes": 8, "offset": 16, "shape": [2]},
        {"id": "input", "kind": "input", "bytes": 8, "offset": 24, "shape": [2, 1]},
    ],
}
ACTIONS = [
    {"do": "compute", "node": "g", "offset": 0},
    {"do": "page_out", "node": "g"},
    {"do": "free", "node": "g"},
    {"do": "page_in", "node": "g", "offset": 0},
    {"do": "compute", "node": "w.grad..added"},
    {"do": "compute", "node": "..gradients"},
    {"do": "compute", "node": "w..update"},
]
TICKS = (16_000, 32_000, 16_000, 8_000, 32_000)
BATCHES = np.arange(2.0 * PARTS * STEPS, dtype=np.float32).reshape(STEPS, 2 * PARTS, 1)
MASKS = np.array([[1.0, -1.0]] * STEPS, np.float32) * np.arange(STEPS, dtype=np.float32)[:, None]
W = np.array([1.0, 2.0], np.float32)


@dataclass
class Board(SimulatedDevice):
    """Adds the input and the mask to the sum in each part, and the sum to the weight in the last one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gathered = 0

    def _step(self, rate: str, trace: str, part: str) -> str:
        if part == "0":
            self.gathered = 0
        if int(part) != self.gathered:
            return "err -4 another part"
        w, total, mask, x = (np.frombuffer(content, "<f4").copy() for content in self.residents)
        total = x + mask + (total if self.gathered else np.float32(0))
        self.gathered = (self.gathered + 1) % PARTS
        ticks = sum(TICKS[:-1]) if self.gathered else sum(TICKS)
        self.schedule_ticks = TICKS if not self.gathered else (*TICKS[:-1], 3)
        if not self.gathered:
            w -= np.float32(f32_of_bits(rate)) * total
        self.residents[0][:], self.residents[1][:] = w.tobytes(), total.tobytes()
        loss = struct.pack(">f", float(total.sum())).hex()
        counted = f"page_ins=1 page_outs=1 loss={loss} gathered={self.gathered}"
        return f"ok ticks={ticks} {counted}"

    def _restore(self) -> str:
        self.gathered = 0
        return super()._restore()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = tmp_path / "plan"
    plan.mkdir()
    (plan / "graph.json").write_text(json.dumps(GRAPH))
    planned = {"energy_j": 2.53e-4, "time_s": 1.55e-2, "steps": ACTIONS}
    schedule = {**SCHEDULE, **planned, "graph_hash": graph_hash(read_graph(plan / "graph.json"))}
    (plan / "schedule.json").write_text(json.dumps(schedule))
    np.savez(plan / "data.npz", w=W, mask=MASKS, input=BATCHES)
    return plan


def board(folder: Path, **changes: Any) -> Board:
    schedule = read_schedule(folder / "schedule.json")
    hashes = {"graph_hash": schedule.graph_hash, "schedule_hash": schedule_hash(schedule)}
    return Board(resident_bytes=(8, 8, 8, 8), **hashes, **changes)


def train(device: Board, folder: Path, **options: Any) -> Trainer:
    return trained(device, folder, STEPS, 0.5, **options)[0]


def expected_sums() -> list[list[float]]:
    parts = BATCHES.reshape(STEPS, PARTS, 2) + MASKS[:, None, :]
    return [sum(step[1:], step[0]).tolist() for step in parts]


def expected_weights() -> list[float]:
    return (W - np.float32(0.5) * np.array(expected_sums(), np.float32).sum(axis=0)).tolist()


def test_a_batch_goes_to_the_board_in_parts_and_is_one_step(folder: Path) -> None:
    device = board(folder)
    trainer = train(device, folder)
    assert [step.gradients["w.grad"].tolist() for step in trainer.observed] == expected_sums()
    assert [step.loss for step in trainer.observed] == [sum(each) for each in expected_sums()]
    assert np.frombuffer(device.residents[0], "<f4").tolist() == expected_weights()
    asked = [request.split() for request in device.carried_out if request.startswith("step")]
    assert [words[3] for words in asked] == ["0", "1", "2"] * STEPS
    assert [words[2] for words in asked] == ["1"] * PARTS + ["0"] * PARTS * (STEPS - 1)
    report = trainer.observed[1].report
    assert (report.page_ins, report.page_outs) == (PARTS, PARTS)
    assert report.work_s == pytest.approx((PARTS * sum(TICKS) - (PARTS - 1) * TICKS[-1]) / TICKS_HZ)


def test_what_all_parts_share_is_sent_once_a_step(folder: Path) -> None:
    device = board(folder)
    train(device, folder)
    assert sum(request.startswith("put 2 ") for request in device.carried_out) == STEPS
    assert sum(request.startswith("put 3 ") for request in device.carried_out) == PARTS * STEPS


def test_prediction_and_observation_are_of_the_whole_batch(folder: Path) -> None:
    """Each action as often as a step does it; what changes a weight once, and without a window before that."""
    trainer = train(board(folder), folder)
    step, *actions = compare(read_plan(folder), trainer, "emulated")[: 1 + len(TICKS)]
    runs = np.array([PARTS] * (len(TICKS) - 1) + [1])
    single_s = np.array([1e-3, 2e-3, 1e-3, 5e-4, 2e-3])
    np.testing.assert_allclose([row.predicted_time_s for row in actions], runs * single_s)
    assert sum(row.predicted_energy_j for row in actions) == pytest.approx(step.predicted_energy_j)
    marked_s = runs * np.array(TICKS) / TICKS_HZ
    waited_s = np.array([0.0] * 4 + [(PARTS - 1) * 3 / TICKS_HZ])
    np.testing.assert_allclose([row.observed_time_s for row in actions], marked_s + waited_s)
    energies = [row.observed_energy_j for row in actions]
    assert step.observed_energy_j == pytest.approx(sum(energies))
    assert energies[4] / energies[0] == pytest.approx(marked_s[4] / marked_s[0])


def test_an_operators_cost_in_place_is_that_of_one_run(folder: Path) -> None:
    trainer = train(board(folder), folder, trace_all=True)
    found = {item.op: cost for item, cost in costs_in_place(read_plan(folder), trainer.observed).items()}
    assert found["pointwise"].time_s == pytest.approx((TICKS[0] + TICKS[3]) / 2 / TICKS_HZ)
    assert found["sgd"].repeats == STEPS


@pytest.mark.parametrize("commit_every", [0, 1, 2])
def test_a_reset_in_any_part_changes_no_result(folder: Path, commit_every: int) -> None:
    clean = board(folder)
    train(clean, folder, commit_every=commit_every)
    for after in range(4, len(clean.carried_out)):
        device = board(folder, resets_after=[after])
        trainer = train(device, folder, commit_every=commit_every)
        assert np.frombuffer(device.residents[0], "<f4").tolist() == expected_weights(), after
        assert [step.gradients["w.grad"].tolist() for step in trainer.observed] == expected_sums(), after


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"input": BATCHES[:, :2]}, "its batches are as large as one of the plan's 3 micro-batches; .* 3 times"),
        ({"input": BATCHES[:, :4]}, r"shape \(steps, 6, 1\)"),
        ({"mask": np.zeros((STEPS, 3), "f4")}, r"mask: is float32 of shape \(4, 3\), .* \(steps, 6\)"),
    ],
)
def test_a_batch_of_another_size_is_refused(folder: Path, arrays: dict[str, Any], words: str) -> None:
    """Also one of the size of a micro-batch, which all parts would otherwise share."""
    mask = {} if "mask" in arrays else {"mask": MASKS}
    np.savez(folder / "data.npz", **{"w": W, "input": BATCHES, **mask, **arrays})
    with pytest.raises(UserError, match=words):
        read_training_data(folder / "data.npz", read_plan(folder), STEPS)


def test_the_parts_of_a_step_are_its_samples_in_order() -> None:
    whole, cut = Order(20, 6, seed=3), Order(20, 6, seed=3, parts=3)
    for step in range(7):
        parts = [cut(step, part) for part in range(3)]
        assert {len(part) for part in parts} == {2}
        np.testing.assert_array_equal(np.concatenate(parts), whole(step))
