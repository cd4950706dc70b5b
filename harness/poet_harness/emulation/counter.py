# SPDX-License-Identifier: Apache-2.0
"""The cycle counter, whose hooks are C (native/counter.c)."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from unicorn import unicorn_const
from unicorn.unicorn_py3 import unicorn as engine_binding

from .library import compiled

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


def attach(engine: Any, counter: Counter, flash: tuple[int, int]) -> None:
    """Count the cycles of every block that `engine` runs.

    Where the flash makes the core wait, reads between the addresses `flash` (the last one included) count too. That is
    for cores without IT blocks: after a conditional load that such a hook sees, the engine loses instructions.
    """
    _add_hook(engine, unicorn_const.UC_HOOK_BLOCK, compiled().on_block, counter, EVERYWHERE)
    if counter.flash_wait:
        _add_hook(engine, unicorn_const.UC_HOOK_MEM_READ, compiled().on_read, counter, flash)


def _add_hook(engine: Any, kind: int, function: Any, counter: Counter, where: tuple[int, int]) -> None:
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
