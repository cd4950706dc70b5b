# SPDX-License-Identifier: Apache-2.0
"""Plans without any step, and summaries of plans in a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poet_harness.plan_folder.plan import Plan
from poet_planner.report.summary import summarise
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import read_graph
from poet_profiles.plan_folder.beside import Inference
from poet_profiles.schedule import Schedule, Status
from poet_profiles.schedule.file import read_schedule


def idle(time_s: float = 0.0) -> Schedule:
    """A schedule that does nothing in that time."""
    return Schedule("made", "0" * 16, 2000, None, (), 0.0, time_s, 0, 0, Status.OPTIMAL, 0.0, 0.0)


def inference_of(*residents: Resident, time_s: float = 0.0, **more: Any) -> Inference:
    return Inference(Graph("made", (), residents=residents), idle(time_s), **more)


def plan_of(residents: Sequence[Resident] = (), **more: Any) -> Plan:
    graph = Graph("made", (), residents=tuple(residents))
    return Plan(graph=graph, schedule=idle(), residents=graph.residents, actions=(), **more)


def write_summary(folder: Path, **changes: Any) -> None:
    """The summary of the graph and schedule in a folder, with changes."""
    schedule = read_schedule(folder / "schedule.json")
    document = summarise(read_graph(folder / "graph.json"), schedule, schedule).document() | changes
    (folder / "summary.json").write_text(json.dumps(document))
