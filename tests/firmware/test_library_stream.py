# SPDX-License-Identifier: Apache-2.0
"""A stream in a program, built by the page's line: scores are PyTorch's of each window."""

from __future__ import annotations

import shutil
import subprocess
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from poet_harness.arduino_library import write_arduino_library
from poet_planner.models import Model
from poet_planner.planning.training_graph import TrainingStep
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.boards import load_board
from poet_profiles.plan_folder.beside import Inference, Stream
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support import ROOT

BINS, WINDOW, NEW, TRAINED_AFTER = 3, 17, 2, 14  # calls
# Reads columns, writes a status and the scores of each call; after some calls it takes a step of rate zero.
PROGRAM = f"""
#include <net.h>
#include <stdio.h>

static poet p;
static uint32_t ram[(NET_RAM_BYTES + 3u) / 4u];

int main(void)
{{
    if (poet_begin(&p, &net, ram, sizeof ram, NULL, NULL) != POET_OK)
        return 2;
    for (int32_t call = 0; fread(poet_stream_input(&p), NET_STREAM_BYTES, 1, stdin) == 1; call++) {{
        const float status = (float)poet_stream(&p);
        fwrite(&status, 4, 1, stdout);
        fwrite(poet_stream_output(&p), 4, NET_OUTPUT_COUNT, stdout);
        if (call == {TRAINED_AFTER} && (poet_input(&p, 0) == NULL || poet_train(&p, 0.0f) != POET_OK))
            return 3;
    }}
    return 0;
}}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_pages_line_for_a_computer_builds_a_program_that_hears(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        *(nn.Conv1d(BINS, 4, 3, stride=NEW), nn.ReLU(), nn.Conv1d(4, 4, 3, groups=4), nn.Conv1d(4, 5, 1), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(5 * 6, 2)),
    )
    for parameter in module[0].parameters():
        parameter.requires_grad_(False)
    model = Model("net", module, (torch.randn(2, BINS, WINDOW),), (torch.tensor([0, 1]),), cross_entropy)
    step = TrainingStep(model, stream=2)
    graph = step.graph(load_board("nrf52840"))
    window = step.inference(graph)
    assert window.stream is not None
    stream = Stream(window.stream.graph, store_all_schedule(window.stream.graph), window.stream.calls)
    data = {**window.data, **window.stream.data}
    inference = Inference(window.graph, store_all_schedule(window.graph), data, stream=stream)
    initial = {name: tensor.detach().numpy() for name, tensor in module.state_dict().items()}
    libraries = tmp_path / "libraries"
    write_library("net", graph, store_all_schedule(graph), step.constants(graph), initial, libraries / "net", inference)
    write_arduino_library(libraries)
    (tmp_path / "main.c").write_text(PROGRAM)
    page = (ROOT / "docs" / "own_application.md").read_text()
    line = textwrap.dedent(page[page.index("    gcc -O2") :].split("\n\n", 1)[0])
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    calls = 30
    heard = torch.randn(BINS, NEW * calls)
    given = b"".join(heard[:, NEW * call : NEW * (call + 1)].numpy().tobytes() for call in range(calls))
    ran = subprocess.run([tmp_path / "main"], input=given, capture_output=True, check=False)
    assert ran.returncode == 0
    status, *scores = np.frombuffer(ran.stdout, np.float32).reshape(calls, 3).T
    needed = -(-WINDOW // NEW)
    since = [call if call <= TRAINED_AFTER else call - TRAINED_AFTER - 1 for call in range(calls)]
    assert [one == 0 for one in status] == [one >= needed - 1 for one in since], "after a step it hears anew"
    with torch.no_grad():
        for call in np.flatnonzero(status == 0):
            end = NEW * (call + 1)
            expected = module(heard[None, :, end - WINDOW : end])[0].numpy()
            np.testing.assert_allclose([score[call] for score in scores], expected, atol=1e-6)
