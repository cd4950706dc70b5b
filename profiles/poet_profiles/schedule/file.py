# SPDX-License-Identifier: Apache-2.0
"""Reading and writing the schedule, `poet-schedule/1` (docs/SPEC.md, section 4)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from poet_profiles.errors import FaultError
from poet_profiles.files.document_hash import document_hash
from poet_profiles.files.json_file import hash_in, of_format, read_document
from poet_profiles.files.whole_file import write_whole
from poet_profiles.schedule import Action, Objective, Schedule, Status, Step

FORMAT = "poet-schedule/1"


def read_schedule(path: Path) -> Schedule:
    """Read a schedule. Whether it is right for its graph is the verifier's to say.

    Raises
    ------
    UserError
        In one line: what is wrong, in which file and step, and what to do.
    """
    return read_document(path, schedule_from_document)


def write_schedule(schedule: Schedule, path: Path) -> None:
    """Write ``schedule`` as `poet-schedule/1`."""
    write_whole(path, json.dumps(document_of_schedule(schedule), indent=1) + "\n")


def schedule_hash(schedule: Schedule) -> str:
    """Hash of the steps and the graph that they are for, 16 hex digits: a board tells by it what it carries."""
    steps = [_step_document(step) for step in schedule.steps]
    return document_hash({"graph_hash": schedule.graph_hash, "steps": steps})


def schedule_from_document(document: Any) -> Schedule:
    """Build a schedule from parsed JSON; raises a fault that lacks only the file's name."""
    document = of_format(document, FORMAT)
    steps = document.get("steps")
    objective = _objective(document)
    if not isinstance(steps, list):
        raise FaultError('"steps" is missing or not a list')
    return Schedule(
        graph=str(document.get("graph", "")),
        graph_hash=hash_in(document, "graph_hash"),
        ram_budget_bytes=_bytes(document, "ram_budget_bytes", "the file"),
        deadline_s=None if document.get("deadline_s") is None else _number(document, "deadline_s"),
        steps=tuple(_step(entry, f"step {index}") for index, entry in enumerate(steps)),
        energy_j=_number(document, "energy_j"),
        time_s=_number(document, "time_s"),
        peak_bytes=_bytes(document, "peak_bytes", "the file"),
        arena_bytes=_bytes(document, "arena_bytes", "the file"),
        status=_status(document),
        bound_j=_number(document, "bound_j"),
        gap=_number(document, "gap"),
        objective=objective,
        bound_s=_number(document, "bound_s") if objective is Objective.TIME else None,
    )


def document_of_schedule(schedule: Schedule) -> dict[str, Any]:
    """The JSON form of a schedule."""
    by_time = {"objective": schedule.objective.value, "bound_s": schedule.bound_s}
    return {
        "format": FORMAT,
        "graph": schedule.graph,
        "graph_hash": schedule.graph_hash,
        "ram_budget_bytes": schedule.ram_budget_bytes,
        "deadline_s": schedule.deadline_s,
        "energy_j": schedule.energy_j,
        "time_s": schedule.time_s,
        "peak_bytes": schedule.peak_bytes,
        "arena_bytes": schedule.arena_bytes,
        "status": schedule.status.value,
        "bound_j": schedule.bound_j,
        "gap": schedule.gap,
        **(by_time if schedule.objective is Objective.TIME else {}),
        "steps": [_step_document(step) for step in schedule.steps],
    }


def _number(entry: dict[str, Any], key: str) -> float:
    value = entry.get(key)
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FaultError(f'"{key}" is {value!r}, not a finite number')
    return number


def _bytes(entry: dict[str, Any], key: str, where: str) -> int:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise FaultError(f'{where}: "{key}" is {value!r}; it must be a whole number of bytes, not negative')
    return value


def _status(entry: dict[str, Any]) -> Status:
    try:
        return Status(str(entry.get("status")))
    except ValueError:
        raise FaultError(f'"status" is {entry.get("status")!r}; it must be "optimal" or "feasible"') from None


def _objective(entry: dict[str, Any]) -> Objective:
    try:
        return Objective(str(entry.get("objective", Objective.ENERGY)))
    except ValueError:
        raise FaultError(f'"objective" is {entry["objective"]!r}; it must be "energy" or "time"') from None


def _step(entry: Any, where: str) -> Step:
    if not isinstance(entry, dict):
        raise FaultError(f"{where} is not a JSON object")
    try:
        action = Action(str(entry.get("do")))
    except ValueError:
        raise FaultError(f'{where}: "do" is {entry.get("do")!r}; it must be one of {", ".join(Action)}') from None
    target = entry.get("node")
    if not isinstance(target, str):
        raise FaultError(f'{where}: "node" is {target!r}, not an id')
    offsets = {target: _bytes(entry, "offset", where)} if "offset" in entry else _offsets(entry, where)
    workspace = _bytes(entry, "workspace_offset", where) if "workspace_offset" in entry else None
    return Step(action, target, offsets, workspace)


def _offsets(entry: dict[str, Any], where: str) -> dict[str, int]:
    offsets = entry.get("offsets", {})
    if not isinstance(offsets, dict):
        raise FaultError(f'{where}: "offsets" is not an object of value ids and offsets')
    return {value: _bytes(offsets, value, where) for value in offsets}


def _step_document(step: Step) -> dict[str, Any]:
    document: dict[str, Any] = {"do": step.do.value, "node": step.target}
    if list(step.offsets) == [step.target]:
        document["offset"] = step.offsets[step.target]
    elif step.offsets:
        document["offsets"] = dict(step.offsets)
    if step.workspace_offset is not None:
        document["workspace_offset"] = step.workspace_offset
    return document
