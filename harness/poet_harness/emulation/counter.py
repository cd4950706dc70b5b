# SPDX-License-Identifier: Apache-2.0
"""The cycle counter: hooks in C (`native/counter.c`), or the same in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const
from unicorn.unicorn_py3 import unicorn as engine_binding

NEVER = 2**64 - 1
LINE_BYTES, LINES = 8, 8  # of the flash's cache, as in native/counter.h
NO_LINE = 2**32 - 1
EVERYWHERE = (1, 0)


class Counter(ctypes.Structure):
    """``struct counter`` of native/counter.h."""

    _fields_ = [
        ("cycles", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
        ("expected", ctypes.c_uint32),
        ("refill", ctypes.c_uint32),
        ("begin", ctypes.c_uint32),
        ("end", ctypes.c_uint32),
        ("stopped", ctypes.c_uint32),
        ("strayed", ctypes.c_uint32),
        ("prefix", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("flash_wait", ctypes.c_uint32),
        ("lines", ctypes.c_uint32 * LINES),
    ]


def make_counter(prefix: NDArray[np.uint32], begin: int, end: int, refill: int, flash_wait: int) -> Counter:
    """A counter at zero, its cache empty. Keeps no reference to ``prefix``: the caller must."""
    stop = ctypes.cast(engine_binding.uclib.uc_emu_stop, ctypes.c_void_p)
    counter = Counter(0, NEVER, 0, refill, begin, end, 0, 0, prefix.ctypes.data, stop.value, flash_wait)
    empty_cache(counter)
    return counter


def empty_cache(counter: Counter) -> None:
    """Forget every line of the flash, as a reset does."""
    counter.lines[:] = [NO_LINE] * LINES


def attach(
    engine: Any, counter: Counter, prefix: NDArray[np.uint32], flash: tuple[int, int], library: ctypes.CDLL | None
) -> None:
    """Count the cycles of every block that `engine` runs, with the hooks of `library` if there is one.

    Where the flash makes the core wait, reads between the addresses `flash` (the last one included) count too. That is
    for cores without IT blocks: behind a conditional load that such a hook sees, the engine loses instructions.
    """
    reads = unicorn_const.UC_HOOK_MEM_READ
    if library is None:
        engine.hook_add(unicorn_const.UC_HOOK_BLOCK, _block_hook(counter, prefix))
        if counter.flash_wait:
            engine.hook_add(reads, _read_hook(counter), begin=flash[0], end=flash[1])
        return
    _add_native(engine, unicorn_const.UC_HOOK_BLOCK, library.on_block, counter, EVERYWHERE)
    if counter.flash_wait:
        _add_native(engine, reads, library.on_read, counter, flash)


def _add_native(engine: Any, kind: int, function: Any, counter: Counter, where: tuple[int, int]) -> None:
    handle = ctypes.c_size_t()
    status = engine_binding.uclib.uc_hook_add(
        engine._uch,
        ctypes.byref(handle),
        kind,
        ctypes.cast(function, ctypes.c_void_p),
        ctypes.cast(ctypes.pointer(counter), ctypes.c_void_p),
        ctypes.c_uint64(where[0]),
        ctypes.c_uint64(where[1]),
    )
    if status != unicorn_const.UC_ERR_OK:
        raise engine_binding.UcError(status)


def _touch(counter: Counter, line: int) -> None:
    if counter.lines[line % LINES] != line:
        counter.lines[line % LINES] = line
        counter.cycles += counter.flash_wait


def _read_hook(counter: Counter) -> Callable[[Any, int, int, int, int, Any], None]:
    def on_read(_engine: Any, _type: int, address: int, _size: int, _value: int, _data: Any) -> None:
        _touch(counter, address // LINE_BYTES)

    return on_read


def _block_hook(counter: Counter, prefix: NDArray[np.uint32]) -> Callable[[Any, int, int, Any], None]:
    sums = prefix.tolist()
    first, last, refill = counter.begin, counter.end, counter.refill

    def on_block(engine: Any, address: int, size: int, _data: Any) -> None:
        if counter.cycles >= counter.limit:
            counter.stopped = 1
            engine.emu_stop()
            return
        end = address + size
        if address < first or end > last:
            counter.strayed = address | 1
            engine.emu_stop()
            return
        jump = refill if address != counter.expected else 0
        counter.cycles += jump + sums[(end - first) // 2] - sums[(address - first) // 2]
        counter.expected = end
        if counter.flash_wait:
            for line in range(address // LINE_BYTES, -(-end // LINE_BYTES)):
                _touch(counter, line)

    return on_block
