"""``poet-harness meters``: the power meters that poet knows, and which are connected."""

from __future__ import annotations

NAME = "meters"


def command() -> None:
    """List the known power meters and where each is connected."""
    from rich.table import Table

    from ..meters.registry import KINDS
    from .console import wide_console

    table = Table("--meter", "what it is", "windows from", "connected")
    for name, kind in KINDS.items():
        table.add_row(name, kind.title, kind.windows, ", ".join(kind.find()) or "-")
    wide_console().print(table)
    print("With --emulate the emulated meter is used.")
