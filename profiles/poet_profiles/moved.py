# SPDX-License-Identifier: Apache-2.0
"""Modules that have moved: an import by the former name says the present one."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Moved:
    """Asked last, when nothing else has found a module."""

    def __init__(self, package: str, now: Mapping[str, str]) -> None:
        self._now = {f"{package}.{former}": names for former, names in now.items()}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in self._now:
            raise ModuleNotFoundError(f"{name} has moved: {self._now[name]}", name=name)
        return None


def moved(package: str, now: Mapping[str, str]) -> None:
    """Let an import of a module that has moved say where it is.

    Parameters
    ----------
    package : str
        Whose modules they are.
    now : mapping of str to str
        By the former name of a module or a folder, without the package's: where it is now.
    """
    sys.meta_path.append(_Moved(package, now))
