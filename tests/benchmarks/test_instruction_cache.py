# SPDX-License-Identifier: Apache-2.0
"""The assumed instruction cache, against one that looks every line up."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("unicorn", reason="the emulator is not installed")
from benchmarks.firmware.instruction_cache import LINE_BYTES, SETS, WAYS, InstructionCache
from tests.support.levels import examples

WAY_BYTES = LINE_BYTES * SETS
BLOCKS = st.tuples(st.integers(0, 4 * WAY_BYTES // 2).map(lambda half: 2 * half), st.sampled_from([2, 30, 500, 1500]))


@settings(max_examples=examples(100), deadline=None, derandomize=True)
@given(st.lists(st.tuples(BLOCKS, st.integers(1, 3)), max_size=30))
def test_misses_are_those_of_least_recently_used_lines(runs: list[tuple[tuple[int, int], int]]) -> None:
    cache, sets, misses = InstructionCache(), [OrderedDict[int, None]() for _ in range(SETS)], 0
    for (address, size), times in runs:
        for _ in range(times):
            cache.fetch(address, size)
            for line in sorted({byte // LINE_BYTES for byte in range(address, address + size)}):
                ways = sets[line % SETS]
                misses += line not in ways
                ways[line] = None
                ways.move_to_end(line)
                if len(ways) > WAYS:
                    ways.popitem(last=False)
    assert cache.misses == misses


def test_three_lines_of_one_set_never_stay() -> None:
    cache = InstructionCache()
    for _ in range(4):
        for way in range(3):
            cache.fetch(way * WAY_BYTES, 2)
    assert cache.misses == 12
    assert cache.cycles == pytest.approx(54)
