# SPDX-License-Identifier: Apache-2.0
"""Numbers of type f32 on the line: their bits, so that none is rounded (docs/SPEC.md, section 6)."""

from __future__ import annotations

import re
import struct


def f32_bits(number: float) -> str:
    """The bits of a number, rounded to f32, as eight lower-case hex digits.

    Raises
    ------
    OverflowError
        If it is finite, and no f32 is.
    """
    return struct.pack(">f", number).hex()


def f32_of_bits(text: str) -> float:
    """The number that such digits give.

    Raises
    ------
    ValueError
        If they are something else.
    """
    if not re.fullmatch("[0-9a-f]{8}", text):
        raise ValueError(f"{text!r} are no bits of a f32")
    number: float = struct.unpack(">f", bytes.fromhex(text))[0]
    return number
