# SPDX-License-Identifier: Apache-2.0
"""The firmware's sources in an installed wheel, unpacked where PlatformIO can build them."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

from poet_profiles.files.cache import cache_folder
from poet_profiles.shipped import PACKAGED_PROJECT as PACKAGED


def unpacked_project() -> Path | None:
    """A copy in the user's cache of the sources that came with this installation; None in a clone.

    Other sources have another folder, so that nothing that was built from them is taken for these.
    """
    if not PACKAGED.is_dir():
        return None
    sources = {path.relative_to(PACKAGED): path for path in sorted(PACKAGED.rglob("*")) if path.is_file()}
    digest = hashlib.sha256()
    for name, path in sources.items():
        digest.update(name.as_posix().encode() + b"\0" + path.read_bytes())
    folder = cache_folder("firmware") / digest.hexdigest()[:16]
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            project = Path(scratch) / "project"
            for name, path in sources.items():  # not their modes: an installation may be read-only
                (project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, project / name)
            try:
                project.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was first
                    raise
    return folder
