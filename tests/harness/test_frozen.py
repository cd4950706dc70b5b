# SPDX-License-Identifier: Apache-2.0
"""Plans with constants in flash: their data lie in the plan's folder, and never travel over the line."""

from __future__ import annotations

import json
from binascii import crc32
from pathlib import Path

import numpy as np
import pytest
from poet_harness.cli import app
from poet_harness.plan_folder.plan import check_headers, read_plan
from poet_profiles.errors import UserError
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import BATCHES, GRAPH, STEPS, board, write_plan

FROZEN = np.array([3, -4], np.float32)
UNFOLDED = np.array([[5, 6]], np.float32)


def check(array: np.ndarray) -> str:
    return f"{crc32(array.tobytes()):08x}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A plan with one constant, its file with one more tensor of the model, and data made beside both."""
    folder = write_plan(tmp_path / "plan")
    constant = {"id": "bn..weight", "bytes": 8, "offset": 0, "shape": [2], "crc32": check(FROZEN)}
    (folder / "graph.json").write_text(json.dumps({**GRAPH, "constants": [constant]}))
    save_file({"bn..weight": FROZEN, "conv.weight": UNFOLDED}, folder / "constants.safetensors")
    write_data(folder, check(UNFOLDED))
    return folder


def write_data(folder: Path, frozen: str) -> None:
    table = np.array([["w", "w", ""], ["conv.weight", "conv.weight", ""]])
    tables = {"..state_dict": table, "..frozen": np.array([["conv.weight", frozen]])}
    np.savez(folder / "data.npz", w=np.array([1, 2], "f4"), input=BATCHES, **tables)


def run(folder: Path, device: SimulatedDevice) -> str:
    with serve(device) as url:
        given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--steps", str(STEPS)]
        given += ["--board", "nrf52840", "--meter", "nominal", "--port", url, "--lr", "0.25"]
        result = CliRunner().invoke(app, [*given, "--trained", str(folder / "w.safetensors")])
    return str(result.exception or "")


def test_frozen_weights_are_among_the_trained_ones_and_never_sent(folder: Path) -> None:
    device = board()
    assert run(folder, device) == ""
    weights = load_file(folder / "w.safetensors")
    assert set(weights) == {"w", "conv.weight"}
    assert np.array_equal(weights["conv.weight"], UNFOLDED)
    assert [len(content) for content in device.residents] == [8, 4, 8]


def test_a_plan_without_its_constants_is_one_line(folder: Path) -> None:
    (folder / "constants.safetensors").unlink()
    assert "constants.safetensors: no such file; make the plan with poet-plan" in run(folder, board())


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"bn..weight": FROZEN + 1}, r"bn\.\.weight is not that of the graph"),
        ({"bn..weight": FROZEN[:1]}, r"bn\.\.weight is not that of the graph"),
        ({"conv.weight": UNFOLDED}, r"bn\.\.weight is not that of the graph"),
    ],
)
def test_another_plans_constants_are_one_line(folder: Path, tensors: dict[str, np.ndarray], words: str) -> None:
    save_file(tensors, folder / "constants.safetensors")
    with pytest.raises(UserError, match=words):
        read_plan(folder)


def test_a_damaged_file_of_constants_is_one_line(folder: Path) -> None:
    path = folder / "constants.safetensors"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"constants\.safetensors: no safetensors file"):
        read_plan(folder)


def test_data_of_a_model_with_other_frozen_weights_is_one_line(folder: Path) -> None:
    write_data(folder, "00000000")
    assert "data.npz: was made with another frozen conv.weight than the plan" in run(folder, board())


def test_headers_without_the_constants_are_one_line(folder: Path) -> None:
    (folder / "poet_model.h").write_text('#include "poet_constants.h"\n')
    with pytest.raises(UserError, match=r"poet_constants\.h: no such file"):
        check_headers(folder, read_plan(folder))
