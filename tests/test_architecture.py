# SPDX-License-Identifier: Apache-2.0
"""The arrows between the packages, as CONTRIBUTING.md states them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "poet_profiles": ROOT / "profiles" / "poet_profiles",
    "poet_harness": ROOT / "harness" / "poet_harness",
    "poet_planner": ROOT / "planner" / "poet_planner",
}
ALLOWED = {
    "poet_profiles": {"poet_profiles"},
    "poet_harness": {"poet_harness", "poet_profiles"},
    "poet_planner": {"poet_planner", "poet_profiles"},
}
HEAVY = ("torch", "pyomo", "numba", "matplotlib", "unicorn", "pandas")


def imported_packages(source: Path) -> set[str]:
    tree = ast.parse(source.read_text(), str(source))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str) -> None:
    sources = sorted(PACKAGES[package].rglob("*.py"))
    assert sources
    wrong = {
        str(source.relative_to(ROOT)): crossing
        for source in sources
        if (crossing := imported_packages(source) & set(PACKAGES) - ALLOWED[package])
    }
    assert not wrong


def test_verifier_and_optimiser_share_no_code() -> None:
    verifier = (PACKAGES["poet_planner"] / "verify.py").read_text()
    assert "solve" not in {part for name in _modules(verifier) for part in name.split(".")}


def _modules(text: str) -> set[str]:
    tree = ast.parse(text)
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}


def test_firmware_core_uses_no_heap_and_no_libc_io() -> None:
    forbidden = ("malloc(", "calloc(", "realloc(", "free(NULL", "printf(", "<stdio.h>", "<stdlib.h>", "<math.h>")
    sources = sorted((ROOT / "firmware" / "src").rglob("*.[ch]"))
    assert sources
    found = [(source.name, word) for source in sources for word in forbidden if word in source.read_text()]
    assert not found


@pytest.mark.parametrize("cli", ["poet_harness.cli", "poet_planner.cli"])
def test_command_lines_start_without_heavy_imports(cli: str) -> None:
    code = f"import sys, {cli}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded
