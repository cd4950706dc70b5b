# SPDX-License-Identifier: Apache-2.0
"""The version of this installation, which both programs tell."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def show_version(wanted: bool) -> None:
    """For an option ``--version``: print the version and end the program."""
    if wanted:
        try:
            print(f"poet {version('poet-edge')}")
        except PackageNotFoundError:
            print("poet, not installed: run from its sources")
        raise SystemExit(0)
