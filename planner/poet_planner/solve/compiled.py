# SPDX-License-Identifier: Apache-2.0
"""How the inner loops are compiled: once per machine, then from numba's cache, and outside the interpreter's lock.

Counting references to the arrays in a named tuple, wherever one is read, takes half of an inner loop's time. Code that
makes no array does without: the caller holds what it is given.

A call is passed its named tuples word by word, hundreds of words for three of arrays: more work than most of what an
inner loop calls. What is inlined is compiled into its callers instead.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from numba import config, njit
from poet_profiles.cache import cache_folder, is_writable

_HERE = Path(__file__).resolve().parent


def keep_elsewhere(folder: Path) -> None:
    """Let numba keep what it compiles in the user's cache where ``folder``, beside the sources, cannot be written.

    There it has a folder for each state of the sources: numba goes by a function's own file alone.
    """
    if not is_writable(folder / "__pycache__") and not os.environ.get("NUMBA_CACHE_DIR"):
        contents = b"".join(source.read_bytes() for source in sorted(folder.glob("*.py")))
        config.CACHE_DIR = str(cache_folder(f"numba/{hashlib.sha256(contents).hexdigest()[:16]}"))  # type: ignore[attr-defined]


keep_elsewhere(_HERE)
_njit = partial(njit, cache=True, nogil=True, error_model="numpy")
allocating = _njit()
compiled = _njit(_nrt=False)
inlined = _njit(_nrt=False, forceinline=True)


def forget_older(folder: Path) -> None:
    """Let what is in the cache of ``folder`` be compiled anew where any source file there is newer.

    numba goes by a function's own file; what it calls may be from others, and is compiled into it.
    """
    newest_s = max(source.stat().st_mtime for source in folder.glob("*.py"))
    for cached in (folder / "__pycache__").glob("*.nb[ic]"):
        with suppress(OSError):
            if cached.stat().st_mtime < newest_s:
                cached.unlink()


forget_older(_HERE)
