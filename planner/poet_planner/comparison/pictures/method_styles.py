# SPDX-License-Identifier: Apache-2.0
"""How each method is drawn: the same colour, marker and line in every picture, told apart in grey print too.

Colours are Okabe and Ito's, one a family of methods. Within a family, marker and line tell methods apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ORANGE = "#E69F00"
SKY_BLUE = "#56B4E9"
GREEN = "#009E73"
YELLOW = "#F0E442"
BLUE = "#0072B2"
VERMILLION = "#D55E00"
PURPLE = "#CC79A7"
BLACK = "#000000"
DARK = "#30363D"


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    label: str  # what a reader calls it
    colour: str  # ``#RRGGBB``
    # marker, line: as matplotlib takes them.
    marker: str
    line: str | tuple[float, tuple[float, ...]]
    width: float = 1.0  # of the line, in points
    filled: bool = True  # whether its markers are

    @property
    def edge(self) -> str:
        """The colour of edges: dark where the colour itself is too light on white."""
        return DARK if self.colour == YELLOW else self.colour

    def mark(self, points: float) -> dict[str, Any]:
        """The marker, that many points wide, as matplotlib's `plot` takes it."""
        fill = self.colour if self.filled else "white"
        return {"marker": self.marker, "markersize": points, "markerfacecolor": fill, "markeredgecolor": self.edge}


_DASHED = (0.0, (4.0, 1.6))
_DOTTED = (0.0, (1.0, 1.4))
_DASH_DOT = (0.0, (5.0, 1.4, 1.0, 1.4))
_LONG = (0.0, (8.0, 2.0))

# In this order methods stand in legends, whatever the file's order.
STYLES = {
    "optimal": Style("poet", VERMILLION, "o", "-", 1.8),
    "optimal_alone": Style("poet alone", VERMILLION, "o", _DOTTED, filled=False),
    "rematerialization_only": Style("rematerialization only", ORANGE, "^", _DASHED),
    "paging_only": Style("paging only", GREEN, "v", _DASH_DOT),
    "dtr": Style("DTR", BLUE, "s", "-"),
    "dtr_no_release": Style("DTR, no release", BLUE, "s", _DOTTED, filled=False),
    "lru": Style("LRU", BLUE, "d", _DASH_DOT),
    "checkmate": Style("Checkmate", SKY_BLUE, "h", _LONG),
    "checkmate_lp": Style("Checkmate, LP rounding", SKY_BLUE, "h", _DOTTED, filled=False),
    "poet_ilp": Style("POET as printed", SKY_BLUE, "*", _DASH_DOT),
    "paper": Style("POET as printed, in Pyomo", SKY_BLUE, "*", _DOTTED, filled=False),
    "capuchin": Style("Capuchin", PURPLE, "D", "-"),
    "capuchin_energy": Style("Capuchin, energy", PURPLE, "D", _DOTTED, filled=False),
    "capuchin_page_first": Style("Capuchin, page first", PURPLE, "D", _DASHED),
    "msps": Style("MSPS in DTR", PURPLE, "X", "-"),
    "msps_no_release": Style("MSPS in DTR, no release", PURPLE, "X", _DASH_DOT, filled=False),
    "rotor": Style("rotor", YELLOW, "<", _LONG),
    "pofo_time": Style("POFO, time", YELLOW, ">", "-"),
    "pofo_energy": Style("POFO, energy", YELLOW, ">", _DOTTED, filled=False),
    "chen_sqrt": Style("Chen \u221an", BLACK, "1", _DOTTED),
    "chen_greedy": Style("Chen greedy", BLACK, "2", _DASHED),
    "revolve": Style("revolve", BLACK, "+", _DASH_DOT),
    "page_activations": Style("page activations", GREEN, "p", _DOTTED),
    "page_all": Style("page everything", GREEN, "P", _LONG, filled=False),
    "store_all_micro_batches": Style("store all, micro-batches", BLACK, "_", _LONG),
    "store_all": Style("store all", BLACK, "|", "-", 0.8),
}


def style_of(method: str) -> Style:
    """How a method is drawn; one that stands in no table here is drawn thin and black, under its own name."""
    return STYLES.get(method) or Style(method, BLACK, ".", _DOTTED)


def in_legend_order(methods: set[str]) -> list[str]:
    """Methods as legends list them; those without a style last, by name."""
    place = {name: number for number, name in enumerate(STYLES)}
    return sorted(methods, key=lambda name: (place.get(name, len(place)), name))
