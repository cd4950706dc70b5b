# SPDX-License-Identifier: Apache-2.0
"""The watch of firmware/examples: it learns its wearer's exercises on an emulated board, whenever it is reset."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from binascii import crc32
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray
from poet_harness.emulation import Twin, open_twin
from poet_planner.cli import main
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule import Action
from poet_profiles.schedule.file import read_schedule
from torch import nn
from torch.nn.functional import cross_entropy

from tests.support import ROOT
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.training_session import TrainingSession, answers_of

EXAMPLE = ROOT / "firmware/examples/watch"
BOARD = load_board("nrf52840")
USER, STEPS, BATCH = 9, 210, 8


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example's own module."""
    pytest.importorskip("seglearn")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield importlib.import_module("watch")
    sys.modules.pop("watch")


@dataclass(frozen=True)
class Project:
    """The example's folder, copied, planned for a board and built for it."""

    folder: Path
    board: str

    @property
    def plan(self) -> Path:
        return self.folder / "build" / self.board

    @property
    def graph(self) -> Graph:
        return read_graph(self.plan / "graph.json")

    @property
    def parameters(self) -> list[Resident]:
        return [resident for resident in self.graph.residents if resident.kind == "parameter"]

    @property
    def image(self) -> Path:
        return self.folder / ".pio/build" / self.board / "firmware.elf"


@pytest.fixture(scope="module")
def folder(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watch")
    shutil.copytree(EXAMPLE / "src", folder / "src")
    written = (EXAMPLE / "platformio.ini").read_text()
    (folder / "platformio.ini").write_text(written.replace("symlink://../..", f"symlink://{ROOT}/firmware"))
    (folder / "build").mkdir()
    (folder / "build/recordings.c").write_text(example.recordings_c(USER))
    return folder


def built(folder: Path, board: str, batch: int, *options: str) -> Project:
    """As the example's README says."""
    project = Project(folder, board)
    model = ("--model", "watch:network", "--batch", str(batch), "--profile", board)
    optimizer = ("--optimizer", "sgd", "--momentum", "0.9", "--clip-value", "0.2", "--library", "watch_net")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["poet-plan", *model, *optimizer, *options, "--out", str(project.plan)])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    quiet = {"PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No", "PLATFORMIO_DISABLE_UPGRADE_CHECK": "true"}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PLATFORMIO")}
    environment["PLATFORMIO_CORE_DIR"] = str(folder / "pio-core")
    command = [sys.executable, "-m", "platformio", "run", "-e", board]
    run = subprocess.run(command, cwd=folder, env={**environment, **quiet}, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return project


def lines_of(twin: Twin, last: str) -> list[str]:
    """What the watch says until a line that begins so."""
    said, rest = [""], b""
    twin.serial.timeout = 60
    while not said[-1].startswith(last):
        heard = twin.serial.read(256)
        assert heard, f"the watch says nothing more; it said {said}"
        *lines, rest = (rest + heard).split(b"\n")
        said += [line.decode() for line in lines]
    return said[1:]


def weights_in(twin: Twin, project: Project) -> dict[str, NDArray[np.float32]]:
    """The weights that lie in the watch's RAM, by name."""
    with project.image.open("rb") as file:
        (ram,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("_ZL3ram")
    return {
        resident.id: np.frombuffer(twin.memory(ram["st_value"] + resident.offset, resident.bytes), np.float32)
        for resident in project.parameters
    }


def batches() -> Iterator[list[int]]:
    """Which windows the watch draws for each step."""
    random = 1
    for _ in range(STEPS):
        batch = []
        for _ in range(BATCH):
            random = (random * 1664525 + 1013904223) % 2**32
            batch.append((random >> 8) % 56)
        yield batch


def trained_by_the_host(example: Any, project: Project, firmware: HostFirmware, card: Path) -> dict[str, bytes]:
    """The weights after the same steps by the protocol, in the firmware for this computer."""
    windows, labels = example.labelled_by(USER)
    state = example.pretrained().state_dict()
    data = {resident.id: state[resident.id].numpy() for resident in project.parameters}
    data["input"] = np.array([example.numbers(windows[batch]).numpy() for batch in batches()])
    data["target"] = np.array([labels[batch] for batch in batches()])
    session = TrainingSession(project.graph, "", BATCH, STEPS, data, rate=0.01)
    answers = answers_of(firmware.link(card.with_name("poet"), "-I", str(project.plan)), card, session.requests)
    tensors = session.tensors(answers)
    return {resident.id: tensors[resident.id] for resident in project.parameters}


def trained_by_pytorch(example: Any) -> nn.Module:
    """The same steps with the same draws, in f64: in f32 PyTorch's roundings alone move a weight by up to 1.1e-5."""
    module = example.pretrained().double()
    windows, labels = example.labelled_by(USER)
    x, y = example.numbers(windows).double(), torch.from_numpy(labels).long()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    for batch in batches():
        optimizer.zero_grad()
        cross_entropy(module(x[batch]), y[batch]).backward()
        torch.nn.utils.clip_grad_value_(module.parameters(), 0.2)
        optimizer.step()
    return module


def test_a_watch_learns_its_wearers_exercises_whenever_power_goes(
    example: Any, folder: Path, host_firmware: HostFirmware, tmp_path: Path
) -> None:
    project = built(folder, BOARD.name, BATCH, "--time-limit", "1")
    with open_twin(BOARD, project.image, tmp_path / "card.img") as twin:
        first = lines_of(twin, "learned 49")
        twin.reset()
        second = lines_of(twin, "learned 105")
        twin.cut_power()
        third = lines_of(twin, "end")
        weights = weights_in(twin, project)
    names = [line.split()[0] for line in first]
    assert set(names[: len(example.EXERCISES)]) == set(example.EXERCISES)
    assert names[len(example.EXERCISES)] == "before"
    assert (second[0], third[0]) == ("learned 56", "learned 112"), "it goes on behind the last commit"
    assert third[-1] == "end 0"
    before, windows = (int(word) for word in first[len(example.EXERCISES)].split()[1::2])
    each = [[int(word) for word in line.split()[1::2]] for line in first[: len(example.EXERCISES)]]
    assert [sum(column) for column in zip(*each, strict=True)] == [before, windows]
    after = int(third[-3].split()[1])
    assert before <= 0.30 * windows
    assert after >= 0.85 * windows

    found = {name: part.tobytes() for name, part in weights.items()}
    assert found == trained_by_the_host(example, project, host_firmware, tmp_path / "host.img")
    assert int(third[-2].removeprefix("weights ")) == crc32(b"".join(found.values()))
    expected = trained_by_pytorch(example).state_dict()
    for name, part in weights.items():
        np.testing.assert_allclose(part, expected[name].numpy().ravel(), rtol=0, atol=1e-5)

    module = example.pretrained()
    tested, labels = example.tested_with(USER)
    assert windows == len(tested)
    assert before == round(example.accuracy(module, tested, labels) * windows)
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    module.load_state_dict({name: torch.tensor(part).reshape(shapes[name]) for name, part in weights.items()})
    assert after == round(example.accuracy(module, tested, labels) * windows)


def test_it_fits_the_mkr1000_and_begins_there(example: Any, folder: Path, tmp_path: Path) -> None:
    """Watch, recordings and a plan that pages, in its flash and RAM. There the training itself takes minutes."""
    mkr1000 = load_board("mkr1000")
    project = built(folder, mkr1000.name, 2, "--strategy", "page-all")
    assert any(step.do is Action.PAGE_OUT for step in read_schedule(project.plan / "schedule.json").steps)
    later = next(each for each in example.recordings() if each.user == USER and each.side == example.LEFT)
    windows = later.windows(0.5, 1.0)
    labels = np.full(len(windows), later.exercise)
    right = round(example.accuracy(example.pretrained(), windows, labels) * len(windows))
    name = example.EXERCISES[later.exercise]
    with open_twin(mkr1000, project.image, tmp_path / "card.img") as twin:
        assert lines_of(twin, name) == [f"{name} {right} of {len(windows)}"]
