# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

BoardName = Annotated[str, typer.Option("--board", "-b", help="Board name (poet-harness boards) or a .toml file.")]
Port = Annotated[
    str | None,
    typer.Option(
        help="Device name, ssh:// or any pyserial URL (socket://, rfc2217://, spy://); if not given: a USB port; for a "
        "Linux board, here"
    ),
]
Emulate = Annotated[bool, typer.Option("--emulate", help="Use the emulated board; results are called emulated.")]


def _known_meter(name: str | None) -> str | None:
    """Refuse a name that no meter has before a board is opened, or firmware built for it."""
    if name is None:
        return None
    from ..meters.registry import checked

    return checked(name)


MeterName = Annotated[
    str | None,
    typer.Option(
        "--meter",
        callback=_known_meter,
        help="NAME or NAME:ADDRESS (poet-harness meters); the connected one if not given.",
    ),
]
Card = Annotated[
    Path | None,
    typer.Option(help="Card image for --emulate and for this computer, kept for later; a fresh one if not given."),
]
CardPauses = Annotated[
    int | None,
    typer.Option(
        "--card-pauses",
        min=0,
        metavar="SEED",
        help="With --emulate: the card tidies up for 20 to 100 ms, once in 2,000 to 10,000 blocks that it writes.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Plan = Annotated[Path, typer.Option("--plan", help="Folder written by poet-plan.", exists=True, file_okay=False)]
