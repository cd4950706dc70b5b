# SPDX-License-Identifier: Apache-2.0
"""`poet-plan report`: a plan as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError


def report(
    plan: Annotated[Path, typer.Argument(help="Folder of a plan.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML file.")] = Path("report.html"),
) -> None:
    """Write PLAN as one HTML file: summary, pictures, what is recomputed and paged and why.

    The file needs no network. Point at a picture to read it.
    """
    from poet_profiles.files.whole_file import check_writable, write_whole
    from poet_profiles.plan_folder import SCHEDULE_FILE, SUMMARY_FILE
    from poet_profiles.plan_folder.files import read_plan, there

    from poet_planner.report.page import page_text
    from poet_planner.schedule.store_all import store_all_schedule
    from poet_planner.schedule.verify import verify

    check_writable(out)
    read = read_plan(plan)
    replay = verify(read.graph, read.schedule)
    if not replay.sound:
        raise UserError(f"{plan / SCHEDULE_FILE}: {replay.faults[0]}; plan again")
    if read.summary is None or read.summary.energy_j != read.schedule.energy_j:
        raise UserError(f"{there(plan / SUMMARY_FILE)}: is another plan's; plan again")
    write_whole(out, page_text(read.graph, read.schedule, store_all_schedule(read.graph), read.summary))
    print(f"wrote {out}")
