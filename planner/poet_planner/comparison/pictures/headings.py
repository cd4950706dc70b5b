# SPDX-License-Identifier: Apache-2.0
"""What stands above a picture of many plans; its last line says what the costs rest on."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING

from poet_planner.comparison.sweep_table import Point
from poet_planner.report.figures import INK
from poet_planner.report.table import UNKNOWN_ORIGIN, figures_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Of a letter, as a share of its height, on average.
LETTER_WIDTH = 0.55
POINTS_PER_INCH = 72


def write_heading(figure: Figure, lines: Iterable[str], points: Iterable[Point], size: int = 7) -> None:
    """Write lines above a figure, as wide as it is, and what the costs of its points rest on."""
    letters = int(figure.get_figwidth() * POINTS_PER_INCH / (LETTER_WIDTH * size))
    text = "\n".join(fill(line, letters) for line in (*lines, sources_text(points)))
    figure.suptitle(text, fontsize=size, color=INK, parse_math=False)


def sources_text(points: Iterable[Point]) -> str:
    """What the costs of points rest on, in a line: with the names of boards, where it is not the same for all."""
    listed = list(points)
    if not any(point.profile_source for point in listed):
        return UNKNOWN_ORIGIN
    of_board = {(point.board, point.profile_source) for point in listed}
    is_told_by_board = len(of_board) == len({point.board for point in listed})
    named: dict[str, dict[str, None]] = {}
    for point in listed:
        name = point.board if is_told_by_board and point.board else named_place(point.model, point.board)
        named.setdefault(point.profile_source, {})[name] = None
    if len(named) == 1:
        return f"costs rest on {figures_text(*named)}"
    parts = (f"{figures_text(source)} ({', '.join(names)})" for source, names in named.items())
    return f"costs rest on {', '.join(parts)}"


def named_place(*names: str) -> str:
    """A network, a board, a limit: those that have a name."""
    return ", ".join(name for name in names if name)
