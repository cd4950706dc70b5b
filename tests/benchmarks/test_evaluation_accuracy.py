# SPDX-License-Identifier: Apache-2.0
"""Joules to a share of right answers: what is trained, when a goal is reached, what it cost."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import torch
from poet_planner import Optimizer
from poet_planner.advice.advice import MOMENTUM_RATES
from poet_planner.advice.curves import Curves, Key
from poet_planner.advice.goal import goal_of

from benchmarks.evaluation import accuracy, fresh_draws, halving
from benchmarks.evaluation.records import read_rows, write_rows
from benchmarks.evaluation.results import NONE_EXISTS, NOT_RUN
from notebooks import voices

pytestmark = pytest.mark.usefixtures("one_thread")


def test_each_way_trains_what_it_says_and_nothing_else() -> None:
    learns = {trained: accuracy.learned(accuracy.DIGITS, trained).learns for trained in accuracy.TRAINED}
    assert learns[accuracy.HEAD] == {"fc.weight", "fc.bias"}
    assert learns[accuracy.LAST_BLOCK] == {"fc.weight", "fc.bias", "conv5.weight", "conv5.bias"}
    for task in accuracy.TASKS:
        every = {name for name, _ in task.network().named_parameters()}
        biases = {name for name in every if name.endswith("bias") or name == f"{task.last[1]}.weight"}
        assert accuracy.learned(task, accuracy.BIASES).learns == biases
        assert accuracy.learned(task, accuracy.FULL).learns == every


def test_strangers_are_heard_by_a_network_that_knows_six_others() -> None:
    """Folded, its batch norms say what they said; and nothing that is asked was shown."""
    data, other = (accuracy.SPEECH.data(seed) for seed in (0, 1))
    assert data.validation is not None
    known, (shown,), (asked,) = voices.pretrained()[0].eval(), data.train.inputs, data.validation.inputs
    assert torch.allclose(accuracy.SPEECH.network()[:-1](asked), known(asked), atol=1e-5)
    assert all(one.train.targets[0].bincount().tolist() == [voices.ENROLLED] * 3 for one in (data, other))
    assert not torch.equal(shown, other.train.inputs[0])
    assert torch.cdist(shown.flatten(1), asked.flatten(1)).min() > 0


def test_joules_are_those_of_the_rate_whose_worst_seed_gets_there_soonest(monkeypatch: pytest.MonkeyPatch) -> None:
    """By brute force: every rate and seed trained alone."""
    monkeypatch.setattr(accuracy, "EPOCHS", epochs := 5)
    task, goal = replace(accuracy.DIGITS, goals=(0.6,)), 0.6
    head, optimizer = accuracy.learned(task, accuracy.HEAD), Optimizer(momentum=0.9)
    firsts: dict[float, list[float]] = {}
    for rate in MOMENTUM_RATES:
        for draw, seed in enumerate(task.seeds):
            curves = Curves(accuracy.model(task), task.data(seed), goal_of("accuracy 1", lambda *_: 0.0).measure)
            key = Key(head, task.batch, optimizer, rate, draw)
            for _ in range(epochs):
                curves.extend([key])
            right = curves.values[key]
            kept = [epoch for epoch in range(epochs - 1) if min(right[epoch : epoch + 3]) >= goal]
            firsts.setdefault(rate, []).append(min(kept, default=inf))
    advice = accuracy.raced(accuracy.Seeds(task), accuracy.HEAD, goal, 2.0)
    # Eight steps an epoch of 2 J each.
    assert max(advice.joules) == 16 * min(max(of) for of in firsts.values())
    assert advice.winner is not None
    assert advice.joules == [16 * epoch for epoch in firsts[advice.winner.rate]]
    never = accuracy.raced(accuracy.Seeds(task), accuracy.HEAD, 1.0, 2.0)
    assert never.winner is None


def test_the_table_says_what_was_reached_what_never_and_what_was_not_run() -> None:
    rows = [
        accuracy.Row("digits", accuracy.FULL, "store-all", 0.85, "", 1, 450_428, 0.001, 0.012, 0.008, 0.016),
        accuracy.Row("digits", accuracy.FULL, "store-all", 0.9, "in 2 of 3 draws", 1, 450_428, 0.001, inf, inf, inf),
        accuracy.Row("digits", accuracy.FULL, accuracy.IN_HALF, 0.85, NONE_EXISTS, 0, 0, inf, inf, inf, inf),
    ]
    table = accuracy.facts(rows)["table"]
    assert "| digits | full | store-all | 1 | 450,428 | 1 | 85%: 12 (8 to 16); 90%: in 2 of 3 draws |" in table
    assert f"| digits | full | poet in half | {' | '.join([NONE_EXISTS] * 4)} |" in table
    assert f"| watch | {' | '.join([NOT_RUN] * 6)} |" in table


def test_the_advice_holds_in_fresh_draws_for_no_more_than_the_habit() -> None:
    """What the committed table says."""
    rows = read_rows(fresh_draws.PATH, fresh_draws.Row)
    assert {row.task for row in rows} >= {"watch"}
    for advice, habit in zip(rows[::2], rows[1::2], strict=True):
        assert (advice.task, advice.who, habit.who) == (habit.task, "advice", "habit")
        assert advice.reached >= 5 and advice.mean_j <= habit.mean_j
        assert advice.least_j <= advice.mean_j <= advice.most_j


def test_no_halving_names_a_cheaper_way_than_the_advice() -> None:
    """What the committed table says; times are of one computer."""
    rows = read_rows(halving.PATH, halving.Row)
    advised = {row.task: row for row in rows if row.who == "advice"}
    assert {*advised} == {"watch", "speech"}
    assert all(row.worst_j >= advised[row.task].worst_j and row.candidates == 144 for row in rows)


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    assert read_rows(path, accuracy.Row) == []
    rows = [accuracy.Row("digits", accuracy.FULL, "w", 0.9, why, 1, 9, 0.5, *[inf] * 3) for why in ("", NONE_EXISTS)]
    write_rows(rows, accuracy.Row, path)
    assert read_rows(path, accuracy.Row) == rows
