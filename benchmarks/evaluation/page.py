# SPDX-License-Identifier: Apache-2.0
"""The page results.md and its pictures, from the committed CSV files."""

from __future__ import annotations

from matplotlib.figure import Figure
from poet_planner.report.figures import save
from poet_profiles.whole_file import write_whole

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
from benchmarks.evaluation.markdown import table, wrapped
from benchmarks.evaluation.results import HERE, Results, read_results

PAGE = HERE / "results.md"
IMAGES = HERE / "images"
TEMPLATE = HERE / "results.template"
SWEEPS = ("figure_3", "below_dtr", "figure_4", "figure_5", "table_3", "nrf52840", "m4_traced")
IF_RUN = ("ten_minutes",)  # takes twenty minutes


def page_facts(results: dict[str, Results]) -> dict[str, str | dict[str, str]]:
    """What the template asks for, by section and name."""
    return {
        "sources": _sources(results),
        "claims": claims.facts(claims.Tables(results, tuple(exact.read_rows()))),
        "accuracy": accuracy.facts(
            accuracy.read(accuracy.CURVES, accuracy.Curve), accuracy.read(accuracy.STEPS, accuracy.Step)
        ),
        "beliefs": beliefs.facts(beliefs.read_rows()),
        "exact": exact.facts(exact.read_rows()),
        "figure_2": figure_2.facts(),
        "figure_3": figure_3.facts(results["figure_3"]),
        "below_dtr": below_dtr.facts(results["below_dtr"]),
        "single": single_techniques.facts(results["figure_3"]),
        "figure_4": figure_4.facts(results["figure_4"]),
        "figure_5": figure_5.facts(results["figure_5"]),
        "table_1": table_1.facts(),
        "boards": boards.facts(),
        "table_3": table_3.facts(results["table_3"]),
        "limits": memory_and_time.facts(results["figure_3"], results.get("ten_minutes")),
        "nrf52840": nrf52840.facts(results["nrf52840"], results["m4_traced"]),
        "micro_batches": micro_batches.facts(),
    }


def page_text(results: dict[str, Results]) -> str:
    """The page: the template's words, and what the points say."""
    return wrapped(TEMPLATE.read_text(encoding="utf-8").format(**page_facts(results)))


def page_figures(results: dict[str, Results]) -> dict[str, Figure]:
    """The page's pictures by file name."""
    figures = figure_2.draw()
    figures |= figure_3.draw(results["figure_3"])
    figures |= figure_4.draw(results["figure_4"])
    figures |= figure_5.draw(results["figure_5"])
    figures |= table_3.draw(results["table_3"])
    return figures | nrf52840.draw(results["nrf52840"], results["m4_traced"])


def committed_results() -> dict[str, Results]:
    """The points that the page is made of."""
    names = [*SWEEPS, *(name for name in IF_RUN if (HERE / f"{name}.csv").exists())]
    return {name: read_results(name) for name in names}


def write_page() -> None:
    """Write the page and its pictures."""
    results = committed_results()
    text = page_text(results)
    for name, figure in page_figures(results).items():
        save(figure, IMAGES / name)
    write_whole(PAGE, text)


def _sources(results: dict[str, Results]) -> str:
    rows = []
    for name, one in results.items():
        frame = one.frame
        limits = ", ".join(f"{limit:g}" for limit in sorted(set(frame["time_limit_s"])))
        versions = ", ".join(dict.fromkeys(frame["code_version"]))
        rows.append([f"`{name}.csv`", str(len(frame)), limits, f"{frame['seconds'].sum() / 60:.1f}", versions])
    return table(["file", "points", "limit a plan, s", "planning, min", "code"], rows)
