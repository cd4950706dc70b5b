# SPDX-License-Identifier: Apache-2.0
"""Where what can be made again is kept: the user's cache, or a folder for temporary files where there is none."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


def cache_folder(name: str = "") -> Path:
    """A folder of the user's that can be written, made if need be; ``name`` is a folder in it.

    A system without a writable home gets one among the temporary files, which lasts as long as those do.
    """
    for folder in (Path(platformdirs.user_cache_path("poet")), Path(tempfile.gettempdir()) / f"poet-{os.getuid()}"):
        # A folder that is another's may hold anything.
        if is_writable(folder / name) and folder.stat().st_uid == os.getuid():
            return folder / name
    return Path(tempfile.mkdtemp(prefix="poet-"))


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
