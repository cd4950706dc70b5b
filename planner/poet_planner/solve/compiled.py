"""How the inner loops are compiled: once per machine, then from numba's cache, and outside the interpreter's lock."""

from __future__ import annotations

from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")
