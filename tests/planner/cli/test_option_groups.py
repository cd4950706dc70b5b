# SPDX-License-Identifier: Apache-2.0
"""The options of `poet-plan`: grouped, few, and the same for every verb that plans."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
import typer.main
from poet_planner.cli import app
from poet_planner.comparison.sweep_table import read_points
from poet_profiles.errors import BAD_INPUT
from typer.testing import CliRunner

from tests.support.programs import Said, poet_plan

PROGRAM = typer.main.get_command(app)
GROUPS = ["Network", "Board", "Limits", "Memory", "Training", "Optimiser", "Output", "Expert"]
OF_TYPER = {"--install-completion", "--show-completion"}
MOST_VISIBLE = 24


def grouped(verb: str | None) -> dict[str, set[str]]:
    command = PROGRAM if verb is None else PROGRAM.commands[verb]  # type: ignore[attr-defined]
    groups = defaultdict(set)
    for parameter in command.params:
        if not OF_TYPER & set(parameter.opts):
            groups[parameter.rich_help_panel or ""].add(parameter.opts[0])
    return groups


@pytest.mark.parametrize("verb", [None, "sweep", "compare"])
def test_the_help_has_the_groups_in_order(verb: str | None) -> None:
    words = ["--help"] if verb is None else [verb, "--help"]
    said = CliRunner().invoke(app, words, env={"COLUMNS": "100"}).output
    headings = [line.split()[1] for line in said.splitlines() if line.startswith("╭─ ")]
    assert [heading for heading in headings if heading not in ("Options", "Commands")] == GROUPS


def test_few_options_are_not_for_experts() -> None:
    groups = grouped(None)
    assert sum(len(options) for name, options in groups.items() if name != "Expert") <= MOST_VISIBLE
    assert groups[""] == {"--version"}


def test_verbs_that_plan_take_the_same_groups() -> None:
    of_plan, of_sweep, of_compare = grouped(None), grouped("sweep"), grouped("compare")
    for name in ("Network", "Board", "Limits", "Memory", "Training"):
        assert of_plan[name] - {"--features"} == of_sweep[name] == of_compare[name], name
    assert of_sweep["Expert"] == of_compare["Expert"] <= of_plan["Expert"]


def test_a_sweep_and_a_comparison_are_of_the_training_that_is_asked_for(tmp_path: Path) -> None:
    """Momentum keeps a number for each parameter in RAM, beside the store-all schedule's activations."""
    peaks = {}
    for momentum in (0, 0.9):
        for verb, table in (("sweep", "points.csv"), ("compare", "compare.csv")):
            out = tmp_path / f"{verb}{momentum}"
            network = ("--model", "digits_cnn_small", "--profile", "m4", "--ram", "100%", "--momentum", momentum)
            search = ("--methods", "optimal,store_all", "--time-limit", 0.5)
            assert poet_plan(verb, *network, *search, "--out", out) == 0
            points = {point.method: point for point in read_points(out / table)}
            peaks[verb, momentum] = points["store_all"].peak_bytes or 0
    parameters = 4 * trained_parameters("digits_cnn_small")
    for verb in ("sweep", "compare"):
        assert peaks[verb, 0.9] - peaks[verb, 0] == pytest.approx(parameters, rel=0.02), verb


def trained_parameters(name: str) -> int:
    from poet_planner import models

    return sum(parameter.numel() for parameter in models.load(name).module.parameters())


@pytest.mark.parametrize("option", ["--card-above", "--stream-above"])
def test_what_a_sweep_would_ignore_is_refused(option: str, capsys: Said, tmp_path: Path) -> None:
    assert poet_plan("sweep", "--profile", "m4", option, "1KB", "--out", tmp_path) == BAD_INPUT
    assert f"{option}: a sweep has parameters on the card with --parameters card alone" in capsys.readouterr().err
