#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: torch.func.functional_call leaves a module as it was, also one in which a layer has two names (tied weights,
# an encoder used twice).
# Seen: with PyTorch 2.13.0 a layer with two names keeps what it was called with. Its weight is a plain tensor afterwards,
# parameters() yields that, and the network computes with it. Nothing is raised; an optimiser made before goes on changing
# what the network no longer reads. So it is with tie_weights=False and a value for either name. With a value for one name
# alone, and for two layers that share a weight, the module is as before.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 numpy==2.4.6

seen=$("$python" - <<'PROGRAM'
import torch
from torch import nn


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = self.other = nn.Linear(2, 2)

    def forward(self, x):
        return self.one(x) + self.other(x)


for tied, names in ((True, ("one",)), (False, ("one", "other")), (False, ("one",))):
    module = Twice()
    before = list(module.parameters())
    zeros = {f"{name}.{key}": torch.zeros_like(one) for name in names for key, one in module.one.named_parameters()}
    torch.func.functional_call(module, zeros, torch.ones(1, 2), tie_weights=tied)
    kept = [one is other for one, other in zip(before, module.parameters())]
    print("tied" if tied else "apart", *names, type(module.one.weight).__name__, f"{sum(kept)} of {len(kept)} left")
PROGRAM
)
echo "$seen"
known='tied one Tensor 0 of 2 left
apart one other Tensor 0 of 2 left
apart one Parameter 2 of 2 left'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
