# SPDX-License-Identifier: Apache-2.0
"""`--json`: one document on standard output, whoever else prints there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest
import typer
from poet_harness.cli import app as harness
from poet_planner.cli import app as planner
from poet_profiles.program.json_output import alone, print_json
from typer.main import get_command
from typer.testing import CliRunner

# Prints in each way there is: Python's, the file's, C's buffered one, which is written as the process ends, a child's.
NOISY = """
import ctypes, os, subprocess
import torch
from poet_planner.models import Model

print("by Python")
os.write(1, b"to the file\\n")
ctypes.CDLL(None).puts(b"by C")
subprocess.run(["echo", "by a child"], check=True)

def make(batch):
    inputs, targets = torch.randn(2, 4), torch.arange(2)
    return Model("noisy", torch.nn.Linear(4, 3), (inputs,), (targets,), torch.nn.functional.cross_entropy)
"""


def test_a_users_module_that_prints_is_heard_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    command = "graph --model noisy:make --profile m4 --out graph.json --json"
    code = "from poet_planner.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"]
    for noise in ("by Python", "to the file", "by C", "by a child"):
        assert noise in done.stderr


def test_within_a_process_standard_output_is_as_before_afterwards() -> None:
    app = typer.Typer()

    @app.command()
    def verb(as_json: Annotated[bool, typer.Option("--json", callback=alone)] = False) -> None:
        print("words")
        if as_json:
            print_json({"none": float("nan"), "most": [float("inf"), 1]})

    for _ in range(2):
        done = CliRunner().invoke(app, ["--json"])
        assert json.loads(done.stdout) == {"none": None, "most": [None, 1]}
        assert done.stderr == "words\n"
    assert CliRunner().invoke(app, []).stdout == "words\n"


@pytest.mark.parametrize("app", [harness, planner], ids=["harness", "planner"])
def test_every_verb_has_the_option_that_does_so(app: typer.Typer) -> None:
    program = get_command(app)
    verbs = [program, *program.commands.values()]  # type: ignore[attr-defined]
    options = [option for verb in verbs for option in verb.params if "--json" in option.opts]
    assert len(options) > 10
    for option in options:
        assert option.callback is not None
        assert option.callback.__wrapped__ is alone
