# SPDX-License-Identifier: Apache-2.0
"""``poet-harness arduino``: the core as an Arduino library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import Json

NAME = "arduino"


def command(
    libraries: Annotated[Path, typer.Argument(help="Folder of Arduino's libraries: ~/Arduino/libraries, say.")],
    as_json: Json = False,
) -> None:
    """Write poet's core into a folder of Arduino libraries, with two examples.

    The network that a sketch trains is a second library there: OUT/NAME of poet-plan --library NAME --out OUT.
    """
    from ..arduino_library import write_arduino_library

    written = write_arduino_library(libraries)
    if as_json:
        from poet_profiles.program.json_output import print_json

        print_json({"library": str(written)})
        return
    print(f"wrote {written}/, an Arduino library")
