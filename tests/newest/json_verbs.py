# SPDX-License-Identifier: Apache-2.0
"""`make newest`: every verb that has --json prints one document and nothing else, whatever releases are installed.

No part of `make test`, which has the releases of `constraints.txt`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from poet_harness.cli import app as harness
from poet_planner.cli import app as planner
from typer.main import get_command

from tests.support import ROOT

# In this order: later ones read what earlier ones wrote. For m4's plan HiGHS has something to prove.
COMMANDS = f"""
poet-plan --profile {ROOT / "profiles" / "m4.csv"} --out long
poet-plan --profile nrf52840 --model digits_cnn_small --time-limit 3 --out plan
poet-plan --profile a72 --model digits_cnn_small --ram 100% --method store_all --out linux
poet-plan graph --profile nrf52840 --model digits_cnn_small --out graph.json
poet-plan verify plan/graph.json plan/schedule.json
poet-plan check plan/graph.json plan/schedule.json --model digits_cnn_small
poet-plan compare --graph graph.json --ram 80% --methods checkmate --out compared
poet-plan sweep --graph graph.json --ram 100% --methods store_all --out swept
poet-plan data --model digits_cnn_small --steps 2 --out data.npz
poet-plan reference --model digits_cnn_small --data data.npz --out reference.npz
poet-plan execute linux --data data.npz
poet-plan models
poet-plan solvers
poet-plan methods
poet-harness flash --board nrf52840 --emulate --plan plan
poet-harness flash --board native --plan plan
poet-harness run --board native --plan plan --data data.npz --steps 2 --card card.img --commit-every 1 --out run.csv
poet-harness train --board native --plan plan --data data.npz --samples samples.npz --epochs 1 --folder kept --out e.csv
poet-harness card card.img --plan plan --read
poet-harness weights --plan plan --card card.img --out trained.safetensors
poet-harness eval --board native --plan plan --samples samples.npz --weights trained.safetensors
poet-harness arduino libraries
poet-harness battery --plan plan --cell lipo500 --run run.csv
poet-harness profile --board native --configs configurations.csv --quick --no-pages --out profile.csv
poet-harness diff profile.csv profile.csv
poet-harness energy --trace trace.csv --windows windows.csv
poet-harness boards
poet-harness meters
poet-harness doctor
""".strip().splitlines()
# Asks a real board to start its bootloader.
NOT_RUN = {"poet-harness bootloader"}
MODULES = {"poet-plan": "poet_planner.cli", "poet-harness": "poet_harness.cli"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all commands run: later ones read what earlier ones wrote."""
    place = tmp_path_factory.mktemp("verbs")
    (place / "configurations.csv").write_text("op,params\nrelu,size=64\n")
    (place / "trace.csv").write_text("time_s,power_w\n0,1\n1,1\n2,1\n")
    (place / "windows.csv").write_text("start_s,end_s,label\n0,1,all\n")
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_one_document_and_nothing_else(command: str, folder: Path) -> None:
    program, *arguments = command.split()
    code = f"from {MODULES[program]} import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert isinstance(json.loads(done.stdout), dict | list)
    if arguments[0] == "data":
        _write_samples(folder)


def _write_samples(folder: Path) -> None:
    """A data set of the batches' samples."""
    batches = np.load(folder / "data.npz")
    np.savez(folder / "samples.npz", x=np.concatenate(batches["input"]), y=np.concatenate(batches["target"]))


def test_no_verb_is_left_out() -> None:
    have = {
        f"{program} {name}"
        for program, app in (("poet-plan", planner), ("poet-harness", harness))
        for name, verb in {**get_command(app).commands, "": get_command(app)}.items()  # type: ignore[attr-defined]
        if any("--json" in option.opts for option in verb.params)
    }
    run = {" ".join(command.split()[:2]).partition("--")[0] for command in COMMANDS}
    assert run | NOT_RUN == have
