# SPDX-License-Identifier: Apache-2.0
"""The watch of firmware/examples: it learns its wearer's exercises on an emulated board, whenever it is reset."""

from __future__ import annotations

import importlib
import sys
from binascii import crc32
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from poet_harness.emulation import open_emulated_board
from poet_profiles.boards import load_board
from poet_profiles.schedule import Action
from poet_profiles.schedule.file import read_schedule

from benchmarks.firmware.watch import EXAMPLE, Exact, Project, copy_example, lines_of, right_of
from tests.support.firmware.core import HostFirmware
from tests.support.firmware.training_session import TrainingSession, answers_of
from tests.support.programs import poet_plan

BOARD = load_board("nrf52840")
USER = 9


@pytest.fixture(scope="module")
def example() -> Iterator[Any]:
    """The example's own module."""
    pytest.importorskip("seglearn")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        yield importlib.import_module("watch")
    sys.modules.pop("watch")


@pytest.fixture(scope="module")
def folder(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watch")
    copy_example(example, folder, USER)
    return folder


def built(project: Project, *options: str) -> Project:
    """As the example's README says."""
    assert poet_plan(*project.planning, *options) == 0
    project.build()
    return project


def trained_by_the_host(example: Any, project: Project, firmware: HostFirmware, card: Path) -> dict[str, bytes]:
    """The weights after the same steps by the protocol, in the firmware for this computer."""
    windows, labels = example.labelled_by(USER)
    state = example.pretrained().state_dict()
    data = {resident.id: state[resident.id].numpy() for resident in project.parameters}
    data["input"] = np.array([example.numbers(windows[batch]).numpy() for batch in project.draws()])
    data["target"] = np.array([labels[batch] for batch in project.draws()])
    session = TrainingSession(project.graph, "", project.batch, project.steps, data, rate=0.01)
    answers = answers_of(firmware.link(card.with_name("poet"), "-I", str(project.plan)), card, session.requests)
    tensors = session.tensors(answers)
    return {resident.id: tensors[resident.id] for resident in project.parameters}


def test_a_watch_learns_its_wearers_exercises_whenever_power_goes(
    example: Any, folder: Path, host_firmware: HostFirmware, tmp_path: Path
) -> None:
    project = built(Project(folder, BOARD.name), "--time-limit", "1")
    with open_emulated_board(BOARD, project.image, tmp_path / "card.img") as emulated:
        emulated.card.faults.removed = True
        first = lines_of(emulated, "learned 49")
        emulated.reset()
        second = lines_of(emulated, "learned 105")
        emulated.cut_power()
        third = lines_of(emulated, "end")
        weights = project.weights_in(emulated)
    names = [line.split()[0] for line in first]
    assert set(names[: len(example.EXERCISES)]) == set(example.EXERCISES)
    assert names[len(example.EXERCISES)] == "before"
    assert (second[0], third[0]) == ("learned 56", "learned 112"), "it goes on after the last commit"
    assert third[-1] == "end 0"
    before, windows = right_of(first[len(example.EXERCISES)])
    each = [right_of(line) for line in first[: len(example.EXERCISES)]]
    assert [sum(column) for column in zip(*each, strict=True)] == [before, windows]
    after, _ = right_of(third[-3])
    assert before <= 0.30 * windows
    assert after >= 0.85 * windows

    found = {name: part.tobytes() for name, part in weights.items()}
    assert found == trained_by_the_host(example, project, host_firmware, tmp_path / "host.img")
    assert int(third[-2].removeprefix("weights ")) == crc32(b"".join(found.values()))
    exact = Exact(example, project)
    assert exact.off(weights, USER) <= 1e-5
    tested, labels = example.tested_with(USER)
    assert windows == len(tested)
    assert before == exact.right(exact.trained(), tested, labels)
    assert after == exact.right(exact.with_weights(weights), tested, labels)


def test_it_fits_the_mkr1000_and_begins_there(example: Any, folder: Path, tmp_path: Path) -> None:
    """Watch, recordings and a plan that pages, in its flash and RAM. There the training itself takes minutes."""
    mkr1000 = load_board("mkr1000")
    project = built(Project(folder, mkr1000.name), "--method", "page_all")
    assert any(step.do is Action.PAGE_OUT for step in read_schedule(project.plan / "schedule.json").steps)
    later = next(each for each in example.recordings() if each.user == USER and each.side == example.LEFT)
    windows = later.windows(0.5, 1.0)
    labels = np.full(len(windows), later.exercise)
    right = round(example.accuracy(example.pretrained(), windows, labels) * len(windows))
    name = example.EXERCISES[later.exercise]
    with open_emulated_board(mkr1000, project.image, tmp_path / "card.img") as emulated:
        assert lines_of(emulated, name) == [f"{name} {right} of {len(windows)}"]


def test_with_frozen_convolutions_on_int8_it_learns_on_the_mkr1000(example: Any, tmp_path: Path) -> None:
    """For one epoch. The others are trained on the bits that exact integers have in PyTorch."""
    project = Project(tmp_path, "mkr1000", on_int8=True, epochs=1)
    copy_example(example, tmp_path, USER)
    header = tmp_path / "src/watch.hpp"
    whole = header.read_text()
    header.write_text(whole.replace("epochs = 30", "epochs = 1"))
    assert header.read_text() != whole
    project.prepare(example)
    built(project, "--time-limit", "1")
    layers = [node.operation.op for node in project.graph.nodes if node.operation and not node.backward]
    assert layers[:4] == ["quantize_s8", "conv2d_s8", "conv2d_s8", "dequantize_s8"]
    with open_emulated_board(load_board("mkr1000"), project.image, tmp_path / "card.img") as emulated:
        said = lines_of(emulated, "end")
        weights = project.weights_in(emulated)
    assert said[-1] == "end 0"
    exact = Exact(example, project)
    assert exact.off(weights, USER) <= 1e-5
    tested, labels = example.tested_with(USER)
    expected = [exact.right(module, tested, labels) for module in (exact.trained(), exact.with_weights(weights))]
    found = [right_of(line) for line in said if line.startswith(("before ", "after "))]
    assert found == [(right, len(tested)) for right in expected]
    assert expected[1] > expected[0]
