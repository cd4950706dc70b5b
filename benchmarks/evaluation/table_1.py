# SPDX-License-Identifier: Apache-2.0
"""The paper's Table 1: what each method takes into account."""

from __future__ import annotations

from poet_planner.comparison.pictures.method_styles import style_of
from poet_planner.comparison.registry import METHODS, method_named
from poet_planner.planning.method import Aware, Method

from benchmarks.evaluation.markdown import table

COLUMNS = ("general", "compute_aware", "memory_aware", "power_aware")
MARKS = {Aware.YES: "\u2713", Aware.PARTLY: "~", Aware.NO: "\u00d7"}
PRINTED = {
    "store_all": "\u2713\u00d7\u00d7\u00d7",
    "revolve": "\u00d7\u00d7\u00d7\u00d7",
    "chen_sqrt": "\u00d7\u00d7\u00d7\u00d7",
    "chen_greedy": "\u00d7\u00d7~\u00d7",
    "checkmate": "\u2713\u2713\u2713\u00d7",
    "pofo_time": "\u00d7\u2713\u2713\u00d7",
    "dtr": "\u2713\u2713\u2713\u00d7",
    "optimal": "\u2713\u2713\u2713\u2713",
}


def facts() -> dict[str, str]:
    """What the page says of it."""
    differing = [name for name, printed in PRINTED.items() if _cells(method_named(name)) != printed]
    agreeing = f"{len(PRINTED) - len(differing)} of the {len(PRINTED)} printed rows agree"
    return {
        "table": table(
            ["method", "general graphs", "compute", "memory", "power", "recomputes", "pages", "deadline", "printed"],
            [
                [style_of(method.name).label, *_cells(method), *_abilities(method), PRINTED.get(method.name, "")]
                for method in METHODS
            ],
        ),
        "agree": f"{agreeing}; {', '.join(differing)} differ." if differing else f"{agreeing}, cell by cell.",
    }


def _cells(method: Method) -> str:
    return "".join(MARKS[getattr(method, column)] for column in COLUMNS)


def _abilities(method: Method) -> list[str]:
    return [MARKS[Aware.YES if able else Aware.NO] for able in (method.recomputes, method.pages, method.keeps_deadline)]
