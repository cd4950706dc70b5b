# SPDX-License-Identifier: Apache-2.0
"""With the setting, a process is hardly larger than what it has allocated."""

from __future__ import annotations

import subprocess
import sys

import pytest
from poet_profiles.errors import UserError
from poet_runtime.allocator import release_freed

HOLES = """
import sys
from pathlib import Path
import torch
from poet_runtime.allocator import release_freed

def resident_kib():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])

if sys.argv[1] == "set":
    release_freed(1 << 16)
# 96 KiB each: above the setting, and below the 128 KiB from which glibc maps a block of its own accord.
# The first fill the holes that are in the heap already, with which malloc begins whatever the setting; there are some
# 6 MB of them where the imports had their bytecode to make.
fillers = [torch.zeros(24 * 1024) for _ in range(400)]
tensors = [torch.zeros(24 * 1024) for _ in range(400)]
before = resident_kib()
# Every other block stays: a heap could not shrink.
del tensors[::2]
print(before - resident_kib())
"""


def returned_kib(setting: str) -> int:
    run = subprocess.run([sys.executable, "-c", HOLES, setting], capture_output=True, text=True, check=True)
    return int(run.stdout)


def test_freed_blocks_go_back_to_the_system_at_once() -> None:
    freed_kib = 200 * 96
    assert returned_kib("set") > 0.9 * freed_kib
    assert returned_kib("left") < 0.5 * freed_kib


def test_a_library_without_the_setting_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    with pytest.raises(UserError, match="takes no threshold of 65536 B"):
        release_freed(1 << 16)
