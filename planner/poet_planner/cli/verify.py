# SPDX-License-Identifier: Apache-2.0
"""`poet-plan verify`: replay a schedule from the contract alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Json


def verify(
    graph: Annotated[Path, typer.Argument(help="Costed graph, poet-graph/1.")],
    schedule: Annotated[Path, typer.Argument(help="Schedule, poet-schedule/1.")],
    as_json: Json = False,
) -> None:
    """Check what SCHEDULE claims, and compute nothing: order, RAM, offsets, energy, time, deadline."""
    from dataclasses import asdict

    from poet_profiles.graph.file import read_graph
    from poet_profiles.schedule.file import read_schedule

    from poet_planner.schedule.verify import verify as replay

    plan = read_schedule(schedule)
    report = replay(read_graph(graph), plan)
    if as_json:
        print_json(asdict(report))
    if not report.sound:
        more = f" (and {len(report.faults) - 1} more faults)" if len(report.faults) > 1 else ""
        raise UserError(f"{schedule}: {report.faults[0]}{more}; plan {graph} again")
    if not as_json:
        print(
            f"{schedule} is sound: {len(plan.steps)} steps, {report.energy_j:.6g} J in {report.time_s:.6g} s, "
            f"peak {report.peak_bytes} B of {plan.ram_budget_bytes} B"
        )
