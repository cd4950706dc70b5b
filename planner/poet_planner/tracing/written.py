# SPDX-License-Identifier: Apache-2.0
"""The expression that is written where a frame is.

Python keeps its positions.
"""

from __future__ import annotations

import linecache
from dis import opmap
from functools import lru_cache
from itertools import islice
from types import CodeType, FrameType

LONGEST = 60
STORE = opmap["STORE_SUBSCR"]


def written_at(frame: FrameType | None) -> str:
    """The expression that a frame computes, in one line; empty where its file is not there."""
    return "" if frame is None else _expression(frame.f_code, frame.f_lasti)


@lru_cache(4096)
def _expression(code: CodeType, instruction: int) -> str:
    first, last, start, end = next(islice(code.co_positions(), instruction // 2, None))
    lines = linecache.getlines(code.co_filename)
    if first is None or last is None or last > len(lines):
        return ""
    # Columns count bytes. Of `x[0] = y` Python has the place of `x[0]` alone.
    encoded = [line.encode() for line in lines[first - 1 : last]]
    if code.co_code[instruction] != STORE:
        encoded[-1] = encoded[-1][:end]
        encoded[0] = encoded[0][start:]
    text = " ".join(b" ".join(encoded).decode(errors="replace").split())
    if not text.isprintable():
        return ""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
