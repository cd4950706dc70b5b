# SPDX-License-Identifier: Apache-2.0
"""``poet-harness battery``: steps, epochs and hours, against numbers computed by hand."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from poet_harness.battery import StepCost, life
from poet_harness.training.comparison import COLUMNS
from poet_harness.training.feeding import Order
from poet_profiles.battery import Battery
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.summary import Wear

from tests.support.harness.made_plans import write_summary
from tests.support.harness.tiny_plan import HASH, SCHEDULE_HASH, write_plan
from tests.support.programs import Said, poet_harness

# The tiny plan's step: 80 uJ above idle in 4 ms, by which a board that sleeps at 5 mW draws 20 uJ more: 100 uJ.
IDLE_W = 5e-3
# 100 mAh at 4 V are 1,440 J, of which 720 J arrive.
CELL = ["--cell", "100mAh", "--voltage", "4", "--usable", "80%", "--efficiency", "62.5%"]


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return summarised(tmp_path, idle_power_w=IDLE_W, energy_share={"measured": 0.0, "emulated": 1.0})


def summarised(tmp_path: Path, **summary: object) -> Path:
    plan = write_plan(tmp_path / "plan")
    write_summary(plan, **summary)
    return plan


def battery(capsys: Said, *arguments: object) -> tuple[int, str, str]:
    return poet_harness("battery", *arguments), *capsys.readouterr()


def figures(capsys: Said, *arguments: object) -> dict[str, Any]:
    code, out, err = battery(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert isinstance(document, dict)
    return document


def test_all_the_time(plan: Path, capsys: Said) -> None:
    found = figures(capsys, "--plan", plan, *CELL)
    assert found["battery_j"] == pytest.approx(720)
    assert found["step_j"] == pytest.approx(100e-6)
    assert found["steps"] == pytest.approx(7.2e6)
    assert found["hours"] == pytest.approx(7.2e6 * 4e-3 / 3600)
    # 100 uJ in 4 ms are 25 mW at the board, 40 mW at the cell, 10 mA.
    assert found["cell_current_a"] == pytest.approx(10e-3)
    assert found["epochs"] is None


def test_a_fifth_of_the_time_with_a_deeper_sleep_and_two_cells(plan: Path, capsys: Said) -> None:
    found = figures(capsys, "--plan", plan, *CELL, "--count", 2, "--duty", "20%", "--idle-power", "1.25mW")
    # 16 ms of sleep at 1.25 mW are 20 uJ; the step itself draws what it drew.
    assert found["between_j"] == pytest.approx(20e-6)
    assert found["steps"] == pytest.approx(1440 / 120e-6)
    assert found["hours"] == pytest.approx(1440 / 120e-6 * 20e-3 / 3600)
    assert figures(capsys, "--plan", plan, *CELL, "--duty", "20%")["between_j"] == pytest.approx(80e-6)


def test_epochs_of_so_many_samples_or_of_a_data_set(plan: Path, capsys: Said) -> None:
    # The tiny plan's batch is 2; five samples are two batches, as of `train`, the data set has five.
    assert figures(capsys, "--plan", plan, *CELL, "--set-size", 5)["epochs"] == pytest.approx(3.6e6)
    assert Order(5, 2, None).steps_per_epoch == 2
    found = figures(capsys, "--plan", plan, *CELL, "--data", plan / "data.npz")
    assert (found["samples"], found["epochs"]) == (10, pytest.approx(7.2e6 / 5))


@given(
    st.floats(1e-6, 1),
    st.floats(1e-3, 10),
    st.floats(0, 0.1),
    st.floats(0.01, 1),
    st.floats(0.1, 1),
    st.floats(1e-6, 0.1),
)
def test_what_the_battery_gives_is_what_the_board_draws(
    energy_j: float, time_s: float, idle_w: float, duty: float, efficiency: float, sleep_w: float
) -> None:
    spent = life(StepCost(energy_j, time_s, idle_w), Battery(0.5, 3.7, 3, 0.9, efficiency), duty, sleep_w)
    seconds = 3600 * spent.hours
    training_s = spent.steps * time_s
    assert training_s == pytest.approx(duty * seconds)
    drawn_j = spent.steps * energy_j + training_s * idle_w + (seconds - training_s) * sleep_w
    assert drawn_j == pytest.approx(3 * 0.5 * 3600 * 3.7 * 0.9 * efficiency)


def test_what_a_run_saw_takes_the_place_of_the_prediction(plan: Path, tmp_path: Path, capsys: Said) -> None:
    seen = [(0, "step", 9.0, 9.0), (0, "compute", 1.0, 1.0), (1, "step", 70e-6, 9e-3), (2, "step", 90e-6, 11e-3)]
    seen += [(3, "step", 500e-6, 10e-3)]
    columns = dict.fromkeys(COLUMNS, "0") | {"source": "measured", "board": "nrf52840", "graph_hash": HASH}
    columns |= {"schedule_hash": SCHEDULE_HASH, "idle_power_w": "1e-3"}
    rows = [
        columns | {"training_step": str(n), "do": do, "observed_energy_j": str(j), "observed_time_s": str(s)}
        for n, do, j, s in seen
    ]
    path = tmp_path / "observed.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    # The median of 70, 90 and 500 uJ, of 9, 10 and 11 ms; and 1 mW for so long.
    assert figures(capsys, "--plan", plan, *CELL, "--run", path)["step_j"] == pytest.approx(100e-6)
    assert "measured, median of 3 steps" in battery(capsys, "--plan", plan, *CELL, "--run", path)[1]
    pd.DataFrame(rows[:2]).to_csv(path, index=False)
    assert "no step with its energy beside the traced one" in battery(capsys, "--plan", plan, *CELL, "--run", path)[2]
    path.write_text(path.read_text().replace(SCHEDULE_HASH, HASH))
    assert "a run of the schedule" in battery(capsys, "--plan", plan, *CELL, "--run", path)[2]


def written(folder: Path, rows: list[dict[str, object]], graph: str = HASH) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "run.json").write_text(json.dumps({"format": "poet-run/1", "graph_hash": graph}))
    pd.DataFrame(rows).to_csv(folder / "epochs.csv", index=False)
    return folder


EPOCH = {"epoch": 1, "steps": 4, "energy_j": 8e-3, "time_s": 0.4, "source": "emulated"}
VALIDATED = {"validated": 10, "inference_energy_j": 2e-4, "inference_time_s": 0.01}
KEPT = {"features_energy_j": 0.1, "features_time_s": 0.5}


@pytest.mark.parametrize(
    ("rows", "parts_j", "time_s"),
    [
        ([EPOCH] * 3, (0, 24e-3, 0), 1.2),
        ([EPOCH | VALIDATED] * 3, (0, 24e-3, 6e-3), 1.5),
        ([EPOCH | VALIDATED | KEPT, EPOCH | VALIDATED, EPOCH | VALIDATED], (0.1, 24e-3, 6e-3), 2.0),
    ],
)
def test_how_many_fine_tunings_a_cell_holds(
    plan: Path, capsys: Said, rows: list[dict[str, object]], parts_j: tuple[float], time_s: float
) -> None:
    training = ["--plan", plan, *CELL, "--training", written(plan / "training", rows)]
    found = figures(capsys, *training)
    whole_j = sum(parts_j) + IDLE_W * time_s
    assert found["fine_tunings"] == pytest.approx(720 / whole_j)
    assert found["steps"] == pytest.approx(12 * 720 / whole_j)
    assert found["epochs"] == pytest.approx(3 * 720 / whole_j)
    assert found["hours"] == pytest.approx(720 / whole_j * time_s / 3600)
    assert [*found["fine_tuning_j"].values()] == pytest.approx([*parts_j, IDLE_W * time_s])
    code, out, err = battery(capsys, *training)
    assert (code, err) == (0, "")
    assert f"fine-tunings of 3 epochs ({whole_j * 1e3:.4g} mJ each: " in out
    assert f"24 of steps, {parts_j[2] * 1e3:.4g} of validation, " in out or not parts_j[2]
    assert f"{IDLE_W * time_s * 1e3:.4g} of idle power), in" in out
    assert f"a fine-tuning takes {whole_j * 1e3:.4g} mJ in {time_s:.4g} s: " in out


@pytest.mark.parametrize(
    ("rows", "graph", "words"),
    [
        ([EPOCH], "f" * 16, "training: is of the graph ffffffffffffffff, the plan's is"),
        ([EPOCH, EPOCH | {"energy_j": None}], HASH, "epochs.csv:3: energy_j: is not known"),
        ([EPOCH | VALIDATED | {"inference_energy_j": None}], HASH, "epochs.csv:2: inference_energy_j: is not known"),
        ([EPOCH | {"steps": "many"}], HASH, "is no table of epochs"),
        ([], HASH, "not a CSV in UTF-8"),
        ([EPOCH | {"steps": 0}], HASH, "is no table of epochs"),
        ([EPOCH | {"energy_j": -1.0}], HASH, "is no table of epochs"),
    ],
)
def test_a_training_whose_energy_is_not_known_is_refused(
    plan: Path, capsys: Said, rows: list[dict[str, object]], graph: str, words: str
) -> None:
    code, out, err = battery(capsys, "--plan", plan, *CELL, "--training", written(plan / "training", rows, graph))
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_every_assumption_is_printed_with_its_source(plan: Path, capsys: Said) -> None:
    _, out, _ = battery(capsys, "--plan", plan, "--cell", "cr123a")
    for words in (
        *("Panasonic CR123A", "1,550 mAh", "85%  assumed (--usable)", "90%  assumed (--efficiency)"),
        *("100%  assumed (--duty)", "5 mW  that of the profile, or of --run (--idle-power)"),
        *("0.08 of training (emulated)", "not counted: self-discharge"),
    ):
        assert words in out
    _, out, _ = battery(capsys, "--plan", plan, *CELL, "--duty", "50%", "--idle-power", "20uW")
    assert "assumed" not in out
    assert out.count("given") == 6


def test_a_cell_that_gives_more_than_it_is_rated_for_and_a_card_that_wears_out_are_told(
    tmp_path: Path, capsys: Said
) -> None:
    plan = summarised(tmp_path, idle_power_w=IDLE_W, wear=asdict(Wear(0, 0, 0, 1000.0)))
    warnings = figures(capsys, "--plan", plan, "--cell", "cr2032")["warnings"]
    assert len(warnings) == 2
    assert "0.2 mA" in warnings[0]
    assert "after 1,000 steps" in warnings[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cell", "d-cell"], "no cell named 'd-cell'; known are 18650, cr123a"),
        (["--cell", "500 mV"], "no cell named"),
        (["--cell", "500mAh", "--usable", "0%"], "--usable 0%: must be above 0%"),
        (["--cell", "500mAh", "--efficiency", "1.1"], "--efficiency 1.1: must be such as 90%"),
        (["--cell", "500mAh", "--duty", "101%"], "--duty 101%"),
        (["--cell", "500mAh", "--voltage", "0"], "--voltage 0.0"),
        (["--cell", "0mAh"], "0mAh: must be above 0"),
        (["--cell", "500mAh", "--idle-power", "3"], "--idle-power 3: must be such as 50uW"),
        (["--cell", "500mAh", "--set-size", "3", "--data", "x"], "--set-size and --data"),
        (["--cell", "500mAh", "--set-size", "1"], "--set-size 1: a batch takes 2"),
        (["--cell", "500mAh", "--set-size", "3", "--training", "x"], "--training: says what"),
        (["--cell", "500mAh", "--training", "x"], "x/run.json"),
    ],
)
def test_a_users_mistake_is_one_line(options: list[str], words: str, plan: Path, capsys: Said) -> None:
    code, out, err = battery(capsys, "--plan", plan, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("summary", "words"),
    [
        ({"idle_power_w": "little"}, "idle_power_w: Input should be a valid number; plan again"),
        ({"idle_power_w": -1}, "idle_power_w: Input should be greater than or equal to 0; plan again"),
        ({"idle_power_w": None}, "does not say what the sleeping board draws; give --idle-power"),
    ],
)
def test_a_plan_that_does_not_say_what_the_board_draws_asleep_is_refused(
    summary: dict[str, object], words: str, tmp_path: Path, capsys: Said
) -> None:
    code, _, err = battery(capsys, "--plan", summarised(tmp_path, **summary), *CELL)
    assert code == 2
    assert words in err


def test_published_costs_are_all_that_a_step_draws_and_say_nothing_of_sleep(tmp_path: Path) -> None:
    step, cells = StepCost(1e-4, 4e-3, 0.0), Battery(0.1, 4, 1, 1, 1)
    assert life(step, cells, 1, None).steps == pytest.approx(1.44e7)
    with pytest.raises(UserError, match="published"):
        life(step, cells, 0.5, None)
    assert life(step, cells, 0.5, 25e-3).steps == pytest.approx(0.72e7)
