# SPDX-License-Identifier: Apache-2.0
"""A step on the emulated MKR1000 against what the shipped profile predicts, at first and after five steps of training.

Its floating point is software, quicker on the zeros that training has: rows of a benchmark miss by 15 %.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.support import needs

pytestmark = needs.emulator

HARNESS = [sys.executable, "-c", "from poet_harness.cli import main; main()"]
PLANNER = [sys.executable, "-c", "from poet_planner.cli import main; main()"]
MODEL = ["--model", "digits_cnn_small"]
BOARD = ["--board", "mkr1000", "--emulate", "--plan", "plan"]
STEPS = "6"


def test_a_step_is_what_was_predicted_after_five_steps_too(builds: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PLATFORMIO_BUILD_DIR": str(builds)}
    for program, *arguments in (
        (PLANNER, "--profile", "mkr1000", *MODEL, "--time-limit", "3", "--out", "plan"),
        (PLANNER, "data", *MODEL, "--steps", STEPS, "--out", "data.npz"),
        (HARNESS, "flash", *BOARD),
        (HARNESS, "run", *BOARD, "--data", "data.npz", "--steps", STEPS, "--lr", "0.05", "--out", "seen.csv"),
    ):
        command = [*program, *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    table = pd.read_csv(tmp_path / "seen.csv")
    steps = table[table["do"] == "step"].set_index("training_step")
    for number in (0, 5):
        for quantity in ("time_s", "energy_j"):
            seen, predicted = steps.loc[number, f"observed_{quantity}"], steps.loc[number, f"predicted_{quantity}"]
            assert seen == pytest.approx(predicted, rel=0.03), (number, quantity)
