#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: PyTorch's profiler, first started in another thread than the one that imported PyTorch, works in silence, or
# raises; and KINETO_LOG_LEVEL=99, which silences its other lines, silences this case as well.
# Seen (PyTorch 2.13.0): it prints "ERROR: External init callback must run in same thread as registerClient" on standard
# error at every level, and the profile is complete all the same: as many events as in the main thread.
# A program that measures in a worker thread shows its users that line, once, and nothing is wrong.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 numpy==2.4.6

seen=$(KINETO_LOG_LEVEL=99 "$python" - 2>&1 <<'PROGRAM' | sed 's/ (.*//'
from threading import Thread

import torch
from torch.autograd.profiler import profile

counted = []


def count():
    with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
        torch.ones(1000).exp()
    counted.append(len(record.kineto_results.events()))


for work in (Thread(target=count), Thread(target=count)):
    work.start()
    work.join()
count()
print("events", "as many" if len(set(counted)) == 1 and counted[0] > 1 else "others")
PROGRAM
)
echo "$seen"
known='ERROR: External init callback must run in same thread as registerClient
events as many'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
