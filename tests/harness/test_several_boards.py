# SPDX-License-Identifier: Apache-2.0
"""Weights of several boards, averaged as in federated learning, begin the next round."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from poet_planner import models
from safetensors.numpy import load_file, save_file

from tests.support import needs
from tests.support.programs import Said, poet_harness, poet_plan

pytestmark = needs.gcc

Weights = dict[str, NDArray[np.generic]]
MODEL = ["--model", "finetune_cnn_small", "--batch", "4"]
BOARD = ["--board", "native", "--plan", "plan"]
SHARES = (7, 11, 13)  # samples of each board; equal ones may hide the rounding


@pytest.fixture(scope="module")
def folder(builds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("boards")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        assert poet_plan("--profile", "nrf52840", *MODEL, "--out", "plan", "--time-limit", "1") == 0
        assert poet_harness("flash", *BOARD) == 0
        for number in range(len(SHARES)):
            assert poet_plan("data", *MODEL, "--steps", "2", "--seed", number, "--out", f"{number}.npz") == 0
            trained = ["--steps", "2", "--lr", "0.1", "--trained", f"{number}.safetensors"]
            assert poet_harness("run", *BOARD, "--data", f"{number}.npz", *trained) == 0
        yield root


@pytest.fixture
def averaged(folder: Path) -> Weights:
    """Each board's times its share, added up and divided, in their own type: FedAvg."""
    boards = [load_file(f"{number}.safetensors") for number in range(len(SHARES))]
    weighed = {name: [board[name] * share for board, share in zip(boards, SHARES, strict=True)] for name in boards[0]}
    return {name: np.asarray((one[0] + one[1] + one[2]) / sum(SHARES)) for name, one in weighed.items()}


def frozen() -> list[str]:
    module = models.load("finetune_cnn_small").module
    trained = {name for name, one in module.named_parameters() if one.requires_grad}
    return [name for name in module.state_dict() if name not in trained and "num_batches" not in name]


def begun(weights: Weights) -> int:
    save_file({name: np.ascontiguousarray(one) for name, one in weights.items()}, "mean.safetensors")
    return poet_harness(
        "run", *BOARD, "--data", "0.npz", "--weights", "mean.safetensors", "--trained", "on.safetensors"
    )


def test_an_average_begins_the_next_round(averaged: Weights, capsys: Said) -> None:
    """Frozen layers stay the board's to the bit, with a line; the head has learnt from all."""
    own = load_file("0.safetensors")
    changed = [name for name in frozen() if averaged[name].tobytes() != own[name].tobytes()]
    assert changed
    assert begun(averaged) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "by rounding" in line]
    assert len(said) == 1
    assert f"{len(changed) - 1} more frozen tensors differ from the plan's by rounding; the plan's are kept" in said[0]
    on = load_file("on.safetensors")
    assert all(on[name].tobytes() == own[name].tobytes() for name in frozen())
    np.testing.assert_allclose(on["head.weight"], averaged["head.weight"], atol=0.05)
    assert on["head.weight"].tobytes() != own["head.weight"].tobytes()


def test_wider_floats_are_rounded_with_a_word(averaged: Weights, capsys: Said) -> None:
    exact = {name: one.astype(np.float64) for name, one in load_file("0.safetensors").items()}
    for weights, told in ((exact, False), ({**exact, "head.bias": exact["head.bias"] + 1e-12}, True)):
        assert begun(weights) == 0
        said = capsys.readouterr().err
        assert ("mean.safetensors: head.bias: rounded to the model's float32" in said) == told
        assert "by rounding" not in said
    assert begun({**exact, "head.bias": exact["head.bias"] * 1e300}) == 2
    assert "head.bias: is not finite" in capsys.readouterr().err


@pytest.mark.parametrize(("mean", "count"), [(5.0, 5), (4.9999995, 5), (20.5, 20)])
def test_counts_come_back_as_floats(averaged: Weights, mean: float, count: int) -> None:
    """No result depends on a count of batches, so that of boards which differ in it is rounded."""
    counters = [name for name in averaged if "num_batches" in name]
    assert begun({**averaged, **{name: np.array(mean, np.float32) for name in counters}}) == 0
    on = load_file("on.safetensors")
    assert counters
    assert {(on[name].dtype.kind, int(on[name])) for name in counters} == {("i", count)}


def test_another_frozen_layer_is_still_refused(averaged: Weights, capsys: Said) -> None:
    name = next(name for name in frozen() if averaged[name].ndim == 4)
    assert begun({**averaged, name: averaged[name] * np.float32(1.001)}) == 2
    said = capsys.readouterr().err
    assert f"{name}: is frozen, and lies in the plan with other numbers" in said
    assert said.count("is frozen") == 1


def test_a_plan_is_made_with_an_average(averaged: Weights) -> None:
    save_file({name: np.ascontiguousarray(one) for name, one in averaged.items()}, "mean.safetensors")
    given = ["--weights", "mean.safetensors", "--out", "again", "--time-limit", "1"]
    assert poet_plan("--profile", "nrf52840", *MODEL, *given) == 0
