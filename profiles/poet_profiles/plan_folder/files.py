# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the folder of a plan (docs/SPEC.md, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.graph.constants import CONSTANTS_FILE, read_constants, write_constants
from poet_profiles.graph.file import read_graph, write_graph
from poet_profiles.graph.kept import FEATURE, kept_constants
from poet_profiles.graph.state_names import STATE_DICT_FILE, read_names, write_names
from poet_profiles.plan_folder import DATA_FILE, GRAPH_FILE, PROGRAM_FILE, SCHEDULE_FILE, SUMMARY_FILE
from poet_profiles.plan_folder.beside import Extraction, Inference, PlanBeside, Scheduled
from poet_profiles.plan_folder.summary import Summary, read_summary, write_summary
from poet_profiles.schedule import Action, Schedule
from poet_profiles.schedule.file import read_schedule, write_schedule

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADERS = ("poet_model.h", "poet_schedule.h", "poet_constants.h")
INFERENCE, EXTRACTION, FROM_FEATURES = FOLDERS_BESIDE = ("inference", "features", "feature_inference")
PLAN_FILES = (
    *(GRAPH_FILE, SCHEDULE_FILE, SUMMARY_FILE, PROGRAM_FILE, CONSTANTS_FILE, STATE_DICT_FILE, *HEADERS, DATA_FILE),
    *(f"{folder}/{file}" for folder in FOLDERS_BESIDE for file in (GRAPH_FILE, SCHEDULE_FILE)),
)


@dataclass(frozen=True, kw_only=True)
class PlanFiles(Scheduled):
    """What a plan's folder says, without C headers, pictures and the program of a Linux board.

    Attributes
    ----------
    summary : Summary or None
        What the plan costs and what that rests on; None if the file is not there.
    constants : mapping of str to array
        The data of the graph's constants, and frozen tensors of the model beside them, by id.
    names : mapping of str to array
        By which a board's tensors become the model's `state_dict`; empty of a plan of a graph alone.
    inference : Inference or None
        A forward pass of one sample beside it, in the same RAM.
    extraction : Extraction or None
        What makes features beside a head's step, in the same RAM; None: the step is whole.
    """

    summary: Summary | None = None
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    names: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    inference: Inference | None = None
    extraction: Extraction | None = None


def write_plan(plan: PlanFiles, folder: Path) -> None:
    """Write a plan's files, each whole or not at all.

    Files of an earlier plan that this one lacks are removed.
    """
    inference, extraction, hash = plan.inference, plan.extraction, plan.schedule.graph_hash
    write_constants({**plan.constants, **(inference.constants if inference else {})}, folder, hash)
    write_names(plan.names, folder, hash)
    _write_pair(plan.graph, plan.schedule, folder)
    from_features = extraction.inference if extraction else None
    for name, beside in zip(FOLDERS_BESIDE, (inference, extraction, from_features), strict=True):
        if beside is not None:
            _write_pair(beside.graph, beside.schedule, folder / name)
        else:
            for file in (GRAPH_FILE, SCHEDULE_FILE):
                (folder / name / file).unlink(missing_ok=True)
    if plan.summary is not None:
        write_summary(plan.summary, folder / SUMMARY_FILE)


def read_plan(folder: Path) -> PlanFiles:
    """Read a plan's files.

    Raises
    ------
    UserError
        In one line: which file is missing, damaged or another plan's, and what to do.
    """
    graph, schedule = _read_pair(folder)
    path = folder / SUMMARY_FILE
    summary = read_summary(path) if path.is_file() else None
    if summary is not None and summary.graph_hash != schedule.graph_hash:
        raise UserError(f"{path}: is another plan's; plan again with poet-plan --out {folder}")
    has_constants = graph.constants or kept_constants(graph)
    return PlanFiles(
        graph=graph,
        schedule=schedule,
        summary=summary,
        constants=read_constants(there(folder / CONSTANTS_FILE), graph) if has_constants else {},
        names=read_names(folder, schedule.graph_hash),
        inference=_inference(folder, graph, summary),
        extraction=_extraction(folder, graph, summary),
    )


def there(path: Path) -> Path:
    """The path of a file of a plan; a `UserError` if there is none."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; make the plan with poet-plan --out {path.parent}")
    return path


def _write_pair(graph: Graph, schedule: Schedule, folder: Path) -> None:
    write_graph(graph, folder / GRAPH_FILE)
    write_schedule(schedule, folder / SCHEDULE_FILE)


def _read_pair(folder: Path) -> tuple[Graph, Schedule]:
    graph, schedule = read_graph(there(folder / GRAPH_FILE)), read_schedule(there(folder / SCHEDULE_FILE))
    nodes = {node.id for node in graph.nodes}
    values = {value.id for node in graph.nodes for value in node.values}
    for number, step in enumerate(schedule.steps):
        if step.target not in (nodes if step.do is Action.COMPUTE else values):
            raise UserError(
                f"{folder / SCHEDULE_FILE}: step {number}: {step.target} is missing from graph.json beside it; plan "
                "again"
            )
    return graph, schedule


def _beside(folder: Path, above: Graph) -> PlanBeside | None:
    """The plan in a folder whose residents begin with those of the plan above it; None if there is none."""
    if not all((folder / name).is_file() for name in (GRAPH_FILE, SCHEDULE_FILE)):
        return None
    beside = PlanBeside(*_read_pair(folder))
    if beside.graph.residents[: len(above.residents)] != above.residents:
        raise _strange(folder)
    return beside


def _strange(folder: Path) -> UserError:
    return UserError(f"{folder / GRAPH_FILE}: belongs to another plan than the graph.json above it; plan again")


def _inference(folder: Path, training: Graph, summary: Summary | None) -> Inference | None:
    beside, said = _beside(folder / INFERENCE, training), summary.inference if summary else None
    if beside is None:
        return None
    found = Inference(beside.graph, beside.schedule)
    if [one.kind for one in found.own(training)[-1:]] != ["output"]:
        raise _strange(folder / INFERENCE)
    if said is None or said.graph_hash != beside.schedule.graph_hash:
        return found
    if said.loss is not None and not said.loss.reads(found.output.shape):
        raise UserError(f"{folder / SUMMARY_FILE}: inference.loss: is none that poet knows; plan again")
    return Inference(beside.graph, beside.schedule, {}, said.loss, said.classes)


def _extraction(folder: Path, head: Graph, summary: Summary | None) -> Extraction | None:
    features = [one for one in head.residents if one.kind == FEATURE]
    if not features:
        return None
    graph, schedule = _read_pair(folder / EXTRACTION)
    said, samples = summary.features if summary else None, features[0].shape[0] if features[0].shape else 0
    is_this = graph.residents == head.residents and said is not None and said.graph_hash == schedule.graph_hash
    if said is None or not is_this or samples % said.at_once:
        raise _strange(folder / EXTRACTION)
    beside = _beside(folder / FROM_FEATURES, graph)
    return Extraction(graph, schedule, samples, said.at_once, beside, said.read_time_s, said.read_energy_j)
