# SPDX-License-Identifier: Apache-2.0
"""Weights from files of every kind, held against a module; each difference is a line of its own."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from poet_planner.models.weights import load_weights
from poet_profiles.errors import UserError
from poet_profiles.files.weights_file import read_weights
from poet_profiles.graph import Graph
from poet_profiles.graph.constants import read_constants
from safetensors.torch import save_file, save_model
from torch import nn


class Net(nn.Module):
    """Tied weights, a batch norm with its counter, whole numbers."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.one, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
        self.other.weight = self.one.weight
        self.bn = nn.BatchNorm1d(3)
        self.bn.running_mean.add_(torch.randn(3))
        self.bn.num_batches_tracked.add_(seed)
        self.register_buffer("table", torch.arange(4) + seed)


def written(path: Path, state: dict[str, Any]) -> Path:
    if path.suffix == ".safetensors":
        save_file({name: tensor.clone() for name, tensor in state.items()}, path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: tensor.numpy() for name, tensor in state.items()})
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt", "net.pth", "net.npz"])
def test_every_kind_of_file_gives_what_load_state_dict_gives(tmp_path: Path, name: str) -> None:
    trained, ours = Net(7), Net(1)
    load_weights(ours, written(tmp_path / name, trained.state_dict()), "net")
    expected = trained.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in ours.state_dict().items())
    assert ours.bn.num_batches_tracked == 7


BESIDE: dict[str, dict[str, Any]] = {
    "nothing": {},
    "epoch": {"epoch": 3, "arch": "resnet18", "best_acc1": torch.tensor(71.5), "rng_state": torch.get_rng_state()},
    "lightning": {"pytorch-lightning_version": "2.4.0", "callbacks": {}, "lr_schedulers": [], "global_step": 7},
    "scaler": {"scaler": {"scale": torch.ones(1)}, "criterion": {"weight": torch.ones(3)}},
    "averaged momentum": {"optimizer_state": {"one.bias": torch.ones(3), "other.bias": torch.zeros(3)}},
    "statistics": {"ema": {"one.bias": torch.ones(3)}},  # of one tensor alone, with a name of the model's
}


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model", "net", "module", "ema", "my_weights"])
def test_a_checkpoint_may_hold_more_than_the_weights(tmp_path: Path, key: str, beside: str) -> None:
    trained, ours = Net(7), Net(1)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1, momentum=0.9)
    trained.one(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    checkpoint = {**BESIDE[beside], "optimizer": optimizer.state_dict(), key: trained.state_dict()}
    load_weights(ours, written(tmp_path / "net.pt", checkpoint), "net")
    expected = trained.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in ours.state_dict().items())


@pytest.mark.parametrize("name", ["net.safetensors", "net.pth", "net.npz", "net.ckpt", "net.pth.tar"])
@pytest.mark.parametrize("wrapper", ["module.", "_orig_mod.", "module._orig_mod.", "model.", "net.model."])
def test_what_a_wrapper_puts_before_all_names_is_left_out(tmp_path: Path, wrapper: str, name: str) -> None:
    trained, ours = Net(7), Net(1)
    state = {wrapper + key: tensor for key, tensor in trained.state_dict().items()}
    load_weights(ours, written(tmp_path / name, state), "net")
    expected = trained.state_dict()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in ours.state_dict().items())


def test_a_layer_that_was_compiled_alone_has_its_name(tmp_path: Path) -> None:
    trained, ours = Net(7), Net(1)
    trained.bn = torch.compile(trained.bn)  # type: ignore[assignment]
    assert any("bn._orig_mod." in name for name in trained.state_dict())
    load_weights(ours, written(tmp_path / "net.pt", trained.state_dict()), "net")
    assert torch.equal(ours.bn.running_mean, trained.state_dict()["bn._orig_mod.running_mean"])


class Named(nn.Module):
    """Its tensors have the names that checkpoints use."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.model, self.module = nn.Linear(2, 2), nn.Linear(2, 2)
        self.state_dict_ = nn.Linear(2, 2)
        self.register_parameter("weights", nn.Parameter(torch.randn(2)))
        self.register_buffer("ema", torch.randn(2))


@pytest.mark.parametrize("key", ["", "model", "weights", "state_dict"])
def test_a_model_may_have_the_names_of_a_checkpoint(tmp_path: Path, key: str) -> None:
    trained, ours = Named(7), Named(1)
    state = trained.state_dict()
    load_weights(ours, written(tmp_path / "net.pt", {key: state, "model_name": "x"} if key else state), "net")
    assert all(torch.equal(tensor, state[name]) for name, tensor in ours.state_dict().items())


@pytest.mark.parametrize("other", ["model_ema", "state_dict_ema", "teacher"])
def test_which_of_several_weights_is_asked_and_not_guessed(tmp_path: Path, other: str) -> None:
    checkpoint = {"model": Net(7).state_dict(), other: Net(8).state_dict(), "epoch": 3}
    with pytest.raises(UserError, match="holds several weights of the model") as refused:
        load_weights(Net(1), written(tmp_path / "net.pt", checkpoint), "net")
    assert "['model']" in refused.value.printed
    assert f"['{other}']" in refused.value.printed
    checkpoint[other] = Net(7).state_dict()  # the same ones twice
    ours = Net(1)
    load_weights(ours, written(tmp_path / "net.pt", checkpoint), "net")
    assert torch.equal(ours.one.weight, Net(7).one.weight)


def test_tensors_of_kinds_that_numpy_has_not_are_named(tmp_path: Path) -> None:
    state = Net(7).state_dict()
    state["bn.bias"] = torch.empty(3, device="meta")
    state["one.bias"] = torch.zeros(3).to_sparse()
    state["bn.running_mean"] = torch.zeros(3).to(torch.float8_e4m3fn)
    with pytest.raises(UserError, match="3 differences") as refused:
        load_weights(Net(1), written(tmp_path / "net.pt", state), "net")
    for words in ("bn.bias: is without numbers, not", "one.bias: is sparse_coo, not", "mean: is float8_e4m3fn,"):
        assert words in refused.value.printed


def test_a_count_of_batches_may_be_missing_and_is_not_looked_at(tmp_path: Path) -> None:
    for count in (None, torch.tensor(float("nan")), torch.zeros(2)):
        state = Net(7).state_dict()
        del state["bn.num_batches_tracked"]
        ours = Net(1)
        load_weights(
            ours,
            written(tmp_path / "net.pt", state | ({} if count is None else {"x.num_batches_tracked": count})),
            "net",
        )
        assert ours.bn.num_batches_tracked == 1


def test_of_tied_weights_one_name_is_enough(tmp_path: Path) -> None:
    """As safetensors itself writes a module."""
    trained, ours = Net(7), Net(1)
    save_model(trained, str(tmp_path / "net.safetensors"))
    load_weights(ours, tmp_path / "net.safetensors", "net")
    assert torch.equal(ours.other.weight, trained.one.weight)


def test_each_difference_is_one_line_and_nothing_is_loaded(tmp_path: Path) -> None:
    state = Net(7).state_dict()
    state["one.bias"] = state["one.bias"].clone()
    state["one.bias"][1] = float("nan")
    state["other.weight"] = state["other.weight"] + 1
    state["other.bias"] = state["other.bias"].half()
    state["bn.weight"] = state["bn.weight"].bfloat16()
    state["bn.bias"] = torch.zeros(2, 1)
    del state["bn.running_var"]
    state["head.weight"] = torch.zeros(1)
    state["note"] = "trained on Tuesday"
    ours, before = Net(1), Net(1).state_dict()
    with pytest.raises(UserError) as refused:
        load_weights(ours, written(tmp_path / "net.pt", state), "net")
    first, *lines = refused.value.printed.splitlines()
    assert first == f"{tmp_path / 'net.pt'}: holds other weights than net: 8 differences"
    assert [line.strip() for line in lines] == [
        "bn.running_var: is missing, float32 of shape (3,)",
        "head.weight: is surplus, there is no such tensor",
        "note: is surplus, there is no such tensor",
        "one.bias: is not finite: nan at (1,)",
        "other.weight: holds other numbers than one.weight, and both are one tensor",
        "other.bias: is float16, not float32",
        "bn.weight: is bfloat16, not float32",
        "bn.bias: has shape (2, 1), not (3,)",
    ]
    assert all(torch.equal(tensor, before[name]) for name, tensor in ours.state_dict().items())


# Types that safetensors has, the bits of each, and what a message calls it.
TYPES = {
    **{"F4": (4, "F4"), "F6_E2M3": (6, "F6_E2M3"), "F6_E3M2": (6, "F6_E3M2"), "F8_E4M3": (8, "F8_E4M3")},
    **{"F8_E5M2": (8, "F8_E5M2"), "F8_E8M0": (8, "F8_E8M0"), "F8_E4M3FNUZ": (8, "F8_E4M3FNUZ")},
    **{"F8_E5M2FNUZ": (8, "F8_E5M2FNUZ"), "BF16": (16, "BF16"), "F16": (16, "float16"), "F64": (64, "float64")},
    **{"C64": (64, "C64"), "BOOL": (8, "bool"), "U8": (8, "uint8"), "I8": (8, "int8"), "U16": (16, "uint16")},
    **{"I16": (16, "int16"), "U32": (32, "uint32"), "I32": (32, "int32"), "U64": (64, "uint64"), "I64": (64, "int64")},
}


def of_type(type_name: str) -> bytes:
    """A safetensors file by its definition: one tensor ``weight`` of 2 by 4 zeros, and ``bias``, which is as wanted."""
    size = 8 * TYPES[type_name][0] // 8
    header = {
        "weight": {"dtype": type_name, "shape": [2, 4], "data_offsets": [0, size]},
        "bias": {"dtype": "F32", "shape": [2], "data_offsets": [size, size + 8]},
    }
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size + 8)


@pytest.mark.parametrize("type_name", TYPES)
def test_a_tensor_of_another_type_is_named(type_name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(of_type(type_name))
    with pytest.raises(UserError) as refused:
        load_weights(nn.Linear(4, 2), path, "net")
    assert [line.strip() for line in refused.value.printed.splitlines()[1:]] == [
        f"weight: is {TYPES[type_name][1]}, not float32"
    ]


@pytest.mark.parametrize("type_name", ["F8_E4M3", "F6_E2M3", "BF16"])
def test_constants_of_another_type_are_refused(type_name: str, tmp_path: Path) -> None:
    (tmp_path / "constants.safetensors").write_bytes(of_type(type_name))
    with pytest.raises(UserError, match=f"holds a tensor of type {type_name}; make the plan again"):
        read_constants(tmp_path / "constants.safetensors", Graph("net", ()))


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("harm"),))


def test_what_is_no_file_of_weights_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.safetensors").write_text("no tensors")
    (tmp_path / "text.pt").write_text("no tensors")
    (tmp_path / "text.npz").write_text("no tensors")
    (tmp_path / "harm.pt").write_bytes(pickle.dumps({"w": Harmful()}, protocol=2))
    (tmp_path / "new_harm.pt").write_bytes(pickle.dumps({"w": Harmful()}))
    torch.save({"w": Harmful()}, tmp_path / "saved_harm.pt")
    torch.save(Net(1), tmp_path / "module.pt")
    torch.save({"epoch": 3, "loss": 0.5}, tmp_path / "other.pt")
    for name, words in (
        ("text.safetensors", "no safetensors file"),
        ("text.pt", "PyTorch reads no plain weights there .torch.save wrote none of it"),
        ("text.npz", "not an .npz of arrays"),
        ("harm.pt", r"PyTorch reads no plain weights there .\S+ in it is code"),
        ("new_harm.pt", "PyTorch reads no plain weights there .torch.save wrote none of it"),
        ("saved_harm.pt", r"PyTorch reads no plain weights there .\S+ in it is code"),
        ("module.pt", "test_weights_file.Net in it is code"),
        ("other.pt", "holds no state_dict, but epoch, loss"),
        ("missing.pt", "no such file"),
        ("net.onnx", "weights are .safetensors, .pt, .pth, .ckpt, .tar or .npz"),
    ):
        with pytest.raises(UserError, match=words) as refused:
            read_weights(Path(name))
        assert len(refused.value.printed.splitlines()) == 1
    assert not Path("harm").exists()
