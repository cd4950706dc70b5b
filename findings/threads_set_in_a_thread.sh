#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: torch.set_num_threads is of the process: called in any thread, before or after others began, it holds for all.
# Seen (PyTorch 2.13.0, CPU build, Linux): it holds for the thread that calls it, and for threads whose first use of
# PyTorch comes later. Threads that have used PyTorch keep their number. torch.set_default_dtype is of the process.
# So times that one thread measured are not those of a step that another runs, and its sums may have other bits: set the
# number in each thread that computes, or before the first use. poet plans anew for a thread with another number.
# TORCH_INDEX: a further package index, for PyTorch's CPU build.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch==2.13.0 numpy==2.4.6

seen=$("$python" - <<'PROGRAM'
from concurrent.futures import ThreadPoolExecutor

import torch


def used():
    torch.ones(100_000).exp()
    return torch.get_num_threads()


def sets(count):
    torch.set_num_threads(count)
    torch.set_default_dtype(torch.float64)
    return used()


old, new = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
torch.set_num_threads(4)
print("before:", "main", used(), "old", old.submit(used).result())
with ThreadPoolExecutor(1) as setter:
    print("sets:", setter.submit(sets, 3).result())
print("after:", "main", used(), "old", old.submit(used).result(), "new", new.submit(used).result())
print("dtype:", "main", torch.ones(1).dtype)
PROGRAM
)
echo "$seen"
known='before: main 4 old 4
sets: 3
after: main 4 old 4 new 3
dtype: main torch.float64'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
