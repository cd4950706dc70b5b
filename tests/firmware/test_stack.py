# SPDX-License-Identifier: Apache-2.0
"""What a library's header says of the stack, held against the call graph that gcc writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from poet_planner.schedule.c_library import STACK_BYTES

from benchmarks.firmware.emulated_core import MACHINE_FLAGS
from tests.support.firmware.stack import Stack

CALLS = ("begin", "train", "train_begin", "next", "settle", "stop", "infer", "commit", "restore")
CALLS += ("extract", "train_features", "train_features_begin", "infer_features")
LIBRARY_BYTES = 96  # a division in the compiler's own library is at the end of a way


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs arm-none-eabi-gcc")
def test_a_call_takes_no_more_stack_than_the_header_says_and_not_far_less(tmp_path: Path) -> None:
    most = {}
    for core in ("cortex-m4f", "cortex-m0plus"):
        stack = Stack(["arm-none-eabi-gcc", "-O2", *MACHINE_FLAGS[core]], tmp_path / core)
        found = {call: stack.most(f"poet_{call}") for call in CALLS}
        assert min(found.values()) > 0
        most[core] = max(found.values()) + LIBRARY_BYTES
    assert 0.9 * STACK_BYTES < max(most.values()) <= STACK_BYTES, most
