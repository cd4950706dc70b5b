"""What is compiled is not taken from the cache when a source file that it may call has changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
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
