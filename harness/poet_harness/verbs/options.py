# SPDX-License-Identifier: Apache-2.0
"""Options that several verbs have, with one name and one meaning. Those of a board are environment variables, too."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.program.json_output import alone

# Under the headings of the help.
connection_option = partial(typer.Option, rich_help_panel="Connection")
training_option = partial(typer.Option, rich_help_panel="Training")
data_set_option = partial(typer.Option, rich_help_panel="Data set")
validation_option = partial(typer.Option, rich_help_panel="Validation")
detection_option = partial(typer.Option, rich_help_panel="Detection")
rate_option = partial(typer.Option, rich_help_panel="Learning rate")
measured_option = partial(typer.Option, rich_help_panel="What is measured")
results_option = partial(typer.Option, rich_help_panel="Results")

BoardName = Annotated[
    str, connection_option("--board", "-b", envvar="POET_BOARD", help="Name (poet-harness boards) or .toml file.")
]
Port = Annotated[
    str | None,
    connection_option(
        envvar="POET_PORT",
        help="Device name, ssh:// or any pyserial URL (socket://, rfc2217://, spy://); if not given: a USB port; for a "
        "Linux board, here",
    ),
]
Emulate = Annotated[
    bool, connection_option("--emulate", envvar="POET_EMULATE", help="Emulated board; results are called emulated.")
]
Plan = Annotated[Path, typer.Option("--plan", help="Folder written by poet-plan.", exists=True, file_okay=False)]
Scale = Annotated[
    str | None,
    data_set_option(help="Of u8, i8 or i16 samples, (q - shift) * scale: a number, 1/255, or one a channel: 0.1,0.2."),
]
Shift = Annotated[str | None, data_set_option(help="See --scale; 0 if not given.")]
Json = Annotated[bool, results_option("--json", callback=alone, help="Print JSON, for programs.")]
