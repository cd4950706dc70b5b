# SPDX-License-Identifier: Apache-2.0
"""A verified plan, and the folder that it is written into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule

from poet_planner.planning.form import Form
from poet_planner.report.summary import Summary
from poet_planner.schedule.extraction import Extraction
from poet_planner.schedule.inference import Inference

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from poet_runtime.program import Program

PROGRAM_FILE = "program.json"
FOLDERS_BESIDE = ("inference", "features", "feature_inference")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A schedule that has been verified, and what it is worth.

    Attributes
    ----------
    graph : Graph
        What was planned, with its costs.
    schedule : Schedule
        The steps of the training step, with static offsets.
    store_all : Schedule
        The store-all schedule, to compare with: no recomputation, no paging, in as much RAM as it needs.
    summary : Summary
        Energy, time and RAM of both, the bound, and what the costs rest on.
    form : Form
        What is resident in RAM, or is not counted there, and why; the RAM budget.
    why_no_headers : str or None
        What keeps the firmware from running the graph; None where it can.
    constants : mapping of str to array
        The data of the graph's constants, and frozen tensors of the model beside them, by id.
    program : Program or None
        What PyTorch runs of it, for a Linux board.
    why_no_program : str or None
        What keeps the program from being written to a file; None where it can.
    names : mapping of str to array
        By which a board's tensors become the model's `state_dict`; empty of a plan of a graph alone.
    inference : Inference or None
        A forward pass of one sample beside it, in the same RAM.
    extraction : Extraction or None
        What makes features beside a head's step, in the same RAM; None: the step is whole.
    why_no_inference : str or None
        What keeps there from being one; None where there is.
    """

    graph: Graph
    schedule: Schedule
    store_all: Schedule
    summary: Summary
    form: Form
    why_no_headers: str | None
    constants: Mapping[str, NDArray[Any]]
    program: Program | None = None
    why_no_program: str | None = None
    names: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inference: Inference | None = None
    extraction: Extraction | None = None
    why_no_inference: str | None = None

    def write(self, folder: str | Path, time_to_scale: bool = False, svg: bool = False) -> None:
        """Write ``graph.json``, ``schedule.json``, C headers if there can be any, ``summary.json``, and pictures.

        A graph with constants has their data beside it, ``constants.safetensors``, one of a model its names,
        ``state_dict.npz``, and one for a Linux board its operators, ``program.json``. Graph and schedule of an
        inference are in the folder ``inference``, those of what makes features in ``features``. Headers, program, such
        folders' files and pictures of an earlier plan are removed. Each file is written whole or not at all.

        Parameters
        ----------
        time_to_scale : bool
            Whether equal times are equally long in the picture of the schedule; or else each step has one row.
        svg : bool
            Whether the pictures are written as SVG, too.

        Raises
        ------
        UserError
            If the folder cannot be written, or the graph is too large for the headers' tables.
        """
        self.write_files(folder)
        self.draw(folder, time_to_scale, svg)

    def draw(self, folder: str | Path, time_to_scale: bool = False, svg: bool = False) -> None:
        """Write the pictures alone: see `write`."""
        from poet_planner.report.pictures import write_pictures

        write_pictures(self.graph, self.schedule, self.store_all, Path(folder), time_to_scale, svg, self.summary)

    def write_files(self, folder: str | Path) -> None:
        """Write all but the pictures: see `write`."""
        import json

        from poet_profiles.constants import write_constants
        from poet_profiles.graph.file import write_graph
        from poet_profiles.schedule.file import write_schedule
        from poet_profiles.state_names import write_names
        from poet_profiles.whole_file import write_whole

        from poet_planner.report.pictures import remove_pictures
        from poet_planner.schedule.c_headers import remove_headers, write_headers

        folder = Path(folder)
        remove_headers(folder)
        remove_pictures(folder)
        constants = {**self.constants, **(self.inference.constants if self.inference else {})}
        write_constants(constants, folder, self.schedule.graph_hash)
        write_names(self.names, folder, self.schedule.graph_hash)
        write_graph(self.graph, folder / "graph.json")
        write_schedule(self.schedule, folder / "schedule.json")
        if self.why_no_headers is None:
            write_headers(self.graph, self.schedule, folder, self.constants, self.inference, self.extraction)
        on_features = self.extraction.inference if self.extraction else None
        beside_it = (self.inference, self.extraction, on_features)
        for name, beside in zip(FOLDERS_BESIDE, beside_it, strict=True):
            for file in ("graph.json", "schedule.json"):
                (folder / name / file).unlink(missing_ok=True)
            if beside is not None:
                (folder / name).mkdir(exist_ok=True)
                write_graph(beside.graph, folder / name / "graph.json")
                write_schedule(beside.schedule, folder / name / "schedule.json")
        (folder / PROGRAM_FILE).unlink(missing_ok=True)
        if self.program is not None and self.why_no_program is None:
            from poet_runtime.program import write_program

            write_program(self.program, folder / PROGRAM_FILE)
        write_whole(folder / "summary.json", json.dumps(self.summary.document(), indent=1) + "\n")
