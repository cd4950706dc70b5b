# SPDX-License-Identifier: Apache-2.0
"""Memory for the firmware's core in this process, with a fence: writing or reading past it ends the process there.

Without one, a write past a table lands in the heap of the tests, and another test fails of it, seldom.
"""

from __future__ import annotations

import ctypes as c
import mmap
from typing import Any

NO_ACCESS = 0
_libc = c.CDLL(None, use_errno=True)


def fenced(kind: Any, count: int) -> Any:
    """A ctypes array of zeros that ends where a page without access begins; at least one entry."""
    array = kind * max(1, count)
    whole = -(-c.sizeof(array) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, whole + mmap.PAGESIZE)
    fence = c.c_void_p(c.addressof(c.c_char.from_buffer(memory, whole)))
    if _libc.mprotect(fence, c.c_size_t(mmap.PAGESIZE), NO_ACCESS):
        raise OSError(c.get_errno(), "mprotect")
    return array.from_buffer(memory, whole - c.sizeof(array))
