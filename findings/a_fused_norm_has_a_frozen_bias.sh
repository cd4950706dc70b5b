#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: what torch.nn.utils.fusion.fuse_conv_bn_eval makes of a convolution and a norm that learn learns, too.
# Seen: with PyTorch 2.13.0 the bias of what it makes is frozen, if the convolution had none, as is usual before a norm.
# Nothing is raised; a fine-tuning of all layers then leaves these biases out, in PyTorch and on a board.
# module.requires_grad_() is the way out.
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
from torch.nn.utils.fusion import fuse_conv_bn_eval

for has_bias in (True, False):
    conv, norm = nn.Conv1d(2, 3, 3, bias=has_bias), nn.BatchNorm1d(3)
    fused = fuse_conv_bn_eval(conv.eval(), norm.eval())
    learns = [name for name, one in fused.named_parameters() if one.requires_grad]
    print("with a bias:" if has_bias else "without:", *learns)
PROGRAM
)
echo "$seen"
known='with a bias: weight bias
without: weight'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
