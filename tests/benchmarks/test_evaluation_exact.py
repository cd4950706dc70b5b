# SPDX-License-Identifier: Apache-2.0
"""The pass of exact methods: what a row says, that it is resumed, and what stands where nothing was run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from poet_planner.comparison.methods import algorithm_1

from benchmarks.evaluation import exact
from benchmarks.evaluation.exact import Row, exact_row, facts, places, run_exact
from benchmarks.evaluation.records import read_rows, write_rows
from benchmarks.evaluation.results import NONE_EXISTS, NOT_RUN, TIME, added, why_none, why_nowhere

ROW = Row("n", "m4", 0.5, 9, "m", "highs", "1", 600.0, 1.5, "feasible", 0.01, None, None, "c", "one core", "a, b\nc")


@pytest.mark.parametrize("method", exact.METHODS)
def test_a_row_has_the_schedule_and_what_the_solver_proved(method: str) -> None:
    row = exact_row("linear", 0.55, method, 60.0)
    assert (row.status, row.solver, row.time_limit_s) == ("feasible", "highs", 60.0)
    assert row.overhead is not None and row.bound is not None and row.gap is not None
    assert 1e-4 < row.overhead < 0.5
    if method == "checkmate_lp":
        assert row.bound > 0  # of nine tenths of the RAM
    else:
        assert row.bound == pytest.approx(row.overhead, abs=1e-6)  # solved to the end
        assert row.gap == pytest.approx(0, abs=1e-6)


def test_that_none_exists_and_that_the_time_was_up_are_two_things(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = exact_row("linear", 0.2, "checkmate_lp", 60.0)
    assert (tight.status, tight.overhead) == (NONE_EXISTS, None)
    short = exact_row("resnet18_cifar", 0.2, "checkmate_lp", 0.0)
    assert (short.status, short.bound) == (TIME, None)
    assert "--time-limit" in short.note


def test_rows_are_read_as_they_were_written_and_only_what_is_missing_is_made(tmp_path: Path) -> None:
    path, made = tmp_path / "exact.csv", []

    def plan(model: str, share: float, method: str, limit_s: float) -> Row:
        made.append((model, share, method))
        row = replace(ROW, model=model, ram_share=share, method=method, time_limit_s=limit_s)
        return replace(row, code_version=exact.code_version(), solver_version=exact.version("highspy"))

    run_exact(600.0, path, plan)
    assert made == places() and len(made) == 27
    first = read_rows(path, Row)
    assert [row.place for row in first] == places()
    assert replace(first[0], **{name: getattr(ROW, name) for name in ("model", "method", "ram_share")}) == replace(
        ROW, code_version=first[0].code_version, solver_version=first[0].solver_version
    )
    run_exact(600.0, path, plan)
    assert len(made) == 27
    write_rows([row for row in first if row.model != "bert"], Row, path)
    run_exact(600.0, path, plan)
    assert made[27:] == [place for place in places() if place[0] == "bert"]
    run_exact(300.0, path, plan)
    assert len(made) == 27 + 9 + 27


def test_what_has_no_row_was_not_run() -> None:
    assert facts([])["table"].count(NOT_RUN) == 27
    row = replace(ROW, model="vgg16_cifar", method="checkmate", bound=0.001)
    table = facts([row, replace(row, method="poet_ilp", status=TIME, overhead=None, bound=None)])["table"]
    assert table.count(NOT_RUN) == 25
    assert "| vgg16_cifar | 50 | 1 \u2265 0.1 (2 s) | not run | time (2 s) |" in table


@pytest.mark.parametrize(
    ("status", "note", "word"),
    [
        ("none", "Checkmate's MILP of 133 nodes takes 15 s or more to state, and it has 9 s", NOT_RUN),
        ("failed", "solver highs failed: gone", NOT_RUN),
        ("none", "Checkmate's LP rounding found no schedule in the time allowed", TIME),
        ("none", "Algorithm 1: highs found no schedule in 10 s", TIME),
        ("none", "none was found in 9 bytes of RAM with no deadline: 10 bytes do, 8 do not", TIME),
        ("none", "DTR has no schedule that keeps the RAM budget and the deadline", NONE_EXISTS),
        *((word, "", word) for word in (NOT_RUN, TIME, NONE_EXISTS)),
    ],
)
def test_the_word_for_no_schedule(status: str, note: str, word: str) -> None:
    frame = pd.DataFrame([{"method": "m", "energy_j": float("nan"), "overhead": None, "status": status, "note": note}])
    assert why_none(frame.iloc[0].to_dict()) == word
    assert added(frame, "m") == word
    assert added(frame, "another") == NOT_RUN
    kept_out = {"method": "m", "energy_j": float("nan"), "overhead": None, "status": NOT_RUN, "note": ""}
    assert why_nowhere(pd.concat([frame, pd.DataFrame([kept_out])])) == NOT_RUN


def test_methods_of_the_pass_state_the_model_that_is_compared_row_for_row() -> None:
    assert exact.poet_ilp.algorithm_1.stated is algorithm_1.stated
