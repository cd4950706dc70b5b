# SPDX-License-Identifier: Apache-2.0
"""One line on standard error while the optimiser works: incumbent, bound, gap, seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from poet_profiles.schedule import Objective

from poet_planner.report.quantities import energy_text, share_text, time_text

if TYPE_CHECKING:
    from poet_planner.solve import Progress

LINES_EVERY_S = 5.0


@contextmanager
def progress(objective: Objective = Objective.ENERGY) -> Iterator[Callable[[Progress], None]]:
    """A function that shows progress: on a terminal the line is rewritten, in a log there is one every few seconds."""
    text = time_text if objective is Objective.TIME else energy_text
    terminal = sys.stderr.isatty()
    shown_s = -LINES_EVERY_S

    def show(state: Progress) -> None:
        nonlocal shown_s
        if terminal:
            sys.stderr.write(f"\r\x1b[K{_line(state, text)}")
        elif state.seconds >= shown_s + LINES_EVERY_S:
            shown_s = state.seconds
            sys.stderr.write(f"{_line(state, text)}\n")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if terminal:
            sys.stderr.write("\r\x1b[K")


def _line(state: Progress, text: Callable[[float], str]) -> str:
    incumbent = "no schedule yet" if state.incumbent_j is None else f"best {text(state.incumbent_j)}"
    bound = "no bound yet" if state.bound_j is None else f"bound {text(state.bound_j)}"
    gap = "" if state.gap is None else f", gap {share_text(state.gap)}"
    note = f"  {state.note}" if state.note else ""
    return f"{state.seconds:6.1f} s  {incumbent}, {bound}{gap}{note}"
