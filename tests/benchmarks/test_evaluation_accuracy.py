# SPDX-License-Identifier: Apache-2.0
"""Joules to a share of right answers: what is trained, when a goal is reached, what it cost."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import torch

from benchmarks.evaluation import accuracy
from benchmarks.evaluation.results import NONE_EXISTS, NOT_RUN
from notebooks import voices

pytestmark = pytest.mark.usefixtures("one_thread")
CODE = "c"


def test_each_way_trains_what_it_says_and_nothing_else() -> None:
    learns = {trained: accuracy.learned(accuracy.DIGITS, trained).learns for trained in accuracy.TRAINED}
    assert learns[accuracy.HEAD] == {"fc.weight", "fc.bias"}
    assert learns[accuracy.LAST_BLOCK] == {"fc.weight", "fc.bias", "conv5.weight", "conv5.bias"}
    every = {name for name, _ in accuracy.DIGITS.network().named_parameters()}
    assert learns[accuracy.BIASES] == {name for name in every if name.endswith("bias") or name == "fc.weight"}
    assert learns[accuracy.FULL] == every


def test_strangers_are_heard_by_a_network_that_knows_six_others() -> None:
    """Folded, its batch norms say what they said; and nothing that is asked was shown."""
    data, other = (accuracy.SPEECH.data(seed) for seed in (0, 1))
    known = voices.pretrained()[0].eval()
    assert torch.allclose(accuracy.SPEECH.network()[:-1](data.tested), known(data.tested), atol=1e-5)
    assert data.labels.bincount().tolist() == other.labels.bincount().tolist() == [voices.ENROLLED] * 3
    assert not torch.equal(data.shown, other.shown)
    apart = torch.cdist(data.shown.flatten(1), data.tested.flatten(1))
    assert apart.min() > 0


def test_curves_are_the_same_each_time_and_full_training_learns() -> None:
    first, again = (accuracy.curves(accuracy.DIGITS, accuracy.FULL, 1, (0.03,), epochs=2) for _ in range(2))
    assert first == again
    assert [one.epoch for one in first] == [0, 1, 2]
    assert first[-1].right > first[0].right + 0.2


@pytest.mark.parametrize(
    ("right", "epochs"),
    [([0.9, 0.9, 0.9], 0), ([0.1, 0.9, 0.1, 0.9, 0.9, 0.95], 3), ([0.1, 0.1, 0.9, 0.9], None), ([0.9, 0.9], None)],
)
def test_a_goal_counts_where_it_is_kept(right: list[float], epochs: int | None) -> None:
    assert accuracy.epochs_to(right, 0.85) == epochs


def curves_of(task: str = "digits", trained: str = accuracy.FULL) -> list[accuracy.Curve]:
    """Two rates, three seeds: the quicker rate reaches 0.9 after 1, 2 and never; the slower after 3."""
    quick = {0: [0.1, 0.95, 0.95, 0.95, 0.95, 0.95], 1: [0.1, 0.1, 0.95, 0.95, 0.95, 0.95], 2: [0.1, *[0.85] * 5]}
    slow = {seed: [0.1, 0.1, 0.1, 0.9, 0.9, 0.9] for seed in range(3)}
    return [
        accuracy.Curve(task, trained, rate, seed, epoch, share)
        for rate, of in ((0.1, quick), (0.01, slow))
        for seed, shares in of.items()
        for epoch, share in enumerate(shares)
    ]


def test_joules_are_those_of_the_rate_that_gets_there_soonest_with_their_spread() -> None:
    frame = pd.DataFrame([one.__dict__ for one in curves_of()])
    assert accuracy.joules_to(frame, 0.9, 2.0) == pytest.approx([2.0, 4.0, float("nan")], nan_ok=True)
    assert accuracy.joules_to(frame, 0.97, 2.0) is None
    slow = frame[frame["rate"] == 0.01]
    assert accuracy.joules_to(slow, 0.9, 2.0) == [6.0, 6.0, 6.0]


def test_the_table_says_what_was_reached_what_never_and_what_was_not_run() -> None:
    steps = [
        accuracy.Step("digits", accuracy.FULL, "store-all", "", 1, 450_428, 0.001, 8.0, CODE),
        accuracy.Step("digits", accuracy.FULL, "poet in half", NONE_EXISTS, 0, 0, 0.0, 8.0, CODE),
        accuracy.Step("digits", accuracy.HEAD, "parts in half", "", 2, 9, 0.001, 8.0, CODE),
    ]
    table = accuracy.facts(curves_of(), steps)["table"]
    # Eight steps an epoch of 1 mJ each.
    assert "| digits | full | store-all | 1 | 450,428 | 1 | 85%: " in table
    assert "90%: 12 (8 to 16, 2 of 3)" in table
    assert table.count(NONE_EXISTS) == 5
    assert f"| digits | head | parts in half | 2 | 9 | 1 | {NOT_RUN} | {NOT_RUN} |" in table
    assert f"| watch | {' | '.join([NOT_RUN] * 7)} |" in table


def test_tables_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "curves.csv"
    assert accuracy.read(path, accuracy.Curve) == []
    accuracy.write(curves_of(), accuracy.Curve, path)
    assert accuracy.read(path, accuracy.Curve) == curves_of()
    steps = [
        accuracy.Step("digits", accuracy.FULL, "store-all", why, 1, 9, 0.5, 8.0, CODE) for why in ("", NONE_EXISTS)
    ]
    accuracy.write(steps, accuracy.Step, path)
    assert accuracy.read(path, accuracy.Step) == steps
