# SPDX-License-Identifier: Apache-2.0
"""The picture of a training has the numbers of its epochs.csv, and says what they rest on."""

from __future__ import annotations

import csv
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poet_harness.training.run_folder import EpochRow
from poet_planner.cli import app
from poet_planner.report.learning_curve import learning_curve, read_epochs
from poet_profiles.errors import UserError
from typer.testing import CliRunner

VALIDATION = {"right": 5, "labels": 10, "validated": 10, "inference_time_s": 1e-3}


def row(epoch: int, **more: Any) -> EpochRow:
    return EpochRow(epoch, 4, 16, 0.1, 1 / epoch, 1.0, None, "emulated", **more)


def written(path: Path, rows: list[EpochRow], without: tuple[str, ...] = ()) -> Path:
    """As `poet-harness train` writes it, but for columns that older files lack."""
    with path.open("w", newline="") as file:
        names = [name for name in asdict(row(1)) if name not in without]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(map(asdict, rows))
    return path


def curves(path: Path) -> list[dict[str, tuple[list[float], list[float]]]]:
    """Of each panel, by the labels."""
    axes = learning_curve(read_epochs(path)).axes
    return [{line.get_label(): tuple(map(list, line.get_data())) for line in axis.lines} for axis in axes]


def test_losses_share_an_axis_and_right_answers_have_their_own(tmp_path: Path) -> None:
    losses = (0.9, 0.4, 0.6)
    rows = [
        row(epoch, **(VALIDATION | {"right": 3 + epoch, "validation_loss": loss}))
        for epoch, loss in enumerate(losses, 1)
    ]
    figure = learning_curve(read_epochs(written(tmp_path / "epochs.csv", rows)))
    above, below = figure.axes
    assert "3 epochs (emulated)" in above.get_title(loc="left")
    training, validation, lowest = above.lines
    np.testing.assert_allclose(training.get_data(), [[1, 2, 3], [1, 1 / 2, 1 / 3]])
    np.testing.assert_allclose(validation.get_data(), [[1, 2, 3], losses])
    np.testing.assert_allclose(np.ravel(lowest.get_data()), [2, 0.4])
    assert lowest.get_label() == "lowest: 0.4, epoch 2"
    np.testing.assert_allclose(below.lines[0].get_data(), [[1, 2, 3], [40, 50, 60]])
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in (training, validation)]
    assert all(one != other for one, other in zip(*looks, strict=True))


@pytest.mark.parametrize(
    ("more", "without", "panels"),
    [
        ({}, (), [1]),
        ({}, ("validated", "validation_loss"), [1]),  # of the last release
        ({"validation_loss": 0.5, "validated": 3}, (), [3]),
        (VALIDATION, ("validated", "validation_loss"), [1, 1]),
    ],
)
@pytest.mark.parametrize("count", [1, 60])
def test_what_a_training_has_not_is_not_drawn(
    tmp_path: Path, more: dict[str, Any], without: tuple[str, ...], panels: list[int], count: int
) -> None:
    path = written(tmp_path / "epochs.csv", [row(epoch + 1, **more) for epoch in range(count)], without)
    assert [len(lines) for lines in curves(path)] == panels


def test_what_a_file_says_of_its_source_is_no_formula(tmp_path: Path) -> None:
    path = written(tmp_path / "epochs.csv", [row(1)])
    path.write_text(path.read_text().replace("emulated", r"$\bad{$"))
    CliRunner().invoke(app, ["plot", str(path), "--figure", "training"], catch_exceptions=False)
    assert r"$\bad{$" in (tmp_path / "training.svg").read_text()


def test_the_verb_writes_it_and_refuses_what_is_none(tmp_path: Path) -> None:
    path = written(tmp_path / "epochs.csv", [row(1), row(2)])
    given = ["plot", str(path), "--figure", "training"]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "(emulated)" in (tmp_path / "training.svg").read_text()
    for options, message in ((["--methods", "dtr"], "--methods dtr: says nothing of a training"),):
        assert message in str(CliRunner().invoke(app, [*given, *options]).exception)
    for text, message in (
        ("a,b\n1,2\n", "epoch, loss, source: columns are missing"),
        (path.read_text().splitlines()[0], "has no epoch to draw"),
        (path.read_text().replace("0.5", "half"), "is no epochs.csv"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_epochs(path)
        path = written(tmp_path / "epochs.csv", [row(1), row(2)])
