# SPDX-License-Identifier: Apache-2.0
"""A plan that keeps a parameter and its batches on the card, its data, and a simulated device that has it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from poet_profiles.graph import Graph
from poet_profiles.graph.file import graph_hash, write_graph
from poet_profiles.protocol.f32 import f32_of_bits
from poet_profiles.schedule.file import read_schedule, schedule_hash

from tests.support.graphs.kept_graphs import kept_step
from tests.support.harness.simulated_device import SimulatedDevice

W, B = np.array([1.5, -2.0], np.float32), np.array([0.25, 4.0], np.float32)
X = np.arange(6, dtype=np.float32).reshape(3, 2)
COUNTS = np.arange(10)
TABLE = np.array([["layer.weight", "w", ""], ["layer.bias", "b", ""], ["steps", "steps", ""]])
STEPS = 10  # of the schedule


def write_kept_plan(plan: Path, graph: Graph | None = None) -> Path:
    """The plan's folder, with its data in ``data.npz``; one parameter is in RAM, and one value is paged."""
    graph = graph or kept_step()
    plan.mkdir()
    write_graph(graph, plan / "graph.json")
    steps: list[dict[str, Any]] = [
        {
            **{"do": "compute", "node": node.id},
            **({"offset": 8 * number} if node.values[0].bytes else {}),
            **({"workspace_offset": 64} if node.workspace_bytes else {}),
        }
        for number, node in enumerate(graph.nodes)
    ]
    steps.insert(3, {"do": "page_out", "node": "product"})
    schedule = {
        "format": "poet-schedule/1",
        "graph": "kept",
        "graph_hash": graph_hash(graph),
        "ram_budget_bytes": 10_000,
        "deadline_s": None,
        "status": "feasible",
        "bound_j": 0.0,
        "gap": 1.0,
        "steps": steps,
        **{"energy_j": 8.3, "time_s": 0.1, "peak_bytes": 600, "arena_bytes": 592},
    }
    (plan / "schedule.json").write_text(json.dumps(schedule))
    write_data(plan)
    return plan


def write_data(plan: Path, **arrays: Any) -> None:
    """The data, with some arrays changed."""
    given = {"w": W, "b": B, "x": X, "..state_dict": TABLE, "steps": COUNTS[:1], "steps..after_steps": COUNTS}
    np.savez(plan / "data.npz", **{**given, **arrays})


@dataclass
class KeptDevice(SimulatedDevice):
    """Its tensors have the numbers 0 (b, in RAM), 1 (w) and 2 (x, batches). A step adds the rate to w and b.

    ``card`` outlives a reset: what is on it counts as ``record`` says. In step ``silent_at``, counted from 0, it is
    reset after the commit, before it can answer. In step ``breaks_at`` its card fails.
    """

    on_card: dict[int, bytearray] = field(default_factory=lambda: {1: bytearray(8), 2: bytearray()})
    record: tuple[int, bytes, bytes] | None = None  # steps, b, w
    silent_at: int | None = None
    breaks_at: int | None = None
    foreign: bool = False
    skips: int = 0

    def receive(self, line: bytes) -> Iterator[bytes]:
        before = self.record
        for reply in super().receive(line):
            if b" ok ticks" in reply and before != self.record and self.silent_at == (before or (0,))[0]:
                self.silent_at = None
                self.reset()
                return
            yield reply

    def _batches(self, count: str) -> str:
        self.on_card[2] = bytearray(8 * int(count))
        return f"ok batches={count}"

    def _put(self, index: str, offset: str, data: str) -> str:
        if int(index) == 0:
            return super()._put(index, offset, data)
        content, place = bytes.fromhex(data), self.on_card[int(index)]
        if int(offset) + len(content) > len(place):
            return "err -1 arguments make no sense"
        place[int(offset) : int(offset) + len(content)] = content
        return f"ok bytes={len(content)}"

    def _get(self, index: str, offset: str, count: str) -> str:
        if int(index) == 0:
            return super()._get(index, offset, count)
        return f"ok data={self.on_card[int(index)][int(offset) : int(offset) + int(count)].hex()}"

    def _commit(self, step: str) -> str:
        self.record = (int(step), bytes(self.residents[0]), bytes(self.on_card[1]))
        return "ok ticks=1 bytes=16"

    def _restore(self) -> str:
        if self.foreign:
            return "err -11 card holds the tensors of another model"
        if self.record is None:
            return "err -9 no commit of this model on the card"
        self.residents[0][:], self.on_card[1][:] = self.record[1:]
        return f"ok step={self.record[0]} bytes=16 batches={len(self.on_card[2]) // 8}"

    def _step(self, rate: str, trace: str) -> str:
        assert self.record is not None
        number = self.record[0]
        if number == self.breaks_at:
            return "err -5 call 3: storage device does not answer or reports an error"
        x = struct.unpack_from("<2f", self.on_card[2], 8 * (number % (len(self.on_card[2]) // 8)))
        for tensor in (self.residents[0], self.on_card[1]):
            tensor[:] = struct.pack("<2f", *(value + f32_of_bits(rate) for value in struct.unpack("<2f", tensor)))
        self._commit(str(number + 1 + self.skips))
        return (
            f"ok ticks={sum(self.schedule_ticks)} page_ins=0 page_outs=1 "
            f"loss={struct.pack('>f', sum(x)).hex()} committed={self.record[0]}"
        )


def kept_board(plan: Path, **changes: Any) -> KeptDevice:
    """A device flashed with the plan, whose card is labelled and empty."""
    schedule = read_schedule(plan / "schedule.json")
    return KeptDevice(
        resident_bytes=(8,),
        schedule_ticks=(16_000,) * STEPS,
        **{"graph_hash": schedule.graph_hash, "schedule_hash": schedule_hash(schedule), **changes},
    )
