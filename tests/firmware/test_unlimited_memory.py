"""The same network under very different schedules: loss, gradients and weights agree bit for bit.

Three schedules of a traced network: everything kept (unlimited memory), everything paged out as soon as it is there,
everything recomputed whenever it is needed. They are made here in the plainest way, and not by the optimiser.
"""

from __future__ import annotations

import binascii
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from firmware_core import BLOCK, PAGE_AREA, build_host
from poet_planner.emit import write_headers
from poet_planner.graph import Graph, Node
from poet_planner.graph_file import graph_hash
from poet_planner.plain import aligned, plain_schedule
from poet_planner.schedule import Action, Schedule, Status, Step
from poet_planner.training_data import training_data
from poet_planner.training_graph import training_graph
from poet_profiles.boards import load_board

MODEL, BATCH, STEPS, RATE_NANO = "digits_cnn", 4, 2, 50_000_000


@dataclass
class Writer:
    """Writes a schedule step by step, each block at the lowest free place."""

    graph: Graph
    steps: list[Step] = field(default_factory=list)
    live: dict[str, tuple[int, int]] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    arena: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        self.maker = {value.id: node for node in self.graph.nodes for value in node.values}
        self.sizes = {value.id: aligned(value.bytes) for node in self.graph.nodes for value in node.values}
        self.last_use = {value: index for index, node in enumerate(self.graph.nodes) for value in node.inputs}

    def place(self, name: str, size: int) -> int:
        offset = 0
        for start, length in sorted(self.live.values()):
            if offset + size <= start:
                break
            offset = max(offset, start + length)
        self.live[name] = (offset, size)
        self.arena = max(self.arena, offset + size)
        self.peak = max(self.peak, sum(length for _, length in self.live.values()))
        return offset

    def compute(self, node: Node) -> None:
        offsets = {value.id: self.place(value.id, self.sizes[value.id]) for value in node.values if value.bytes}
        workspace = self.place("workspace", aligned(node.workspace_bytes)) if node.workspace_bytes else None
        self.live.pop("workspace", None)
        self.steps.append(Step(Action.COMPUTE, node.id, offsets, workspace))

    def page_in(self, value: str) -> None:
        self.steps.append(Step(Action.PAGE_IN, value, {value: self.place(value, self.sizes[value])}))

    def page_out(self, value: str) -> None:
        self.steps.append(Step(Action.PAGE_OUT, value))
        self.stored.add(value)

    def free(self, value: str) -> None:
        self.steps.append(Step(Action.FREE, value))
        del self.live[value]

    def schedule(self) -> Schedule:
        peak = self.graph.resident_bytes + self.peak
        budget = self.graph.resident_bytes + self.arena
        return Schedule(self.graph.name, graph_hash(self.graph), budget, None, tuple(self.steps), 0.0, 0.0, peak,
                        self.arena, Status.FEASIBLE, 0.0, 0.0)  # fmt: skip


def everything_paged(graph: Graph) -> Schedule:
    writer = Writer(graph)
    for index, node in enumerate(graph.nodes):
        for value in node.inputs:
            if writer.sizes[value]:
                writer.page_in(value)
        writer.compute(node)
        for value in list(writer.live):
            if writer.last_use.get(value, -1) > index and value not in writer.stored:
                writer.page_out(value)
            writer.free(value)
    return writer.schedule()


def everything_recomputed(graph: Graph) -> Schedule:
    writer = Writer(graph)

    def need(value: str) -> None:
        if writer.sizes[value] and value not in writer.live:
            run(writer.maker[value])

    def run(node: Node) -> None:
        for value in node.inputs:
            need(value)
        writer.compute(node)

    for index, node in enumerate(graph.nodes):
        run(node)
        for value in list(writer.live):
            kept = writer.maker[value].backward and writer.last_use.get(value, -1) > index
            if not kept:
                writer.free(value)
    return writer.schedule()


def frame(number: int, body: str) -> bytes:
    text = f">{number & 0xFFFF:04x} {body}".encode()
    return text + b"*%04x\n" % binascii.crc_hqx(text, 0xFFFF)


def train(program: Path, card: Path, graph: Graph) -> tuple[list[dict[str, str]], dict[str, bytes]]:
    """Answers of the training steps, and every parameter, gradient and loss after the last."""
    data = training_data(MODEL, STEPS, 0, BATCH)
    index = {resident.id: place for place, resident in enumerate(graph.residents)}
    bodies = ["hello", "format"]

    def put(name: str, content: bytes) -> None:
        bodies.extend(
            f"put {index[name]} {offset} {content[offset : offset + 224].hex()}"
            for offset in range(0, len(content), 224)
        )

    for resident in graph.residents:
        if resident.kind in ("parameter", "state"):
            put(resident.id, data[resident.id].tobytes())
    for step in range(STEPS):
        put("input", data["input"][step].tobytes())
        put("target", data["target"][step].tobytes())
        bodies.append(f"step {RATE_NANO} {step % 2}")
    seen = [resident for resident in graph.residents if resident.kind in ("parameter", "gradient", "loss")]
    gets = [(r.id, offset, min(224, r.bytes - offset)) for r in seen for offset in range(0, r.bytes, 224)]
    bodies += [f"get {index[name]} {offset} {count}" for name, offset, count in gets]

    stream = b"".join(frame(number, body) for number, body in enumerate(bodies))
    command = [str(program), "--card", str(card), "--ram", "1000000"]
    done = subprocess.run(command, input=stream, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    answers = [line.split("*")[0][6:] for line in done.stdout.decode().splitlines() if " ack*" not in line]
    assert len(answers) == len(bodies)
    assert all(answer.startswith("ok") for answer in answers), next(a for a in answers if not a.startswith("ok"))
    pairs = [dict(pair.split("=") for pair in answer.split()[1:]) for answer in answers]
    steps = [pair for pair, body in zip(pairs, bodies, strict=True) if body.startswith("step")]
    tensors = dict.fromkeys((r.id for r in seen), b"")
    for (name, _, _), pair in zip(gets, pairs[-len(gets) :], strict=True):
        tensors[name] += bytes.fromhex(pair["data"])
    return steps, tensors


@pytest.fixture(scope="module")
def graph() -> Graph:
    return training_graph(MODEL, BATCH, load_board("nrf52840"))


@pytest.fixture(scope="module")
def runs(
    graph: Graph, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Schedule, list[dict[str, str]], dict[str, bytes]]]:
    results = {}
    makers: list[Callable[[Graph], Schedule]] = [plain_schedule, everything_paged, everything_recomputed]
    for make in makers:
        folder = tmp_path_factory.mktemp(make.__name__)
        schedule = make(graph)
        write_headers(graph, schedule, folder)
        program = build_host(folder / "poet", "-I", str(folder))
        card = folder / "card.img"
        card.write_bytes(bytes((PAGE_AREA + 2000) * BLOCK))
        results[make.__name__] = (schedule, *train(program, card, graph))
    return results


def test_the_network_trains(runs: dict) -> None:
    _, steps, tensors = runs["plain_schedule"]
    assert len({step["loss"] for step in steps}) == STEPS
    assert any(any(content) for name, content in tensors.items() if name.endswith(".grad"))


@pytest.mark.parametrize("name", ["everything_paged", "everything_recomputed"])
def test_tensors_equal_those_of_unlimited_memory_bit_for_bit(runs: dict, name: str) -> None:
    _, plain_steps, plain = runs["plain_schedule"]
    _, steps, tensors = runs[name]
    assert [step["loss"] for step in steps] == [step["loss"] for step in plain_steps]
    assert tensors == plain


@pytest.mark.parametrize("name", ["plain_schedule", "everything_paged", "everything_recomputed"])
def test_the_arena_saw_what_the_schedule_says(runs: dict, name: str) -> None:
    schedule, steps, _ = runs[name]
    for step in steps:
        assert (int(step["peak"]), int(step["arena"])) == (schedule.peak_bytes, schedule.arena_bytes)
        assert int(step["page_ins"]) == sum(one.do is Action.PAGE_IN for one in schedule.steps)
        assert int(step["page_outs"]) == sum(one.do is Action.PAGE_OUT for one in schedule.steps)


def test_the_schedules_differ(runs: dict) -> None:
    plain, paged, recomputed = (schedule for schedule, _, _ in runs.values())
    assert sum(step.do is Action.PAGE_IN for step in paged.steps) > 20
    assert len(recomputed.steps) > 2 * len(plain.steps)
    assert paged.peak_bytes < plain.peak_bytes
