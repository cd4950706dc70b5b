# SPDX-License-Identifier: Apache-2.0
"""Small libraries in C: built by this computer's compiler once for a state of their sources, and kept in the cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from .errors import UserError

# A multiplication and an addition are not joined, which rounds once in place of twice: equal results on all processors.
FLAGS = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")


class NativeError(Exception):
    """A library is not there and cannot be built; in one line."""


def file_name(name: str, sources: Iterable[Path]) -> str:
    """The file of a library in a wheel: another for each state of the sources and flags."""
    parts = [f"{source.name}\0".encode() + source.read_bytes() for source in sorted(sources)]
    state = hashlib.sha256(b"\0".join([*parts, *(flag.encode() for flag in FLAGS)]))
    return f"{name}-{state.hexdigest()[:16]}.so"


def loaded(
    what: str,
    name: str,
    shipped: Path,
    sources: Sequence[Path],
    included: Sequence[Path] = (),
    flags: Sequence[str] = (),
) -> ctypes.CDLL:
    """The library that a wheel has in the folder ``shipped`` if it is of these sources, else that of `shared_library`.

    Raises
    ------
    UserError
        If there is none and it cannot be built: ``what`` that is.
    """
    in_wheel = shipped / file_name(name, [*sources, *included])
    if in_wheel.exists():
        with suppress(OSError):  # built on a newer system, it does not load on an older one
            return ctypes.CDLL(str(in_wheel))
    try:
        return ctypes.CDLL(str(shared_library(name, sources, included, flags)))
    except NativeError as error:
        raise UserError(
            f"{what} is not compiled here, and cannot be: {error}; or take poet's wheel for this platform"
        ) from None
    except OSError as error:
        raise UserError(f"{what}: its library cannot be loaded: {error}") from None


def shared_library(
    name: str, sources: Sequence[Path], included: Sequence[Path] = (), flags: Sequence[str] = ()
) -> Path:
    """The library of ``sources``, C files and headers: built where the cache has none of this state.

    C files that those include are ``included``, and compiled no second time.

    ``CC`` names the compiler, with arguments if need be. Where there is none any more, a library that one has built of
    this state does.

    Raises
    ------
    NativeError
        If there is no C compiler and no library, or it fails.
    """
    from poet_profiles.files.cache import cache_folder  # where a wheel is built, what it needs may not be installed

    state = [*sources, *included]
    try:
        command = compiler()
    except NativeError:
        kept = next(cache_folder().glob(file_name(f"{name}-*", state)), None)
        if kept is None or os.environ.get("CC"):
            raise
        return kept
    binary = Path(command[0]).resolve()
    made = binary.stat()
    key = hashlib.sha256(repr((command, str(binary), made.st_size, made.st_mtime_ns, platform.machine())).encode())
    library = cache_folder() / file_name(f"{name}-{key.hexdigest()[:8]}", state)
    if not library.exists():
        build(library, sources, flags)
    return library


def build(library: Path, sources: Sequence[Path], flags: Sequence[str] = ()) -> None:
    """Build a library. Whoever uses an earlier one of that name goes on with it."""
    command = compiler()
    # Another process may build it at this moment: each does so in a folder of its own.
    with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
        built = Path(scratch) / library.name
        files = [str(source) for source in sources if source.suffix == ".c"]
        ran = subprocess.run(
            [*command, *FLAGS, *flags, "-o", str(built), *files, "-lm"],
            capture_output=True,
            text=True,
            errors="replace",
        )
        if ran.returncode != 0:
            lines = [line for line in ran.stderr.splitlines() if "error" in line.lower()] or ran.stderr.splitlines()
            raise NativeError(f"{shlex.join(command)} failed: {' '.join([*lines, 'without a word'][0].split())}")
        built.replace(library)


def compiler() -> list[str]:
    """The compiler and its arguments."""
    wanted = shlex.split(os.environ.get("CC", "")) or ["cc"]
    found = shutil.which(wanted[0])
    if found is None:
        cure = "apt-get install gcc" if sys.platform == "linux" else "install one"
        raise NativeError(f"there is no C compiler ({wanted[0]}; CC names another): {cure}")
    return [found, *wanted[1:]]
