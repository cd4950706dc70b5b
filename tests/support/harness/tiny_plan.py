# SPDX-License-Identifier: Apache-2.0
"""A plan of a few steps for a simulated device, its data, and a device that is flashed with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.harness.simulated_device import SimulatedDevice

HASH = "0123456789abcdef"
# Of SCHEDULE below, as docs/SPEC.md states it.
SCHEDULE_HASH = "2f747a3f16e2fc99"
STEPS = 5
GRAPH: dict[str, Any] = {
    "format": "poet-graph/1",
    "name": "tiny",
    "nodes": [
        {
            **{
                "id": "a",
                "time_s": 1e-3,
                "energy_j": 1e-5,
                "bytes": 512,
                "op": "pointwise",
                "params": "size=128 steps=relu(y0,x0)",
            },
            **{"page_out_time_s": 2e-3, "page_out_energy_j": 4e-5, "page_in_time_s": 1e-3, "page_in_energy_j": 3e-5},
        },
        {"id": "all_gradients", "time_s": 0, "energy_j": 0, "bytes": 0},
    ],
    "edges": [["a", "all_gradients"]],
    "resident_bytes": 20,
    "residents": [
        {"id": "w", "kind": "parameter", "bytes": 8, "offset": 0, "shape": [2]},
        {"id": "w.grad", "kind": "gradient", "bytes": 4, "offset": 8, "shape": [1]},
        {"id": "input", "kind": "input", "bytes": 8, "offset": 12, "shape": [2]},
    ],
}
SCHEDULE: dict[str, Any] = {
    "format": "poet-schedule/1",
    "graph": "tiny",
    "graph_hash": HASH,
    "ram_budget_bytes": 2000,
    "deadline_s": None,
    "status": "optimal",
    "bound_j": 8e-5,
    "gap": 0.0,
    "steps": [
        {"do": "compute", "node": "a", "offset": 0},
        {"do": "page_out", "node": "a"},
        {"do": "free", "node": "a"},
        {"do": "page_in", "node": "a", "offset": 0},
        {"do": "compute", "node": "all_gradients"},
    ],
    "energy_j": 8e-5,
    "time_s": 4e-3,
    "peak_bytes": 1000,
    "arena_bytes": 512,
}
TICKS = (16_000, 32_000, 16_000)  # of the calls: no free, and nothing that only orders
BATCHES = np.arange(2 * STEPS, dtype=np.float32).reshape(STEPS, 2)


def write_plan(folder: Path) -> Path:
    """The plan's folder, with its data in ``data.npz``."""
    folder.mkdir()
    (folder / "graph.json").write_text(json.dumps(GRAPH))
    (folder / "schedule.json").write_text(json.dumps(SCHEDULE))
    np.savez(folder / "data.npz", w=np.array([1.0, 2.0], dtype=np.float32), input=BATCHES)
    return folder


def board(made: type[SimulatedDevice] = SimulatedDevice, **changes: Any) -> SimulatedDevice:
    return made(
        resident_bytes=(8, 4, 8),
        schedule_ticks=TICKS,
        **{"graph_hash": HASH, "schedule_hash": SCHEDULE_HASH, **changes},
    )
