# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence in its first lines, and CITATION.cff names the version that is built."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support import ROOT

LINE = "SPDX-License-Identifier: Apache-2.0"
FOLDERS = ("benchmarks", "demo", "firmware", "harness", "planner", "profiles", "tests")
# JSON, CSV and notebooks have no comments.
NAMES = {"Makefile", "install-debian-packages", "install-python-packages"}
SUFFIXES = {".c", ".cff", ".def", ".h", ".ini", ".ld", ".py", ".sh", ".toml", ".yaml", ".yml"}
# Folders that tools make. None of them is under version control.
BUILT = {"__pycache__", "build", "dist", "out"}


def _is_source(path: Path) -> bool:
    return path.suffix in SUFFIXES or path.name in NAMES


def _sources() -> list[Path]:
    """Source files of a clone or an unpacked source distribution, which has fewer folders and no git."""
    files = [path for path in ROOT.iterdir() if _is_source(path)]
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT).parts
            made = BUILT & set(inside) or any(part.startswith(".") or part.endswith(".egg-info") for part in inside)
            if _is_source(path) and not made:
                files.append(path)
    return sorted(path for path in files if path.is_file() and path.stat().st_size)


def _lacks_the_line(path: Path) -> bool:
    return not any(LINE in line for line in path.read_text(encoding="utf-8").splitlines()[:2])


def test_every_source_names_its_licence() -> None:
    sources = _sources()
    assert {"planner", "harness", "profiles", "firmware"} <= {path.relative_to(ROOT).parts[0] for path in sources}
    assert [str(path.relative_to(ROOT)) for path in sources if _lacks_the_line(path)] == []


@pytest.mark.parametrize(
    "text", ["", "import os\n", '"""Doc."""\n\n# SPDX-License-Identifier: Apache-2.0\n', f"# {LINE[:-3]}MIT\n"]
)
def test_a_missing_late_or_other_licence_is_noticed(text: str, tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(text)
    assert _lacks_the_line(file)


def test_citation_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text().splitlines()
