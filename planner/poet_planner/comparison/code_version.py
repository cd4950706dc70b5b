# SPDX-License-Identifier: Apache-2.0
"""Which code made a plan."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# What a plan depends on beside graph, costs and limits.
_FOLDERS = ("comparison/methods", "schedule", "solve")
_SUFFIXES = {".py", ".c", ".h"}


@cache
def code_version() -> str:
    """The installed version, and a digest of the sources that plan: ``0.1.0+3fa85c2e``."""
    package = Path(__file__).resolve().parents[1]
    files = [file for folder in _FOLDERS for file in sorted((package / folder).rglob("*"))]
    sources = [file for file in files if file.suffix in _SUFFIXES]
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:8]
    try:
        return f"{version('poet-edge')}+{digest}"
    except PackageNotFoundError:
        return f"sources+{digest}"
