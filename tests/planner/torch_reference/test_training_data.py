# SPDX-License-Identifier: Apache-2.0
"""Training data and what PyTorch makes of it, against PyTorch's own optimiser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.torch_reference.training_data import reference_run, training_data, write_arrays
from poet_profiles.errors import UserError

MODEL, STEPS, RATE = "digits_cnn", 4, 0.05


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.npz"
    write_arrays(training_data(MODEL, STEPS, 0, None), path)
    return path


def by_torch(data: Path, momentum: float) -> list[float]:
    """Losses of the same steps by torch.optim.SGD."""
    arrays = dict(np.load(data))
    loaded = models.load(MODEL, arrays["input"].shape[1])
    state = {name: torch.from_numpy(arrays[name]) for name in loaded.module.state_dict() if name in arrays}
    loaded.module.load_state_dict(state)
    optimiser = torch.optim.SGD(loaded.module.parameters(), lr=RATE, momentum=momentum)
    losses = []
    for inputs, target in zip(arrays["input"], arrays["target"], strict=True):
        optimiser.zero_grad()
        loss = loaded.loss(loaded.module(torch.from_numpy(inputs)), torch.from_numpy(target.astype(np.int64)))
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_losses_are_those_of_torchs_optimiser(data: Path, momentum: float) -> None:
    losses = reference_run(MODEL, data, RATE, Optimizer(momentum=momentum))["loss"]
    assert losses == pytest.approx(by_torch(data, momentum), rel=1e-4)
    if momentum:
        assert losses[-1] != pytest.approx(by_torch(data, 0.0)[-1], rel=1e-3)


def test_in_micro_batches_it_is_pytorchs_loop(data: Path) -> None:
    """The same bits, loss and gradients, as the lines that people write."""
    found = reference_run(MODEL, data, RATE, micro_batches=3)
    arrays = dict(np.load(data))
    loaded = models.load(MODEL)
    loaded.module.load_state_dict({name: torch.from_numpy(arrays[name]) for name in loaded.module.state_dict()})
    inputs, targets = torch.from_numpy(arrays["input"][0]), torch.from_numpy(arrays["target"][0].astype(np.int64))
    losses = []
    for x, y in zip(inputs.chunk(3), targets.chunk(3), strict=True):
        losses.append(loaded.loss(loaded.module(x), y) / 3)
        losses[-1].backward()  # type: ignore[no-untyped-call]
    assert found["loss"][0] == pytest.approx(sum(loss.item() for loss in losses), rel=1e-6)
    for name, parameter in loaded.module.named_parameters():
        assert parameter.grad is not None
        assert found[f"{name}.grad"][0].tobytes() == parameter.grad.numpy().tobytes(), name
    whole = reference_run(MODEL, data, RATE)
    assert np.allclose(found["loss"], whole["loss"], rtol=1e-4)
    assert found["conv1.weight.grad"].tobytes() != whole["conv1.weight.grad"].tobytes()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_to_follow_a_run_is_to_start_each_step_from_its_weights(data: Path, tmp_path: Path, momentum: float) -> None:
    run: dict[str, NDArray[Any]] = reference_run(MODEL, data, RATE, Optimizer(momentum=momentum))
    write_arrays(run, tmp_path / "run.npz")
    following = reference_run(MODEL, data, RATE, Optimizer(momentum=momentum), tmp_path / "run.npz")
    assert all(np.array_equal(following[name], run[name]) for name in run)


def test_the_first_loss_that_is_no_number_ends_it(data: Path) -> None:
    with pytest.raises(UserError, match=r"^the loss of step 2 is no number: the rate 1e\+38 is too high"):
        reference_run(MODEL, data, 1e38)


def test_before_the_first_update_the_rate_is_not_blamed(data: Path, tmp_path: Path) -> None:
    arrays = dict(np.load(data))
    arrays["input"][0] = 3e38
    write_arrays(arrays, tmp_path / "data.npz")
    with pytest.raises(UserError, match=r"^the loss of step 1 is no number, before any weight has changed: samples"):
        reference_run(MODEL, tmp_path / "data.npz", RATE)


def test_what_is_frozen_is_checked_and_not_among_the_data(tmp_path: Path) -> None:
    arrays = training_data("finetune_cnn_small", 2, 0, None)
    state = models.load("finetune_cnn_small").module.state_dict()
    assert {name for name in state if name in arrays and "num_batches" not in name} == {"head.weight", "head.bias"}
    path = tmp_path / "data.npz"
    write_arrays(arrays, path)
    assert set(reference_run("finetune_cnn_small", path, RATE)) == {"loss", "head.weight.grad", "head.bias.grad"}
    (row,) = np.argwhere(arrays["..frozen"][:, 0] == "backbone.bn2.running_var")[0]
    arrays["..frozen"][row, 1] = "00000000"
    write_arrays(arrays, path)
    with pytest.raises(UserError, match=r"was made with another frozen backbone\.bn2\.running_var than"):
        reference_run("finetune_cnn_small", path, RATE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"hello", "is text, .* not an .npz of arrays; write it with poet-plan data"),
        (b"PK\x03\x04torn", "is a damaged .zip, .* not an .npz of arrays; write it with poet-plan data"),
    ],
)
def test_data_that_is_not_an_npz_is_one_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "data.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said):
        reference_run(MODEL, path, RATE)


def test_a_single_array_and_a_torn_npz_are_one_line(data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(UserError, match="a single array"):
        reference_run(MODEL, tmp_path / "array.npy", RATE)
    torn = tmp_path / "torn.npz"
    torn.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"not an \.npz"):
        reference_run(MODEL, torn, RATE)


def test_digits_without_scikit_learn_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(UserError, match="pip install scikit-learn"):
        training_data(MODEL, 1, 0, None)


def test_more_digits_than_there_are_is_one_line() -> None:
    with pytest.raises(UserError, match="--batch 2000: there are 1797 digits"):
        training_data(MODEL, 1, 0, 2000)


@pytest.mark.parametrize("name", [":x", ".a:b", "module:", "nowhere.at.all:x"])
def test_a_model_that_cannot_be_imported_is_one_line(name: str) -> None:
    with pytest.raises(UserError, match="give module:callable"):
        models.load(name)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"device": "meta"}, "weight has no data .device meta.; make it on the CPU"),
        ({"dtype": torch.bfloat16}, r"weight: is torch\.bfloat16, which no \.npz holds; make it float32"),
    ],
)
def test_weights_that_no_file_holds_are_one_line(kept: dict[str, Any], said: str, monkeypatch: Any) -> None:
    module, x = torch.nn.Linear(2, 2, **kept), torch.ones(2, 2, **kept)
    made = models.Model("odd", module, (x,), (x,), torch.nn.functional.mse_loss)
    monkeypatch.setattr(models.registry, "_factory", lambda _: lambda _: made)
    with pytest.raises(UserError, match=said):
        training_data(f"odd:{said[-4:]}", 1, 0, None)
