# SPDX-License-Identifier: Apache-2.0
"""Pictures of 96x96 are planned in bands alone, cheaply; the commands of their page run."""

from __future__ import annotations

import runpy
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from poet_harness.cli import app as harness
from poet_planner import Model, Plan, plan
from poet_planner.cli import app as planner
from poet_planner.solve import NoScheduleError, OptimiseOptions
from poet_profiles.boards import load_board
from poet_profiles.graph.file import read_graph
from poet_profiles.plan_folder.summary import read_summary

from tests.support import ROOT, needs
from tests.support.harness.flashed import called

CAMERA = ROOT / "firmware" / "examples" / "camera"
PAGE = (CAMERA / "README.md").read_text()
PLANNED, *ON_THE_BOARD = (shlex.split(line) for line in PAGE.splitlines() if line.startswith("    poet-"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the page's first command has written its plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(CAMERA)
        patch.chdir(folder := tmp_path_factory.mktemp("camera"))
        called(planner, *PLANNED[1:], "--time-limit", 1)
        yield folder


def test_a_step_on_a_picture_fits_in_bands_alone(folder: Path) -> None:
    network: Callable[[int], Model] = runpy.run_path(str(CAMERA / "camera.py"))["network"]

    def planned(**asked: Any) -> Plan:
        options = OptimiseOptions(time_limit_s=0.5)
        return plan(network(3), profile="nrf52840", tiles="off", options=options, **asked)

    banded, whole = read_summary(folder / "plan/summary.json"), planned(ram="600KB").summary
    with pytest.raises(NoScheduleError, match=r"KB of inputs; .*; the same batch --tiles auto fits"):
        planned(parameters="resident")
    assert banded.peak_bytes < load_board("nrf52840").usable_ram_bytes < whole.peak_bytes
    assert banded.energy_j < 1.03 * whole.energy_j
    largest = 4 * 4 * 94 * 94
    assert [one.bytes for one in banded.tiles if one.bytes == largest] == [largest] * 3
    nodes = read_graph(folder / "plan/graph.json").nodes
    assert max(value.bytes for node in nodes for value in node.values) < 0.52 * largest


@needs.emulator
def test_the_pages_commands_train_and_take_what_is_predicted(
    folder: Path, builds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
    for (program, *arguments), more in zip(ON_THE_BOARD, ([], [], ["--out", "seen.csv"]), strict=True):
        called(harness if program == "poet-harness" else planner, *arguments, *more)
    table = pd.read_csv(folder / "seen.csv")
    step = table[table["do"] == "step"].iloc[0]
    assert step["observed_energy_j"] == pytest.approx(step["predicted_energy_j"], rel=0.02)
    assert f"{1e3 * step['predicted_energy_j']:.2f} mJ | {1e3 * step['observed_energy_j']:.2f} mJ" in PAGE
