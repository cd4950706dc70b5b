# SPDX-License-Identifier: Apache-2.0
"""Trained weights come back as PyTorch's ``state_dict``, whatever ended the training."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_harness.cli import app
from poet_harness.data.weights import AFTER_STEPS, TABLE
from poet_harness.plan_folder.plan import read_plan
from poet_planner import models
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.files import PlanFiles
from poet_profiles.plan_folder.files import write_plan as write_files
from safetensors import safe_open
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support import needs
from tests.support.harness.simulated_device import SimulatedDevice, serve
from tests.support.harness.tiny_plan import BATCHES, STEPS, board, write_plan

RATE, TRAINED = 0.05, 3


def run(folder: Path, device: SimulatedDevice, *options: str) -> str:
    with serve(device) as url:
        given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--steps", str(STEPS)]
        given += ["--board", "nrf52840", "--meter", "nominal", "--port", url, "--lr", "0.25"]
        return CliRunner().invoke(app, [*given, "--trained", str(folder / "w.safetensors"), *options]).stderr


def test_the_file_holds_every_name_of_the_model(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    table = [
        ["net.w", "w", ""],
        ["tied.w", "w", ""],
        ["unused", "u", ""],
        ["bn.count", "n", ""],
        ["mean", "m", "unkept"],
    ]
    others = {"u": np.arange(3.0), "n": np.int32(0), "m": np.zeros(1), f"n{AFTER_STEPS}": np.arange(9) + 5}
    np.savez(folder / "data.npz", w=np.array([1, 2], "f4"), input=BATCHES, **{TABLE: np.array(table)}, **others)
    output = run(folder, board())
    found = load_file(folder / "w.safetensors")
    assert set(found) == {name for name, _, _ in table}
    assert found["net.w"].tolist() == found["tied.w"].tolist() == [1 + 0.25 * STEPS, 2 + 0.25 * STEPS]
    assert found["unused"].tolist() == [0, 1, 2]
    assert (found["bn.count"].shape, int(found["bn.count"])) == ((), 5 + STEPS)
    assert "mean: as at the beginning" in output
    with safe_open(folder / "w.safetensors", "numpy") as file:
        assert file.metadata() == {
            **{"format": "pt", "graph": "0123456789abcdef", "step": str(STEPS), "optimizer": "SGD(lr=0.25)"}
        }


def test_a_file_of_ones_own_arrays_gives_the_plans_names(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    assert run(folder, board()).count("not written") == 0
    assert list(load_file(folder / "w.safetensors")) == ["w"]


def test_a_step_that_the_card_ends_leaves_the_weights_before_it(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    device = board()
    device.fails_at = 3
    run(folder, device)
    with safe_open(folder / "w.safetensors", "numpy") as file:
        assert file.metadata()["step"] == "2"


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    folder = write_plan(tmp_path / "plan")
    for table, words in (
        (np.zeros((2, 3)), "is no table of names"),
        (np.array([["a", "b"]]), "is no table of names"),
        (np.array([["a", "b", ""]]), "a stands for b, which is not there"),
    ):
        np.savez(folder / "data.npz", w=np.array([1, 2], "f4"), input=BATCHES, **{TABLE: table})
        with serve(board()) as url:
            given = ["run", "--plan", str(folder), "--data", str(folder / "data.npz"), "--port", url]
            result = CliRunner().invoke(app, [*given, "--board", "nrf52840", "--meter", "nominal"])
        assert words in str(result.exception)


@needs.gcc
@pytest.mark.parametrize(
    ("model_name", "chosen", "words"),
    [
        (
            "finetune_cnn_small",
            Optimizer(Method.ADAMW, weight_decay=0.01, betas=(0.8, 0.99), clip_value=0.1),
            "AdamW(lr=0.05, betas=(0.8, 0.99), weight_decay=0.01), gradients within +-0.1",
        )
    ],
)
def test_weights_running_statistics_and_velocities_are_pytorchs(
    model_name: str, chosen: Optimizer, words: str, builds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is frozen, too, although it was folded and is on the board in flash alone."""
    folder = tmp_path / "plan"
    step = training_step(model_name, None)
    graph = step.graph(load_board("nrf52840"), optimizer=chosen)
    schedule = store_all_schedule(graph)
    write_files(PlanFiles(graph=graph, schedule=schedule, constants=step.constants(graph)), folder)
    write_headers(graph, schedule, folder, step.constants(graph))
    write_arrays(training_data(model_name, TRAINED, 0, None), tmp_path / "data.npz")
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
    given = ["--board", "native", "--plan", str(folder)]
    assert CliRunner().invoke(app, ["flash", *given]).exit_code == 0
    given += ["--data", str(tmp_path / "data.npz"), "--trained", str(tmp_path / "new" / "w.safetensors")]
    assert CliRunner().invoke(app, ["run", *given, "--steps", str(TRAINED), "--lr", str(RATE)]).exit_code == 0

    model = models.load(model_name)
    named = read_plan(folder).optimizer
    assert named.words(RATE) == words
    optimizer = getattr(torch.optim, named.name)(model.module.parameters(), lr=RATE, **named.options)
    for inputs, targets in models.load_batches(model_name, TRAINED, 0):
        optimizer.zero_grad()
        model.loss(model.module(*inputs), *targets).backward()
        if named.clip_value is not None:
            torch.nn.utils.clip_grad_value_(model.module.parameters(), named.clip_value)
        optimizer.step()

    trained = models.load(model_name).module
    with torch.no_grad():
        for tensor in trained.state_dict().values():
            tensor.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = {name: torch.from_numpy(array) for name, array in load_file(tmp_path / "new/w.safetensors").items()}
        trained.load_state_dict(found, strict=True)
    expected = model.module.state_dict()
    assert any(name.endswith("num_batches_tracked") for name in expected)
    for name, tensor in trained.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-5, msg=name)
        # A counter that stands still is stored as a board would have it.
        assert found[name].dtype == expected[name].dtype or (found[name].dtype == torch.int32 and not found[name].any())
    velocities = load_file(tmp_path / "new/w.optimizer.safetensors")
    for name, parameter in model.module.named_parameters():
        if not parameter.requires_grad:
            assert name not in np.load(tmp_path / "data.npz")
            continue
        for slot, tensor in optimizer.state[parameter].items():
            held = torch.from_numpy(velocities.pop(f"{name}.{slot}"))
            torch.testing.assert_close(held.reshape(tensor.shape).to(tensor.dtype), tensor, rtol=1e-5, atol=1e-5)
    assert not velocities
