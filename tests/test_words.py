# SPDX-License-Identifier: Apache-2.0
"""What is written from the rule's commit on says in one short line what it is."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.support.history import History, repository

# The rule holds from the commit on that brought its name into this file.
RULE = ("-S", "LONGEST_SUBJECT", "--", "tests/test_words.py")
LONGEST_FIRST_LINE = 90
LONGEST_SUBJECT = 72


def _is_short(docstring: str) -> bool:
    first, *rest = docstring.splitlines()
    return len(first) <= LONGEST_FIRST_LINE and first.endswith(".") and (not rest or not rest[0].strip())


def _long_docstrings(history: History) -> list[str]:
    """Of modules, public classes and functions in files that are new since the rule."""
    found = []
    for rule in history.first(*RULE):
        for file in history.lines("diff", "--name-only", "--diff-filter=A", rule, "--", "*.py"):
            for node in ast.walk(ast.parse((history.folder / file).read_text(encoding="utf-8"))):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    name = getattr(node, "name", "")
                    docstring = ast.get_docstring(node)
                    if docstring and not name.startswith("_") and not _is_short(docstring):
                        found.append(f"{file} {name}".strip())
    return found


def _long_subjects(history: History) -> list[str]:
    rule = history.first(*RULE)
    return [line for line in history.after(rule, "%s") if len(line) > LONGEST_SUBJECT]


def test_docstrings_of_new_files_begin_with_one_short_line() -> None:
    assert not _long_docstrings(History())


def test_subjects_of_commits_are_short() -> None:
    assert not _long_subjects(History())


def test_what_is_too_long_is_noticed(tmp_path: Path) -> None:
    history = repository(tmp_path)

    def commit(subject: str, file: str, text: str) -> None:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        history.lines("add", ".")
        history.lines("commit", "--quiet", "--message", subject)

    commit("Before " * 20, "old.py", f'"""Old {"and " * 40}long."""\n')
    commit("The rule", RULE[-1], f"{RULE[1]} = 72\n")
    commit("Short " + 66 * "x", "new.py", f'"""New {85 * "x"}."""\n\ndef f():\n    """Short.\n\n    More.\n    """\n')
    commit("Changed", "old.py", f'"""Still {"and " * 40}long."""\n')
    assert not _long_docstrings(history) + _long_subjects(history)
    long = ['"""Two lines\nhere."""', f'def f():\n    """{90 * "x"}."""', 'class A:\n    """No period"""']
    for number, text in enumerate(long):
        commit("Long " + 68 * "x", f"new_{number}.py", f'{text}\n\ndef _own():\n    """Own"""\n')
    assert _long_docstrings(history) == ["new_0.py", "new_1.py f", "new_2.py A"]
    assert _long_subjects(history) == ["Long " + 68 * "x"] * 3
