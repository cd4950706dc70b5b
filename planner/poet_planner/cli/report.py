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
    from poet_profiles.graph.file import read_graph
    from poet_profiles.schedule.file import read_schedule
    from poet_profiles.whole_file import check_writable, write_whole

    from poet_planner.report.page import page_text
    from poet_planner.report.summary import read_summary
    from poet_planner.schedule.store_all import store_all_schedule
    from poet_planner.schedule.verify import verify

    check_writable(out)
    graph, schedule = read_graph(plan / "graph.json"), read_schedule(plan / "schedule.json")
    replay = verify(graph, schedule)
    if not replay.sound:
        raise UserError(f"{plan / 'schedule.json'}: {replay.faults[0]}; plan again")
    summary = read_summary(plan / "summary.json")
    if summary.graph_hash != schedule.graph_hash or summary.energy_j != schedule.energy_j:
        raise UserError(f"{plan / 'summary.json'}: is another plan's; plan again")
    write_whole(out, page_text(graph, schedule, store_all_schedule(graph), summary))
    print(f"wrote {out}")
