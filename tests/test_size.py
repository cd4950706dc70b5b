# SPDX-License-Identifier: Apache-2.0
"""The size of the product and its pages stays within `[tool.poet.size]` of pyproject.toml, and functions stay readable.

Nothing else in the project says "too large". What grows pays by what it replaces, or says why in its commit.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support import ROOT

SOURCES = {".c", ".def", ".h", ".html", ".py"}
PACKAGES = ("harness/poet_harness", "planner/poet_planner", "planner/poet_runtime", "profiles/poet_profiles")
VERBS = ("harness/poet_harness/verbs", "planner/poet_planner/cli")
MOST_LINES = 120
MOST_PARAMETERS = 10
# The public interface, whose parameters users give by name.
WIDE = {
    ("planner/poet_planner/torch_step/compiling.py", "compile"),
    ("planner/poet_planner/__init__.py", "plan"),
}
CURE = "remove something, or raise it in [tool.poet.size] of pyproject.toml in the same commit and say why"

Place = tuple[str, str]


def _budget() -> dict[str, int]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    budget: dict[str, int] = settings["tool"]["poet"]["size"]
    return budget


def _lines(folder: Path, others: set[Path]) -> int:
    """Of a folder's sources, without those of the folders in it that have a budget of their own."""
    inside = {other for other in others if folder in other.parents}
    files = [file for file in folder.rglob("*") if file.suffix in SOURCES and not inside & set(file.parents)]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def _words(folder: Path) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for page in folder.rglob("*.md"))


def _sizes(root: Path, names: set[str]) -> dict[str, int]:
    folders = {root / name for name in names}
    return {name: _words(root / name) if name == "docs" else _lines(root / name, folders) for name in names}


def _above(sizes: dict[str, int], budget: dict[str, int]) -> list[str]:
    return [
        f"{name} has {sizes[name]}, and may have {most}: {CURE}" for name, most in budget.items() if sizes[name] > most
    ]


def _functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """All of a signature, but a method's own object."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = names[:1] in (["self"], ["cls"])
    return len(names) - own + (given.vararg is not None) + (given.kwarg is not None)


def _is_verb(file: str, name: str) -> bool:
    return str(Path(file).parent) in VERBS and name in ("command", Path(file).stem)


def _long_and_wide(root: Path) -> tuple[set[Place], set[Place]]:
    """Functions with too many lines, and those with too many parameters that are no verbs."""
    long, wide = set(), set()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            file = path.relative_to(root).as_posix()
            for function in _functions(path):
                if (function.end_lineno or 0) - function.lineno + 1 > MOST_LINES:
                    long.add((file, function.name))
                if _parameters(function) > MOST_PARAMETERS and not _is_verb(file, function.name):
                    wide.add((file, function.name))
    return long, wide


def test_packages_and_pages_stay_within_their_budgets() -> None:
    budget = _budget()
    assert {"docs", "firmware/src", *PACKAGES} <= set(budget)
    assert not (above := _above(_sizes(ROOT, set(budget)), budget)), "\n".join(above)


def test_functions_are_short_and_take_few_parameters() -> None:
    """But for the public interface, of which each function is wide still."""
    long, wide = _long_and_wide(ROOT)
    assert not long, f"at most {MOST_LINES} lines"
    assert wide == WIDE, f"at most {MOST_PARAMETERS} parameters; take a name out of WIDE when it has fewer"


def test_what_is_too_large_is_noticed(tmp_path: Path) -> None:
    package = tmp_path / "planner" / "poet_planner"
    (package / "solve" / "native").mkdir(parents=True)
    (package / "cli").mkdir()
    names = ", ".join(f"p{number}" for number in range(11))
    (package / "long.py").write_text("def long():\n" + "    pass\n" * 120)
    (package / "wide.py").write_text(
        f"class A:\n    def wide(self, {names}): ...\n    def fits(self, {names[4:]}): ...\n"
    )
    (package / "cli" / "plan.py").write_text(f"def plan({names}): ...\ndef other({names}): ...\n")
    (package / "solve" / "native" / "engine.c").write_text("\n" * 7)
    (package / "solve" / "native" / "engine.so").write_bytes(b"\xff\n")
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    (tmp_path / "docs" / "deep" / "page.md").write_text("# Three words\n")
    budget = {"planner/poet_planner": 125, "planner/poet_planner/solve/native": 7, "docs": 2}
    sizes = _sizes(tmp_path, set(budget))
    assert sizes == {"planner/poet_planner": 126, "planner/poet_planner/solve/native": 7, "docs": 3}
    assert [line.split(":")[0] for line in _above(sizes, budget)] == [
        "planner/poet_planner has 126, and may have 125",
        "docs has 3, and may have 2",
    ]
    long, many = _long_and_wide(tmp_path)
    assert long == {("planner/poet_planner/long.py", "long")}
    assert many == {("planner/poet_planner/wide.py", "wide"), ("planner/poet_planner/cli/plan.py", "other")}
