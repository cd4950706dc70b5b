"""The firmware's sources in an installed wheel, unpacked where PlatformIO can build them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from poet_profiles.cache import cache_folder

# ``setup.py`` puts them there; a clone has none.
PACKAGED = Path(__file__).resolve().parent / "project"


def unpacked_project() -> Path | None:
    """A copy in the user's cache of the sources that came with this installation; None in a clone.

    Other sources have another folder, so that nothing that was built from them is taken for these.
    """
    if not PACKAGED.is_dir():
        return None
    digest = hashlib.sha256()
    for path in sorted(path for path in PACKAGED.rglob("*") if path.is_file()):
        digest.update(path.relative_to(PACKAGED).as_posix().encode() + b"\0" + path.read_bytes())
    folder = cache_folder("firmware") / digest.hexdigest()[:16]
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            copied = shutil.copytree(PACKAGED, Path(scratch) / "project")
            with suppress(OSError):  # another process was first
                copied.rename(folder)
    return folder
