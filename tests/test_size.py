# SPDX-License-Identifier: Apache-2.0
"""The sizes of code and pages stay within `[tool.poet.size]` of pyproject.toml, and functions stay readable.

Nothing else in the project says "too large". What grows pays by what it replaces: no commit that changes code raises an
entry.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.support import ROOT
from tests.support.history import History, repository

SOURCES = {".c", ".def", ".h", ".html", ".py"}
PACKAGES = ("harness/poet_harness", "planner/poet_planner", "planner/poet_runtime", "profiles/poet_profiles")
VERBS = ("harness/poet_harness/verbs", "planner/poet_planner/cli")
MOST_LINES = 120
MOST_PARAMETERS = 10
# The public interface, whose parameters users give by name.
WIDE = {("planner/poet_planner/torch_step/compiling.py", "compile"), ("planner/poet_planner/__init__.py", "plan")}
# The entries that count words: those of docs/, and those of all other pages.
DOCS, PAGES = "docs", "words outside docs/"
# Folders in the root that tools fill.
BUILT = {"build", "dist", "out"}
CURE = "remove something, or raise the entry by a commit of its own (CONTRIBUTING.md, What a change brings)"

Place = tuple[str, str]


def _budget(pyproject: str) -> dict[str, int]:
    budget: dict[str, int] = tomllib.loads(pyproject)["tool"]["poet"]["size"]
    return budget


def _lines(folder: Path, others: set[Path]) -> int:
    """Of a folder's sources, without those of the folders in it that have a budget of their own."""
    inside = {other for other in others if folder in other.parents}
    files = [file for file in folder.rglob("*") if file.suffix in SOURCES and not inside & set(file.parents)]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def _pages(at: Path) -> Iterator[Path]:
    """Pages of a folder, or a page itself; without hidden folders, which tools fill."""
    if at.is_dir() and not at.name.startswith("."):
        for inside in at.iterdir():
            yield from _pages(inside)
    elif at.suffix == ".md":
        yield at


def _words(places: Iterable[Path]) -> int:
    return sum(len(page.read_text(encoding="utf-8").split()) for place in places for page in _pages(place))


def _sizes(root: Path, names: set[str]) -> dict[str, int]:
    folders = {root / name for name in names}
    outside = [place for place in root.iterdir() if place.name not in {DOCS, *BUILT}]
    words = {DOCS: [root / DOCS], PAGES: outside}
    return {name: _words(words[name]) if name in words else _lines(root / name, folders) for name in names}


def _above(sizes: dict[str, int], budget: dict[str, int]) -> list[str]:
    return [
        f"{name} has {sizes[name]}, and may have {most}: {CURE}" for name, most in budget.items() if sizes[name] > most
    ]


def _raised_with_code(history: History) -> list[str]:
    """Commits that raise an entry and are not commits of their own, since the pages' words have one."""
    found = []
    rule = history.first("-S", PAGES, "--", "pyproject.toml")
    for commit, *parents in map(str.split, history.after(rule, "%H %P", "--", "pyproject.toml")):
        before = [_budget(history.text(f"{parent}:pyproject.toml")) for parent in parents]
        raised = [
            name
            for name, most in _budget(history.text(f"{commit}:pyproject.toml")).items()
            if (known := [budget[name] for budget in before if name in budget]) and most > max(known)
        ]
        changed = history.lines("diff", "--name-only", parents[0], commit)
        if raised and (len(parents) > 1 or any(Path(file).suffix in SOURCES for file in changed)):
            found.append(f"{commit[:8]} raises {', '.join(raised)}")
    return found


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
    budget = _budget((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert {DOCS, PAGES, "benchmarks", "firmware/src", "tests", *PACKAGES} <= set(budget)
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
    (tmp_path / "README.md").write_text("one two\n")
    (package / "cli" / "page.md").write_text("three\n")
    for made in (".venv", "out"):
        (tmp_path / made).mkdir()
        (tmp_path / made / "page.md").write_text("of others\n")
    budget = {"planner/poet_planner": 125, "planner/poet_planner/solve/native": 7, DOCS: 2, PAGES: 2}
    sizes = _sizes(tmp_path, set(budget))
    assert sizes == {"planner/poet_planner": 126, "planner/poet_planner/solve/native": 7, DOCS: 3, PAGES: 3}
    assert [line.split(":")[0] for line in _above(sizes, budget)] == [
        "planner/poet_planner has 126, and may have 125",
        "docs has 3, and may have 2",
        "words outside docs/ has 3, and may have 2",
    ]
    long, many = _long_and_wide(tmp_path)
    assert long == {("planner/poet_planner/long.py", "long")}
    assert many == {("planner/poet_planner/wide.py", "wide"), ("planner/poet_planner/cli/plan.py", "other")}


def test_entries_are_raised_by_commits_of_their_own() -> None:
    assert not _raised_with_code(History())


def test_a_commit_that_raises_an_entry_and_changes_code_is_noticed(tmp_path: Path) -> None:
    history = repository(tmp_path)

    def commit(subject: str, entries: dict[str, int], **files: str) -> None:
        rows = [f'"{name}" = {most}' for name, most in entries.items()]
        (tmp_path / "pyproject.toml").write_text("\n".join(["[tool.poet.size]", *rows, ""]))
        for name, text in files.items():
            (tmp_path / f"{name}.{'md' if name == 'page' else 'py'}").write_text(text)
        history.lines("add", ".")
        history.lines("commit", "--quiet", "--message", subject)

    def merge(branch: str, entries: dict[str, int]) -> None:
        history.lines("merge", "--quiet", "--no-commit", "--no-ff", "--strategy=ours", branch)
        commit(f"Merge {branch}", entries)

    def raised() -> list[str]:
        lines = [line.split(maxsplit=1) for line in _raised_with_code(history)]
        return [f"{''.join(history.lines('show', '--no-patch', '--format=%s', one))} {rest}" for one, rest in lines]

    commit("Begin", {"docs": 1}, code="")
    commit("Before the rule", {"docs": 2}, code="1")
    history.lines("branch", "old")
    commit("The rule", {"docs": 3, PAGES: 5}, code="2")
    commit("A new entry, one lower", {"docs": 2, PAGES: 5, "tests": 7}, code="3")
    commit("Raised alone", {"docs": 4, PAGES: 5, "tests": 7}, page="why")
    history.lines("checkout", "--quiet", "-b", "branch")
    commit("Lowered", {"docs": 4, PAGES: 5, "tests": 6}, other="4")
    history.lines("checkout", "--quiet", "main")
    commit("Code", {"docs": 4, PAGES: 5, "tests": 7}, code="5")
    merge("branch", {"docs": 4, PAGES: 5, "tests": 7})
    history.lines("checkout", "--quiet", "old")
    commit("Does not know the rule", {"docs": 9}, old="6")
    history.lines("checkout", "--quiet", "main")
    merge("old", {"docs": 4, PAGES: 5, "tests": 7})
    assert raised() == []
    commit("Raised with code", {"docs": 4, PAGES: 6, "tests": 8}, code="7")
    history.lines("checkout", "--quiet", "branch")
    commit("Other code", {"docs": 4, PAGES: 5, "tests": 6}, other="8")
    history.lines("checkout", "--quiet", "main")
    merge("branch", {"docs": 5, PAGES: 6, "tests": 8})
    assert raised() == ["Merge branch raises docs", f"Raised with code raises {PAGES}, tests"]
