# SPDX-License-Identifier: Apache-2.0
"""The compiled half of the emulation, `native/`.

Whatever it does, the Python beside it does too: it is there for speed alone, and for machines with a compiler.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from poet_profiles.native import NativeError, shared_library

SOURCES = sorted(Path(__file__).with_name("native").glob("*.[ch]"))


def compiled() -> ctypes.CDLL | None:
    """The compiled half as a shared library, or None where there is no C compiler."""
    try:
        return ctypes.CDLL(str(shared_library("emulation", SOURCES)))
    except (NativeError, OSError):  # no compiler, or the folder lies where nothing may be run
        return None
