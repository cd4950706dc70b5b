# SPDX-License-Identifier: Apache-2.0
"""The part of the emulation that is C, `native/`: what happens for every block of code, and for every byte."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.native import NativeError, shared_library

SOURCES = sorted(Path(__file__).with_name("native").glob("*.[ch]"))


@cache
def compiled() -> ctypes.CDLL:
    """It as a shared library, built where there is none of these sources yet."""
    try:
        library = ctypes.CDLL(str(shared_library("emulation", SOURCES)))
    except (NativeError, OSError) as error:
        raise UserError(f"the emulator is compiled at first use, and here it cannot be: {error}", NO_DEVICE) from None
    for function in (library.machine_next_interrupt, library.byte_uart_load, library.byte_uart_store):
        function.restype = ctypes.c_bool
    library.spi_poll.restype = ctypes.c_uint64
    return library


def address_of(function: str) -> int:
    """Where one of its functions lies."""
    return ctypes.cast(getattr(compiled(), function), ctypes.c_void_p).value or 0
