# SPDX-License-Identifier: Apache-2.0
"""Files are written whole or not at all, and what cannot be written is found out first, or kept elsewhere."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
from poet_profiles.errors import UserError
from poet_profiles.files import whole_file
from poet_profiles.files.locks import held, lock
from poet_profiles.files.whole_file import check_writable, folder_made, remove_leftovers, write_or_rescue, write_whole


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
    with files_of_at_most(100), pytest.raises(OSError, match="too large") as refused:
        write_whole(path, bytes(1000))
    assert refused.value.filename == str(path)
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


def test_where_a_file_can_be_written_nothing_is_left(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "x.csv", 1000)
    assert names_in(tmp_path) == []
    check_writable(Path(os.devnull))


WRITER = """
import os, signal, sys
from pathlib import Path
from poet_profiles.files import whole_file
with whole_file.replacing(Path(sys.argv[1])) as (handle, _):
    os.write(handle, b"half of it")
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_what_a_killed_program_leaves_is_taken_away_and_what_a_living_one_writes_is_not(tmp_path: Path) -> None:
    def writer(name: str) -> Popen[str]:
        begun = Popen([sys.executable, "-c", WRITER, str(tmp_path / name)], stdin=PIPE, stdout=PIPE, text=True)
        assert begun.stdout is not None
        assert begun.stdout.readline() == "writing\n"
        return begun

    killed, living = writer("killed"), writer("living")
    killed.kill()
    killed.communicate()
    assert len(names_in(tmp_path)) == 2
    (tmp_path / ".poet-pages-1-7f00").write_text("an agent's")
    (tmp_path / ".poet-of-mine.csv").write_text("another's")
    (tmp_path / ".poet-link0000").symlink_to(tmp_path / ".poet-of-mine.csv")
    check_writable(tmp_path / "x.csv")
    names = names_in(tmp_path)
    assert len(names) == 4
    assert {".poet-pages-1-7f00", ".poet-of-mine.csv", ".poet-link0000"} < set(names)
    living.communicate("\n")
    assert living.returncode == 0
    assert (tmp_path / "living").read_bytes() == b"half of it"


def test_a_file_that_was_taken_for_a_leftover_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between its making and its lock."""
    beside = iter([remove_leftovers])

    def lock_late(handle: int) -> bool | None:
        if remove := next(beside, None):
            monkeypatch.setattr(whole_file, "lock", lock)
            remove(tmp_path)
            monkeypatch.setattr(whole_file, "lock", lock_late)
        return lock(handle)

    monkeypatch.setattr(whole_file, "lock", lock_late)
    write_whole(tmp_path / "result", "whole")
    assert names_in(tmp_path) == ["result"]


def test_without_locks_nothing_is_taken_away_and_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unsupported)
    (tmp_path / ".poet-12345678").write_text("perhaps another's")
    check_writable(tmp_path / "result")
    write_whole(tmp_path / "result", "whole")
    with held(tmp_path, "is another's"):
        pass
    assert names_in(tmp_path) == [".poet-12345678", "result"]


@pytest.mark.parametrize("how", ["refused", "written"])
def test_a_folder_that_stays_empty_is_taken_away(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "there" / "new" / "inner"
    (tmp_path / "there").mkdir()
    with suppress(UserError), folder_made(folder):
        if how == "refused":
            raise UserError("refused")
        (folder / "file").write_text("content")
    assert names_in(tmp_path / "there") == ([] if how == "refused" else ["new"])


def test_a_folder_is_held_by_one_or_shared(tmp_path: Path) -> None:
    shared = held(tmp_path, "", shared=True), held(tmp_path, "", shared=True)
    with shared[0], shared[1], pytest.raises(UserError, match=f"{tmp_path}: is read"), held(tmp_path, "is read"):
        pass
    with held(tmp_path, ""), pytest.raises(UserError, match="is written"), held(tmp_path, "is written", shared=True):
        pass


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
