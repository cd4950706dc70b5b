# SPDX-License-Identifier: Apache-2.0
"""`run --weights`: a board begins with weights from a file instead of those of the data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.data.weights import AFTER_STEPS, TABLE
from poet_harness.plan_folder.plan import read_plan
from poet_profiles.errors import UserError
from poet_profiles.graph.state_names import write_names
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from tests.harness.test_frozen import FROZEN, UNFOLDED, check
from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import BATCHES, GRAPH, HASH, STEPS, board, write_plan

GIVEN = np.array([3, 4], np.float32)
ROWS = [
    *(["net.w", "w", ""], ["tied.w", "w", ""], ["conv.weight", "conv.weight", ""], ["unused", "u", ""]),
    *(["bn.num_batches_tracked", "n", "+1"], ["power", "p", ""]),
]
WEIGHTS: dict[str, np.ndarray] = {
    **{"net.w": GIVEN, "tied.w": GIVEN, "conv.weight": UNFOLDED, "unused": np.array([9, 9], np.float32)},
    **{"bn.num_batches_tracked": np.array(100), "power": np.array(8, np.float32)},
}
BEGUN = {
    **{"w": np.array([1, 2], "f4"), "u": np.zeros(2, "f4"), "n": np.int32(0), "p": np.float32(8)},
    f"p{AFTER_STEPS}": 8 / 2 ** np.arange(STEPS + 1, dtype="f4"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan with a frozen layer, and data that know tied weights, a count of batches and what halves a step."""
    folder = write_plan(tmp_path / "plan")
    constant = {"id": "bn..weight", "bytes": 8, "offset": 0, "shape": [2], "crc32": check(FROZEN)}
    (folder / "graph.json").write_text(json.dumps({**GRAPH, "constants": [constant]}))
    save_file({"bn..weight": FROZEN, "conv.weight": UNFOLDED}, folder / "constants.safetensors")
    np.savez(folder / "data.npz", input=BATCHES, **BEGUN, **{TABLE: np.array(ROWS)})
    return folder


def run(folder: Path, device: SimulatedDevice, *options: str) -> str:
    with serve(device) as url:
        given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--steps", str(STEPS)]
        given += ["--board", "nrf52840", "--meter", "nominal", "--port", url, "--lr", "0.25"]
        result = CliRunner().invoke(app, [*given, "--weights", str(folder / "given.safetensors"), *options])
    return str(result.exception or "")


def test_training_begins_with_them_and_all_come_back(folder: Path) -> None:
    save_file(WEIGHTS, folder / "given.safetensors")
    assert run(folder, board(), "--trained", str(folder / "trained.safetensors")) == ""
    found = load_file(folder / "trained.safetensors")
    assert found.keys() == WEIGHTS.keys()
    assert found["net.w"].tolist() == found["tied.w"].tolist() == (GIVEN + 0.25 * STEPS).tolist()
    assert np.array_equal(found["conv.weight"], UNFOLDED)
    assert found["unused"].tolist() == [9, 9]
    assert found["bn.num_batches_tracked"] == 100 + STEPS
    assert found["power"] == 8 / 2**STEPS


def test_data_need_then_have_no_weights_and_the_plan_knows_the_names(folder: Path) -> None:
    save_file(WEIGHTS, folder / "given.safetensors")
    write_names({TABLE: np.array(ROWS), **{id: BEGUN[id] for id in ("u", "n", "p")}}, folder, HASH)
    np.savez(folder / "data.npz", input=BATCHES)
    plan = read_plan(folder)
    data = read_training_data(folder / "data.npz", plan, STEPS, folder / "given.safetensors")
    assert data.weights == {0: GIVEN.tobytes()}
    assert data.state.state_dict({"w": GIVEN}, 7)["bn.num_batches_tracked"] == 107


def test_names_of_another_graph_do_not_count(folder: Path) -> None:
    write_names({TABLE: np.array(ROWS)}, folder, "0" * 16)
    assert not read_plan(folder).names


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"conv.weight": UNFOLDED + 1}, "conv.weight: is frozen, and lies in the plan with other numbers"),
        ({"power": np.array(4, np.float32)}, "p: changes a step in a way that only PyTorch knows"),
        ({"net.w": GIVEN[:1]}, r"net.w: has shape (1,), not (2,)"),
        ({"unused": np.array([1, np.inf], "f4")}, "unused: is not finite: inf at (1,)"),
        ({"more": GIVEN}, "more: is surplus"),
    ],
)
def test_weights_of_another_model_are_refused_before_anything_is_sent(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    save_file({**WEIGHTS, **changes}, folder / "given.safetensors")
    device = board()
    assert words in run(folder, device)
    assert not any(any(content) for content in device.residents)


def test_what_does_not_go_together_is_one_line(folder: Path) -> None:
    assert "no such file; the trained weights are written by --trained" in run(folder, board())
    save_file(WEIGHTS, folder / "given.safetensors")
    assert "--weights: a run that is resumed" in run(folder, board(), "--resume")
    file = str(folder / "given.safetensors")
    assert "is read, or written twice" in run(folder, board(), "--trained", file)


def test_a_note_that_nobody_knows_is_refused(folder: Path) -> None:
    np.savez(folder / "data.npz", input=BATCHES, w=GIVEN, **{TABLE: np.array([["w", "w", "-1"]])})
    with pytest.raises(UserError, match="w: -1 is no note"):
        read_training_data(folder / "data.npz", read_plan(folder), STEPS)
