# SPDX-License-Identifier: Apache-2.0
"""Training that begins with weights from a file: on the board, in PyTorch, and with frozen layers among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from poet_planner import models
from poet_planner.planning.training_graph import training_step
from poet_planner.torch_reference.training_data import initial_state, reference_run, training_data, write_arrays
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError

MODEL = "finetune_cnn_small"


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Of a module that was trained somewhere else."""
    state = models.load(MODEL, seed=5).module.state_dict()
    torch.save(state, tmp_path / "pretrained.pt")
    return tmp_path / "pretrained.pt"


def test_a_board_begins_with_them(weights: Path) -> None:
    expected = models.load(MODEL, seed=5).module.state_dict()
    arrays = training_data(MODEL, 1, 0, None, weights=weights)
    trained = {name for name in expected if name in arrays and "num_batches" not in name}
    assert trained == {"head.weight", "head.bias"}
    assert all(np.array_equal(arrays[name], expected[name].numpy()) for name in trained)
    assert np.array_equal(initial_state(MODEL, 0, None, weights)["head.weight"], expected["head.weight"])
    assert not np.array_equal(initial_state(MODEL, 0, None)["head.weight"], expected["head.weight"])


def test_frozen_layers_go_into_the_plan_and_pytorch_trains_after_the_same(weights: Path, tmp_path: Path) -> None:
    step = training_step(MODEL, None, weights)
    graph, own = (each.graph(load_board("nrf52840")) for each in (step, training_step(MODEL, None)))
    expected = models.load(MODEL, seed=5)
    frozen = {name: tensor for name, tensor in step.constants(graph).items() if name in step.traced.frozen}
    assert frozen
    state = {**dict(expected.module.named_parameters()), **dict(expected.module.named_buffers())}
    assert all(np.array_equal(array, state[name].detach().numpy()) for name, array in frozen.items())
    assert [constant.crc32 for constant in graph.constants] != [constant.crc32 for constant in own.constants]

    data = tmp_path / "data.npz"
    write_arrays(training_data(MODEL, 1, 0, None, weights=weights), data)
    found = reference_run(MODEL, data, 0.1, weights=weights)
    [(inputs, targets)] = models.load_batches(MODEL, 1, 0)
    assert found["loss"][0] == pytest.approx(expected.loss(expected.module(*inputs), *targets).item(), rel=1e-6)
    with pytest.raises(UserError, match=r"was made with another frozen .*, or give its --weights"):
        reference_run(MODEL, data, 0.1)


def test_another_models_weights_are_refused(weights: Path) -> None:
    with pytest.raises(UserError, match="holds other weights than digits_cnn_small"):
        training_data("digits_cnn_small", 1, 0, None, weights=weights)
