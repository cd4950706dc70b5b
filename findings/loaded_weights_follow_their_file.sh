#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: what safetensors.torch.load_file returns is a copy in memory: what becomes of the file afterwards is no matter,
# as with torch.load, whose mmap=True has to be asked for.
# Seen (safetensors 0.8.0, PyTorch 2.13.0, Linux): the tensors are the file. Numbers written into it in place change them,
# those that were looked at before as well, and a model that took them by load_state_dict(assign=True). No option asks
# for it, and nothing is raised. safetensors.numpy gives copies; so does load_state_dict without assign. save_file puts
# a new file in the old one's place, so it changes nothing that is loaded; a copy program writes into the old one.
# So "trained minus pretrained" is zero where a new version was copied over the file that was loaded. clone() what is to
# stay. poet reads weights by safetensors.numpy.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 safetensors==0.8.0 numpy==2.4.6

seen=$(cd "$folder" && "$python" - <<'PROGRAM'
import safetensors.numpy
import safetensors.torch
import torch

NAME, OTHER = "net.safetensors", "other.safetensors"
READERS = {
    "safetensors.torch": lambda: safetensors.torch.load_file(NAME),
    "safetensors.numpy": lambda: safetensors.numpy.load_file(NAME),
}


def saved(number, path):
    safetensors.torch.save_file({"weight": torch.full((4, 3), number), "bias": torch.full((4,), number)}, path)


def overwritten(path):
    with open(OTHER, "rb") as other, open(path, "r+b") as file:
        file.write(other.read())


saved(2.0, OTHER)
for reader, load in READERS.items():
    saved(1.0, NAME)
    loaded = load()
    assert float(loaded["weight"].sum()) == 12.0
    overwritten(NAME)
    print(reader + ":", *(float(loaded[name].mean()) for name in ("weight", "bias")))
for assign in (False, True):
    saved(1.0, NAME)
    model = torch.nn.Linear(3, 4)
    model.load_state_dict(safetensors.torch.load_file(NAME), assign=assign)
    overwritten(NAME)
    print(f"load_state_dict, assign={assign}:", float(model.weight.detach().mean()))
saved(1.0, NAME)
loaded = safetensors.torch.load_file(NAME)
saved(2.0, NAME)
print("save_file:", float(loaded["weight"].mean()))
for given in (None, True):
    torch.save({"weight": torch.ones(4, 3)}, "net.pt")
    loaded = torch.load("net.pt", mmap=given)
    torch.save({"weight": torch.full((4, 3), 2.0)}, OTHER)
    overwritten("net.pt")
    print(f"torch.load, mmap={given}:", float(loaded["weight"].mean()))
PROGRAM
)
echo "$seen"
known='safetensors.torch: 2.0 2.0
safetensors.numpy: 1.0 1.0
load_state_dict, assign=False: 1.0
load_state_dict, assign=True: 2.0
save_file: 1.0
torch.load, mmap=None: 1.0
torch.load, mmap=True: 2.0'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
