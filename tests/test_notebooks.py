# SPDX-License-Identifier: Apache-2.0
"""Every notebook runs from top to bottom, and is committed with what it showed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# Data that are not in this repository: packages of the extra `demo`.
NEEDS = {"06_fine_tune.ipynb": "seglearn"}
MOST_SECONDS_A_CELL = 600
MOST_BYTES = 1_000_000


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_runs(notebook: Path, builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if notebook.name in NEEDS:
        pytest.importorskip(NEEDS[notebook.name])
    # The notebook calls the command lines by name, as a person in an activated environment does.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
    document = nbformat.read(notebook, as_version=4)
    NotebookClient(
        document, timeout=MOST_SECONDS_A_CELL, resources={"metadata": {"path": str(notebook.parent)}}
    ).execute()
    assert all(cell.execution_count for cell in document.cells if cell.cell_type == "code")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_notebook_is_committed_with_its_output(notebook: Path) -> None:
    document = nbformat.read(notebook, as_version=4)
    code = [cell for cell in document.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert notebook.stat().st_size < MOST_BYTES
