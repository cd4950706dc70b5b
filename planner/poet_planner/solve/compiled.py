"""How the inner loops are compiled: once per machine, then from numba's cache, and outside the interpreter's lock.

Counting references to the arrays in a named tuple, wherever one is read, takes half of an inner loop's time. Code that
makes no array does without: the caller holds what it is given.
"""

from __future__ import annotations

from numba import njit

allocating = njit(cache=True, nogil=True, error_model="numpy")
compiled = njit(cache=True, nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]
