# SPDX-License-Identifier: Apache-2.0
"""What the agent's verbs answer, against PyTorch itself on the same data."""

from __future__ import annotations

import base64
import gzip
import json
import os
import random
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from poet_harness.profiling.grid import grid
from poet_planner import models
from poet_planner.schedule.store_all import store_all_schedule
from poet_profiles.firmware.operators import OPERATORS, parse_params
from poet_profiles.graph import Graph
from poet_profiles.protocol.f32 import f32_bits
from poet_profiles.protocol.frame import LONG_LINE, decode, encode
from poet_profiles.schedule import Action, Schedule, Step
from poet_profiles.schedule.file import document_of_schedule, schedule_hash
from poet_profiles.schedule.ram import held_bytes
from poet_runtime.agent import system
from poet_runtime.agent.loaded import NO_HASH
from poet_runtime.agent.server import RefusedError, Server
from poet_runtime.agent.verbs import Agent
from poet_runtime.agent.window import WindowLine
from poet_runtime.measured_sizes import measured
from poet_runtime.pager import Pager
from poet_runtime.program import Program, document_of_program
from poet_runtime.traced_graph import Kind
from torch import Tensor

from tests.support.networks.small_program import BATCH, MODEL, small_program

PARTS = 336


class Board:
    """An agent, asked in words."""

    def __init__(self, folder: Path) -> None:
        self.agent = Agent(folder, WindowLine(None), folder / "sys")
        self._server = Server(self.agent.verbs)
        self._sequence = 0
        self.ask("hello")

    def ask(self, text: str) -> dict[str, str]:
        """The pairs of an answer; ``err`` has the words of a refusal."""
        self._sequence += 1
        sent: list[bytes] = []
        self._server.feed(encode(">", self._sequence, text, LONG_LINE), sent.append)
        frame = decode(sent[-1].rstrip(b"\n"))
        assert frame is not None
        kind, _, rest = frame.text.partition(" ")
        return {"err": rest} if kind == "err" else dict(pair.split("=", 1) for pair in rest.split())

    def load(self, document: Any) -> dict[str, str]:
        data = gzip.compress(json.dumps(document).encode())
        for at in range(0, len(data), PARTS):
            self.ask(f"load {at} {base64.b64encode(data[at : at + PARTS]).decode()}")
        return self.ask(f"load end {zlib.crc32(data):08x}")

    def text(self, index: int) -> str:
        text, length = "", 1
        while len(text) < length:
            answer = self.ask(f"text {index} {len(text)}")
            text, length = text + answer["text"], int(answer["length"])
        return text

    def tensor(self, index: int, like: Tensor) -> Tensor:
        count = like.nbytes
        parts = [self.ask(f"get {index} {at} {min(2014, count - at)}")["data"] for at in range(0, count, 2014)]
        data = bytearray(bytes.fromhex("".join(parts)))
        return torch.frombuffer(data, dtype=like.dtype).reshape(like.shape).clone()

    def numbers(self, verb: str, key: str, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [int(word) for word in self.ask(f"{verb} {len(found)} {count}")[key].split(",")]
        return found


@pytest.fixture(scope="module")
def small() -> tuple[Graph, Program]:
    return small_program()


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    board = Board(tmp_path)
    with board.agent:
        yield board
    torch.set_num_threads(threads)


def paged(schedule: Schedule, graph: Graph) -> Schedule:
    """The schedule with every large value out and back in between its maker and its last reader."""
    last_use = {input: node.id for node in graph.nodes for input in node.inputs}
    large = {value.id for node in graph.nodes for value in node.values if value.bytes >= 256 and value.id in last_use}
    makers = {node.id: [value.id for value in node.values if value.id in large] for node in graph.nodes}
    steps: list[Step] = []
    out: set[str] = set()
    reads = {node.id: set(node.inputs) for node in graph.nodes}
    for step in schedule.steps:
        if step.do is Action.COMPUTE:
            for value in sorted(reads[step.target] & out):
                steps.append(Step(Action.PAGE_IN, value))
                out.remove(value)
        if step.do is Action.FREE and step.target in out:
            out.remove(step.target)
            continue
        steps.append(step)
        if step.do is Action.COMPUTE:
            for value in makers[step.target]:
                steps += [Step(Action.PAGE_OUT, value), Step(Action.FREE, value)]
                out.add(value)
    return Schedule(**{**schedule.__dict__, "steps": tuple(steps)})


def eager(board: Board, program: Program) -> tuple[torch.nn.Module, Tensor]:
    """The model with the numbers that the board has, and its loss after a backward pass."""
    model = models.load(MODEL, BATCH)
    indices = {resident.id: index for index, resident in enumerate(program.graph.residents)}
    with torch.no_grad():
        for name, tensor in (*model.module.named_parameters(), *model.module.named_buffers()):
            if name in indices:
                tensor.copy_(board.tensor(indices[name], tensor))
    inputs = [board.tensor(indices["input"], tensor) for tensor in model.inputs]
    targets = [board.tensor(indices["target"], tensor) for tensor in model.targets]
    loss = model.loss(model.module(*inputs), *targets)
    loss.backward()
    return model.module, loss.detach()


@pytest.mark.parametrize("trace", [0, 1])
@pytest.mark.parametrize("form", [lambda schedule, _: schedule, paged])
def test_a_step_under_a_schedule_leaves_what_eager_pytorch_leaves(
    board: Board, small: tuple[Graph, Program], form: Callable[[Schedule, Graph], Schedule], trace: int
) -> None:
    graph, program = small
    schedule = form(store_all_schedule(graph), graph)
    assert board.load(document_of_program(program))["model"] == program.graph_hash
    hashes = board.load(document_of_schedule(schedule))
    assert hashes == {"model": program.graph_hash, "schedule": schedule_hash(schedule)}
    module, loss = eager(board, program)
    answer = board.ask(f"step {f32_bits(0.01)} {trace}")
    assert int(answer["page_outs"]) == sum(step.do is Action.PAGE_OUT for step in schedule.steps)
    assert (form is paged) == (int(answer["page_outs"]) > 0)
    assert answer["loss"] == struct.pack(">f", loss.item()).hex()
    indices = {resident.id: index for index, resident in enumerate(program.graph.residents)}
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None
        assert torch.equal(board.tensor(indices[f"{name}.grad"], parameter), parameter.grad)
        with torch.no_grad():
            parameter.sub_(0.01 * parameter.grad)
        assert torch.equal(board.tensor(indices[name], parameter), parameter)
    for name, buffer in module.named_buffers():
        if name in indices:
            assert torch.equal(board.tensor(indices[name], buffer), buffer)
    if trace:
        assert len(board.numbers("times", "ticks", len(schedule.steps))) == len(schedule.steps)
        peaks = board.numbers("peaks", "bytes", len(schedule.steps))
        assert max(peaks) == int(answer["peak"])
        resident = int(answer["peak"]) - int(answer["arena"])
        held = [bytes.during for bytes in held_bytes(graph, schedule.steps)]
        forward = {operator.id for operator in program.graph.operators if not operator.backward}
        for step, peak, planned in zip(schedule.steps, peaks, held, strict=True):
            if step.do is Action.COMPUTE and step.target in forward and step.target != "nll_loss":
                assert peak - resident == planned - graph.resident_bytes, step
    else:
        assert "nothing was timed" in board.ask("times 0 1")["err"]
        assert 0 < int(answer["arena"]) < int(answer["peak"])


def test_every_operator_is_timed_in_its_place(board: Board, small: tuple[Graph, Program]) -> None:
    _, program = small
    board.load(document_of_program(program))
    answer = board.ask("place 1 1")
    times = board.numbers("times", "ticks", len(program.graph.operators))
    assert len(times) == len(program.graph.operators)
    assert all(time > 0 for time in times)
    assert sum(times) + int(answer["between"]) <= int(answer["ticks"])
    assert board.ask("place 3 0")["repeats"] == "3"


def test_workspaces_are_those_of_this_computer_and_number_of_threads(
    board: Board, small: tuple[Graph, Program]
) -> None:
    """As measured on the model itself with one thread; the program has others in it."""
    graph = small[1].graph
    wrong = replace(graph, operators=tuple(replace(operator, workspace_bytes=1) for operator in graph.operators))
    board.load(document_of_program(replace(small[1], graph=wrong)))
    model = models.load(MODEL, BATCH)
    rehearsal = measured(wrong, model.module, model.inputs, model.targets)
    expected = [operator.workspace_bytes for operator in rehearsal.operators]
    assert board.numbers("workspaces", "bytes", len(expected)) == expected
    assert max(expected) > 1


def test_a_call_is_the_steps_own_and_its_text_is_the_same_call(board: Board, small: tuple[Graph, Program]) -> None:
    """Every operator of the step: what its text asks for has as many bytes as the call on the step's operands."""
    _, program = small
    board.load(document_of_program(program))
    fitting = 0
    for index, operator in enumerate(program.graph.operators):
        text = board.text(index)
        assert json.loads(text)["op"].startswith(f"aten::{operator.target.__name__.split('.')[0]}.")
        own = board.ask(f"call 2 @{index}")
        assert int(own["ticks"]) > 0
        if len(text) < 480:
            fitting += 1
            assert board.ask(f"call 1 {text}")["bytes"] == own["bytes"]
    assert fitting > len(program.graph.operators) / 2


def test_a_calls_results_are_the_operators(board: Board, small: tuple[Graph, Program]) -> None:
    _, program = small
    board.load(document_of_program(program))
    index, first = next((i, o) for i, o in enumerate(program.graph.operators) if "convolution" in str(o.target))
    operands = {resident.id: number for number, resident in enumerate(program.graph.residents)}
    model = models.load(MODEL, BATCH)
    given = {**dict(model.module.named_parameters()), "input": model.inputs[0]}
    x, w, *rest = [board.tensor(operands[ref.source], given[ref.source]) for ref in first.refs]
    result = first.target(x, w, *(rest or [None]), *first.args[3:])
    assert board.ask(f"call 1 @{index}")["checksum"] == f"{zlib.crc32(result.numpy().tobytes()):08x}"


def relu(tensor: str, op: str = "relu") -> str:
    return f'call 1 {{"op":"aten::{op}.default","args":[{{"tensor":{{{tensor}}}}}]}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("load 7 AAAA", "-4 0 bytes are here, the part begins at 7"),
        ("load end 00000001", "-7 the checksum is another one"),
        ("load end 00000000", "-7 no JSON in gzip"),
        ("load 0 ???", "-1 no base64"),
        ("place 1 0", "-4 no program is loaded"),
        ("call 1 @0", "-4 no program is loaded"),
        ("call 1 {}", '-8 the call has no "op"'),
        ('call 1 {"op":"aten::no_such.default"}', "-8 the call: there is no operator aten::no_such.default"),
        ('call 1 {"op":"os::system.default","args":["true"]}', "-8 the call: there is no operator os::system.default"),
        ('call 1 {"op":"aten::relu.default","args":[{"tensor":{"shape":[-1],"dtype":"float32"}}]}', "-8 "),
        ('call 1 {"op":"aten::mm.default","args":[{"tensor":{"shape":[2,3],"dtype":"float32"}},1]}', "-8 "),
        ("step 00000000 0", "-4 no program is loaded"),
        ("step 10000000", "-1 expected: step RATE 0|1"),
        ("step 3c23d70a 2", "-1 expected: step RATE 0|1"),
        ("step 3C23D70A 0", "-1 expected: step RATE 0|1"),
        ("step 7fc00000 0", "-1 expected: step RATE 0|1"),
        ("times 0 5", "-9 nothing was timed"),
        ("put 0 0 00", "-4 no program"),
        ("page out 0 1 sequential", "-1 "),
        ("page up 4096 1 sequential", "-1 "),
        ("idle x", "-1 expected 1 whole numbers"),
        ("idle 99999999999999999", "-1 at most 3600 s"),
        (
            relu('"shape":[4],"dtype":"quint8"'),
            "-8 a tensor of the call: PyTorch has no plain tensor [4] of torch.quint8",
        ),
        (relu('"shape":[4],"dtype":"float8_e4m3fn"'), "-8 NotImplementedError: "),
        (relu('"shape":[4],"dtype":"bits8"'), "-8 "),
        (relu('"shape":[99999999999999],"dtype":"float32"'), "-2 an operand needs 399999999999996 B, of which "),
        (relu('"shape":[2],"stride":[9999999999999],"dtype":"float32"'), "-2 an operand needs 40000000000000 B, of "),
        (relu('"shape":[4],"dtype":"float32","low":NaN'), "-8 not JSON (NaN is not a JSON number)"),
        (relu('"shape":[4],"dtype":"float32"', "to_sparse"), "-8 "),
        (relu('"shape":[4],"dtype":"complex64"', "conj"), "-8 RuntimeError: "),
        (
            'call 1 {"op":"aten::zeros.default","args":[[4]],"kwargs":{"device":{"device":"meta"}}}',
            "-8 NotImplementedErr",
        ),
        ('call 1 {"op":"aten::zeros.default","args":[[99999999999]]}', "-2 the results need 399999999996 B, of which "),
        ('call 1 {"op":"aten::relu.default","args":' + "[" * 900 + "]" * 900 + "}", "-8 nested more than 32 deep"),
        ("bench 19 1 99999999999", "-2 an operand needs 399999999996 B, of which "),
        ("bench 19 1 999999999999999999999999999999", "-2 an operand needs "),
        ("bench 1 1" + 13 * " 99999999999", "-2 an operand needs "),
        ("bench 1 1 1 1 9 9 1 3 3 1 1 99999999 99999999 1 0", "-2 the results need "),
        ("bench 2 1 1 1 9 9 1 3 3 1 1 99999999 99999999 1 0", "-2 an operand needs "),
    ],
)
def test_what_makes_no_sense_is_refused(board: Board, text: str, words: str) -> None:
    assert board.ask(text)["err"].startswith(words)
    assert board.ask("hello")["protocol"] == "2", "the agent goes on"


NUMBERS = [0, 1, 2, 3, 8, 65, 10**6, 2**31, 2**63, 10**13, 10**30]
WORDS = [
    *("", "-1", "x", "@", "@0", "@999", "0.5", "1e9", "end", "in"),
    *("out", "sequential", "scattered", "{}", "[]", "00ff"),
]
DTYPES = [
    *("float32", "int64", "bool", "complex64", "bfloat16", "quint8", "float8_e4m3fn", "bits8", "uint16", "int1", "x"),
]
OPERATORS_CALLED = [
    *("relu", "to_sparse", "conj", "t", "zeros_like", "nonzero", "sum", "sort", "neg", "unique_dim", "item"),
]


def some_number(source: random.Random) -> int:
    return source.choice(NUMBERS)


def some_tensor(source: random.Random) -> Any:
    axes = source.randrange(4)
    document: dict[str, Any] = {"shape": [some_number(source) for _ in range(axes)], "dtype": source.choice(DTYPES)}
    if source.random() < 0.5:
        document["stride"] = [some_number(source) for _ in range(axes if source.random() < 0.9 else 1)]
    if source.random() < 0.3:
        document |= {"low": source.choice([-1, 0, 5, 1e300, True, "x"]), "high": source.choice([7, 10**30, 0.5, None])}
    return source.choice([{"tensor": document}, {"blank": document}, {"tensor": document, "blank": 1}, document])


def some_argument(source: random.Random) -> Any:
    named = {"device": "meta"}, {"device": "cuda:9"}, {"dtype": "load"}, {"float": "nan"}, {"complex": [10**400, 1]}
    made = some_tensor(source), some_number(source), [some_number(source)], None, True, "é\n", source.choice(named)
    return source.choice([made[0], source.choice(made)])


def some_request(source: random.Random, verbs: list[str]) -> str:
    verb = source.choice([*verbs, "bench", "call", "load"])
    if verb == "call" and source.random() < 0.7:
        op = source.choice([f"aten::{name}.default" for name in OPERATORS_CALLED] + ["aten::mm.out", "os::system.x", 7])
        document = {"op": op, "args": [some_argument(source) for _ in range(source.choice([0, 1, 1, 1, 2]))]}
        if source.random() < 0.3:
            document["kwargs"] = {source.choice(["self", "out", "é", "device"]): some_argument(source)}
        return f"call {source.choice([1, 1, 2, 0])} " + json.dumps(document, separators=(",", ":")).replace(" ", "")
    if verb == "bench" and source.random() < 0.8:
        operator = source.choice([*OPERATORS.values()])
        return f"bench {operator.code} 1 " + " ".join(str(some_number(source)) for _ in operator.params)
    if verb == "load" and source.random() < 0.7:
        return f"load {source.choice([0, 0, 3])} {base64.b64encode(source.randbytes(source.randrange(300))).decode()}"
    word = source.choice
    arguments = [str(word([*NUMBERS[:5], *NUMBERS, *WORDS])) for _ in range(source.randrange(5))]
    return " ".join([verb, *arguments])


@pytest.mark.parametrize("seed", range(4))
def test_no_request_ends_the_agent(
    seed: int, board: Board, small: tuple[Graph, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of well-framed ones; each is answered in one line, and what was loaded is still there."""
    monkeypatch.setattr("poet_runtime.agent.verbs.MOST_REPEATS", 3)
    monkeypatch.setattr("poet_runtime.agent.verbs.MOST_IDLE_S", 0)
    monkeypatch.setattr("poet_runtime.agent.verbs.MOST_PAGE_BYTES", 1 << 20)
    monkeypatch.setattr(system, "available_bytes", lambda: 1 << 25)
    board.load(document_of_program(small[1]))
    board.load(document_of_schedule(store_all_schedule(small[0])))
    there = {key: value for key, value in board.ask("hello").items() if key in ("model", "schedule", "boot")}
    source = random.Random(seed)
    answered = {"ok": 0, "err": 0}
    for _ in range(200):
        text = some_request(source, [*board.agent.verbs])
        answer = board.ask(text)
        answered["err" if "err" in answer else "ok"] += 1
        assert "err" not in answer or re.match(r"-\d+ .", answer["err"]), text
    assert there.items() <= board.ask("hello").items()
    assert min(answered.values()) > 10, "some are carried out, some are refused"


def test_an_upload_is_refused_before_it_fills_the_ram(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(data: bytes) -> str:
        for at in range(0, len(data), 3000):
            board.ask(f"load {at} {base64.b64encode(data[at : at + 3000]).decode()}")
        return board.ask(f"load end {zlib.crc32(data):08x}").get("err", "")

    whole = gzip.compress(b'{"format": "poet-program/1"}')
    assert load(whole) == '-8 the file: "residents" is missing or not a list'
    for data in (
        b"",
        whole[:-9],
        whole[:5],
        b"\x1f\x8b" + whole[3:],
        gzip.compress(b"\xff"),
        gzip.compress(b"[" * 9999),
    ):
        assert load(data).startswith("-7 no JSON in gzip"), data
    monkeypatch.setattr(system, "available_bytes", lambda: 1 << 24)
    assert load(gzip.compress(b" " * (1 << 25))).startswith("-2 more than 4194304 bytes without gzip")
    assert load(gzip.compress(b"[" + b"{}," * (1 << 20) + b"0]")).startswith("-2 more than 1048576 commas")


def test_a_program_whose_hash_is_none_is_refused(board: Board, small: tuple[Graph, Program]) -> None:
    document = document_of_program(small[1])
    for hash in ("é", "0 boot=1", "0" * 15, "A" * 16, 7, None):
        assert '"graph_hash" is ' in board.load({**document, "graph_hash": hash})["err"]
    assert board.load({**document, "model": "a\nb"})["err"].startswith("-7 ")
    assert board.ask("hello")["model"] == NO_HASH


def test_a_step_for_which_the_board_has_no_room_is_refused_before_the_system_ends_the_agent(
    board: Board, small: tuple[Graph, Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = document_of_program(small[1])
    residents_bytes = sum(resident["bytes"] for resident in document["residents"])
    monkeypatch.setattr(system, "available_bytes", lambda: residents_bytes - 1)
    assert board.load(document)["err"].startswith(f"-2 its tensors need {residents_bytes} B")
    monkeypatch.setattr(system, "available_bytes", lambda: residents_bytes)
    board.load(document)
    assert board.ask("place 1 0")["err"].startswith("-2 the step needs ")
    schedule = document_of_schedule(store_all_schedule(small[0]))
    monkeypatch.undo()
    assert board.load(schedule)["schedule"] == board.ask("hello")["schedule"] != NO_HASH
    monkeypatch.setattr(system, "available_bytes", lambda: 1)
    assert board.load(schedule)["err"].startswith("-2 a step under the schedule needs ")
    assert board.ask("hello")["schedule"] == NO_HASH
    assert board.ask("step 00000000 0")["err"] == "-4 no schedule is loaded"


@pytest.mark.parametrize("trace", [0, 1])
def test_a_loss_that_is_no_number_changes_nothing(board: Board, small: tuple[Graph, Program], trace: int) -> None:
    graph, program = small
    board.load(document_of_program(program))
    board.load(document_of_schedule(store_all_schedule(graph)))
    place = next(i for i, one in enumerate(program.graph.residents) if one.kind is Kind.INPUT)
    lasting = [i for i, one in enumerate(program.graph.residents) if one.kind in (Kind.PARAMETER, Kind.BUFFER)]
    board.ask("step 3d4ccccd 0")
    before = [board.agent._program().data(index).clone() for index in lasting]
    good = board.ask(f"get {place} 0 4")["data"]
    board.ask(f"put {place} 0 0000c07f")
    assert board.ask(f"step 3d4ccccd {trace}")["err"] == "-12 the loss is infinite or no number"
    assert all(map(torch.equal, before, (board.agent._program().data(index) for index in lasting)))
    board.ask(f"put {place} 0 {good}")
    assert "loss" in board.ask("step 3d4ccccd 0")


def test_a_program_or_a_schedule_of_another_step_is_refused(board: Board, small: tuple[Graph, Program]) -> None:
    graph, program = small
    document = document_of_program(program)
    schedule = document_of_schedule(store_all_schedule(graph))
    assert board.load(schedule)["err"].startswith("-4 no program is loaded")
    assert board.load({**document, "format": "other"})["err"].startswith("-8 not a poet-program/1")
    board.load(document)
    assert board.load({**schedule, "graph_hash": "0" * 16})["err"].startswith("-3 the schedule is for graph 0000")
    assert "never computes" in board.load({**schedule, "steps": schedule["steps"][:1]})["err"]
    assert board.ask("step 00000000 0")["err"] == "-4 no schedule is loaded"
    count = len(document["residents"])
    for text in (f"get {count} 0 1", "get 0 0 0", "get 0 4294967296 1", "get 0 0 2015", "put 0 0 0"):
        assert "err" in board.ask(text)


@pytest.mark.parametrize("direction", ["in", "out"])
def test_pages_are_timed_one_by_one(board: Board, direction: str) -> None:
    for size, pattern in ((4096, "sequential"), (100_000, "scattered")):
        answer = board.ask(f"page {direction} {size} 5 {pattern}")
        times = board.numbers("times", "ticks", 5)
        assert sum(times) == int(answer["ticks"])
        assert (answer["bytes"], answer["repeats"], answer["direct"]) == (str(size), "5", "1")


def test_pages_are_the_pagers_transfers_and_the_answer_says_if_they_are_not_direct(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("poet_runtime.page_benchmark.LEAST_PLACE_BYTES", 1 << 16)
    moved: list[str] = []
    for name in ("page_in", "page_out", "wait"):
        own = getattr(Pager, name)
        monkeypatch.setattr(Pager, name, lambda *given, name=name, own=own: (moved.append(name), own(*given))[1])
    board.ask("page in 4096 3 sequential")
    assert moved[-6:] == ["page_in", "wait"] * 3
    board.ask("page out 4096 3 scattered")
    assert moved[-6:] == ["page_out", "wait"] * 3
    monkeypatch.setattr("poet_runtime.direct_file._opened", lambda path: (os.open(path, os.O_RDWR | os.O_CREAT), False))
    assert board.ask(f"page in {1 << 17} 1 sequential")["direct"] == "0"
    (tmp_path / "gone").mkdir()
    with Board(tmp_path / "gone").agent as agent:
        (tmp_path / "gone").rmdir()
        with pytest.raises(RefusedError, match="cannot page to it"):
            agent.verbs["page"](["in", "4096", "1", "sequential"])


def test_clock_temperature_and_governor_are_the_kernels(tmp_path: Path) -> None:
    cpus = tmp_path / "sys/devices/system/cpu"
    for cpu in range(512):
        (cpus / f"cpu{cpu}/cpufreq").mkdir(parents=True)
        (cpus / f"cpu{cpu}/cpufreq/scaling_cur_freq").write_text("1800000\n")
        (cpus / f"cpu{cpu}/cpufreq/scaling_governor").write_text("schedutil\n")
    for zone, celsius in enumerate(("41250", "-4000", "63500")):
        (tmp_path / f"sys/class/thermal/thermal_zone{zone}").mkdir(parents=True)
        (tmp_path / f"sys/class/thermal/thermal_zone{zone}/temp").write_text(celsius)
    board = Board(tmp_path)
    assert board.ask("hello")["governor"] == "schedutil"
    answer = board.ask("page out 4096 1 sequential")
    assert (answer["cpu_khz"], answer["temperature_mc"]) == ("1800000", "63500")
    board.agent.__exit__(None, None, None)


def test_the_grids_operators_are_pytorchs_or_refused(board: Board) -> None:
    """The first result has the bytes that the vocabulary says."""
    measured = set()
    for item in grid():
        if item.is_page or (item.op in measured and item.op != "pointwise"):
            continue
        operator, params = OPERATORS[item.op], parse_params(item.params)
        answer = board.ask(f"bench {operator.code} 1 {' '.join(map(str, operator.values(params)))}")
        if "err" in answer:
            assert "is no single operator of PyTorch" in answer["err"] or "expected" in answer["err"], item
            continue
        measured.add(item.op)
        assert int(answer["bytes"]) >= operator.sizes(params).outputs[0]
    assert {"conv2d", "conv2d_backward_input", "conv2d_backward_weight", "linear", "matmul", "pointwise"} <= measured
    assert board.ask("bench 9999 1")["err"] == "-8 operator 9999 is no single operator of PyTorch"
    assert board.ask("bench 6 1")["err"] == "-1 sum_rows takes m n"
