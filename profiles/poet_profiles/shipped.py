# SPDX-License-Identifier: Apache-2.0
"""Where the files that come with poet lie: board descriptions, profiles, and the firmware's sources.

In the repository they stand in ``profiles/`` and ``firmware/``; in an installed wheel beside this module, where
``setup.py`` puts them.
"""

from __future__ import annotations

from pathlib import Path

from .errors import UserError

_HERE = Path(__file__).resolve().parent
_INSTALLED = _HERE / "shipped"

SHIPPED = _INSTALLED if _INSTALLED.is_dir() else _HERE.parent
PACKAGED_PROJECT = _HERE / "project"  # of a wheel
FIRMWARE = (PACKAGED_PROJECT if PACKAGED_PROJECT.is_dir() else _HERE.parents[1]) / "firmware"


def profile_names() -> list[str]:
    """Names of the shipped profiles, without ``.csv``."""
    return sorted(path.stem for path in SHIPPED.glob("*.csv"))


def shipped_profile(name: str) -> Path:
    """Path of a shipped profile."""
    path = SHIPPED / f"{name}.csv"
    if name not in profile_names():
        raise UserError(f"no profile named {name!r}; shipped are {', '.join(profile_names()) or 'none'}")
    return path
