# SPDX-License-Identifier: Apache-2.0
"""The pages results.md and tables.md, their pictures and the long tables beside them, from the committed CSV files.

The words are in templates of the same names; a figure or a judgement comes from the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from poet_planner.report.figures import save
from poet_profiles.files.whole_file import write_whole

from benchmarks.evaluation import (
    accuracy,
    beliefs,
    below_dtr,
    boards,
    claims,
    exact,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    memory_and_time,
    micro_batches,
    nrf52840,
    single_techniques,
    table_1,
    table_3,
)
from benchmarks.evaluation.markdown import as_csv, table, wrapped
from benchmarks.evaluation.records import read_rows
from benchmarks.evaluation.results import HERE, Results, read_results

PAGES = (HERE / "results.md", HERE / "tables.md")
IMAGES = HERE / "images"
# Tables too long for a page, by section and name.
LONG = {
    HERE / "tables" / "figure_3_overheads.csv": ("figure_3", "overheads"),
    HERE / "tables" / "figure_3_least_ram.csv": ("figure_3", "least_ram"),
    HERE / "tables" / "figure_4.csv": ("figure_4", "table"),
    HERE / "tables" / "figure_5.csv": ("figure_5", "table"),
    HERE / "tables" / "table_1.csv": ("table_1", "table"),
    HERE / "tables" / "nrf52840.csv": ("nrf52840", "table"),
    HERE / "tables" / "accuracy.csv": ("accuracy", "table"),
}
SWEEPS = ("figure_3", "below_dtr", "figure_4", "figure_5", "table_3", "nrf52840", "m4_traced")
# The commit that brought the tables of today.
COMMIT = "9523a901"


def committed_tables() -> claims.Tables:
    """All that the pages are made of."""
    return claims.Tables(
        {name: read_results(name) for name in SWEEPS},
        tuple(read_rows(exact.PATH, exact.Row)),
        pd.read_csv(micro_batches.TABLE),
        tuple(read_rows(accuracy.PATH, accuracy.Row)),
        tuple(read_rows(beliefs.PATH, beliefs.Row)),
    )


def page_facts(tables: claims.Tables) -> dict[str, str | dict[str, str]]:
    """What the templates ask for, by section and name."""
    results = tables.sweeps
    return {
        "sources": _sources(results),
        "commit": COMMIT,
        "claims": claims.facts(tables),
        "accuracy": accuracy.facts(tables.trained),
        "beliefs": beliefs.facts(tables.beliefs),
        "exact": exact.facts(tables.exact),
        "figure_2": figure_2.facts(),
        "figure_3": figure_3.facts(results["figure_3"]),
        "below_dtr": below_dtr.facts(results["below_dtr"]),
        "single": single_techniques.facts(results["figure_3"]),
        "figure_4": figure_4.facts(results["figure_4"]),
        "figure_5": figure_5.facts(results["figure_5"]),
        "table_1": table_1.facts(),
        "boards": boards.facts(),
        "table_3": table_3.facts(results["table_3"]),
        "limits": memory_and_time.facts(results["figure_3"]),
        "nrf52840": nrf52840.facts(results["nrf52840"], results["m4_traced"]),
        "micro_batches": micro_batches.facts(),
    }


def page_texts(facts: dict[str, Any]) -> dict[Path, str]:
    """Each page, its template's words with what the tables say, and each long table."""
    texts = {page: wrapped(template_of(page).read_text(encoding="utf-8").format(**facts)) for page in PAGES}
    return texts | {path: as_csv(facts[section][name]) for path, (section, name) in LONG.items()}


def template_of(page: Path) -> Path:
    """Whose words a page has."""
    return page.with_suffix(".template")


def page_figures(results: Mapping[str, Results]) -> dict[str, Figure]:
    """The page's pictures by file name."""
    figures = figure_2.draw()
    figures |= figure_3.draw(results["figure_3"])
    figures |= figure_4.draw(results["figure_4"])
    figures |= figure_5.draw(results["figure_5"])
    figures |= table_3.draw(results["table_3"])
    return figures | nrf52840.draw(results["nrf52840"], results["m4_traced"])


def write_page() -> None:
    """Write the pages and their pictures."""
    tables = committed_tables()
    texts = page_texts(page_facts(tables))
    for name, figure in page_figures(tables.sweeps).items():
        save(figure, IMAGES / name)
    for page, text in texts.items():
        write_whole(page, text)


def _sources(results: Mapping[str, Results]) -> str:
    rows = []
    for name, one in results.items():
        frame = one.frame
        limits = ", ".join(f"{limit:g}" for limit in sorted(set(frame["time_limit_s"])))
        versions = ", ".join(dict.fromkeys(frame["code_version"]))
        rows.append([f"`{name}.csv`", str(len(frame)), limits, f"{frame['seconds'].sum() / 60:.1f}", versions])
    return table(["file", "points", "limit a plan, s", "planning, min", "code"], rows)
