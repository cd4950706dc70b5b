# SPDX-License-Identifier: Apache-2.0
"""Tables and numbers of the page."""

from __future__ import annotations

import csv
import math
import textwrap
from collections.abc import Iterable, Sequence
from io import StringIO

NONE = "\u2013"
WIDTH = 120
KEPT = ("|", "#", "!", "<!--", "```")
FILL = {"break_long_words": False, "break_on_hyphens": False}


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def as_csv(text: str) -> str:
    """A Markdown table as a file of its cells."""
    head, _, *rows = (line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines())
    file = StringIO()
    csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return file.getvalue()


def percent(share: float | None) -> str:
    """A share in per cent, without the sign: three digits, and no more than three after the point."""
    if share is None or math.isnan(share):
        return NONE
    return f"{float(f'{100 * share:.3g}'):.3f}".rstrip("0").rstrip(".") if abs(share) >= 5e-6 else "0"


def wrapped(text: str) -> str:
    """The page with its paragraphs filled anew; tables, headings, pictures, comments and code stay as they are."""
    blocks = text.strip("\n").split("\n\n")
    return (
        "\n\n".join(block if block.startswith(KEPT) else textwrap.fill(block, WIDTH, **FILL) for block in blocks) + "\n"
    )
