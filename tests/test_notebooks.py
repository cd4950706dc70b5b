# SPDX-License-Identifier: Apache-2.0
"""Every notebook runs from top to bottom."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support import ROOT


@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebook_runs(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The notebook calls the command lines by name, as a person in an activated environment does.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    document = nbformat.read(notebook, as_version=4)
    NotebookClient(document, timeout=1800, resources={"metadata": {"path": str(ROOT)}}).execute()
    assert all(cell.execution_count for cell in document.cells if cell.cell_type == "code")
