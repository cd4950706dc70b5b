# SPDX-License-Identifier: Apache-2.0
"""What the harness needs of a plan's folder: graph, schedule, and a key of the summary (docs/SPEC.md, 3 and 4)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poet_profiles.document_hash import document_hash
from poet_profiles.errors import UserError
from poet_profiles.operators import parse_params

FORMATS = {"graph.json": "poet-graph/1", "schedule.json": "poet-schedule/1"}
# Operands that are integers: their place, and the parameter that says how many there are to choose from, None where any
# will do. Every other tensor is f32 (docs/SPEC.md, section 1).
CHOICES: dict[str, tuple[int, str | None]] = {
    "nll_loss": (1, "n"),
    "nll_loss_backward": (1, "n"),
    "embedding": (1, "v"),
    "embedding_backward": (1, "v"),
    "bernoulli": (0, None),
}
WORDS = 2**31
COPY = "strided_copy"
MOMENTUM = "sgd_momentum"
ADVANCE = "advance"


@dataclass(frozen=True)
class Resident:
    """A tensor with a fixed place in the board's RAM; its index in the protocol is its place in ``Plan.residents``.

    ``choices`` is 0 for f32; else the tensor is of i32, each from 0 to below that.
    """

    id: str
    kind: str
    bytes: int
    shape: tuple[int, ...]
    choices: int = 0


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
    ``firmware`` are the builds whose profile they rest on, as far as that is known. ``velocities`` are the ids of the
    states of descent with momentum, by the ids of their parameters; ``momentum`` is 0 without. ``generators`` are those
    of the states of random generators.
    """

    graph_hash: str
    schedule_hash: str
    residents: tuple[Resident, ...]
    actions: tuple[Action, ...]
    energy_j: float
    time_s: float
    peak_bytes: int
    firmware: tuple[str, ...] = ()
    velocities: Mapping[str, str] = field(default_factory=dict)
    momentum: float = 0.0
    generators: tuple[str, ...] = ()


def read_plan(folder: Path) -> Plan:
    """Read ``graph.json`` and ``schedule.json``.

    Raises
    ------
    UserError
        If one is missing, is of another format, or lacks what a board needs.
    """
    graph, schedule = (_read(folder / name, form) for name, form in FORMATS.items())
    try:
        choices = _choices(graph["nodes"])
        residents = tuple(
            Resident(entry["id"], entry["kind"], entry["bytes"], tuple(entry["shape"]), choices.get(entry["id"], 0))
            for entry in graph["residents"]
        )
        descents = [node for node in graph["nodes"] if node.get("op") == MOMENTUM]
        return Plan(
            graph_hash=schedule["graph_hash"],
            schedule_hash=document_hash({key: schedule[key] for key in ("graph_hash", "steps")}),
            residents=residents,
            actions=tuple(_actions(graph, schedule["steps"])),
            energy_j=schedule["energy_j"],
            time_s=schedule["time_s"],
            peak_bytes=schedule["peak_bytes"],
            firmware=_profiled_firmware(folder / "summary.json"),
            velocities={node["inputs"][1]: node["inputs"][2] for node in descents},
            generators=tuple(node["inputs"][0] for node in graph["nodes"] if node.get("op") == ADVANCE),
            momentum=parse_params(descents[0]["params"])["momentum_nano"] / 1e9 if descents else 0.0,
        )
    except KeyError as error:
        raise UserError(f"{folder}: {error.args[0]}: is missing from graph.json or schedule.json") from None
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise UserError(f"{folder}: graph.json or schedule.json is damaged ({error}); plan again") from None


def _choices(nodes: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many there are to choose from, by the id of each tensor of integers; through copies of them, too."""
    choices: dict[str, int] = {}
    for node in reversed(nodes):
        op, operands = node.get("op"), node.get("inputs", ())
        if op in CHOICES:
            place, parameter = CHOICES[op]
            number = parse_params(node["params"])[parameter] if parameter else WORDS
            choices[operands[place]] = min(number, choices.get(operands[place], number))
        elif op == COPY and node["results"][0] in choices:
            choices[operands[0]] = choices[node["results"][0]]
    return choices


def check_headers(folder: Path, plan: Plan) -> None:
    """Make sure that the C headers of a plan's folder are those of its graph and schedule.

    Raises
    ------
    UserError
        If one is missing or another plan's, or older than the hashes in it.
    """
    for name, member, wanted in (
        ("poet_model.h", "graph_hash", plan.graph_hash),
        ("poet_schedule.h", "graph_hash", plan.graph_hash),
        ("poet_schedule.h", "hash", plan.schedule_hash),
    ):
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            words = error.strerror if isinstance(error, OSError) else "is no text"
            raise UserError(f"{path}: {words}; make the plan with poet-plan --out {folder}") from None
        found = re.search(rf"\.{member} = UINT64_C\(0x([0-9a-f]{{16}})\)", text)
        if found is None or found[1] != wanted:
            has = f"the {member} {found[1]}" if found else f"no {member}"
            raise UserError(
                f"{path}: belongs to another plan than graph.json and schedule.json beside it: it has {has}, they have "
                f"{wanted}; plan again with poet-plan --out {folder}"
            )


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
