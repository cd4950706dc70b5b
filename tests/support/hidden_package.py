# SPDX-License-Identifier: Apache-2.0
"""Processes in which a package is not there."""

from __future__ import annotations

from pathlib import Path

# Python imports a module of this name when it starts, before the program.
_HIDING = """
import os, sys

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == os.environ["HIDDEN"]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hiding())
"""


def hiding(package: str, folder: Path) -> dict[str, str]:
    """Variables for the environment of such a process; ``folder`` takes what they name."""
    (folder / "sitecustomize.py").write_text(_HIDING)
    return {"PYTHONPATH": str(folder), "HIDDEN": package}
