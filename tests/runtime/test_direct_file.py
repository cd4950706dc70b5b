# SPDX-License-Identifier: Apache-2.0
"""Pages past the kernel's cache: what comes back, what the kernel counts, and disks that refuse."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from poet_profiles.errors import UserError
from poet_runtime import direct_file
from poet_runtime.direct_file import ALIGNMENT, DirectFile

from tests.support.levels import examples


def refuse_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """As some file systems do."""
    opened = os.open

    def without(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return opened(path, flags, mode)

    monkeypatch.setattr(direct_file.os, "open", without)


@pytest.mark.parametrize("refused", [False, True])
@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 3 * ALIGNMENT), min_size=1, max_size=4),
    data=st.data(),
    buffer=st.sampled_from([1, 2]),
)
def test_what_was_written_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool, sizes: list[int], data: st.DataObject, buffer: int
) -> None:
    """Pages longer than the buffer, unaligned in memory and in length, read in any order."""
    with monkeypatch.context() as patch:
        patch.setattr(direct_file, "BUFFER_BYTES", buffer * ALIGNMENT)
        if refused:
            refuse_direct(patch)
        room = 3 * ALIGNMENT
        pages = [data.draw(st.binary(min_size=size, max_size=size)) for size in sizes]
        with DirectFile(tmp_path / "pages", room * len(pages)) as file:
            assert not (refused and file.direct)
            for index, page in enumerate(pages):
                file.write(index * room, torch.frombuffer(bytearray(b"x" + page), dtype=torch.uint8)[1:])
            for index in data.draw(st.permutations(range(len(pages)))):
                into = torch.zeros(len(pages[index]), dtype=torch.uint8)
                file.read(index * room, into)
                assert into.numpy().tobytes() == pages[index]


def test_pages_go_to_the_disk_and_come_from_there(tmp_path: Path) -> None:
    """The kernel counts what this process had from storage and gave to it."""
    counted = []
    with DirectFile(tmp_path / "pages", 1 << 20) as file:
        if not file.direct or not Path("/proc/self/io").exists():
            pytest.skip("the folder for temporary files takes no direct transfers")
        page = torch.zeros(300_000, dtype=torch.uint8)
        for move in (None, file.write, file.read):
            if move:
                move(0, page)
            io = Path("/proc/self/io").read_text().split()
            counted.append([int(io[io.index(f"{name}:") + 1]) for name in ("write_bytes", "read_bytes")])
    if counted[0] == counted[2]:
        pytest.skip("the folder for temporary files is in RAM")
    assert counted[1][0] - counted[0][0] >= 300_000
    assert counted[2][1] - counted[1][1] >= 300_000


def test_a_disk_without_room_is_refused_before_anything_is_paged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(direct_file.os, "posix_fallocate", full)
    with pytest.raises(UserError, match="no room for 1048576 B of pages"):
        DirectFile(tmp_path / "pages", 1_048_000)
    with pytest.raises(UserError, match="cannot page to it"):
        DirectFile(tmp_path / "no" / "pages", 1)


def test_a_file_that_ends_early_is_told_and_a_wrong_place_refused(tmp_path: Path) -> None:
    with DirectFile(tmp_path / "pages", 4 * ALIGNMENT) as file:
        assert not (tmp_path / "pages").exists(), "a killed process would leave it behind"
        os.ftruncate(file._file, ALIGNMENT)
        with pytest.raises(OSError, match="ends inside a page"):
            file.read(0, torch.zeros(2 * ALIGNMENT, dtype=torch.uint8))
        for offset in (1, 4 * ALIGNMENT):
            with pytest.raises(ValueError, match="are no place"):
                file.write(offset, torch.zeros(1, dtype=torch.uint8))


def test_a_file_of_somebody_elses_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pages").write_text("mine")
    with pytest.raises(UserError, match="cannot page to it"):
        DirectFile(tmp_path / "pages", ALIGNMENT)
    assert (tmp_path / "pages").read_text() == "mine"
