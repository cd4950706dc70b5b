# SPDX-License-Identifier: Apache-2.0
"""A published cycle count, what the emulated board takes for the same work, and how far apart the two may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One comparison.

    Parameters
    ----------
    what : str
        Program and core.
    published, emulated : float
        Cycles.
    least, most : float, optional
        The ratio of emulated to published that passes; without them nothing is judged.
    """

    what: str
    published: float
    emulated: float
    least: float | None = None
    most: float | None = None

    @property
    def ratio(self) -> float:
        return self.emulated / self.published

    @property
    def missed(self) -> bool:
        return self.least is not None and self.most is not None and not self.least <= self.ratio <= self.most

    @property
    def verdict(self) -> str:
        if self.least is None:
            return "not judged"
        return "MISSED" if self.missed else "held"


def table_of(figures: Iterable[Figure]) -> Table:
    table = Table("program", "published", "emulated", "ratio", "limits", "verdict", title="cycles (emulated)")
    for figure in figures:
        limits = "" if figure.least is None else f"{figure.least:.2f} to {figure.most:.2f}"
        cells = (f"{figure.published:,.4g}" if figure.published < 1e3 else f"{figure.published:,.0f}",)
        cells += (f"{figure.emulated:,.4g}" if figure.emulated < 1e3 else f"{figure.emulated:,.0f}",)
        table.add_row(figure.what, *cells, f"{figure.ratio:.3f}", limits, figure.verdict)
    return table
