# SPDX-License-Identifier: Apache-2.0
"""Files of arrays: what is in them, and that equal ones have equal bytes."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_profiles.files.arrays import doubt, npz, read_arrays, safetensors
from poet_profiles.quantised import Normalising
from poet_profiles.samples import BatchTensor, read_sets
from safetensors import safe_open
from safetensors.torch import load

ARRAYS = {
    "b": np.arange(3, dtype="f4"),
    "a.ä": np.arange(6, dtype="i8").reshape(2, 3),
    "scalar": np.array(2.5),
    "half": np.ones(1, "f2"),
}


def test_samples_that_teach_nothing_or_too_much_are_doubted() -> None:
    usual = np.random.default_rng(1).normal(size=(20, 3)).astype("f4")
    assert doubt("input", usual) == doubt("input", 10 * usual) == doubt("target", np.arange(4)) == ""
    assert doubt("target", 1000 * np.arange(4)) == ""  # classes
    assert doubt("target", np.full(8, 2)) == "target: is 2 everywhere: nothing can be learned from that"
    assert "is 0 everywhere" in doubt("input", 0 * usual)
    assert "training may diverge; scale them to about 1" in doubt("input", 1000 * usual)


def test_a_safetensors_file_has_equal_bytes_each_time_and_what_was_given(tmp_path: Path) -> None:
    metadata = {"graph": "0123", "step": "3", "optimizer": "SGD(lr=0.1)", "note": 'ä "quoted"'}
    contents = {safetensors(ARRAYS, metadata) for _ in range(20)}
    assert len(contents) == 1
    [content] = contents
    assert {name: tensor.numpy().tolist() for name, tensor in load(content).items()} == {
        name: array.tolist() for name, array in ARRAYS.items()
    }
    (tmp_path / "x.safetensors").write_bytes(content)
    with safe_open(tmp_path / "x.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", **metadata}
        assert file.get_tensor("half").dtype == torch.float16


def test_an_npz_has_equal_bytes_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before = npz(ARRAYS)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert npz(ARRAYS) == before


def test_numbers_in_another_order_of_bytes_are_the_same_numbers(tmp_path: Path) -> None:
    """As files of recorders and of MNIST have them; NumPy calls both `int16`."""
    foreign = np.arange(-3, 5, dtype=">i2").reshape(4, 2)
    np.savez(tmp_path / "set.npz", x=foreign, y=np.ones((4, 2), ">f4"))
    assert {name: array.tobytes() for name, array in read_arrays(tmp_path / "set.npz", "").items()} == {
        "x": foreign.astype("<i2").tobytes(),
        "y": np.ones((4, 2), "<f4").tobytes(),
    }
    np.save(tmp_path / "x.npy", foreign)
    read = BatchTensor(0, "input", "input", (2,), np.dtype("f4"), None)
    samples = read_sets(str(tmp_path), [read], Normalising((0.0,), (1.0,))).train
    assert samples.rows(np.array([0]))[0].tobytes() == np.array([-3, -2], "<i2").tobytes()
