#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: PyTorch's elementwise functions on a CPU give a number the same bits wherever it lies: alone, at the end of a
# tensor whose length is no multiple of a vector, or with a stride. Only what sums depends on the cut.
# Seen (PyTorch 2.13.0, x86-64 with AVX2): it holds for exp, expm1, tanh, erf, sin, logsigmoid and hardswish. It does not
# for sigmoid, silu, gelu, mish, softplus, elu, selu and celu: vectors are computed by one routine, what is left
# over and what has a stride by another. Cut into parts of whole vectors all of them have the whole's bits.
# So parts of a batch (micro-batches, slices, tiles) have equal bits only where each part is cut at such a length, and a
# value that is written out and read back must keep its strides.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 numpy==2.4.6

seen=$(ATEN_CPU_CAPABILITY=avx2 "$python" - <<'PROGRAM'
import torch
from torch.nn import functional

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(4096)
strided = torch.stack((x, x), 1)[:, 0]
names = "exp expm1 tanh erf sin sigmoid".split()
functions = {name: getattr(torch, name) for name in names}
names = "silu gelu mish softplus elu selu celu logsigmoid hardswish".split()
functions |= {name: getattr(functional, name) for name in names}
for cut, parts in {"parts of 63": x.split(63), "with a stride": [strided], "parts of 64": x.split(64)}.items():
    others = (
        name
        for name, function in functions.items()
        if not torch.equal(function(x), torch.cat([function(part) for part in parts]))
    )
    print(f"{cut}:", *others)
PROGRAM
)
echo "$seen"
known='parts of 63: sigmoid silu gelu mish softplus elu selu celu
with a stride: sigmoid silu gelu mish softplus elu selu celu
parts of 64:'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
