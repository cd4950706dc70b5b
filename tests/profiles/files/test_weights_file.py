# SPDX-License-Identifier: Apache-2.0
"""Weights from files of every kind, held against a module; each difference is a line of its own."""

from __future__ import annotations

import json
import pickle
import struct
from argparse import Namespace
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

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
        "bn.bias: has shape (2, 1), not (3,)",
        "bn.running_var: is missing, float32 of shape (3,)",
        "head.weight: is surplus, there is no such tensor",
        "note: is surplus, there is no such tensor",
        "one.bias: is not finite: nan at (1,)",
        "other.weight: holds other numbers than one.weight, and both are one tensor",
        "other.bias: is float16, not float32",
        "bn.weight: is bfloat16, not float32",
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


@pytest.mark.parametrize("type_name", [name for name in TYPES if name != "F64"])  # whose numbers a server's means are
def test_a_tensor_of_another_type_is_named(type_name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    path.write_bytes(of_type(type_name))
    with pytest.raises(UserError) as refused:
        load_weights(nn.Linear(4, 2), path, "net")
    first, *lines = map(str.strip, refused.value.printed.splitlines())
    said = f"weight: is {TYPES[type_name][1]}, not float32"
    if type_name in ("BF16", "F16"):
        assert first.endswith(said)
        assert lines[0].startswith("where the model is made, take it with load_state_dict, which widens it, and torch")
    else:
        assert lines == [said]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_means_are_taken_in_the_models_types(kind: torch.dtype, tmp_path: Path) -> None:
    """A count, whole numbers and weights, as a server's means of equal ones are."""
    state = {name: (one.double() * 3 / 3).to(kind) for name, one in Net(7).state_dict().items()}
    ours = Net(1)
    load_weights(ours, written(tmp_path / "net.pt", state), "net")
    assert all(torch.equal(one, Net(7).state_dict()[name]) for name, one in ours.state_dict().items())
    state["table"][2] += 0.25
    with pytest.raises(UserError, match=f"table: is {str(kind)[6:]}, not int64"):
        load_weights(ours, written(tmp_path / "net.pt", state), "net")


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
        ("text.safetensors", "is text, such as a CSV; weights are"),
        ("text.pt", "is text, such as a CSV; weights are"),
        ("text.npz", "is text, such as a CSV; weights are"),
        ("harm.pt", r"PyTorch reads no plain weights there .\S+ in it is code"),
        ("new_harm.pt", "PyTorch reads no plain weights there .it is damaged, or another program's"),
        ("saved_harm.pt", r"PyTorch reads no plain weights there .\S+ in it is code"),
        ("module.pt", "test_weights_file.Net in it is code"),
        ("other.pt", "holds no state_dict, but epoch, loss"),
        ("missing.pt", "No such file"),
    ):
        with pytest.raises(UserError, match=words) as refused:
            read_weights(Path(name))
        assert len(refused.value.printed.splitlines()) == 1
        assert "weights_only" not in refused.value.printed
    assert not Path("harm").exists()


def zipped(*names: str) -> bytes:
    content = BytesIO()
    with ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(name, b"")
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x93NUMPY\1\0", "is a single array"),
        (b"\x89HDF\r\n\x1a\n", "is HDF5"),
        (b"GGUF\3\0\0\0", "is GGUF"),
        (b"\x1c\0\0\0TFL3", "is TFLite"),
        (b"\x08\x07\x12\x07pytorch", "is ONNX"),
        (b"\x1f\x8b\x08", "is packed by gzip"),
        (b"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"),
        (b"<!DOCTYPE html>", "is a web page"),
        (b'{"a": 1}', "is JSON, and no index"),
        (bytes(range(200, 256)), "is of a kind that poet does not know"),
        (zipped("s/data.pkl", "s/code/net.py", "s/constants.pkl"), "is TorchScript"),
        (zipped("e/archive_format", "e/data/sample_inputs/model.pt"), "is a program of torch.export"),
        (zipped("readme.txt"), "is a .zip of something else"),
        (zipped("s/data.pkl")[:-9], "is a damaged .zip"),
        (zipped("w/data.pkl"), "PyTorch reads no plain weights there"),
        (struct.pack("<Q", 90) + b'{"weight": ', "is a damaged .safetensors"),
    ],
)
def test_a_file_of_another_kind_is_told_by_its_first_bytes(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content)
    with pytest.raises(UserError, match=words) as refused:
        load_weights(nn.Linear(4, 2), path, "net")
    assert refused.value.printed.startswith(str(path)) and "\n" not in refused.value.printed
    assert "weights_only" not in refused.value.printed


NAMES = ["pytorch_model.bin", "net.tar", "weights", "model.safetensors", "last.ckpt"]


@pytest.mark.parametrize("kind", [".safetensors", ".npz", ".pt"])
@pytest.mark.parametrize("name", NAMES)
def test_a_name_says_nothing_of_what_a_file_is(kind: str, name: str, tmp_path: Path) -> None:
    trained, ours = Net(7), Net(1)
    written(tmp_path / f"net{kind}", trained.state_dict()).rename(tmp_path / name)
    load_weights(ours, tmp_path / name, "net")
    assert torch.equal(ours.one.weight, trained.one.weight)


def test_what_torch_wrote_before_it_wrote_archives_is_read(tmp_path: Path) -> None:
    trained, ours = Net(7), Net(1)
    beside = {"args": Namespace(lr=0.1), "best": np.float64(0.9), "epoch": np.int64(3)}
    torch.save({"model": trained.state_dict(), **beside}, tmp_path / "net", _use_new_zipfile_serialization=False)
    load_weights(ours, tmp_path / "net", "net")
    assert torch.equal(ours.one.weight, trained.one.weight)


def sharded(folder: Path, state: dict[str, torch.Tensor], ending: str) -> Path:
    """Two shards and their index, each tensor's copy in the wrong shard with other numbers."""
    places = {name: f"part-{number % 2}{ending}" for number, name in enumerate(state)}
    for shard in sorted(set(places.values())):
        held = {name: tensor if places[name] == shard else tensor + 1 for name, tensor in state.items()}
        save = save_file if ending == ".safetensors" else torch.save
        save({f"module.{name}": tensor.clone() for name, tensor in held.items()}, folder / shard)
    index = folder / f"model{ending}.index.json"
    index.write_text(json.dumps({"weight_map": {f"module.{name}": shard for name, shard in places.items()}}))
    return index


@pytest.mark.parametrize("ending", [".safetensors", ".bin"])
def test_shards_are_read_by_their_index_or_folder(ending: str, tmp_path: Path) -> None:
    trained = Net(7)
    index = sharded(tmp_path, trained.state_dict(), ending)
    for place in (index, tmp_path):
        ours = Net(1)
        load_weights(ours, place, "net")
        assert all(torch.equal(tensor, trained.state_dict()[name]) for name, tensor in ours.state_dict().items())
    (tmp_path / f"part-1{ending}").unlink()
    with pytest.raises(UserError, match=f"names part-1{ending}, which is not there"):
        load_weights(Net(1), index, "net")
    index.write_text(json.dumps({"weight_map": {"one.bias": "../part-0.bin"}}))
    with pytest.raises(UserError, match="is JSON, and no index"):
        load_weights(Net(1), index, "net")


def test_of_a_folder_one_file_is_taken_or_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder with no file of weights"):
        load_weights(Net(1), tmp_path, "net")
    written(tmp_path / "one.pt", Net(7).state_dict())
    load_weights(Net(1), tmp_path, "net")
    written(tmp_path / "other.pt", Net(8).state_dict())
    with pytest.raises(UserError, match=r"a folder with one\.pt and other\.pt; name the file"):
        load_weights(Net(1), tmp_path, "net")


def classifier(width: int, choices: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Linear(width, 4), nn.Linear(4, choices))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, r"but for 3: 3.weight has shape \(5, 4\), not \(3, 4\)"),
        ({"3.weight": None, "3.bias": None}, "but for 3: 3.weight is missing"),
        ({"3.weight": None, "3.bias": None, "head.weight": torch.ones(2)}, "but for 3: 3.weight is missing"),
        ({"3.weight": torch.ones(3, 4), "3.bias": torch.ones(3), "aux.weight": torch.ones(2)}, "aux.weight is surplus"),
    ],
)
def test_another_head_is_two_lines(change: dict[str, torch.Tensor | None], words: str, tmp_path: Path) -> None:
    state = {**classifier(6, 5).state_dict(), **change}
    path = written(tmp_path / "net", {name: tensor for name, tensor in state.items() if tensor is not None})
    with pytest.raises(UserError, match=words) as refused:
        load_weights(classifier(6, 3), path, "net")
    lines = refused.value.printed.splitlines()
    assert len(lines) == 2 and "strict=False" in lines[1]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["0.weight", "0.weight_fake_quant.scale", "0.activation_post_process.scale"], "of a quantised network"),
        (["0.scale", "0.zero_point", "0._packed_params._packed_params"], "of a quantised network"),
        (["0.qweight", "0.scales"], "of a quantised network"),
        (["0.weight.momentum_buffer", "0.bias.momentum_buffer"], "an optimiser's state"),
        (["0.lora_A.weight", "0.lora_B.weight"], "is an adapter"),
        (["0.weight_orig", "0.weight_mask", "0.bias"], "has parametrisations"),
        (["0.parametrizations.weight.original0", "0.bias"], "has parametrisations"),
    ],
)
def test_another_form_of_a_network_is_one_line(names: list[str], words: str, tmp_path: Path) -> None:
    path = written(tmp_path / "net", dict.fromkeys(names, torch.ones(2)))
    with pytest.raises(UserError, match=words) as refused:
        load_weights(classifier(6, 3), path, "net")
    assert "\n" not in refused.value.printed


def test_a_state_of_an_optimiser_is_one_line(tmp_path: Path) -> None:
    torch.save(torch.optim.SGD(Net(1).parameters(), lr=0.1).state_dict(), tmp_path / "net.pt")
    with pytest.raises(UserError, match="is an optimiser's state; give the weights"):
        load_weights(Net(1), tmp_path / "net.pt", "net")


class Library(nn.Module):
    """As a module of transformers: it saves other names than it has."""

    config = 3

    def __init__(self, choices: int = 3) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, choices)

    def save_pretrained(self) -> dict[str, torch.Tensor]:
        return {name.replace("layer.", "encoder.layer.0."): tensor for name, tensor in self.state_dict().items()}

    @classmethod
    def from_pretrained(
        cls,
        path: None,
        config: int,
        state_dict: dict[str, Any],
        ignore_mismatched_sizes: bool,
        output_loading_info: bool,
    ) -> tuple[nn.Module, dict[str, Any]]:
        assert path is None and ignore_mismatched_sizes and output_loading_info
        made = cls(config)
        own = {name.replace("encoder.layer.0.", "layer."): tensor for name, tensor in state_dict.items()}
        fits = {name: made.state_dict()[name].shape == tensor.shape for name, tensor in own.items() if "x" not in name}
        made.load_state_dict({name: own[name] for name, same in fits.items() if same}, strict=False)
        other = {(name, own[name].shape, made.state_dict()[name].shape) for name, same in fits.items() if not same}
        missing = set(made.state_dict()) - set(own)
        return made, {"missing_keys": missing, "unexpected_keys": set(own) - set(fits), "mismatched_keys": other}


@pytest.mark.parametrize("wrap", [False, True])
def test_a_library_that_saves_other_names_converts_its_file_itself(wrap: bool, tmp_path: Path) -> None:
    trained, ours = Library(), Library()
    module = nn.Sequential(ours) if wrap else ours
    state = trained.save_pretrained()
    load_weights(module, written(tmp_path / "net", state), "net")
    assert all(torch.equal(tensor, trained.state_dict()[name]) for name, tensor in ours.state_dict().items())
    for change, words in (
        ({"head.weight": torch.ones(9, 4)}, r"head.weight has shape \(9, 4\), not \(3, 4\)"),
        ({"head.bias": None}, "head.bias is missing"),
        ({"x.weight": torch.ones(2)}, "x.weight is surplus"),
    ):
        changed: dict[str, Any] = {**state, **change}
        with pytest.raises(UserError, match=words):
            load_weights(
                module, written(tmp_path / "n", {key: one for key, one in changed.items() if one is not None}), "net"
            )


def test_other_names_end_with_the_cure(tmp_path: Path) -> None:
    path = written(tmp_path / "net", {f"encoder.{key}": tensor for key, tensor in Net(7).state_dict().items()})
    written(path, {"vit.x": torch.ones(1), **{f"vit.{key}.y": tensor for key, tensor in Net(7).state_dict().items()}})
    with pytest.raises(UserError) as refused:
        load_weights(Net(1), path, "net")
    assert "torch.save(model.state_dict(), …)" in refused.value.printed.splitlines()[-1]
