# SPDX-License-Identifier: Apache-2.0
"""A board that runs an Arduino sketch gets plans as data, and computes the same bits."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from elftools.elf.elffile import ELFFile
from poet_harness.arduino_library import SERVING, write_arduino_library
from poet_harness.cli import main as harness
from poet_harness.plan_folder.plan import Plan, read_plan
from poet_harness.ports import open_port
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import DeviceError, Link
from poet_harness.target.connect import SURE_LINE, connect
from poet_harness.training.ready import make_ready
from poet_planner.cli import main as planner
from poet_planner.planning import plan as planning
from poet_planner.schedule.firmware_tables import tables_for_all
from poet_planner.schedule.flash import held_bytes
from poet_profiles.boards import board_names, load_board
from poet_profiles.errors import UserError
from poet_profiles.plan_folder.summary import read_summary
from safetensors.torch import load_file

from tests.support import ROOT, needs
from tests.support.arduino import CORES, HERE, SKETCH, SLOW_MEMORY, built, running
from tests.support.arduino.plans import small_plan
from tests.support.firmware.host_operators import Operators
from tests.support.firmware.host_step import LEARNING_RATE, run_step
from tests.support.firmware.stack import Stack
from tests.support.programs import exit_code

RISCV, QEMU = "riscv64-unknown-elf-gcc", "qemu-system-riscv32"
needs_riscv = pytest.mark.skipif(shutil.which(RISCV) is None or shutil.which(QEMU) is None, reason="no RISC-V, no QEMU")
# With all operators: what a later one adds is to be seen here.
FLASH_BYTES, STATIC_BYTES, STACK_BYTES = 120 * 1024, 2560, 8192
pytestmark = needs.gcc


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_arduino_library(tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="module")
def host(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(CORES["host"], library, tmp_path_factory.mktemp("host"), flags="-O0")


@pytest.fixture(scope="module")
def riscv(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(CORES["rv32imc"], library, tmp_path_factory.mktemp("riscv"), SLOW_MEMORY)


@pytest.fixture(scope="module")
def planned() -> planning.Plan:
    """With an inference beside, and a head's features."""
    return small_plan()


@pytest.fixture(scope="module")
def plan(planned: planning.Plan, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("plan")
    planned.write_files(folder)
    return read_plan(folder)


@contextmanager
def device(core: str, image: Path, lossy: int | None = None) -> Iterator[Device]:
    with running(CORES[core], image, lossy) as port:
        link = Link(open_port(port, 1_000_000), port, SURE_LINE)
        yield Device(link)
        link.close()


def given_to(board: Device, plan: Plan) -> dict[str, np.ndarray]:
    """Drawn numbers in every resident that a step reads, by id."""
    random, given = np.random.default_rng(0), {}
    for index, one in enumerate(plan.residents):
        numbers = (0.3 * random.standard_normal(one.shape)).astype(np.float32)
        if one.id in plan.choices:
            numbers = random.integers(0, plan.choices[one.id], one.shape).astype(np.int32)
        if one.kind != "loss":
            given[one.id] = numbers
            board.put(index, numbers.tobytes())
    return given


def check_step(board: Device, plan: Plan, operators: Operators) -> None:
    make_ready(board, plan)
    exact = run_step(plan.graph, given_to(board, plan), operators)
    board.step(LEARNING_RATE, trace=True)
    for index, one in enumerate(plan.residents):
        assert board.get(index, one.bytes) == exact[one.id].tobytes(), one.id
    assert len(board.times(len(plan.actions))) > 0


def test_a_line_that_loses_all_after_256_bytes_loads_and_puts(host: Path, plan: Plan, operators: Operators) -> None:
    with device("host", host, lossy=256) as board:
        before = board.hello.ram_bytes
        check_step(board, plan, operators)
        assert before - board.hello.ram_bytes < len(plan.data) + 2048
        assert board.hello.features == plan.extraction.schedule_hash  # type: ignore[union-attr]
        assert board.hello.inference == plan.inference.schedule_hash  # type: ignore[union-attr]
        board.extract(0)
        board.infer()


@needs_riscv
def test_a_risc_v_core_computes_the_same_bits(
    riscv: Path, planned: planning.Plan, plan: Plan, operators: Operators
) -> None:
    """And keeps no more of the plan in RAM than the planner left free for it."""
    sketch, parts = load_board("nano-33-ble"), (planned.inference, planned.extraction)
    held = held_bytes(planned.graph, planned.schedule, sketch, *parts)
    held += tables_for_all(planned.graph, planned.schedule, *parts).bytes
    with device("rv32imc", riscv) as board:
        before = board.hello.ram_bytes
        check_step(board, plan, operators)
        assert 0.8 * held < before - board.hello.ram_bytes <= held


NETWORK = """
import torch
from poet_planner.models import Model
from torch import nn

def make(batch):
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 4, 5, padding=2), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
    net = nn.Sequential(*conv, nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 3))
    net[0].requires_grad_(False)
    example = (torch.randn(batch or 4, 1, 8, 8),), (torch.randint(0, 3, (batch or 4,)),)
    return Model("net", net, *example, nn.functional.cross_entropy)
"""


def by_pytorch(samples: Path, epochs: int) -> tuple[dict[str, torch.Tensor], int]:
    """Weights after so many epochs, and how many samples they name right."""
    found: dict[str, Any] = {}
    exec(NETWORK, found)
    net, held = found["make"](None).module, np.load(samples)
    x, y = torch.from_numpy(held["x"]), torch.from_numpy(held["y"]).long()
    for at in [*range(0, len(x), 4)] * epochs:
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(x[at : at + 4]), y[at : at + 4]).backward()
        with torch.no_grad():
            for weights in filter(lambda one: one.requires_grad, net.parameters()):
                weights -= 0.1 * weights.grad
    return net.state_dict(), int((net(x).argmax(1) == y).sum())


@needs_riscv
def test_the_whole_way(
    riscv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the board's file to answers by a user's commands; then from slow memory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("net.py").write_text(NETWORK)
    random = np.random.default_rng(0)
    samples = {"x": random.standard_normal((8, 1, 8, 8)).astype(np.float32), "y": random.integers(0, 3, 8)}
    np.savez("samples.npz", **samples)
    model = ("--model", "net:make")

    def said(*arguments: str, by: Any = harness) -> None:
        assert exit_code(by, "poet", *arguments) == 0, arguments

    with running(CORES["rv32imc"], riscv, counted=True) as port:
        powers = ("--active-power", "80mW", "--idle-power", "20mW")
        said("board", "new", "mine", "--port", port, *powers)
        assert load_board("mine").storage == "memory"
        said("graph", *model, "--board", "mine", "--out", "graph.json", by=planner)
        of_graph = ("--graph", "graph.json", "--quick", "--out", "mine.csv")
        said("profile", "--board", "mine", "--port", port, *of_graph)
    said("data", *model, "--steps", "1", "--out", "data.npz", by=planner)
    slow = ("--parameters", "card", "--ram", "14KB")
    for name, options in (("plan", ("--features", "8")), ("paged", ("--features", "whole", *slow))):
        said("--profile", "mine.csv", *model, *options, "--time-limit", "1", "--out", name, by=planner)
    plan, paged = (read_summary(Path(name, "summary.json")) for name in ("plan", "paged"))
    assert plan.features is not None and not plan.energy_sensed
    assert paged.kept_bytes >= 4096 and paged.page_ins + paged.refetches > 0
    right = by_pytorch(Path("samples.npz"), epochs=2)
    with running(CORES["rv32imc"], riscv, counted=True) as port:
        for name, kept in (("plan", ("--weights", "plan.safetensors")), ("paged", ("--restore",))):
            on = ("--board", "mine", "--port", port, "--plan", name, "--samples", "samples.npz")
            of_epochs = ("--data", "data.npz", "--epochs", "2", "--lr", "0.1", "--trained", f"{name}.safetensors")
            said("train", *on, *of_epochs)
            capsys.readouterr()
            said("eval", *on, *kept, "--json")
            found = json.loads(capsys.readouterr().out)
            assert found["correct"] == right[1]
            assert abs(found["time_s"] / found["predicted_time_s"] - 1) < 0.02
    trained, on_pages = (load_file(f"{name}.safetensors") for name in ("plan", "paged"))
    for id, exact in right[0].items():
        torch.testing.assert_close(trained[id], exact, rtol=0, atol=1e-6)
        assert torch.equal(trained[id], on_pages[id])


def refusal(board: Device, document: bytes, crc: int | None = None) -> str:
    with pytest.raises(DeviceError) as refused:
        for at in range(0, len(document), 144):
            board._ask(f"load {at} {base64.b64encode(document[at : at + 144]).decode()}")
        board._ask(f"load end {zlib.crc32(document) if crc is None else crc:08x}")
    return str(refused.value)


def test_what_is_no_plan_for_the_sketch_is_refused(host: Path, plan: Plan, operators: Operators) -> None:
    """And the next one is taken."""
    changed = bytearray(plan.data)
    changed[8] += 1
    with device("host", host) as board:
        assert "arrived damaged" in refusal(board, plan.data, 1)
        assert "no plan of this version" in refusal(board, bytes(changed))
        assert "no plan of this version" in refusal(board, b"x" * 200)
        assert "more RAM" in refusal(board, plan.data[:12] + b"\xff\xff\xff\x7f" + plan.data[16:])
        with pytest.raises(DeviceError, match="one after the other"):
            board._ask("load 288 QUJD")
        with pytest.raises(DeviceError, match="no model in this build"):
            board.step(LEARNING_RATE, trace=False)
        check_step(board, plan, operators)


def test_another_arithmetic_is_refused_with_its_cure(
    host: Path, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A start file that sets subnormals to zero, as -ffast-math links it."""
    folder, image = host.parent, tmp_path / "sketch"
    objects = [*sorted(folder.glob("*.o")), folder / "poet.a"]
    subprocess.run(["g++", "-ffast-math", *objects, "-lm", "-o", image], check=True)
    with device("host", image) as board:
        assert board.about()["arithmetic"] == "other"
        assert "compile without -ffast-math" in refusal(board, plan.data)
    with running(CORES["host"], image) as port:
        assert exit_code(harness, "poet-harness", "board", "new", "mine", "--port", port) == 2
    assert "compile the sketch without -ffast-math" in capsys.readouterr().err


def test_a_board_file_of_what_the_sketch_says(
    host: Path, plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found by its name, and its rows say that no sensor gave their energies."""
    monkeypatch.chdir(tmp_path)
    new = ("board", "new", "mine", "--port")
    with running(CORES["host"], host) as port:
        assert exit_code(harness, "poet-harness", *new, port) == 0
        assert "joules are seconds" in capsys.readouterr().out
        board = load_board("mine")
        assert abs(board.drawn_a.cpu_active * board.voltage_v - 1) < 1e-5 and board.drawn_a.cpu_idle == 0
        assert "mine" in board_names()
        assert exit_code(harness, "poet-harness", *new, port, "--active-power", "1W", "--idle-power", "1W") == 2
        assert "has to be above --idle-power" in capsys.readouterr().err
        powers = ("--active-power", "0.33W", "--idle-power", "66mW")
        assert exit_code(harness, "poet-harness", *new, port, *powers) == 0
        board = load_board("mine")
        assert (board.core, board.fpu, board.storage, board.sketch) == ("native", True, "none", True)
        assert (board.drawn_a.cpu_active, board.drawn_a.cpu_idle) == (0.1, 0.02)
        assert not board.has_assembly
        with connect(board, port) as target:
            assert target.device.hello.ram_bytes == board.ram_bytes
            assert (target.meter.source, target.meter.senses) == ("measured", False)
            assert target.meter.identity == "no sensor: energy by the power states of mine.toml"
            make_ready(target.device, plan)
        (tmp_path / "boards/mine.toml").rename(tmp_path / "mine.toml")
        other = (tmp_path / "mine.toml").read_text().replace('core = "native"', 'core = "riscv32f"')
        (tmp_path / "mine.toml").write_text(other)
        with pytest.raises(UserError, match="the sketch there runs on native, and mine is riscv32f"):
            connect(load_board("mine.toml"), port)


def test_users_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are found in three places, in order, and a name of poet's own is refused."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("POET_BOARDS", str(tmp_path / "named"))
    text = (ROOT / "profiles/boards/native.toml").read_text().replace('name = "native"', 'name = "mine"')
    for folder, title in (("config/poet/boards", "last"), ("named", "second"), ("boards", "first")):
        (tmp_path / folder).mkdir(parents=True)
        line = next(line for line in text.splitlines() if line.startswith("title"))
        (tmp_path / folder / "mine.toml").write_text(text.replace(line, f'title = "{title}"'))
        assert load_board("mine").title == title
    (tmp_path / "named/rpi5.toml").write_text(text)
    with pytest.raises(UserError, match="poet ships a board of that name"):
        board_names()


@needs_riscv
def test_flash_and_static_ram_of_the_sketch(riscv: Path) -> None:
    with riscv.open("rb") as file:
        sizes = {section.name: section.data_size for section in ELFFile(file).iter_sections()}
    assert sizes[".text"] + sizes[".data"] <= FLASH_BYTES
    assert sizes[".data"] + sizes[".bss"] <= STATIC_BYTES


def test_it_is_eight_lines_and_compiles_by_each_standard(library: Path, tmp_path: Path) -> None:
    code = [line for line in SKETCH.read_text().splitlines() if line.strip(" {}") and not line.startswith("//")]
    assert len(code) == 8
    includes = [f"-I{library / 'src'}", f"-I{HERE}"]
    for standard in ("c++11", "c++14", "c++17"):
        command = [
            "g++",
            f"-std={standard}",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-c",
            *includes,
            "-include",
            "PoetMemory.h",
        ]
        subprocess.run([*command, library / "src/PoetBoard.cpp", "-o", tmp_path / "board.o"], check=True)


@needs_riscv
def test_the_stack_stays_within_what_a_core_gives(tmp_path: Path) -> None:
    """An ESP32's loop has 8 KB."""
    compiler = [RISCV, "-Os", "-march=rv32imc", "-misa-spec=2.2", "-mabi=ilp32", "--specs=picolibc.specs"]
    stack = Stack(compiler, tmp_path / "stack", SERVING)
    assert 2048 < stack.most("poet_server_receive") < STACK_BYTES - 1024
