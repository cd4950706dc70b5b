"""What the harness needs of a plan's folder: graph, schedule, and a key of the summary (docs/SPEC.md, 3 and 4)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poet_profiles.document_hash import document_hash
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
    """One step of the schedule with its predicted cost; ``op`` and ``params`` are empty for what computes nothing.

    ``peak_bytes`` is the most RAM in use during it, residents included.
    """

    do: str
    name: str
    op: str
    time_s: float
    energy_j: float
    peak_bytes: int
    params: str = ""

    @property
    def is_marked(self) -> bool:
        """Whether the board raises its window line for it when it traces."""
        return self.do in ("page_in", "page_out") or (self.do == "compute" and bool(self.op))


@dataclass(frozen=True)
class Plan:
    """A schedule with the graph it was made for, and the hash of either.

    ``energy_j``, ``time_s`` and ``peak_bytes`` are predictions.
    ``firmware`` are the builds whose profile they rest on, as far as that is known.
    """

    graph_hash: str
    schedule_hash: str
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
        residents = tuple(
            Resident(entry["id"], entry["kind"], entry["bytes"], tuple(entry["shape"])) for entry in graph["residents"]
        )
        return Plan(
            graph_hash=schedule["graph_hash"],
            schedule_hash=document_hash({key: schedule[key] for key in ("graph_hash", "steps")}),
            residents=residents,
            actions=tuple(_actions(graph, schedule["steps"])),
            energy_j=schedule["energy_j"],
            time_s=schedule["time_s"],
            peak_bytes=schedule["peak_bytes"],
            firmware=_profiled_firmware(folder / "summary.json"),
        )
    except KeyError as error:
        raise UserError(f"{folder}: {error.args[0]}: is missing from graph.json or schedule.json") from None


def _actions(graph: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Iterator[Action]:
    nodes = {node["id"]: node for node in graph["nodes"]}
    values = {value["id"]: value for node in graph["nodes"] for value in _values(node)}
    in_ram_bytes = graph["resident_bytes"]
    for step in steps:
        do, name = step["do"], step["node"]
        if do == "compute":
            node = nodes[name]
            made_bytes = sum(_padded(value["bytes"]) for value in _values(node))
            peak_bytes = in_ram_bytes + made_bytes + _padded(node.get("workspace_bytes", 0))
            op, params = node.get("op") or "", node.get("params") or ""
            yield Action(do, name, op, node["time_s"], node["energy_j"], peak_bytes, params)
            in_ram_bytes += made_bytes
        elif do == "free":
            yield Action(do, name, "", 0.0, 0.0, in_ram_bytes)
            in_ram_bytes -= _padded(values[name]["bytes"])
        else:
            value = values[name]
            in_ram_bytes += _padded(value["bytes"]) if do == "page_in" else 0
            time_s, energy_j = (value.get(f"{do}_{cost}", math.nan) for cost in ("time_s", "energy_j"))
            yield Action(do, name, do, time_s, energy_j, in_ram_bytes)


def _values(node: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What a node yields: its outputs, or else one value named like itself."""
    values: Sequence[Mapping[str, Any]] = node.get("outputs", [node])
    return values


def _padded(size: int) -> int:
    """Bytes in the arena, whose blocks are multiples of 4."""
    return -(-size // 4) * 4


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
