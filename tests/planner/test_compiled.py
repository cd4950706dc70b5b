# SPDX-License-Identifier: Apache-2.0
"""What is compiled is not taken from the cache when a source file that it may call has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numba
import pytest
from numba.core import event
from poet_planner.solve import clock
from poet_planner.solve.compiled import forget_older, keep_elsewhere


@pytest.mark.parametrize(("changed_s", "kept"), [(5, True), (15, False)])
def test_a_newer_source_of_any_name_empties_the_cache(tmp_path: Path, changed_s: int, kept: bool) -> None:
    index = tmp_path / "__pycache__" / "caller.one-1.py311.nbi"
    index.parent.mkdir()
    for path, time_s in ((tmp_path / "caller.py", 1), (tmp_path / "called.py", changed_s), (index, 10)):
        path.touch()
        os.utime(path, (time_s, time_s))
    forget_older(tmp_path)
    assert index.exists() == kept


def test_the_clock_stands_still_while_numba_compiles() -> None:
    """One compilation sets off another inside itself, as a caller does its callees'."""
    before_s, began_s = clock.seconds(), time.monotonic()
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        time.sleep(0.2)
        assert clock.seconds() - before_s < time.monotonic() - began_s - 0.1
    compiled_s = time.monotonic() - began_s
    worked_s = clock.seconds() - before_s
    assert worked_s <= time.monotonic() - began_s - 0.2
    time.sleep(0.01)
    assert clock.seconds() - before_s >= 0.01
    assert compiled_s >= 0.2


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
