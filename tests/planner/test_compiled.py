"""What is compiled is not taken from the cache when a source file that it may call has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from numba.core import event
from poet_planner.solve import clock
from poet_planner.solve.compiled import forget_older


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
