# SPDX-License-Identifier: Apache-2.0
"""Writing a file whole or not at all, so that a crash never leaves half a result, nor a full disk none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from poet_profiles.errors import UserError

from .locks import held, lock

PROBE_BYTES = 4096
# A temporary file: what mkstemp puts after the point has eight letters.
PREFIX, TEMPORARY = ".poet-", ".poet-????????"


def check_writable(path: Path, size_bytes: int = 0) -> None:
    """Make sure that a file can be written later, before the work begins whose result it is to hold.

    Its folder may be missing, and is not made. What a killed program left of a file in it is taken away.

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
        folder = next(folder for folder in path.absolute().parents if folder.exists())
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
            free_bytes = shutil.disk_usage(folder).free
        remove_leftovers(path.parent)
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
    with naming(path):
        if _is_device(path):
            path.write_bytes(data)
            return
        with replacing(path.resolve()) as (handle, _), os.fdopen(handle, "wb", closefd=False) as stream:
            stream.write(data)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What an `OSError` in this block is about: that of a full disk names no file, or a temporary one."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[tuple[int, Path]]:
    """An empty temporary file, open to be written, that takes the place of `path` at the end, if nothing was raised.

    Missing parent folders are made. The file is locked meanwhile: see :func:`remove_leftovers`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = _temporary(path.parent)
    try:
        yield handle, temporary
        os.fsync(handle)
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(handle)


def _temporary(folder: Path) -> tuple[int, Path]:
    """A new file, locked; another one, if it was taken for a leftover before it was."""
    while True:
        handle, name = tempfile.mkstemp(dir=folder, prefix=PREFIX)
        if lock(handle) is not False and os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Take away temporary files whose program was killed: those in a folder that nobody has locked."""
    for leftover in folder.glob(TEMPORARY):
        if leftover.is_symlink() or not leftover.is_file():
            continue
        with suppress(OSError), leftover.open("rb") as file:
            if lock(file.fileno()):
                leftover.unlink()


@contextmanager
def folder_made(folder: Path) -> Iterator[None]:
    """A folder that is there; what had to be made of it, and is empty at the end, is taken away."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); name another place") from None
    try:
        yield
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


@contextmanager
def folder_held(folder: Path) -> Iterator[None]:
    """A folder, as :func:`folder_made` makes it, that other commands are kept off."""
    with folder_made(folder), held(folder, "another command writes there; wait for its end, or name another folder"):
        yield


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
