#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: once NumPy and PyTorch are imported, a call of np.unique, or a first FakeTensorMode(), loads nothing of weight.
# Seen: np.unique of plain numbers imports numpy.ma (NumPy 2.4.6), and so do the set functions that call it;
# np.isin does not. A first FakeTensorMode() (PyTorch 2.13.0), as a first ShapeEnv(), imports the compiler, and with that
# the ONNX exporter and FSDP: hundreds of modules, some 45 MB of resident memory.
# A program that traces where memory is short has to count that; it loads no less by importing lazily itself.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 numpy==2.4.6

seen=$("$python" - <<'PROGRAM'
import sys

import numpy as np

for name, call in (("isin", lambda: np.isin([1], [2])), ("unique", lambda: np.unique([2, 1]))):
    call()
    print("after", name, "numpy.ma is", "there" if "numpy.ma" in sys.modules else "not there")

from torch._subclasses.fake_tensor import FakeTensorMode

HEAVY = ("torch._dynamo.symbolic_convert", "torch.onnx", "torch.distributed.fsdp")
print("before", *(name in sys.modules for name in HEAVY))
before = len(sys.modules)
FakeTensorMode()
print("after", *(name in sys.modules for name in HEAVY), "hundreds" if len(sys.modules) - before > 250 else "few")
PROGRAM
)
echo "$seen"
known='after isin numpy.ma is not there
after unique numpy.ma is there
before False False False
after True True True hundreds'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
