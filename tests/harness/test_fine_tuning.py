# SPDX-License-Identifier: Apache-2.0
"""Pretrained weights onto a board, trained weights off it: PyTorch takes both files without a word, and trains on."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from poet_harness.card.reading import Weights
from poet_harness.cli import app
from poet_harness.data.weights import StateTable
from poet_harness.plan_folder.optimizer import TorchOptimizer
from poet_harness.training.trained_files import torch_optimizer_state
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.files import PlanFiles, write_plan
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.support import needs
from tests.support.harness.flashed import flash
from tests.support.harness.made_plans import plan_of

pytestmark = needs.emulator_and_gcc

MODEL, RATE, STEPS, COUNT = "tests.support.networks.pretrained:make", 0.05, 4, 17
OPTIMIZER = Optimizer(momentum=0.9, nesterov=True, weight_decay=0.01)
NATIVE, EMULATED = ["--board", "native"], ["--board", "nrf52840", "--emulate"]


def poet(*arguments: str, words: str = "") -> str:
    result = CliRunner().invoke(app, list(arguments))
    if words:
        assert words in str(result.exception)
    else:
        assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, a plan made with its frozen layer, both boards flashed with that, and data without weights."""
    root = tmp_path_factory.mktemp("fine_tuning")
    pretrained = models.load(MODEL, seed=5).module
    pretrained.get_buffer("bn.num_batches_tracked").fill_(COUNT)
    torch.save({"model_state_dict": pretrained.state_dict(), "epoch": 3}, root / "pretrained.pt")
    step = training_step(MODEL, None, root / "pretrained.pt")
    graph = step.graph(load_board("nrf52840"), optimizer=OPTIMIZER)
    schedule, plan = store_all_schedule(graph), root / "plan"
    write_plan(PlanFiles(graph=graph, schedule=schedule, constants=step.constants(graph), names=step.names()), plan)
    write_headers(graph, schedule, plan, step.constants(graph))
    arrays = training_data(MODEL, STEPS, 0, None)
    write_arrays({name: arrays[name] for name in ("input", "target")}, root / "data.npz")
    flash(builds, plan, NATIVE, EMULATED)
    return root


def run(folder: Path, board: list[str], name: str, *options: str) -> None:
    given = ["--plan", str(folder / "plan"), "--data", str(folder / "data.npz"), "--lr", str(RATE)]
    poet("run", *board, *given, "--trained", str(folder / f"{name}.safetensors"), *options)


def torchs_training(folder: Path, steps: int) -> tuple[torch.nn.Module, torch.optim.SGD]:
    """PyTorch's own, from the same checkpoint on the same batches."""
    model = models.load(MODEL, weights=folder / "pretrained.pt")
    optimizer = torch.optim.SGD(model.module.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=0.01)
    for inputs, targets in list(models.load_batches(MODEL, STEPS, 0))[:steps]:
        one_step(model, optimizer, inputs, targets)
    return model.module, optimizer


def one_step(model: models.Model, optimizer: torch.optim.SGD, inputs: Any, targets: Any) -> None:
    optimizer.zero_grad()
    model.loss(model.module(*inputs), *targets).backward()
    optimizer.step()


def close(found: torch.nn.Module, expected: torch.nn.Module) -> None:
    for name, tensor in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], tensor, rtol=1e-5, atol=1e-5, msg=name)


def test_a_checkpoint_goes_in_and_the_trained_one_comes_out(folder: Path) -> None:
    begin = ["--weights", str(folder / "pretrained.pt")]
    card = ["--card", str(folder / "card.img")]
    run(folder, EMULATED, "board", *begin, "--steps", str(STEPS - 1), *card, "--commit-every", "1")
    run(folder, NATIVE, "host", *begin, "--steps", str(STEPS - 1))

    plan, state = ["--plan", str(folder / "plan")], ["--optimizer-state", str(folder / "state.pt"), "--lr", str(RATE)]
    poet("weights", *plan, *card, "--out", str(folder / "card.safetensors"))
    document = poet("weights", *EMULATED, *plan, *card, *state, "--json", "--out", str(folder / "read.safetensors"))
    assert json.loads(document)["step"] == STEPS - 1
    for kind in ("safetensors", "optimizer.safetensors"):
        first, *others = (load_file(folder / f"{name}.{kind}") for name in ("host", "board", "card", "read"))
        for other in others:
            assert other.keys() == first.keys()
            assert all(torch.equal(tensor.view(-1), first[name].view(-1)) for name, tensor in other.items())

    model = models.load(MODEL)
    optimizer = torch.optim.SGD(model.module.parameters(), lr=1.0, momentum=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.module.load_state_dict(load_file(folder / "read.safetensors"), strict=True)
        optimizer.load_state_dict(torch.load(folder / "state.pt", weights_only=True))
    close(model.module, torchs_training(folder, STEPS - 1)[0])
    assert model.module.get_buffer("bn.num_batches_tracked") == COUNT + STEPS - 1

    # PyTorch goes on with both files as with its own training, and so does a board.
    *_, (inputs, targets) = models.load_batches(MODEL, STEPS, 0)
    one_step(model, optimizer, inputs, targets)
    expected = torchs_training(folder, STEPS)[0]
    close(model.module, expected)
    arrays = np.load(folder / "data.npz")
    np.savez(folder / "data.npz", **{name: arrays[name][STEPS - 1 :] for name in arrays})
    begin = ["--weights", str(folder / "read.safetensors"), "--state", str(folder / "read.optimizer.safetensors")]
    run(folder, NATIVE, "on", *begin, "--steps", "1")
    model.module.load_state_dict(load_file(folder / "on.safetensors"), strict=True)
    close(model.module, expected)


@pytest.mark.parametrize(("name", "options"), [("AdamW", {"betas": (0.8, 0.99)}), ("SGD", {"momentum": 0.5})])
def test_torchs_numbering_of_an_optimisers_state_is_torchs(name: str, options: dict[str, Any]) -> None:
    """Frozen parameters have a number, too; each parameter has the step, which a board has once."""
    [(inputs, targets)] = models.load_batches(MODEL, 1, 0)
    model = models.load(MODEL)
    optimizer = getattr(torch.optim, name)(model.module.parameters(), lr=RATE, **options)
    for _ in range(3):
        one_step(model, optimizer, inputs, targets)
    names = [name for name, _ in model.module.named_parameters()]
    held = {names[number]: slots for number, slots in optimizer.state_dict()["state"].items()}
    state = {parameter: {slot: f"{parameter}.{slot}" for slot in slots} for parameter, slots in held.items()}
    plan = plan_of(optimizer=TorchOptimizer(name, options, state))
    tensors = {id: held[parameter][slot].numpy() for parameter in state for slot, id in state[parameter].items()}
    table, weights = StateTable({}, {}, {}, tuple(names)), Weights(3, tensors, fell_back=False)
    content = torch_optimizer_state(plan, table, weights, RATE)
    fresh = getattr(torch.optim, name)(models.load(MODEL).module.parameters())
    fresh.load_state_dict(torch.load(BytesIO(content), weights_only=True))
    found, expected = fresh.state_dict(), optimizer.state_dict()
    assert found["param_groups"] == expected["param_groups"]
    assert found["state"].keys() == expected["state"].keys() == {names.index(parameter) for parameter in held}
    for number, slots in found["state"].items():
        for slot, tensor in slots.items():
            assert torch.equal(tensor, expected["state"][number][slot])
            assert tensor.dtype == expected["state"][number][slot].dtype
    with pytest.raises(UserError, match=r"does not say how torch.optim numbers"):
        torch_optimizer_state(plan, replace(table, parameters=()), weights, RATE)


def test_what_cannot_be_read_is_one_line(folder: Path, tmp_path: Path) -> None:
    given = ["weights", "--plan", str(folder / "plan"), "--out", str(tmp_path / "net.safetensors")]
    poet(*given, words="weights off what?")
    poet(*given, "--card", str(tmp_path / "none.img"), words="none.img: no such file")
    poet(*given, *EMULATED, words="--card: a board that runs here has an image; name it")
    poet(*given, *EMULATED, "--card", str(tmp_path / "none.img"), words="none.img: no such file")
    poet(*given, "--board", "nrf52840", "--card", "c.img", words="--card: a real board has its own")
    poet(*given, "--lr", "0.1", words="--optimizer-state and --lr: go together")
    poet(*given[:-1], "net.pt", words="net.pt: trained weights are written as .safetensors")
    blank = tmp_path / "blank.img"
    blank.write_bytes(b"POET CARD 1\n".ljust(2**21, b"\0"))
    poet(*given, *NATIVE, "--card", str(blank), words="its card holds no trained weights of this plan")
    assert not (tmp_path / "net.safetensors").exists()
