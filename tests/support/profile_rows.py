# SPDX-License-Identifier: Apache-2.0
"""A profile that has all rows of a step, whatever they cost."""

from __future__ import annotations

from pathlib import Path

from poet_planner.planning.training_graph import TrainingStep
from poet_profiles.boards import load_board
from poet_profiles.firmware.operators import dtype_of

SHIPPED = Path(__file__).resolve().parents[2] / "profiles/mkr1000.csv"


def profile_of(step: TrainingStep, path: Path) -> Path:
    """A row for each operator of a step on the MKR1000, and of its inference."""
    graph = step.graph(load_board("mkr1000"))
    nodes = (*graph.nodes, *step.inference(graph).graph.nodes)
    wanted = dict.fromkeys((one.operation.op, one.operation.params) for one in nodes if one.operation)
    shipped = SHIPPED.read_text().splitlines()
    header = shipped[0].split(",")
    row = dict.fromkeys(header, "") | {"board": "mkr1000", "time_s": "1e-3", "time_s_std": "0", "energy_j": "1e-5"}
    row |= {"energy_j_std": "0", "idle_power_w": "0.01", "bytes": "64", "workspace_bytes": "0", "repeats": "5"}
    row |= {"slice": "1", "source": "emulated", "voltage_v": "3.3", "firmware": "none"}
    rows = ({**row, "op": op, "params": params, "dtype": dtype_of(op)} for op, params in wanted)
    path.write_text("\n".join((shipped[0], *(",".join(one[name] for name in header) for one in rows))) + "\n")
    return path
