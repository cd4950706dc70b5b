# SPDX-License-Identifier: Apache-2.0
"""benchmarks/evaluation/results.md and tables.md say what the committed points say, and nothing else."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import replace
from string import Formatter
from typing import Any

import pandas as pd
import pytest

from benchmarks.evaluation import figure_3, micro_batches
from benchmarks.evaluation.claims import Tables
from benchmarks.evaluation.markdown import as_csv, percent, table, wrapped
from benchmarks.evaluation.page import (
    IMAGES,
    LONG,
    PAGES,
    committed_tables,
    page_facts,
    page_figures,
    page_texts,
    template_of,
)
from benchmarks.evaluation.results import NOT_RUN, Results, ram_name

WORDS = 1_550


@pytest.fixture(scope="module")
def tables() -> Tables:
    return committed_tables()


@pytest.fixture(scope="module")
def results(tables: Tables) -> Mapping[str, Results]:
    return tables.sweeps


@pytest.fixture(scope="module")
def facts(tables: Tables) -> dict[str, Any]:
    return page_facts(tables)


def test_the_committed_pages_are_what_the_committed_points_make(facts: dict[str, Any]) -> None:
    texts = page_texts(facts)
    assert set((PAGES[0].parent / "tables").iterdir()) == set(texts) - set(PAGES)
    for page, text in texts.items():
        committed = page.read_text(encoding="utf-8")
        assert committed == text, "run `python -m benchmarks.evaluation page` and commit what it writes"


def test_the_page_is_short_and_has_five_tables() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(re.findall(r"\S*\w\S*", text)) <= WORDS
    assert len(re.findall(r"^\| --- ", text, re.MULTILINE)) == 5


def test_the_templates_ask_for_every_fact_and_for_no_other(facts: dict[str, Any]) -> None:
    words = "".join(template_of(page).read_text(encoding="utf-8") for page in PAGES)
    asked = {name for _, name, _, _ in Formatter().parse(words) if name}
    made = {f"{section}[{name}]" for section, names in facts.items() if isinstance(names, dict) for name in names}
    beside = {f"{section}[{name}]" for section, name in LONG.values()}
    assert asked | beside == made | {"sources", "commit"}
    assert not asked & beside


def test_a_table_beside_a_page_has_the_cells_of_the_page() -> None:
    text = table(["a", "b"], [["1, 2", "-"], ["", "x"]])
    assert list(csv.reader(as_csv(text).splitlines())) == [["a", "b"], ["1, 2", "-"], ["", "x"]]


def test_pictures_of_the_page_are_drawn_and_committed(results: Mapping[str, Results]) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    shown = set(re.findall(r"\(images/(.*?)\)", text))
    assert shown == set(page_figures(results))
    assert {path.name for path in IMAGES.iterdir()} == shown


def test_a_method_that_costs_less_than_ours_would_be_named(results: Mapping[str, Results]) -> None:
    frame = results["figure_3"].frame
    named = figure_3.facts(results["figure_3"])
    assert named["above"] == "None of them cost less than poet's."
    dtr = frame.index[(frame["method"] == "dtr") & frame["energy_j"].notna()][0]
    cheaper = frame.copy()
    cheaper.loc[dtr, "energy_j"] *= 0.5
    assert figure_3.facts(replace(results["figure_3"], frame=cheaper))["above"] == "1 of them cost less than poet's."


def test_no_plan_of_ours_costs_more_than_any_other_at_its_place(results: Mapping[str, Results]) -> None:
    """Asked of the files themselves, without the page's own code."""
    assert any((result.frame["method"] == "optimal").any() for result in results.values())
    for result in results.values():
        frame = pd.DataFrame(point.__dict__ for point in result.points)
        place = [frame[name].fillna(-1) for name in ("model", "board", "ram_budget_bytes", "deadline_of_plain")]
        least_j = frame.groupby(place)["energy_j"].transform("min")
        ours_j = frame["energy_j"].where(frame["method"] == "optimal").groupby(place).transform("min")
        made = ((frame["method"] == "optimal") & (frame["status"] != NOT_RUN)).groupby(place).transform("any")
        anywhere = least_j.notna() & made
        assert (ours_j[anywhere] <= least_j[anywhere] * (1 + 1e-8)).all()


def test_gradient_accumulation_by_hand_is_never_below_ours_and_costs_what_is_planned_today() -> None:
    table = pd.read_csv(micro_batches.TABLE)
    plans = table.assign(cost_j=table["energy_j"] + table["runner_j"]).set_index(["ram", "method"])
    for ram in micro_batches.RAMS:
        by_hand_j = plans["cost_j"][ram, micro_batches.BY_HAND]
        assert not by_hand_j < plans["cost_j"][ram, micro_batches.OURS] * (1 - 1e-9)
        if ram in ("64KB", "48KB"):
            made = micro_batches.row(ram, micro_batches.BY_HAND, micro_batches.LIMIT_S)
            assert pd.isna(by_hand_j) == ("energy_j" not in made)
            committed = dict(plans.loc[(ram, micro_batches.BY_HAND)])
            for name in set(made) - {"ram", "method"}:
                assert made[name] == pytest.approx(committed[name])


@pytest.mark.parametrize(
    ("share", "text"),
    [
        *((0.271, "27.1"), (2.945, "294"), (0.000193, "0.019"), (0.0, "0")),
        *((1.0, "100"), (float("nan"), "\u2013"), (None, "\u2013")),
    ],
)
def test_shares_in_per_cent(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_ram_as_it_was_asked_for() -> None:
    assert [ram_name(share) for share in (0.9, 0.1625, 262_144 / 2_453_760)] == ["90 %", "16.25 %", "least"]


def test_only_paragraphs_are_filled_anew() -> None:
    text = f"# A\n\n| a | b |\n| - | - |\n\n{'word ' * 40}\n\n```\n{'x ' * 80}\n```\n"
    heading, table, filled, code = wrapped(text).split("\n\n")
    assert (heading, table) == ("# A", "| a | b |\n| - | - |")
    assert max(len(line) for line in filled.splitlines()) <= 120
    assert code == f"```\n{'x ' * 80}\n```\n"
