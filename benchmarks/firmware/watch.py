# SPDX-License-Identifier: Apache-2.0
"""The watch of firmware/examples learns its wearer's exercises, whole, on an emulated board.

    .venv/bin/python -m benchmarks.firmware.watch [--board mkr1000] [--user 9]

The example is planned and built as its README says, and run from an empty card to its end. What the board did is
compared:

- right answers before and after with PyTorch's by the weights that the board then has: equal;
- these weights with PyTorch's own training on the same windows, in f64: within 1e-5.

Exits 1 if anything is off. It needs the package seglearn. The emulated MKR1000 takes minutes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
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
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Resident
from poet_profiles.graph.file import read_graph
from torch import nn
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

    @property
    def batch(self) -> int:
        return BATCHES[self.board]

    @property
    def steps(self) -> int:
        return EPOCHS * LABELLED // self.batch

    @property
    def plan(self) -> Path:
        return self.folder / "build" / self.board

    @property
    def planning(self) -> list[str]:
        """What poet-plan is given."""
        model = ["--model", "watch:network", "--batch", str(self.batch), "--profile", self.board]
        optimizer = ["--optimizer", "sgd", "--momentum", "0.9", "--clip-value", "0.2"]
        return [*model, *optimizer, "--library", "watch_net", "--out", str(self.plan)]

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


def trained_by_pytorch(example: Any, project: Project, user: int) -> nn.Module:
    """The same steps with the same draws, in f64: in f32 PyTorch's roundings alone move a weight by up to 1.1e-5."""
    module = example.pretrained().double()
    windows, labels = example.labelled_by(user)
    x, y = example.numbers(windows).double(), torch.from_numpy(labels).long()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    for batch in project.draws():
        optimizer.zero_grad()
        cross_entropy(module(x[batch]), y[batch]).backward()
        torch.nn.utils.clip_grad_value_(module.parameters(), 0.2)
        optimizer.step()
    return module


def right_of(line: str) -> tuple[int, int]:
    """``before 50 of 175``"""
    right, windows = (int(word) for word in line.split()[1::2])
    return right, windows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--board", choices=BATCHES, default="mkr1000")
    parser.add_argument("--user", type=int, choices=(9, 10), default=9)
    asked = parser.parse_args()
    example = load_example()
    tested, labels = example.tested_with(asked.user)
    module = example.pretrained()
    expected = [round(example.accuracy(module, tested, labels) * len(tested))]
    with tempfile.TemporaryDirectory() as made:
        project = Project(Path(made), asked.board)
        copy_example(example, project.folder, asked.user)
        command = [str(Path(sys.executable).parent / "poet-plan"), *project.planning]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": str(EXAMPLE)}, check=True)
        project.build()
        with open_emulated_board(load_board(asked.board), project.image, project.folder / "card.img") as emulated:
            said = lines_of(emulated, "end")
            weights, time_s = project.weights_in(emulated), emulated.time_s
        exact = trained_by_pytorch(example, project, asked.user).state_dict()
    shapes = {name: tensor.shape for name, tensor in module.state_dict().items()}
    module.load_state_dict({name: torch.tensor(part).reshape(shapes[name]) for name, part in weights.items()})
    expected.append(round(example.accuracy(module, tested, labels) * len(tested)))
    off = max(float(np.abs(part - exact[name].numpy().ravel()).max()) for name, part in weights.items())
    found = [right_of(line) for line in said if line.startswith(("before ", "after "))]
    print("\n".join(line for line in said if not line.startswith("learned ")))
    print(f"PyTorch, with the board's weights: {expected[0]} and {expected[1]} of {len(tested)} right")
    print(f"{project.steps} steps; {time_s:.0f} s on the {asked.board} (emulated); weights off PyTorch's: {off:.2g}")
    return int(said[-1] != "end 0" or off > TOLERANCE or found != [(right, len(tested)) for right in expected])


if __name__ == "__main__":
    sys.exit(main())
