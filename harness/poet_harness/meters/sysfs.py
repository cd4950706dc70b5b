# SPDX-License-Identifier: Apache-2.0
"""Small files of the kernel: reading a number or a name from ``/sys``."""

from __future__ import annotations

from pathlib import Path

from poet_profiles.errors import NO_DEVICE, UserError


def text(path: Path) -> str:
    """Content of a file without white space at its ends; empty if there is none.

    Raises
    ------
    UserError
        With the cure, if the file is there but may not be read.
    """
    try:
        return path.read_text().strip()
    except PermissionError:
        raise UserError(f"{path}: may not be read; try: sudo chmod a+r {path}", NO_DEVICE) from None
    except OSError:
        return ""


def number(path: Path) -> float:
    """Number in a file.

    Raises
    ------
    OSError
        If the sensor is gone, or its driver reports an error.
    """
    content = path.read_text()
    try:
        return float(content)
    except ValueError:
        raise OSError(f"{path}: {content.strip()!r} is not a number") from None


def averaged(folder: Path) -> str:
    """Over what a hwmon driver averages, in words: ``samples`` and ``update_interval``; empty if it does not say."""
    samples, interval_ms = text(folder / "samples"), text(folder / "update_interval")
    words = [f"{samples} samples" if samples else "", f"every {interval_ms} ms" if interval_ms else ""]
    return " ".join(filter(None, words))
