"""Writing a file whole or not at all, so that a crash never leaves half a result."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from poet_profiles.errors import UserError


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it into place.

    Missing parent folders are made. Text is UTF-8.

    Raises
    ------
    OSError
        If the folder cannot be written; ``path`` is then as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """See, before long work begins, that `write_whole` will be able to write ``path``; missing parent folders are made.

    Raises
    ------
    UserError
        If it will not: ``path`` is a folder, its parent is none, or nothing can be written there.
    """
    if path.is_dir():
        raise UserError(f"{path}: is a folder; name a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.") as probe:
            probe.write(bytes(4096))
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); name another place") from error
