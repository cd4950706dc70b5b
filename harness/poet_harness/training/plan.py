"""What the harness needs of a plan's folder: graph, schedule, and a key of the summary (docs/SPEC.md, 3 and 4)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poet_profiles.errors import UserError

FORMATS = {"graph.json": "poet-graph/1", "schedule.json": "poet-schedule/1"}


@dataclass(frozen=True)
class Resident:
    """A tensor with a fixed place in the board's RAM; its index in the protocol is its place in ``Plan.residents``."""

    id: str
    kind: str
    bytes: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Action:
    """One step of the schedule with its predicted cost; ``op`` is empty for what computes nothing."""

    do: str
    name: str
    op: str
    time_s: float
    energy_j: float

    @property
    def is_marked(self) -> bool:
        """Whether the board raises its window line for it when it traces."""
        return self.do in ("page_in", "page_out") or (self.do == "compute" and bool(self.op))


@dataclass(frozen=True)
class Plan:
    """A schedule with the graph it was made for. ``energy_j``, ``time_s`` and ``peak_bytes`` are predictions.

    ``firmware`` are the builds whose profile they rest on, as far as that is known.
    """

    graph_hash: str
    residents: tuple[Resident, ...]
    actions: tuple[Action, ...]
    energy_j: float
    time_s: float
    peak_bytes: int
    firmware: tuple[str, ...] = ()


def read_plan(folder: Path) -> Plan:
    """Read ``graph.json`` and ``schedule.json``.

    Raises
    ------
    UserError
        If one is missing, is of another format, or lacks what a board needs.
    """
    graph, schedule = (_read(folder / name, form) for name, form in FORMATS.items())
    try:
        nodes = {node["id"]: node for node in graph["nodes"]}
        values = {value["id"]: value for node in graph["nodes"] for value in node.get("outputs", [node])}
        residents = tuple(
            Resident(entry["id"], entry["kind"], entry["bytes"], tuple(entry["shape"])) for entry in graph["residents"]
        )
        return Plan(
            graph_hash=schedule["graph_hash"],
            residents=residents,
            actions=tuple(_action(step, nodes, values) for step in schedule["steps"]),
            energy_j=schedule["energy_j"],
            time_s=schedule["time_s"],
            peak_bytes=schedule["peak_bytes"],
            firmware=_profiled_firmware(folder / "summary.json"),
        )
    except KeyError as error:
        raise UserError(f"{folder}: {error.args[0]}: is missing from graph.json or schedule.json") from None


def _action(step: Mapping[str, Any], nodes: Mapping[str, Any], values: Mapping[str, Any]) -> Action:
    do, name = step["do"], step["node"]
    if do == "compute":
        node = nodes[name]
        return Action(do, name, node.get("op") or "", node["time_s"], node["energy_j"])
    if do == "free":
        return Action(do, name, "", 0.0, 0.0)
    value = values[name]
    return Action(do, name, do, value.get(f"{do}_time_s", math.nan), value.get(f"{do}_energy_j", math.nan))


def _profiled_firmware(path: Path) -> tuple[str, ...]:
    """Nothing for a plan without a summary, which runs all the same."""
    if not path.is_file():
        return ()
    try:
        return tuple(json.loads(path.read_text(encoding="utf-8")).get("firmware", ()))
    except (ValueError, AttributeError, TypeError) as error:
        raise UserError(f"{path}: not a summary of a plan: {error}") from None


def _read(path: Path, form: str) -> Any:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; make the plan with poet-plan --out {path.parent}") from None
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != form:
        raise UserError(f"{path}: format: not a {form}")
    return content
