# SPDX-License-Identifier: Apache-2.0
"""Writing a file whole or not at all, so that a crash never leaves half a result, nor a full disk none."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from .errors import UserError

PROBE_BYTES = 4096


def check_writable(path: Path, size_bytes: int = 0) -> None:
    """Make sure that a file can be written later, before the work begins whose result it is to hold.

    Missing parent folders are made.

    Parameters
    ----------
    size_bytes : int
        About how large it will be.

    Raises
    ------
    UserError
        If it is a folder, its folder cannot be written, or the disk has not that much room.
    """
    try:
        if path.is_dir():
            raise UserError(f"{path}: is a folder; name a file in it")
        if _is_device(path):
            with path.open("ab"):
                return
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            probe.write(bytes(PROBE_BYTES))
            free_bytes = shutil.disk_usage(path.parent).free
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror}); name another place") from None
    if free_bytes < size_bytes:
        raise UserError(f"{path}: will take {size_bytes:,} bytes, its disk has {free_bytes:,} left; name another place")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write ``content`` to a temporary file beside ``path``, then rename it into place.

    Missing parent folders are made. Text is UTF-8. What a link points to is written, and a device (``/dev/null``) stays
    one.

    Raises
    ------
    OSError
        If the folder cannot be written; ``path`` is then as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    if _is_device(path):
        path.write_bytes(data)
        return
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".poet-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_or_rescue(path: Path, content: str | bytes) -> str:
    """Write a result that cannot be made again; where ``path`` can no longer be written, in a folder that can.

    Returns
    -------
    str
        Empty, or what went wrong and where the result is now, for the user to read.

    Raises
    ------
    OSError
        If no folder can be written.
    """
    try:
        write_whole(path, content)
    except OSError as error:
        elsewhere = _rescued(path.name, content)
        if elsewhere is None:
            raise
        return f"{path}: could not be written ({error.strerror}); what it was to hold is in {elsewhere}"
    return ""


def _rescued(name: str, content: str | bytes) -> Path | None:
    for folder in dict.fromkeys((Path(tempfile.gettempdir()), Path.cwd(), Path("/var/tmp"), Path("/dev/shm"))):
        with suppress(OSError):
            place = Path(tempfile.mkdtemp(prefix="poet-rescued-", dir=folder)) / name
            write_whole(place, content)
            return place
    return None


def _is_device(path: Path) -> bool:
    """Whether ``path`` is there and no plain file, like ``/dev/null`` or a pipe."""
    return path.exists() and not path.is_file()
