# SPDX-License-Identifier: Apache-2.0
"""The firmware's core as an Arduino library: the same files, where Arduino looks for them."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError
from poet_profiles.files.whole_file import naming
from poet_profiles.firmware.arduino import library_properties

from .firmware import find_project

MANIFEST = "library.properties"
IDENTITY = "src/sketch/identity.h"  # what a sketch says of its version
# What PoetBoard has beside the library for own applications.
SERVING = ("src/protocol", "src/bench", "boards/sketch")


def write_arduino_library(folder: Path) -> Path:
    """Write the library into a folder of libraries, in place of an earlier one. Where it is.

    Raises
    ------
    UserError
        If something else has its name there.
    """
    firmware = find_project() / "firmware"
    manifest: dict[str, Any] = json.loads((firmware / "library.json").read_text(encoding="utf-8"))
    properties = library_properties(manifest)
    target = folder / str(manifest["name"])
    if target.exists() and not _is_ours(target, properties):
        raise UserError(f"{target}: is something else than poet's library; move it, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    with naming(folder), tempfile.TemporaryDirectory(dir=folder, prefix=".poet-") as scratch:
        made = Path(scratch) / target.name
        digest = hashlib.sha256()
        for path, source in _files(firmware, manifest["build"]["srcFilter"]):
            (made / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, made / path)
            digest.update(path.encode() + b"\0" + source.read_bytes())
        (made / IDENTITY).write_text(f'#define POET_SKETCH_ID "{digest.hexdigest()[:12]}"\n', encoding="utf-8")
        (made / MANIFEST).write_text(properties, encoding="utf-8")
        if target.exists():
            target.rename(Path(scratch) / "earlier")
        made.rename(target)
    return target


def _is_ours(target: Path, properties: str) -> bool:
    """Whether another version of the library is there: its name and its author."""
    found = target / MANIFEST
    lines = found.read_text(encoding="utf-8", errors="replace").splitlines() if found.is_file() else []
    return all(line in lines for line in properties.splitlines() if line.startswith(("name=", "author=")))


def _files(firmware: Path, chosen: list[str]) -> Iterator[tuple[str, Path]]:
    """Each file's place in the library, and the file."""
    include, watch = firmware / "include", firmware / "examples" / "watch"
    for path in sorted(path for path in include.rglob("*") if path.is_file()):
        yield f"src/{path.relative_to(include).as_posix()}", path
    for part in (*(f"src/{name}" for name in re.findall(r"\+<(\w+)/>", " ".join(chosen))), *SERVING):
        for path in sorted((firmware / part).glob("*.[ch]*")):
            yield f"src/{path.name}" if path.name.startswith("Poet") else f"src/{path.parent.name}/{path.name}", path
    for path in (*sorted((watch / "src").glob("*.h*")), *sorted((watch / "arduino").iterdir())):
        yield f"examples/Watch/{path.name}", path
    yield "examples/Board/Board.ino", firmware / "examples" / "board" / "Board.ino"
    yield "examples/Gesture/Gesture.ino", firmware / "examples" / "gesture" / "Gesture.ino"
