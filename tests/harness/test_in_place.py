# SPDX-License-Identifier: Apache-2.0
"""Costs in place: operators timed in training steps become rows of a profile, and those that are there stay."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from poet_harness.cli import app
from poet_harness.data.batches import read_training_data
from poet_harness.measuring.measure import Effort
from poet_harness.meters.nominal import NominalMeter
from poet_harness.plan_folder.plan import Plan, read_plan
from poet_harness.ports import open_port
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration
from poet_harness.profiling.in_place import costs_in_place, profile_in_place
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link
from poet_harness.training.observed import ObservedAction, ObservedStep
from poet_harness.training.trainer import Trainer
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.profile import ProfileWriter, read_profile
from typer.testing import CliRunner

from tests.support.harness.simulated_device import TICKS_HZ, SimulatedDevice, serve
from tests.support.harness.tiny_plan import STEPS, TICKS, board, write_plan

BOARD = load_board("nrf52840")
RELU = Configuration("pointwise", "size=128 steps=relu(y0,x0)")


@pytest.fixture
def plan_folder(tmp_path: Path) -> Path:
    return write_plan(tmp_path / "plan")


def profile(device: SimulatedDevice, folder: Path, *options: str) -> str:
    """The exception's words, or what was printed."""
    arguments = ["profile", "--board", "nrf52840", "--meter", "nominal", "--out", str(folder / "p.csv"), "--quick"]
    with serve(device) as url:
        result = CliRunner().invoke(app, [*arguments, "--port", url, *options])
    return str(result.exception) if result.exception else result.output


def steps_of(device: SimulatedDevice) -> list[str]:
    return [request for request in device.carried_out if request.startswith("step")]


def test_a_plan_is_profiled_by_training_under_it(tmp_path: Path, plan_folder: Path) -> None:
    device = board()
    in_place = ["--plan", str(plan_folder), "--data", str(plan_folder / "data.npz"), "--steps", str(STEPS)]
    profile(device, tmp_path, *in_place)
    rows = read_profile(tmp_path / "p.csv").set_index("op")
    relu = rows.loc["pointwise"]
    assert relu["time_s"] == pytest.approx(TICKS[0] / TICKS_HZ)
    power_w = BOARD.voltage_v * (BOARD.rails_a.cpu_active - BOARD.rails_a.cpu_idle)
    assert relu["energy_j"] == pytest.approx(power_w * TICKS[0] / TICKS_HZ)
    assert (relu["repeats"], relu["bytes"]) == (STEPS, 512)
    assert relu["meter"].endswith(", in place")
    assert {"idle", "page_in", "page_out"} <= set(rows.index)
    assert steps_of(device) == ["step 3c23d70a 1"] * STEPS  # every one traced
    again = board()
    profile(again, tmp_path, *in_place, "--resume")
    assert not steps_of(again)
    assert len(read_profile(tmp_path / "p.csv")) == len(rows)


@pytest.mark.parametrize(
    "options", [["--data", "data.npz"], ["--plan", "."], ["--plan", ".", "--data", "d", "--image", "i"]]
)
def test_options_that_do_not_go_together_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--plan" in profile(SimulatedDevice(), tmp_path, *options)
    assert not (tmp_path / "p.csv").exists()


def test_training_that_ends_early_loses_no_step(tmp_path: Path, plan_folder: Path) -> None:
    plan = read_plan(plan_folder)
    seen: list[ObservedStep] = []

    def second_fails(step: ObservedStep) -> None:
        seen.append(step)
        if len(seen) == 2:
            raise UserError("the cable is out")

    with serve(board()) as url, ProfileWriter(tmp_path / "p.csv") as rows:
        device, meter = Device(Link(open_port(url, 115_200), url)), NominalMeter(BOARD)
        trainer = Trainer(device, meter, plan)
        data = read_training_data(plan_folder / "data.npz", plan, STEPS)
        with pytest.raises(UserError, match="cable"):
            profile_in_place(
                trainer, BoardProfiler(device, meter, BOARD, Effort()), rows, plan, data, 0.25, second_fails
            )
    [row] = read_profile(tmp_path / "p.csv").itertuples()
    assert (row.op, row.repeats) == ("pointwise", 2)


def test_the_mean_is_over_every_run_that_was_seen(plan_folder: Path) -> None:
    plan = read_plan(plan_folder)
    compute = plan.actions[0]
    plan = replace(
        plan,
        actions=(
            compute,
            compute,
            replace(compute, do="page_out"),
            replace(compute, params="size=64 steps=relu(y0,x0)"),
        ),
    )
    random = np.random.default_rng(1)
    times_s, energies_j = random.uniform(1e-3, 2e-3, (3, 4)), random.uniform(1e-5, 2e-5, (3, 4))
    steps = [step(plan, pairs) for pairs in zip(times_s, energies_j, strict=True)]
    steps[2] = replace(steps[2], actions=(*steps[2].actions[:3], replace(steps[2].actions[3], energy_j=None)))
    untraced = replace(steps[0], actions=())
    costs = costs_in_place(plan, [*steps, untraced])
    assert set(costs) == {RELU, Configuration("pointwise", "size=64 steps=relu(y0,x0)")}
    assert costs[RELU].time_s == pytest.approx(times_s[:, :2].mean())
    assert costs[RELU].energy_j == pytest.approx(energies_j[:, :2].mean())
    assert costs[RELU].time_s_std == pytest.approx(times_s[:, :2].std(ddof=1))
    assert costs[RELU].repeats == 6
    assert costs[Configuration("pointwise", "size=64 steps=relu(y0,x0)")].time_s == pytest.approx(times_s[:2, 3].mean())


def step(plan: Plan, costs: tuple[np.ndarray, np.ndarray]) -> ObservedStep:
    actions = tuple(ObservedAction(time_s, energy_j, 0) for time_s, energy_j in zip(*costs, strict=True))
    return ObservedStep(0, 0.0, None, None, actions, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(("slower", "named"), [(1.0, False), (1.02, False), (1.05, True)])
def test_a_step_that_was_not_predicted_names_the_cure(
    tmp_path: Path, plan_folder: Path, slower: float, named: bool
) -> None:
    schedule = json.loads((plan_folder / "schedule.json").read_text())
    schedule["time_s"] *= slower
    schedule["energy_j"] = 0.0  # a nominal meter's: of no board that was planned for
    (plan_folder / "schedule.json").write_text(json.dumps(schedule))
    data = plan_folder / "data.npz"
    arguments = ["run", "--board", "nrf52840", "--meter", "nominal", "--plan", str(plan_folder), "--data", str(data)]
    with serve(board()) as url:
        result = CliRunner().invoke(app, [*arguments, "--port", url], env={"COLUMNS": "400"})
    assert result.exit_code == 0, result.output
    assert (f"profile --board nrf52840 --plan {plan_folder} --data {data}" in result.output) == named, result.output
