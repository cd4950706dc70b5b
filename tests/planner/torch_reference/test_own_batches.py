# SPDX-License-Identifier: Apache-2.0
"""A user's own model and own samples: the data file, and PyTorch's run of it, against torch.optim."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_planner import models
from poet_planner.graph.optimizer import Optimizer
from poet_planner.lowering import lower_for_firmware
from poet_planner.planning.training_graph import training_step
from poet_planner.torch_reference.training_data import reference_run, training_data, write_arrays
from poet_profiles.errors import UserError
from poet_profiles.graph.file import graph_hash, read_graph
from poet_profiles.quantised import Normalising
from torch.nn import functional

from tests.support.programs import Said, poet_plan

MINE = '''
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from poet_planner.models import Model

class Net(nn.Module):
    """With a buffer of poet's own name, one that no state_dict has, a batch in a dict, and a flag."""

    def __init__(self):
        super().__init__()
        self.register_buffer("input", torch.full((1,), 0.5))
        self.register_buffer("scale", torch.full((1,), 3.0), persistent=False)
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, batch, double):
        x = (batch["left"] + batch["right"] - self.input) * self.scale
        return self.last(torch.relu(self.norm(self.first(x * 2 if double else x))))

def make(batch):
    batch = batch or 4
    inputs = {"left": torch.randn(batch, 6), "right": torch.randn(batch, 6)}
    return Model("mine", Net(), (inputs, True), (torch.randint(3, (batch,)),), cross_entropy)
'''
NAMES = ("input0", "input1", "target")
STEPS, RATE = 3, 0.1


@pytest.fixture(autouse=True)
def _my_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_data_model.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)


MODEL = "own_data_model:make"


def samples(count: int) -> dict[str, NDArray[np.generic]]:
    """Each sample differs from every other in its first number."""
    draw = np.random.default_rng(0)
    arrays: dict[str, NDArray[np.generic]] = {name: draw.normal(size=(count, 6)) for name in NAMES[:2]}
    arrays["input0"][:, 0] = np.arange(count)  # type: ignore[index]
    return {**arrays, "target": np.arange(count) % 3}


def written(path: Path, arrays: dict[str, NDArray[np.generic]]) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_reference_is_torchs_optimiser_on_the_files_batches(own: bool, momentum: float, tmp_path: Path) -> None:
    given = written(tmp_path / "mine.npz", samples(20)) if own else None
    arrays = training_data(MODEL, STEPS, 0, None, given)
    write_arrays(arrays, tmp_path / "data.npz")
    observed = reference_run(MODEL, tmp_path / "data.npz", RATE, Optimizer(momentum=momentum))
    module = models.load(MODEL).module
    optimiser = torch.optim.SGD(module.parameters(), lr=RATE, momentum=momentum)
    for step in range(STEPS):
        left, right, target = (torch.from_numpy(arrays[name][step]) for name in NAMES)
        optimiser.zero_grad()
        loss = functional.cross_entropy(module({"left": left, "right": right}, True), target.long())
        loss.backward()
        assert observed["loss"][step] == pytest.approx(loss.item(), rel=1e-5)
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            assert observed[f"{name}.grad"][step] == pytest.approx(parameter.grad.numpy(), rel=1e-4, abs=1e-6)
        optimiser.step()


def test_the_file_has_what_the_plans_residents_are_called() -> None:
    arrays = training_data(MODEL, STEPS, 0, 5)
    step = training_step(MODEL, 5)
    graph = lower_for_firmware(step.traced)
    for resident in graph.residents:
        if resident.kind in ("parameter", "state", "constant"):
            assert arrays[resident.id].shape == resident.shape, resident.id
        elif resident.kind in ("input", "target"):
            assert arrays[resident.id].shape == (STEPS, *resident.shape)
    assert {resident.id for resident in graph.residents if resident.kind in ("input", "target")} == set(NAMES)
    assert not {"input", "scale"} & set(arrays), "what a step leaves alone lies in flash"
    frozen = step.constants(graph)
    assert (frozen["input"].tolist(), frozen["scale"].tolist()) == ([0.5], [3.0])


def test_the_models_own_examples_are_the_seeds() -> None:
    one, again, other = (training_data(MODEL, STEPS, seed, None) for seed in (3, 3, 4))
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one["input0"], other["input0"])
    assert not np.array_equal(one["input0"][0], one["input0"][1])
    assert np.array_equal(one["first.weight"], other["first.weight"])


def test_every_sample_comes_once_before_any_comes_again(tmp_path: Path) -> None:
    given = written(tmp_path / "mine.npz", samples(12))
    arrays = training_data(MODEL, 6, 0, None, given)
    chosen = arrays["input0"][..., 0].astype(int)
    assert chosen.shape == (6, 4)
    assert sorted(chosen[:3].flat) == sorted(chosen[3:].flat) == list(range(12))
    assert chosen[:3].tolist() != chosen[3:].tolist()
    assert np.array_equal(arrays["target"], chosen % 3), "samples and labels stay together"
    assert arrays["input0"].dtype == np.float32


def test_batches_of_ones_own_stay_as_they_are(tmp_path: Path) -> None:
    own = {name: array.reshape(5, 4, *array.shape[1:]) for name, array in samples(20).items()}
    arrays = training_data(MODEL, STEPS, 0, None, written(tmp_path / "mine.npz", own))
    assert np.array_equal(arrays["input1"], own["input1"][:STEPS].astype(np.float32))


def changed(name: str, change: Callable[[NDArray[np.generic]], object]) -> dict[str, NDArray[np.generic]]:
    arrays = samples(20)
    return arrays | {name: np.asarray(change(arrays[name]))}


BAD = {
    "lacks target": {name: array for name, array in samples(20).items() if name != "target"},
    r"input0 is uint8 of shape \(20, 6\); the model takes floating-point numbers of shape \(samples, 6\)": changed(
        "input0", lambda x: x.astype(np.uint8)
    ),
    "target is float64": changed("target", lambda x: x.astype(np.float64)),
    "input1 is complex128": changed("input1", lambda x: x * 1j),
    r"input0 is float64 of shape \(6, 20\)": changed("input0", lambda x: x.T),
    "input0 holds numbers that are not finite": changed("input0", lambda x: np.where(x == 0, np.nan, x)),
    "input1 holds numbers that are not finite, or that 32 bits": changed("input1", lambda x: x * 1e300),
    "target holds numbers": changed("target", lambda x: x + 2**40),
    "do not belong together": changed("target", lambda x: x[:-1]),
    "holds 3 samples, one batch takes 4": samples(3),
    "an axis of steps": changed("target", lambda x: x.reshape(5, 4)),
    "holds 2 steps": {name: array.reshape(2, 4, *array.shape[1:]) for name, array in samples(8).items()},
}


@pytest.mark.parametrize("complaint", BAD)
def test_samples_of_another_kind_are_one_line(complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        training_data(MODEL, STEPS, 0, None, written(tmp_path / "mine.npz", BAD[complaint]))


def test_a_file_of_another_batch_size_is_followed_and_one_of_another_shape_refused(tmp_path: Path) -> None:
    arrays = training_data(MODEL, STEPS, 0, 7)
    write_arrays(arrays, tmp_path / "data.npz")
    assert len(reference_run(MODEL, tmp_path / "data.npz", RATE)["loss"]) == STEPS
    write_arrays(arrays | {"input0": arrays["input0"][..., :5]}, tmp_path / "data.npz")
    with pytest.raises(UserError, match=r"input0 has shape \(7, 5\) a step"):
        reference_run(MODEL, tmp_path / "data.npz", RATE)
    write_arrays(arrays | {"last.weight": arrays["last.weight"][:2]}, tmp_path / "data.npz")
    with pytest.raises(UserError, match=r"other parameters than .* has \(last\.weight\)"):
        reference_run(MODEL, tmp_path / "data.npz", RATE)


def test_what_was_written_is_told_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Said) -> None:
    monkeypatch.chdir(tmp_path)

    def printed(*arguments: str) -> dict[str, object]:
        assert poet_plan(*arguments, "--model", MODEL, "--json") == 0
        document: dict[str, object] = json.loads(capsys.readouterr().out)
        return document

    graph = printed("graph", "--board", "nrf52840", "--out", "graph.json")
    assert graph["graph_hash"] == graph_hash(read_graph(tmp_path / "graph.json"))
    data = printed("data", "--steps", "2", "--out", "data.npz")
    assert data["arrays"] == list(np.load("data.npz"))
    losses = printed("reference", "--data", "data.npz", "--out", "reference.npz")["loss"]
    assert losses == np.load("reference.npz")["loss"].tolist()


def test_data_of_one_class_are_told(tmp_path: Path, capsys: Said) -> None:
    given = written(tmp_path / "mine.npz", samples(20) | {"target": np.ones(20, dtype=np.int64)})
    assert poet_plan("data", "--model", MODEL, "--arrays", given, "--out", tmp_path / "data.npz") == 0
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("mine.npz: target: is 1 everywhere: nothing can be learned from that")


def test_small_integers_are_normalised_as_a_board_does_it(tmp_path: Path) -> None:
    drawn = np.random.default_rng(2)
    small: dict[str, NDArray[np.generic]] = {
        "input0": drawn.integers(0, 256, (12, 6), np.uint8),
        "input1": drawn.integers(-(2**15), 2**15, (12, 6), np.int16),
        "target": np.arange(12) % 3,
    }
    normalising = Normalising((0.3,) * 6, tuple(float(np.float32(1 / scale)) for scale in range(3, 9)))
    shift, scales = np.float32(0.3), np.float32(1) * np.array(normalising.scales, np.float32)
    for in_steps in (False, True):
        arrays = {name: array.reshape(3, 4, *array.shape[1:]) if in_steps else array for name, array in small.items()}
        path = written(tmp_path / "mine.npz", arrays)
        made = training_data(MODEL, STEPS, 0, None, path, normalising=normalising)
        order = (
            np.arange(12)
            if in_steps
            else [list(map(tuple, small["input0"])).index(row) for row in rows_of(made, scales, shift)]
        )
        for name in NAMES[:2]:
            expected = (small[name].astype("f4") - shift) * scales
            assert made[name].reshape(12, 6).tobytes() == expected[order].tobytes()
    with pytest.raises(UserError, match="input0 is uint8"):
        training_data(MODEL, STEPS, 0, None, path)


def rows_of(
    made: dict[str, NDArray[np.generic]], scales: NDArray[np.float32], shift: np.float32
) -> list[tuple[int, ...]]:
    """The integers that normalised rows come from."""
    rows = np.rint(made["input0"].reshape(12, 6).astype("f8") / scales + shift)
    return [tuple(map(int, row)) for row in rows]
