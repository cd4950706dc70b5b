# SPDX-License-Identifier: Apache-2.0
"""The firmware's error numbers, as `err` frames carry them (docs/SPEC.md, section 6)."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """`poet_status` of `firmware/include/poet/status.h`, which says when each is returned."""

    OK = 0
    E_ARGUMENT = -1
    E_MEMORY = -2
    E_HASH = -3
    E_ORDER = -4
    E_IO = -5
    E_FULL = -6
    E_CORRUPT = -7
    E_UNSUPPORTED = -8
    E_ABSENT = -9
    E_PROTECTED = -10
    E_TAKEN = -11
    E_NOT_FINITE = -12
    E_ARITHMETIC = -13
