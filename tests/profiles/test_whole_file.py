# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all, and what cannot be written is found out first, or kept elsewhere."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from poet_profiles.errors import UserError
from poet_profiles.whole_file import check_writable, write_or_rescue, write_whole


@contextmanager
def files_of_at_most(count: int) -> Iterator[None]:
    """The kernel lets nobody in this process write more than so many bytes into a file, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_as_it_was_when_the_disk_is_full(tmp_path: Path) -> None:
    path = tmp_path / "result"
    write_whole(path, "before")
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        write_whole(path, bytes(1000))
    assert path.read_text() == "before"
    assert names_in(tmp_path) == ["result"]


def test_a_link_stays_one_and_a_pipe_is_written_into(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_whole(tmp_path / "link", "content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "content"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "through it")
    assert os.read(reader, 100) == b"through it"
    os.close(reader)


def test_where_a_file_can_be_written_nothing_is_left_but_its_folder(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "x.csv", 1000)
    assert names_in(tmp_path / "new" / "folder") == []
    check_writable(Path(os.devnull))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("folder", "is a folder; name a file"),
        ("file/x.csv", "cannot be written"),
        ("/proc/x.csv", "cannot be written"),
        ("n" * 300 + "/x.csv", "cannot be written"),
    ],
)
def test_what_cannot_be_written_is_one_line(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("content")
    with pytest.raises(UserError, match=words) as caught:
        check_writable(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_a_disk_without_room_is_told_of_before(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"will take 1,000,.* bytes, its disk has .* left"):
        check_writable(tmp_path / "x.npz", 1_000_000_000_000_000_000)


def test_a_result_whose_folder_is_gone_is_kept_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").write_text("no folder any more")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    note = write_or_rescue(tmp_path / "folder" / "x.csv", "rows")
    place = Path(note.rpartition(" ")[2])
    assert "could not be written" in note
    assert place.name == "x.csv"
    assert place.read_text() == "rows"
    assert write_or_rescue(tmp_path / "y.csv", "rows") == ""


def test_a_result_that_fits_nowhere_is_not_said_to_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with files_of_at_most(100), pytest.raises(OSError, match="too large"):
        write_or_rescue(tmp_path / "x.npz", bytes(1000))
