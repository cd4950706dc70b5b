# SPDX-License-Identifier: Apache-2.0
"""Caches on a system without a home, or with one that is not the user's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from poet_profiles.files.cache import cache_folder, is_writable


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
    assert cache_folder("figures") == tmp_path / "temporary" / f"poet-{os.getuid()}" / "figures"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary"]


def test_a_folder_of_somebody_elses_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.getuid", lambda: 12345)
    place = cache_folder()
    assert place.parent == tmp_path
    assert place not in (tmp_path / "poet", tmp_path / "poet-12345")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The cache, and where it is else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "home" / "poet", tmp_path / "temporary" / f"poet-{os.getuid()}"


@pytest.mark.parametrize("umask", [0o002, 0o000, 0o022, 0o077])
def test_each_of_its_folders_is_closed_to_others_whatever_the_umask(places: tuple[Path, Path], umask: int) -> None:
    before = os.umask(umask)
    try:
        assert cache_folder("a/b") == places[0] / "a" / "b"
    finally:
        os.umask(before)
    for folder in (places[0], places[0] / "a", places[0] / "a" / "b"):
        assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoilt", ["", "a", "a/b"])
@pytest.mark.parametrize("mode", [0o777, 0o757, 0o703])
def test_a_folder_that_all_may_write_is_not_trusted(places: tuple[Path, Path], spoilt: str, mode: int) -> None:
    (cache_folder("a/b") / "kept.so").write_text("")
    (places[0] / spoilt).chmod(mode)
    assert cache_folder("a/b") == places[1] / "a" / "b"
    assert (places[0] / spoilt).stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("spoilt", ["", "a", "a/b"])
def test_a_folder_that_its_group_may_write_is_closed_to_it_and_kept(places: tuple[Path, Path], spoilt: str) -> None:
    (cache_folder("a/b") / "kept.so").write_text("")
    (places[0] / spoilt).chmod(0o775)
    assert (cache_folder("a/b") / "kept.so").exists()
    assert (places[0] / spoilt).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spoilt", ["", "a", "a/b"])
def test_a_link_is_not_followed(places: tuple[Path, Path], spoilt: str, tmp_path: Path) -> None:
    cache_folder("a/b")
    (places[0] / spoilt).rename(tmp_path / "others")
    (places[0] / spoilt).symlink_to(tmp_path / "others")
    assert cache_folder("a/b") == places[1] / "a" / "b"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
@pytest.mark.parametrize("spoilt", ["", "a", "a/b"])
def test_a_folder_inside_that_is_anothers_is_not_trusted(places: tuple[Path, Path], spoilt: str) -> None:
    cache_folder("a/b")
    os.chown(places[0] / spoilt, 12345, 12345)
    assert cache_folder("a/b") == places[1] / "a" / "b"


def test_where_all_may_rename_each_others_folders_there_is_none(places: tuple[Path, Path]) -> None:
    cache_folder("a")
    places[0].parent.chmod(0o777)
    assert cache_folder("a") == places[1] / "a"
    places[0].parent.chmod(0o1777)
    assert cache_folder("a") == places[0] / "a"


def test_a_folder_that_is_a_file_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not is_writable(tmp_path / "file")
    assert is_writable(tmp_path / "new" / "folder")
