# SPDX-License-Identifier: Apache-2.0
"""Where what can be made again is kept: the user's cache, or a folder for temporary files where there is none."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs


def cache_folder(name: str = "") -> Path:
    """A folder that the user alone can write, made if need be; ``name`` is a folder in it.

    A system without a writable home gets one among the temporary files, which lasts as long as those do.
    """
    for folder in (Path(platformdirs.user_cache_path("poet")), Path(tempfile.gettempdir()) / f"poet-{os.getuid()}"):
        wanted = folder / name
        # What is compiled is loaded from there: a folder that is another's may hold anything.
        if _is_kept_by_owner(folder.parent) and all(
            _is_own(level) for level in (*reversed(wanted.parents), wanted) if level.is_relative_to(folder)
        ):
            return wanted
    return Path(tempfile.mkdtemp(prefix="poet-"))


def _is_kept_by_owner(parent: Path) -> bool:
    """Whether nobody can put another folder in the place of one's own: not where all may rename what is there."""
    if not is_writable(parent):
        return False
    mode = parent.stat().st_mode
    return not mode & stat.S_IWOTH or bool(mode & stat.S_ISVTX)


def _is_own(folder: Path) -> bool:
    """Whether a folder, made where it is missing, is the user's, no link, and only the user can write there.

    One that its group can write, as an earlier version made it under a umask of 0002, is closed to the group.
    """
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & stat.S_IWOTH:
            return False
        if found.st_mode & stat.S_IWGRP:
            folder.chmod(0o700)
    except OSError:
        return False
    return is_writable(folder)


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which is made where it is missing.

    A relative path (``~/.cache`` of a user without a home) is none.
    """
    if not folder.is_absolute():
        return False
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
