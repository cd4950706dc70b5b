# SPDX-License-Identifier: Apache-2.0
"""A verified plan, and the folder that it is written into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from poet_profiles.files.whole_file import write_whole
from poet_profiles.plan_folder import DATA_FILE, PROGRAM_FILE
from poet_profiles.plan_folder.files import PLAN_FILES, PlanFiles, write_plan
from poet_profiles.plan_folder.summary import Summary
from poet_profiles.schedule import Schedule

from poet_planner.planning.form import Form
from poet_planner.report.summary import inference_report
from poet_planner.schedule.c_headers import STREAM

if TYPE_CHECKING:
    from poet_runtime.program import Program


@dataclass(frozen=True, kw_only=True)
class Plan(PlanFiles):
    """A schedule that has been verified, and what it is worth.

    Attributes
    ----------
    summary : Summary
        Energy, time and RAM of it and of ``store_all``, the bound, and what the costs rest on.
    store_all : Schedule
        The store-all schedule, to compare with: no recomputation, no paging, in as much RAM as it needs.
    form : Form
        What is resident in RAM, or is not counted there, and why; the RAM budget.
    why_no_headers : str or None
        What keeps the firmware from running the graph; None where it can.
    program : Program or None
        What PyTorch runs of it, for a Linux board.
    why_no_program : str or None
        What keeps the program from being written to a file; None where it can.
    why_no_inference : str or None
        What keeps there from being one; None where there is.
    """

    summary: Summary
    form: Form
    store_all: Schedule
    why_no_headers: str | None
    program: Program | None = None
    why_no_program: str | None = None
    why_no_inference: str | None = None

    def write(self, folder: str | Path) -> None:
        """Write ``graph.json``, ``schedule.json``, ``summary.json``, pictures; C headers and ``plan.bin`` if it can.

        A graph with constants has their data beside it, ``constants.safetensors``, one of a model its names,
        ``state_dict.npz``, and one for a Linux board its operators, ``program.json``. Graph and schedule of an
        inference are in the folder ``inference``, those of what makes features in ``features``; ``stream`` is a folder
        like this one, with the stream's inference. Headers, program, such
        folders' files and pictures of an earlier plan are removed. Each file is written whole or not at all.

        Raises
        ------
        UserError
            If the folder cannot be written, or the graph is too large for the headers' tables.
        """
        self.write_files(folder)
        self.draw(folder)

    def draw(self, folder: str | Path) -> None:
        """Write the pictures alone: see `write`."""
        from poet_planner.report.pictures import write_pictures

        write_pictures(self.graph, self.schedule, self.store_all, Path(folder), self.summary)

    def write_files(self, folder: str | Path) -> None:
        """Write all but the pictures: see `write`."""
        from poet_planner.report.pictures import remove_pictures
        from poet_planner.schedule.c_headers import remove_headers, write_headers
        from poet_planner.schedule.data import plan_data

        folder = Path(folder)
        remove_headers(folder)
        remove_pictures(folder)
        for name in (PROGRAM_FILE, DATA_FILE):
            (folder / name).unlink(missing_ok=True)
        write_plan(self, folder)
        if self.why_no_headers is None:
            plans = (self.inference and replace(self.inference, stream=None), self.extraction)
            write_headers(self.graph, self.schedule, folder, self.constants, *plans)
            write_whole(folder / DATA_FILE, plan_data(self.graph, self.schedule, self.constants, *plans))
        if self.program is not None and self.why_no_program is None:
            from poet_runtime.program import write_program

            write_program(self.program, folder / PROGRAM_FILE)
        self._write_stream(folder / STREAM)

    def _write_stream(self, folder: Path) -> None:
        """A plan like this one whose inference is the stream's, to be flashed and evaluated in its place."""
        stream = self.inference.stream if self.inference else None
        if self.inference is None or stream is None:
            for file in PLAN_FILES:
                (folder / file).unlink(missing_ok=True)
            return
        inference = replace(self.inference, graph=stream.graph, schedule=stream.schedule, stream=None)
        extraction = self.extraction and replace(self.extraction, inference=None)
        folder.mkdir(parents=True, exist_ok=True)
        summary = replace(self.summary, inference=inference_report(inference))
        replace(self, inference=inference, extraction=extraction, summary=summary).write_files(folder)
