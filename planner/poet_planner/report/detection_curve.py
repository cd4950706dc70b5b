# SPDX-License-Identifier: Apache-2.0
"""What a detector finds against how often it is wrong: `poet-harness eval --curve`."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.errors import UserError
from poet_profiles.files.text_file import read_table, refuse_missing

from poet_planner.report.figures import COLOURS, INK, new_figure
from poet_planner.schedule.timeline import CostTerm

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def detection_curve(path: Path) -> Figure:
    """Recall by false accepts, as steps: nothing is known between two thresholds.

    Raises
    ------
    UserError
        If the file is no such table, or has no row.
    """
    try:
        table = csv.DictReader(StringIO(read_table(path)))
        wanted = ("recall", "rate", "unit", "there", "source")
        refuse_missing(path, table.fieldnames or (), wanted, "eval --curve writes one")
        cells = list(table)
        rows = [(float(row["rate"]), 100 * float(row["recall"])) for row in cells]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: is no curve of poet-harness eval --curve ({error})") from None
    if not rows:
        raise UserError(f"{path}: has no threshold to draw")
    figure, (axis,) = new_figure(6.4, 3.6)
    title = f"Detection: recall of {cells[0]['there']} by false accepts ({cells[0]['source']})"
    axis.set_title(title, fontsize=10, color=INK, loc="left", parse_math=False)
    # Nothing is accepted above the highest height, and from there on ever more.
    rates, shares = zip((0.0, 0.0), *rows, strict=True)
    axis.step(rates, shares, where="post", color=COLOURS[CostTerm.COMPUTE])
    axis.set_xscale("symlog", linthresh=min((rate for rate in rates if rate), default=1.0))
    axis.set_xlabel(f"false accepts {cells[0]['unit']}", fontsize=9, color=INK)
    axis.set_ylabel("found, %", fontsize=9, color=INK)
    axis.set_ylim(0, 102)
    axis.set_xlim(left=0)
    return figure
