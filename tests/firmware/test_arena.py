# SPDX-License-Identifier: Apache-2.0
"""The arena against a model of it in a few lines of Python."""

from __future__ import annotations

import ctypes as c

from hypothesis import given
from hypothesis import strategies as st

from tests.support.firmware.core import E_MEMORY, OK, Arena, Block
from tests.support.firmware.fenced import fenced

BYTES = 256
CAPACITY = 6

offsets = st.integers(0, BYTES + 8) | st.integers(0, 2**32 - 1)
sizes = st.integers(0, 96) | st.integers(0, 2**32 - 1)
operations = st.lists(st.tuples(st.booleans(), offsets, sizes), max_size=60)


@given(operations=operations)
def test_any_sequence_agrees_with_the_model(core: c.CDLL, operations: list[tuple[bool, int, int]]) -> None:
    memory = fenced(c.c_uint32, BYTES // 4)
    table = fenced(Block, CAPACITY)
    arena = Arena()
    core.poet_arena_init(c.byref(arena), memory, BYTES, table, CAPACITY)
    live: dict[int, int] = {}
    owners: dict[int, int] = {}
    peak = high_water = taken = 0
    for take, offset, size in operations:
        if take:
            address = c.c_void_p()
            owner = taken = taken + 1
            status = core.poet_arena_take(c.byref(arena), owner, c.c_uint32(offset), c.c_uint32(size), c.byref(address))
            end = offset + -(-size // 4) * 4
            fits = (
                size > 0
                and offset % 4 == 0
                and end <= BYTES
                and len(live) < CAPACITY
                and all(end <= other or other + live[other] <= offset for other in live)
            )
            assert status == (OK if fits else E_MEMORY)
            if fits:
                assert address.value == c.addressof(memory) + offset
                live[offset] = end - offset
                owners[offset] = owner
                peak = max(peak, sum(live.values()))
                high_water = max(high_water, end)
        else:
            owner = owners.pop(offset, 0)
            status = core.poet_arena_release(c.byref(arena), owner)
            assert status == (OK if offset in live else E_MEMORY)
            live.pop(offset, None)
            assert not core.poet_arena_find(c.byref(arena), owner)
        assert arena.live_count == len(live)
        assert arena.live_bytes == sum(live.values())
        assert sorted((b.offset, b.bytes) for b in table[: len(live)]) == sorted(live.items())
        assert {b.offset: b.owner for b in table[: len(live)]} == owners
        assert (arena.peak_bytes, arena.high_water) == (peak, high_water)
