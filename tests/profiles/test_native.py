# SPDX-License-Identifier: Apache-2.0
"""Libraries in C: built once for a state of the sources and a compiler, whole or not at all."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from poet_profiles.native import NativeError, compiler, file_name, shared_library


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CC", raising=False)
    return tmp_path / "cache" / "poet"


def sources(folder: Path, number: int = 1) -> list[Path]:
    """A function ``number`` that gives it."""
    folder.mkdir(exist_ok=True)
    (folder / "number.h").write_text(f"#ifndef NUMBER\n#define NUMBER {number}\n#endif\n")
    (folder / "number.c").write_text('#include "number.h"\nint number(void)\n{\n    return NUMBER;\n}\n')
    return sorted(folder.iterdir())


def number(library: Path) -> int:
    return int(ctypes.CDLL(str(library)).number())


def build_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_options: pytest.fail("something was built"))


def test_what_was_built_is_kept_for_each_copy_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second clone, and one that was moved."""
    built = shared_library("number", sources(tmp_path / "one", 7))
    assert number(built) == 7
    build_no_more(monkeypatch)
    assert shared_library("number", sources(tmp_path / "two", 7)) == built
    moved = (tmp_path / "one").rename(tmp_path / "three")
    assert shared_library("number", sorted(moved.iterdir())) == built


def test_a_changed_header_and_another_compiler_are_other_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = shared_library("number", sources(tmp_path / "one", 7))
    changed = shared_library("number", sources(tmp_path / "one", 8))
    monkeypatch.setenv("CC", "cc -DNUMBER=9")
    with_argument = shared_library("number", sources(tmp_path / "one", 8))
    assert [number(library) for library in (built, changed, with_argument)] == [7, 8, 9]


def test_a_file_that_goes_has_another_name_without_it(tmp_path: Path) -> None:
    both = sources(tmp_path / "one")
    assert file_name("number", both) == file_name("number", both[::-1]) != file_name("number", both[:1])


def test_processes_that_build_at_once_all_have_it_whole(tmp_path: Path, cache: Path) -> None:
    sources(tmp_path / "one", 5)
    code = (
        "import ctypes, pathlib, sys; from poet_profiles.native import shared_library\n"
        "library = shared_library('number', sorted(pathlib.Path(sys.argv[1]).iterdir()))\n"
        "print(ctypes.CDLL(str(library)).number())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "one")]
    at_once = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in at_once] == ["5\n"] * 3
    assert len(list(cache.iterdir())) == 1


def test_a_library_in_use_is_not_written_over(tmp_path: Path) -> None:
    """To write over a file that is mapped ends the process that maps it."""
    from poet_profiles.native import build

    library = tmp_path / "number.so"
    build(library, sources(tmp_path / "one", 1))
    mapped, inode = ctypes.CDLL(str(library)), library.stat().st_ino
    build(library, sources(tmp_path / "one", 2))
    assert library.stat().st_ino != inode
    assert mapped.number() == 1


def test_no_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NativeError, match=r"^there is no C compiler \(cc; CC names another\): [^\n]+$"):
        compiler()
    monkeypatch.setenv("CC", "no-such-cc -O3")
    with pytest.raises(NativeError, match=r"no C compiler \(no-such-cc;"):
        shared_library("number", sources(tmp_path / "one"))


def test_a_library_that_is_there_needs_no_compiler_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = shared_library("number", sources(tmp_path / "one", 4))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shared_library("number", sources(tmp_path / "two", 4)) == built
    with pytest.raises(NativeError, match="no C compiler"):
        shared_library("number", sources(tmp_path / "one", 5))
    monkeypatch.setenv("CC", "no-such-cc")  # somebody asks for this one
    with pytest.raises(NativeError, match="no-such-cc"):
        shared_library("number", sources(tmp_path / "two", 4))


def test_a_compiler_that_fails_is_named_with_its_first_error(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "one"
    sources(folder)
    (folder / "number.c").write_text("int number(void)\n{\n    return first;\n    return second;\n}\n")
    with pytest.raises(NativeError, match=r"^\S*cc failed: [^\n]*number\.c:3:\d+: error: [^\n]*first[^\n]*$"):
        shared_library("number", sorted(folder.iterdir()))
    assert not list(cache.iterdir())


def test_a_compiler_that_says_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(0o755)
    monkeypatch.setenv("CC", str(silent))
    with pytest.raises(NativeError, match=rf"^{silent} failed: without a word$"):
        shared_library("number", sources(tmp_path / "one"))
