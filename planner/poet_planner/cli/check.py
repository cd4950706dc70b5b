"""`poet-plan check`: run a plan in PyTorch and hold every bit against eager training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError


def check(
    graph: Annotated[Path, typer.Argument(help="Planned graph, poet-graph/1.")],
    schedule: Annotated[Path, typer.Argument(help="Schedule, poet-schedule/1.")],
    model: Annotated[str, typer.Option(help="The model that was planned: built-in, or module:callable.")],
    batch: Annotated[int | None, typer.Option(min=1, help="Batch size that was planned.")] = None,
    page_folder: Annotated[
        Path | None, typer.Option(help="Folder for the page file; default is the system's for temporary files.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Run SCHEDULE in PyTorch, paging to a file, and compare with eager training: every bit must be equal."""
    import json
    from dataclasses import asdict

    from poet_planner import models
    from poet_planner.graph_file import read_graph
    from poet_planner.schedule_file import read_schedule
    from poet_planner.tracing.check import check_plan
    from poet_planner.users_code import users_code

    loaded = models.load(model, batch)
    with users_code(loaded.name):
        report = check_plan(loaded, read_graph(graph), read_schedule(schedule), page_folder)
    if as_json:
        print(json.dumps(asdict(report), indent=1))
    if report.different:
        more = f" (and {len(report.different) - 1} more)" if len(report.different) > 1 else ""
        raise UserError(f"{schedule}: {report.different[0]}{more} differs from eager PyTorch's; report this as a bug")
    if not as_json:
        print(
            f"{schedule} gives eager PyTorch's loss, {report.gradients} gradients and {report.buffers} buffers bit for "
            f"bit: {report.steps} steps, {report.recomputations} recomputations, {report.page_outs} page-outs, "
            f"{report.page_ins} page-ins, values of at most {report.peak_bytes} B at once"
        )
