# SPDX-License-Identifier: Apache-2.0
"""The watch of firmware/examples learns its wearer's exercises, whole, on an emulated board.

    .venv/bin/python -m benchmarks.firmware.watch [--board mkr1000] [--user 9] [--int8]

The example is planned and built as its README says, and run from an empty card to its end. What the board did is
compared:

- right answers before and after with PyTorch's by the weights that the board then has: equal;
- these weights with PyTorch's own training on the same windows, in f64: within 1e-5.

With --int8 the first two convolutions are frozen, and computed on int8. PyTorch then trains the others on what exact
integers make of the windows.

Exits 1 if anything is off. It needs the package seglearn. The emulated MKR1000 takes minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from elftools.elf.elffile import ELFFile
from numpy.typing import NDArray
from poet_harness.emulation import EmulatedBoard, open_emulated_board
from poet_planner.lowering.firmware import in_integers
from poet_planner.planning.calibration import Calibration
from poet_planner.planning.training_graph import TrainingStep
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import read_graph
from poet_runtime.executor import Execution, store_all_steps
from poet_runtime.traced_graph import Kind
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "firmware/examples/watch"
# Windows in a training step.
BATCHES = {"nrf52840": 8, "mkr1000": 2}
EPOCHS, LABELLED = 30, 56
TOLERANCE = 1e-5
SILENT_S = 600


@dataclass(frozen=True)
class Project:
    """The example's folder, copied, planned for a board and built for it."""

    folder: Path
    board: str
    on_int8: bool = False
    epochs: int = EPOCHS

    @property
    def batch(self) -> int:
        return BATCHES[self.board]

    @property
    def steps(self) -> int:
        return self.epochs * LABELLED // self.batch

    @property
    def plan(self) -> Path:
        return self.folder / "build" / self.board

    @property
    def samples(self) -> Path:
        """Windows that the network was pretrained on."""
        return self.folder / "build/samples.npz"

    @property
    def model(self) -> list[str]:
        """The options of all verbs that say what is trained."""
        named = ["--model", "watch:last_layers" if self.on_int8 else "watch:network", "--batch", str(self.batch)]
        return [*named, "--frozen", "int8", "--calibrate", str(self.samples)] if self.on_int8 else named

    @property
    def planning(self) -> list[str]:
        """What poet-plan is given."""
        optimizer = ["--optimizer", "sgd", "--momentum", "0.9", "--clip-value", "0.2"]
        features = ["--features", "whole"] if self.on_int8 else []  # the diary keeps windows, and no features
        return [
            *self.model,
            "--profile",
            self.board,
            *optimizer,
            *features,
            "--library",
            "watch_net",
            "--out",
            str(self.plan),
        ]

    def prepare(self, example: Any) -> None:
        """For layers on int8, the samples that their ranges come from."""
        if self.on_int8:
            example.write_samples(self.samples)

    @property
    def graph(self) -> Graph:
        return read_graph(self.plan / "graph.json")

    @property
    def parameters(self) -> list[Resident]:
        return [resident for resident in self.graph.residents if resident.kind == "parameter"]

    @property
    def image(self) -> Path:
        return self.folder / ".pio/build" / self.board / "firmware.elf"

    def build(self) -> None:
        """By PlatformIO, once there is a plan."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PLATFORMIO")}
        environment["PLATFORMIO_CORE_DIR"] = str(self.folder / "pio-core")
        environment["PLATFORMIO_SETTING_ENABLE_TELEMETRY"] = "No"
        environment["PLATFORMIO_DISABLE_UPGRADE_CHECK"] = "true"
        command = [sys.executable, "-m", "platformio", "run", "-e", self.board]
        run = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            raise RuntimeError(run.stdout + run.stderr)

    def weights_in(self, emulated: EmulatedBoard) -> dict[str, NDArray[np.float32]]:
        """The weights that lie in the watch's RAM, by name."""
        with self.image.open("rb") as file:
            (ram,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("_ZL3ram")
        return {
            resident.id: np.frombuffer(emulated.memory(ram["st_value"] + resident.offset, resident.bytes), np.float32)
            for resident in self.parameters
        }

    def draws(self) -> Iterator[list[int]]:
        """Which windows the watch draws for each step."""
        random = 1
        for _ in range(self.steps):
            batch = []
            for _ in range(self.batch):
                random = (random * 1664525 + 1013904223) % 2**32
                batch.append((random >> 8) % LABELLED)
            yield batch


def call(program: str, *arguments: str) -> None:
    """A command line, run where it finds the example's module."""
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLE)}
    subprocess.run([str(Path(sys.executable).parent / program), *arguments], env=environment, check=True)


def load_example() -> Any:
    """The example's own module."""
    spec = spec_from_file_location("watch", EXAMPLE / "watch.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy_example(example: Any, folder: Path, user: int) -> None:
    """Its sources, and what the simulated sensor plays, into an empty folder."""
    shutil.copytree(EXAMPLE / "src", folder / "src")
    written = (EXAMPLE / "platformio.ini").read_text()
    (folder / "platformio.ini").write_text(written.replace("symlink://../..", f"symlink://{ROOT}/firmware"))
    (folder / "build").mkdir()
    (folder / "build/recordings.c").write_text(example.recordings_c(user))


def lines_of(emulated: EmulatedBoard, last: str) -> list[str]:
    """What the watch says until a line that begins so."""
    said, rest = [""], b""
    emulated.serial.timeout = SILENT_S
    while not said[-1].startswith(last):
        received = emulated.serial.read(256)
        if not received:
            raise RuntimeError(f"the watch says nothing more; it said {said}")
        *lines, rest = (rest + received).split(b"\n")
        said += [line.decode() for line in lines]
    return said[1:]


@dataclass(frozen=True)
class Exact:
    """The watch's network in PyTorch: what is trained, behind what stays, which is on int8 or in f32."""

    example: Any
    project: Project

    @property
    def frozen(self) -> int:
        """How many modules stay as they are."""
        return self.example.FROZEN if self.project.on_int8 else 0

    def trained(self) -> nn.Module:
        """What is trained, with the weights that it begins with."""
        return nn.Sequential(OrderedDict(list(self.example.pretrained().named_children())[self.frozen :]))

    def seen(self, windows: NDArray[np.int16]) -> Tensor:
        """What that reads of some windows."""
        x = self.example.numbers(windows)
        return self._on_int8(x) if self.project.on_int8 else x

    def _on_int8(self, x: Tensor) -> Tensor:
        model = self.example.last_layers(self.project.batch)
        step = TrainingStep(model, calibration=Calibration(self.project.samples))
        graph, state = in_integers(step.forward), model.module.state_dict()
        (given,) = (one.id for one in graph.residents if one.kind is Kind.INPUT)
        steps = list(store_all_steps(graph))
        reader = next(one for one in graph.operators if one.module == str(self.frozen))
        until = next(place for place, one in enumerate(steps) if one.target == reader.id)
        made = []
        for window in x:
            execution = Execution(graph, {**state, given: window[None]})
            for each in steps[:until]:
                execution.step(each)
            made.append(execution.values[reader.refs[0].source])
        return torch.cat(made)

    def right(self, module: nn.Module, windows: NDArray[np.int16], labels: NDArray[np.int32]) -> int:
        """How many windows a module of what is trained answers rightly."""
        with torch.no_grad():
            return int((module(self.seen(windows)).argmax(dim=1) == torch.from_numpy(labels)).sum())

    def after_training(self, user: int) -> nn.Module:
        """The same steps with the same draws, in f64: PyTorch's roundings in f32 move a weight by up to 1.1e-5."""
        module = self.trained().double()
        windows, labels = self.example.labelled_by(user)
        x, y = self.seen(windows).double(), torch.from_numpy(labels).long()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
        for batch in self.project.draws():
            optimizer.zero_grad()
            cross_entropy(module(x[batch]), y[batch]).backward()
            torch.nn.utils.clip_grad_value_(module.parameters(), 0.2)
            optimizer.step()
        return module

    def with_weights(self, weights: dict[str, NDArray[np.float32]]) -> nn.Module:
        """What is trained, with the weights that a board has."""
        module = self.trained()
        shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
        module.load_state_dict({name: torch.tensor(part).reshape(shapes[name]) for name, part in weights.items()})
        return module

    def off(self, weights: dict[str, NDArray[np.float32]], user: int) -> float:
        """How far a board's weights are off at most."""
        exact = self.after_training(user).state_dict()
        return max(float(np.abs(part - exact[name].numpy().ravel()).max()) for name, part in weights.items())


def right_of(line: str) -> tuple[int, int]:
    """``before 50 of 175``"""
    right, windows = (int(word) for word in line.split()[1::2])
    return right, windows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", choices=BATCHES, default="mkr1000")
    parser.add_argument("--user", type=int, choices=(9, 10), default=9)
    parser.add_argument("--int8", action="store_true", help="freeze the first two convolutions, on int8")
    asked = parser.parse_args()
    example = load_example()
    tested, labels = example.tested_with(asked.user)
    with tempfile.TemporaryDirectory() as made:
        project = Project(Path(made), asked.board, asked.int8)
        copy_example(example, project.folder, asked.user)
        project.prepare(example)
        call("poet-plan", *project.planning)
        project.build()
        with open_emulated_board(load_board(asked.board), project.image, project.folder / "card.img") as emulated:
            said = lines_of(emulated, "end")
            weights, time_s = project.weights_in(emulated), emulated.time_s
        exact = Exact(example, project)
        expected = [exact.right(module, tested, labels) for module in (exact.trained(), exact.with_weights(weights))]
        off = exact.off(weights, asked.user)
    found = [right_of(line) for line in said if line.startswith(("before ", "after "))]
    print("\n".join(line for line in said if not line.startswith("learned ")))
    print(f"PyTorch, with the board's weights: {expected[0]} and {expected[1]} of {len(tested)} right")
    print(f"{project.steps} steps; {time_s:.0f} s on the {asked.board} (emulated); weights off PyTorch's: {off:.2g}")
    return int(said[-1] != "end 0" or off > TOLERANCE or found != [(right, len(tested)) for right in expected])


if __name__ == "__main__":
    sys.exit(main())
