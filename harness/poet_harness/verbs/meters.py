# SPDX-License-Identifier: Apache-2.0
"""``poet-harness meters``: the power meters that poet knows, and which are connected."""

from __future__ import annotations

from .options import Json

NAME = "meters"


def command(as_json: Json = False) -> None:
    """List the known power meters and where each is connected."""
    from poet_profiles.program.json_output import print_json
    from rich.table import Table

    from ..meters.registry import KINDS
    from .console import wide_console

    if as_json:
        print_json(
            [
                {"name": name, "title": kind.title, "windows": kind.windows, "connected": kind.find()}
                for name, kind in KINDS.items()
            ]
        )
        return
    table = Table("--meter", "what it is", "windows from", "connected")
    for name, kind in KINDS.items():
        table.add_row(name, kind.title, kind.windows, ", ".join(kind.find()) or "-")
    wide_console().print(table)
    print("With --emulate the emulated meter is used.")
