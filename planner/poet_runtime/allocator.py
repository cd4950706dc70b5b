# SPDX-License-Identifier: Apache-2.0
"""Settings of the C library's allocator, which decide how much of what is freed the system gets back."""

from __future__ import annotations

import ctypes
import gc

from poet_profiles.errors import UserError

_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of glibc's <malloc.h>
_MOST_BYTES = 2**31 - 1  # of a C int; more would be cut to its low bits


def give_back() -> None:
    """Let the system have what nobody refers to any more, a trace's circles too, where the C library can do that."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def release_freed(least_bytes: int) -> None:
    """Let blocks of so many bytes or more be mappings of their own, which the system gets back when they are freed.

    glibc otherwise keeps freed memory, and the process stays larger than what is allocated. Smaller numbers keep it
    smaller, and cost page faults. What fits into a hole of the heap goes there nevertheless. To be called before the
    first tensors are made.

    Raises
    ------
    UserError
        If the C library is none that has the setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or not 0 < least_bytes <= _MOST_BYTES or not mallopt(_MMAP_THRESHOLD, least_bytes):
        raise UserError(f"release_freed: this system's C library takes no threshold of {least_bytes} B; leave it out")
