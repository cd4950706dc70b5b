# SPDX-License-Identifier: Apache-2.0
"""Caches on a system without a home, or with one that is not the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from poet_profiles.cache import cache_folder, is_writable


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("a/b") == tmp_path / "poet" / "a" / "b"
    assert (tmp_path / "poet" / "a" / "b").is_dir()


@pytest.mark.parametrize("home", ["/proc/nobody", "~/.cache", "/dev/null/cache"])
def test_without_a_home_it_is_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("platformdirs.user_cache_path", lambda name: Path(home) / name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert cache_folder("numba") == tmp_path / "temporary" / f"poet-{os.getuid()}" / "numba"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]


def test_a_folder_of_somebody_elses_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 12345)
    place = cache_folder()
    assert place.parent == tmp_path
    assert place not in (tmp_path / "poet", tmp_path / "poet-12345")


def test_a_folder_that_is_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not is_writable(tmp_path / "file")
    assert is_writable(tmp_path / "new" / "folder")
