# SPDX-License-Identifier: Apache-2.0
"""`poet-plan check`: run a plan in PyTorch and hold every bit against eager training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from poet_profiles.errors import UserError
from poet_profiles.program.json_output import print_json

from poet_planner.cli.option_groups import Batch, Calibrate, FrozenLayers, Json, ModelName


def check(
    graph: Annotated[Path, typer.Argument(help="Planned graph, poet-graph/1.")],
    schedule: Annotated[Path, typer.Argument(help="Schedule, poet-schedule/1.")],
    model: ModelName,
    batch: Batch = None,
    page_folder: Annotated[
        Path | None, typer.Option(help="Folder for the page file; default is the system's for temporary files.")
    ] = None,
    frozen: FrozenLayers = None,
    calibrate: Calibrate = None,
    as_json: Json = False,
) -> None:
    """Run SCHEDULE with the model's own code, three steps, paging to a file: every bit has to be eager PyTorch's.

    With --frozen int8 it has to be that of the quantised graph, its operators in program order.
    """
    from dataclasses import asdict

    from poet_profiles.graph.file import read_graph
    from poet_profiles.graph.kept import FEATURE
    from poet_profiles.plan_folder.files import read_plan
    from poet_profiles.program.users_code import users_code
    from poet_profiles.schedule.file import read_schedule

    from poet_planner import models
    from poet_planner.planning.request import calibration
    from poet_planner.planning.training_graph import training_step
    from poet_planner.torch_reference.check import check_plan

    loaded, planned, steps = models.load(model, batch), read_graph(graph), read_schedule(schedule)
    on_features = any(one.kind == FEATURE for one in planned.residents)
    extraction = read_plan(graph.parent).extraction if on_features else None
    ranges = training_step(model, batch, None, calibration(frozen, calibrate)).int8_ranges
    page_folder = page_folder and page_folder.absolute()
    with users_code(loaded.name):
        report = check_plan(loaded, planned, steps, page_folder, ranges, extraction)
    what = "the quantised graph" if ranges else "eager PyTorch"
    if as_json:
        print_json(asdict(report))
    if report.different:
        more = f" (and {len(report.different) - 1} more)" if len(report.different) > 1 else ""
        raise UserError(
            f"{schedule}: {report.different[0]}{more} differs from {what}'s after step {report.step}; report "
            "this as a bug"
        )
    if not as_json:
        print(
            f"{schedule} trains as {what} does, bit for bit over {report.step} steps: loss, {report.gradients} "
            f"gradients, parameters and {report.buffers} buffers; in each step {report.steps} steps of the schedule, "
            f"{report.recomputations} recomputations, {report.page_outs} page-outs, {report.page_ins} page-ins, values "
            f"of at most {report.peak_bytes} B at once"
        )
