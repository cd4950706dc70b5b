# SPDX-License-Identifier: Apache-2.0
"""What is compiled is not taken from the cache when a source file that it may call has changed."""

from __future__ import annotations

import os
from pathlib import Path

import numba
import pytest
from poet_planner.solve.instance import build_problem
from poet_planner.solve.jit import forget_older, keep_elsewhere
from poet_profiles.graph import Graph, Node, PageCost, Value


@pytest.mark.parametrize(
    ("changed", "kept"), [("other", True), ("search.caller", False), ("search.called", False), ("deep", False)]
)
def test_what_a_changed_source_is_compiled_into_is_forgotten(tmp_path: Path, changed: str, kept: bool) -> None:
    """The caller's own file, one that it imports, and one that this imports; another does not matter."""
    package = tmp_path / "solve"
    index = package / "search" / "__pycache__" / "caller.one-1.py311.nbi"
    index.parent.mkdir(parents=True)
    (package / "search" / "caller.py").write_text("from poet_planner.solve.search import called")
    (package / "search" / "called.py").write_text("from poet_planner.solve.deep import two")
    (package / "deep.py").touch()
    (package / "other.py").touch()
    index.touch()
    for path in package.rglob("*.*"):
        newest = path == package.joinpath(*changed.split(".")).with_suffix(".py")
        time_s = 10 if path == index else 15 if newest else 5
        os.utime(path, (time_s, time_s))
    forget_older(package)
    assert index.exists() == kept


def test_where_the_package_cannot_be_written_numba_keeps_its_code_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    package = tmp_path / "package"
    package.mkdir()
    (package / "search.py").write_text("one = 1")
    keep_elsewhere(package)
    assert numba.config.CACHE_DIR == ""
    (package / "__pycache__").rmdir()
    (package / "__pycache__").write_text("in the way")
    keep_elsewhere(package)
    first = Path(numba.config.CACHE_DIR)
    (package / "search.py").write_text("one = 2")
    keep_elsewhere(package)
    assert first.parent == Path(numba.config.CACHE_DIR).parent == tmp_path / "cache" / "poet" / "numba"
    assert Path(numba.config.CACHE_DIR) != first


@pytest.mark.parametrize("page", [PageCost(1, 2, 3, 4), None])
def test_whole_numbers_as_costs_are_not_compiled_for_anew(page: PageCost | None) -> None:
    """Compiling all of search and proof takes a minute; a file of JSON may say 2 where another says 2.0."""

    def problem_type(one: float) -> object:
        graph = Graph("two", (Node("first", one, one, (Value("first", 4, page),)), Node("last", one, one, ())))
        return numba.typeof(build_problem(graph, 64, None))

    assert problem_type(1) == problem_type(0.5)
