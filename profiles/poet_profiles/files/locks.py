# SPDX-License-Identifier: Apache-2.0
"""Locks on files and folders, so that two programs never write one thing. A lock ends with the process that holds it.

Where a file system has none, or the system (Windows), programs go on without.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from poet_profiles.errors import UserError

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]


def lock(handle: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed.

    Parameters
    ----------
    shared : bool
        Together with others that share it.
    wait : bool
        Until nobody else has it.

    Returns
    -------
    bool or None
        Whether it is ours; None where there are no locks.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def held(path: Path, refusal: str, *, shared: bool = False, wait: bool = False) -> Iterator[None]:
    """Lock a file or folder that is there, as :func:`lock` does, for as long as the context lasts.

    Raises
    ------
    UserError
        If another has it: the path, and `refusal`.
    OSError
        If it cannot be opened.
    """
    if fcntl is None:
        yield
        return
    handle = _locked(path, shared, wait)
    if handle is None:
        raise UserError(f"{path}: {refusal}")
    try:
        yield
    finally:
        os.close(handle)


def _locked(path: Path, shared: bool, wait: bool) -> int | None:
    while True:
        handle = os.open(path, os.O_RDONLY)
        ours = lock(handle, shared=shared, wait=wait)
        if ours is None or (ours and is_at(path, handle)):
            return handle
        os.close(handle)
        if not wait:
            return None


def is_at(path: Path, handle: int) -> bool:
    """Whether an open file is still that of a path; who held it may have put another there."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except OSError:
        return False
