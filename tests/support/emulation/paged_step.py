# SPDX-License-Identifier: Apache-2.0
"""A small training step with a page in it, for boards of 32 KB: its headers, its data, and what must come of it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from poet_planner.schedule.c_headers import write_headers
from poet_profiles.graph import Graph, Node, Operation, PageCost, Resident, Value
from poet_profiles.graph.file import graph_hash
from poet_profiles.protocol.f32 import f32_bits
from poet_profiles.schedule import Action, Schedule, Status, Step
from scipy.special import erf

from tests.support.emulation.emulated_board import Line
from tests.support.graphs.one_step import named

SIZE = 300  # 1,200 bytes: two blocks and a part of one
BYTES = 4 * SIZE
X, W, GRADIENT, TARGET, LOSS, ONE = range(6)
HALVES = (0, BYTES)
RATE = 0.5
RATE_BITS = f32_bits(RATE)
LINE_BYTES = 128

Array = NDArray[np.float32]


def node(name: str, op: str, operands: str, results: str, bytes_: int = BYTES, recomputable: bool = True) -> Node:
    """A node of one value; operands that are values are its inputs."""
    reads = tuple(dict.fromkeys(word for word in operands.split() if word in ("h", "a", "ga", "gh")))
    page = PageCost(0.0, 0.0, 0.0, 0.0) if bytes_ else None
    operation = Operation(*named(op, SIZE), tuple(operands.split()), tuple(results.split()))
    return Node(name, 0.0, 0.0, (Value(name, bytes_, page),), reads, 0, recomputable, False, operation)


def paged_graph() -> Graph:
    """loss = mse(gelu(x * w), target), its gradient to w, and a step of SGD."""
    residents = [("x", "input"), ("w", "parameter"), ("w.grad", "gradient"), ("target", "target"), ("loss", "loss")]
    places = tuple(
        Resident(name, kind, BYTES, index * BYTES, (SIZE,))
        if kind != "loss"
        else Resident(name, kind, 4, index * BYTES)
        for index, (name, kind) in enumerate(residents)
    )
    one = Resident("one", "constant", 4, 4 * BYTES + 4, (1,))
    gradients = Node("gradients", 0.0, 0.0, (Value("gradients", 0),), ("gw",))
    sgd = Node(
        "sgd", 0.0, 0.0, (Value("sgd", 0),), ("gradients",), 0, False, True,
        Operation("sgd", f"size={SIZE}", ("w.grad", "w"), ("w",)),
    )  # fmt: skip
    return Graph(
        "paged step",
        (
            node("h", "mul", "x w", "h"),
            node("a", "gelu", "h", "a"),
            node("loss_", "mse_loss", "a target", "loss", 0),
            node("ga", "mse_loss_backward", "one a target", "ga"),
            node("gh", "gelu_backward", "ga h", "gh"),
            node("gw", "mul", "gh x", "w.grad", 0),
            gradients,
            sgd,
        ),
        resident_bytes=4 * BYTES + 8,
        residents=(*places, one),
    )


def write_paged_model(folder: Path) -> None:
    """The headers of a schedule that never holds more than two of the four values: h is paged and fetched again."""
    graph = paged_graph()
    low, high = ({"at": offset} for offset in HALVES)

    def compute(name: str, place: dict[str, int] | None = None) -> Step:
        return Step(Action.COMPUTE, name, {name: place["at"]} if place else {})

    steps = (
        *(compute("h", low), Step(Action.PAGE_OUT, "h"), compute("a", high), Step(Action.FREE, "h")),
        *(compute("loss_"), compute("ga", low), Step(Action.FREE, "a"), Step(Action.PAGE_IN, "h", {"h": high["at"]})),
        *(compute("gh", {"at": 2 * BYTES}), Step(Action.FREE, "h"), Step(Action.FREE, "ga"), compute("gw")),
        *(Step(Action.FREE, "gh"), compute("gradients"), compute("sgd")),
    )
    arena = 3 * BYTES
    schedule = Schedule(
        graph.name, graph_hash(graph), graph.resident_bytes + arena, None, steps, 0.0, 0.0,
        graph.resident_bytes + arena, arena, Status.FEASIBLE, 0.0, 0.0,
    )  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    write_headers(graph, schedule, folder)


@dataclass(frozen=True)
class StepData:
    """Input, weights and target."""

    x: Array
    w: Array
    target: Array


def random_data(seed: int = 3) -> StepData:
    generator = np.random.default_rng(seed)
    return StepData(*(generator.standard_normal(SIZE).astype(np.float32) for _ in range(3)))


def put(line: Line, index: int, data: Array) -> None:
    """Write a resident tensor."""
    raw = data.tobytes()
    for offset in range(0, len(raw), LINE_BYTES):
        line.values(f"put {index} {offset} {raw[offset : offset + LINE_BYTES].hex()}")


def get(line: Line, index: int) -> Array:
    """Read a resident tensor."""
    pieces = [
        bytes.fromhex(line.values(f"get {index} {offset} {min(LINE_BYTES, BYTES - offset)}")["data"])
        for offset in range(0, BYTES, LINE_BYTES)
    ]
    return np.frombuffer(b"".join(pieces), np.float32)


def put_all(line: Line, data: StepData) -> None:
    """Everything that a step needs."""
    put(line, X, data.x)
    put(line, W, data.w)
    put(line, TARGET, data.target)
    put(line, ONE, np.ones(1, np.float32))


def step(line: Line) -> float:
    """One training step; its loss."""
    answer = line.values(f"step {RATE_BITS} 0")
    assert answer["page_outs"] == answer["page_ins"] == "1"
    (loss,) = struct.unpack(">f", bytes.fromhex(answer["loss"]))
    return float(loss)


def expected(data: StepData) -> tuple[float, Array, Array]:
    """Loss, gradient and new weights, in double precision."""
    x, w, target = (array.astype(np.float64) for array in (data.x, data.w, data.target))
    h = x * w
    normal = 0.5 * (1 + erf(h / np.sqrt(2)))
    error = h * normal - target
    slope = normal + h * np.exp(-h * h / 2) / np.sqrt(2 * np.pi)
    gradient = 2 / SIZE * error * slope * x
    return float(np.mean(error**2)), gradient, w - RATE * gradient
