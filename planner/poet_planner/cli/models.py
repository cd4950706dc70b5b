"""`poet-plan models`: the built-in models."""

from __future__ import annotations


def models() -> None:
    """List the built-in models; any other is named as module:callable."""
    from poet_planner.models import names

    for name in names():
        print(name)
