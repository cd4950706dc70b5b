# SPDX-License-Identifier: Apache-2.0
"""A head on features of whole numbers: verbs read what the maker of the features reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from poet_harness.data.batches import read_training_data
from poet_harness.plan_folder.plan import read_plan
from poet_planner import models
from safetensors.numpy import load_file

from tests.support import needs
from tests.support.programs import Said, poet_harness, poet_plan

pytestmark = needs.gcc

COUNT, EPOCHS = 36, 2
NETWORKS = ("bag", "encoder", "mixed")
BOARD = ["--board", "native", "--plan", "plan"]


@pytest.fixture(scope="module", params=NETWORKS)
def source(
    request: pytest.FixtureRequest, builds: Path, tmp_path_factory: pytest.TempPathFactory, one_thread: None
) -> Iterator[str]:
    """The network; the folder has its plan on features, data, and a set to train on."""
    name = f"tests.support.networks.tokens:{request.param}"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp(request.param))
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        assert poet_plan("--profile", "nrf52840", "--model", name, "--out", "plan", "--time-limit", "1") == 0
        assert poet_plan("data", "--model", name, "--out", "data.npz", "--steps", "3") == 0
        assert poet_harness("flash", *BOARD) == 0
        np.savez("set.npz", **drawn(name))
        yield name


def drawn(name: str) -> dict[str, NDArray[Any]]:
    """Samples of the model's own kind, in another order, by the ids of the plan's tensors."""
    model, random = models.load(name), np.random.default_rng(0)
    arrays = {}
    for kind, tensors in (("input", model.inputs), ("target", model.targets)):
        for number, tensor in enumerate(tensors):
            id = f"{kind}{number if len(tensors) > 1 else ''}"
            for ending in ("_train", "_val"):
                arrays[id + ending] = tensor.numpy()[random.integers(0, len(tensor), COUNT)]
    return arrays


def train(*options: str) -> dict[str, NDArray[Any]]:
    given = ["--data", "data.npz", "--samples", "set.npz", "--epochs", str(EPOCHS), "--shuffle", "3"]
    assert poet_harness("train", *BOARD, *given, *options, "--trained", "trained.safetensors") == 0
    return load_file("trained.safetensors")


def test_gradients_are_pytorchs(source: str) -> None:
    assert read_plan(Path("plan")).extraction is not None
    assert poet_harness("run", *BOARD, "--data", "data.npz", "--steps", "3", "--lr", "0.1", "--save", "run.npz") == 0
    assert poet_plan("reference", "--model", source, "--data", "data.npz", "--lr", "0.1", "--out", "torch.npz") == 0
    found, expected = np.load("run.npz"), np.load("torch.npz")
    assert {*found.files} == {*expected.files}
    for name in expected.files:
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(found[name].reshape(expected[name].shape), expected[name], 1e-5, 1e-6 * largest)


def test_every_way_of_the_samples_trains_the_same(source: str, capsys: Said) -> None:
    kept = train("--validate")
    assert re.search(r"features of \d+ samples are computed once", capsys.readouterr().err)
    for options in (["--features", "each-step"], ["--to-card"]):
        assert all(one.tobytes() == kept[name].tobytes() for name, one in train(*options).items())
    given = ["--samples", "set.npz", "--weights", "trained.safetensors", "--save", "scores.npz"]
    assert poet_harness("eval", *BOARD, *given) == 0
    model, samples = models.load(source), np.load("set.npz")
    model.module.load_state_dict({name: torch.from_numpy(one) for name, one in kept.items()})
    inputs = [torch.from_numpy(samples[name]) for name in samples.files if name.startswith("input") and "_val" in name]
    with torch.no_grad():
        scores = model.module.eval()(*inputs).numpy()
    np.testing.assert_allclose(next(iter(np.load("scores.npz").values())), scores, rtol=1e-4, atol=1e-5)


def test_a_plan_on_features_is_checked(source: str, capsys: Said) -> None:
    assert poet_plan("check", "plan/graph.json", "plan/schedule.json", "--model", source) == 0
    assert "bit for bit over 3 steps" in capsys.readouterr().out


@pytest.mark.parametrize("source", ["mixed"], indirect=True)
def test_a_number_that_no_embedding_has_is_named(source: str) -> None:
    """The fewer of two embeddings counts; what travels are whole numbers of 32 bits."""
    plan, arrays = read_plan(Path("plan")), dict(np.load("data.npz"))
    data = read_training_data(Path("data.npz"), plan, 1)
    index = next(index for index, tensor in enumerate(plan.tensors) if tensor.id == "input1")
    assert np.frombuffer(data.batches[0][index], "<i4").tolist() == arrays["input1"][0].reshape(-1).tolist()
    arrays["input1"][0, 2, 3] = 13
    np.savez("wrong.npz", **arrays)
    with pytest.raises(Exception, match=r"input1: 13 at \(0, 2, 3\); the plan knows 0 to 11"):
        read_training_data(Path("wrong.npz"), plan, 1)


@pytest.mark.parametrize("source", ["bag"], indirect=True)
def test_a_set_sorted_by_class_is_told(source: str, capsys: Said) -> None:
    arrays, labels = dict(np.load("set.npz")), np.repeat(np.arange(4), COUNT // 4)
    np.savez("sorted.npz", **(arrays | {"target_train": labels % 3, "target_val": labels}))
    np.savez("in_rows.npz", **(arrays | {"target_train": labels}))
    given = ["train", *BOARD, "--data", "data.npz", "--epochs", "1", "--samples"]
    for name, options, words in (
        ("in_rows", [], "samples of one class stand in a row, so batches are of one class; --shuffle SEED mixes them"),
        ("in_rows", ["--shuffle", "1"], ""),
        ("sorted", ["--shuffle", "1", "--validate"], "the validation has classes that the training lacks (3)"),
    ):
        assert poet_harness(*given, f"{name}.npz", *options) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if "class" in line]
        assert [line.startswith(f"poet-harness: {name}.npz: {words}") for line in said] == [True] * bool(words)
