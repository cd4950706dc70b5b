# SPDX-License-Identifier: Apache-2.0
"""Plans that keep several steps together on the card: what they cost, and leave there."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_harness.cli import app
from poet_planner import models, plan
from poet_planner.planning.pipeline import prepare
from poet_planner.planning.request import Request
from poet_planner.torch_reference.training_data import training_data, write_arrays
from poet_profiles.errors import UserError
from poet_profiles.graph.kept import commits
from safetensors.numpy import load_file
from typer.testing import CliRunner

from tests.support.harness.flashed import flash

MODEL, EACH, STEPS, RATE = "digits_cnn", 3, 5, 0.05
ASKED = {"profile": "nrf52840", "batch": 4}


def test_a_commit_of_several_steps_costs_each_its_part() -> None:
    one, tenth = (
        prepare(Request(MODEL, "nrf52840", batch=4, parameters="card", keep_each=each)).graph for each in (1, 10)
    )
    assert 5 < commits(one)[0].energy_j / commits(tenth)[0].energy_j < 20  # the one has a row of the profile
    others = [[node.energy_j for node in graph.nodes if node not in commits(graph)] for graph in (one, tenth)]
    assert others[0] == others[1]
    with pytest.raises(UserError, match="--keep-each 10: no step keeps anything on the card; leave it out"):
        plan(MODEL, **ASKED, keep_each=10)  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_card_has_the_last_step_when_training_ends(builds: Path, tmp_path: Path) -> None:
    """Though it is no multiple; and a run that resumes goes on from there."""
    made = plan(MODEL, **ASKED, parameters="card", keep_each=EACH)  # type: ignore[arg-type]
    made.write_files(tmp_path / "plan")
    assert made.summary.commit_each == EACH
    flash(builds, tmp_path / "plan", ["--board", "native"])
    write_arrays(training_data(MODEL, STEPS, 0, 4), tmp_path / "data.npz")
    given = ["run", "--board", "native", "--plan", str(tmp_path / "plan"), "--data", str(tmp_path / "data.npz")]
    given += ["--card", str(tmp_path / "card.img"), "--lr", str(RATE)]
    for steps, resume in ((STEPS - 1, []), (STEPS, ["--resume"])):
        trained = tmp_path / f"{steps}.safetensors"
        result = CliRunner().invoke(app, [*given, "--steps", str(steps), "--trained", str(trained), *resume])
        assert result.exit_code == 0, result.output
    model, drawn = models.load(MODEL, 4), np.load(tmp_path / "data.npz")
    descent = torch.optim.SGD(model.module.parameters(), RATE)
    for x, y in zip(drawn["input"], drawn["target"], strict=True):
        descent.zero_grad()
        model.loss(model.module(torch.from_numpy(x)), torch.from_numpy(y).long()).backward()
        descent.step()
    found = load_file(tmp_path / f"{STEPS}.safetensors")
    for name, tensor in model.module.state_dict().items():
        np.testing.assert_allclose(found[name], tensor, rtol=1e-4, atol=1e-5)
