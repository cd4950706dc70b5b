# SPDX-License-Identifier: Apache-2.0
"""Six small networks: cycles of a step and of an inference, flash and stack; weights beside PyTorch's.

    .venv/bin/python -m benchmarks.firmware.small_networks [NETWORK …]

Each is planned for the nRF52840 with everything in RAM, gradients resident and an inference beside, and linked into a
bare image from an archive of the core, as PlatformIO does. After three steps, the parameters are compared with what
PyTorch's own optimiser makes of the same batches: all but those whose gradients are rounding errors, as a bias before a
batch norm, because Adam makes whole steps of them. Exits 1 if one differs by more than 1e-4 of the largest, or a figure
is above its limit. Cycles are `emulated`; bytes are read from the image.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from elftools.elf.elffile import ELFFile
from poet_planner.graph.optimizer import Method, Optimizer
from poet_planner.models import Model
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_library import write_library
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import initial_state
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph
from poet_profiles.plan_folder.beside import Inference
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from benchmarks.firmware.emulated_core import FIRMWARE, FLAGS, HERE, MACHINE_FLAGS, EmulatedCore

CORE, STEPS, RATE, DIGITS = "cortex-m4f", 3, 0.01, 1e-4
NOISE = 1e-6  # no gradient is smaller
PARTS = ("library", "kernels", "ops", "runtime", "storage")
INPUT, TARGET, INFERENCE_INPUT, _OUTPUT, RAM = range(5)
STACK_BYTES, PAINT = 8192, 0xA5  # what bare.ld leaves


def _seeded(layers: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return layers()


def _classifier(name: str, layers: Callable[[], nn.Module], batch: int, shape: tuple[int, ...], classes: int) -> Model:
    random = torch.Generator().manual_seed(1)
    x = torch.randn(batch, *shape, generator=random)
    return Model(name, _seeded(layers), (x,), (torch.randint(0, classes, (batch,), generator=random),), cross_entropy)


def tiny(batch: int | None) -> Model:
    layers = lambda: nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))  # noqa: E731
    return _classifier("tiny", layers, batch or 1, (16,), 4)


def gesture(batch: int | None) -> Model:
    layers = lambda: nn.Sequential(nn.Linear(60, 4), nn.Sigmoid(), nn.Linear(4, 3))  # noqa: E731
    return _classifier("gesture", layers, batch or 15, (60,), 3)


def dense64(batch: int | None) -> Model:
    layers = lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))  # noqa: E731
    return _classifier("dense64", layers, batch or 8, (64,), 10)


def aifes_cnn(_batch: int | None) -> Model:
    """AIfES's example: a vertical or a horizontal line among 4 x 3 pixels."""

    def layers() -> nn.Module:
        norms = (nn.BatchNorm2d(channels, 1e-6, 0.1) for channels in (2, 1))
        first = (nn.Conv2d(1, 2, 2, (2, 1), 1), next(norms), nn.ReLU(), nn.MaxPool2d((2, 1), (2, 1)))
        return nn.Sequential(
            *first, nn.Conv2d(2, 1, 1), next(norms), nn.ReLU(), nn.Flatten(), nn.Linear(4, 1), nn.Sigmoid()
        )

    x = torch.zeros(4, 1, 4, 3)
    x[0, 0, :, 1] = x[1, 0, 1, :] = x[2, 0, :, 2] = x[3, 0, 3, :] = 1
    return Model("aifes_cnn", _seeded(layers), (x,), (torch.tensor([[0.0], [1], [0], [1]]),), mse_loss)


def conv2d_bn(batch: int | None) -> Model:
    def block(channels: int, filters: int) -> tuple[nn.Module, ...]:
        norm = nn.BatchNorm2d(filters, 1e-5, 0.1)
        return nn.Conv2d(channels, filters, 3, padding=1), norm, nn.ReLU(), nn.MaxPool2d(2)

    layers = lambda: nn.Sequential(*block(1, 8), *block(8, 16), nn.Flatten(), nn.Linear(64, 10))  # noqa: E731
    return _classifier("conv2d_bn", layers, batch or 8, (1, 8, 8), 10)


@dataclass(frozen=True)
class Network:
    """A model of this module, and what it may take: cycles of a step and an inference, flash without weights.

    ``recorded`` are flash and stack as they were last; tests/benchmarks/test_small_networks.py holds them.
    """

    model: str
    batch: int
    optimizer: Optimizer
    step: int
    inference: int
    flash: int
    recorded: tuple[int, int]

    @property
    def name(self) -> str:
        """Of the model for the planner."""
        return f"{__spec__.name}:{self.model}"


SGD, ADAM = Optimizer(), Optimizer(Method.ADAM)
NETWORKS = {
    "tiny 1": Network("tiny", 1, SGD, 9_200, 2_600, 15_500, (13_732, 932)),
    "tiny 4": Network("tiny", 4, SGD, 17_500, 2_600, 18_550, (18_484, 932)),
    "gesture": Network("gesture", 15, ADAM, 80_000, 3_500, 23_050, (22_940, 972)),
    "dense64": Network("dense64", 8, SGD, 180_000, 11_300, 21_500, (21_356, 932)),
    "aifes_cnn": Network("aifes_cnn", 4, ADAM, 67_000, 10_800, 27_000, (26_624, 1_068)),
    "conv2d_bn": Network("conv2d_bn", 8, SGD, 1_880_000, 112_000, 44_500, (43_648, 1_116)),
}


@dataclass(frozen=True)
class Image:
    """A network's plan, linked: its bytes without initial weights, and those."""

    graph: Graph
    elf_folder: Path
    sources: list[Path]
    includes: list[Path]
    initial_bytes: int

    def core(self) -> EmulatedCore:
        names = ["begin", "train_at", "infer", "place"]
        return EmulatedCore(CORE, self.sources, names, self.elf_folder, self.includes)

    def flash(self) -> int:
        """Of the linked image, without initial weights."""
        with (self.elf_folder / f"{CORE}.elf").open("rb") as file:
            sections = ELFFile(file).iter_sections()
            loaded = [one["sh_size"] for one in sections if one["sh_flags"] & 2 and one["sh_type"] == "SHT_PROGBITS"]
        return sum(loaded) - self.initial_bytes


@cache
def archive(folder: Path) -> Path:
    """The whole core."""
    sources = [str(path) for part in PARTS for path in sorted((FIRMWARE / "src" / part).glob("*.c"))]
    flags = [*MACHINE_FLAGS[CORE], *FLAGS, f"-I{FIRMWARE / 'include'}"]
    subprocess.run(["arm-none-eabi-gcc", *flags, "-c", *sources], cwd=folder, check=True)
    objects = [str(path) for path in sorted(folder.glob("*.o"))]
    subprocess.run(["arm-none-eabi-ar", "rcs", "libpoet.a", *objects], cwd=folder, check=True)
    return folder / "libpoet.a"


def image_of(network: Network, core: Path, folder: Path) -> Image:
    """Plan and sources of a network; ``core`` is the folder of the archive."""
    step = training_step(network.name, network.batch)
    graph = step.graph(load_board("nrf52840"), network.optimizer)
    beside = step.inference(graph)
    inference = Inference(beside.graph, store_all_schedule(beside.graph), beside.data)
    initial = initial_state(network.name, 0, network.batch)
    write_library("net", graph, store_all_schedule(graph), {}, initial, folder, inference)
    own = [HERE / "small_networks.c", folder / "src/net.c", folder / "src/net_data.S", archive(core)]
    size = (folder / "src/net_initial.bin").stat().st_size
    return Image(graph, folder / "image", own, [folder / "src"], size)


def batches(model: Model) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
    """One for each step: the model's inputs with other noise, its own targets."""
    random = torch.Generator().manual_seed(2)
    for _ in range(STEPS):
        x = model.inputs[0]
        yield x + 0.1 * torch.randn(x.shape, generator=random), model.targets[0]


@dataclass(frozen=True)
class Result:
    """Cycles, bytes, and by how much the parameter that is farthest off differs from PyTorch's, of the largest."""

    step: int
    inference: int
    flash: int
    initial: int
    ram: int
    stack: int
    error: float


def measured(network: Network, image: Image) -> Result:
    core, model = image.core(), _model(network)
    top = core.address("stack_end")
    core.machine.write_memory(top - STACK_BYTES, bytes([PAINT]) * STACK_BYTES)
    assert core.call("begin")[0] == 0
    place = {what: core.call("place", what)[0] & 0xFFFFFFFF for what in range(RAM + 1)}
    rate, cycles = int(np.float32(RATE).view(np.uint32)), 0
    for x, target in batches(model):
        core.machine.write_memory(place[INPUT], x.numpy().tobytes())
        kind = np.float32 if target.is_floating_point() else np.int32
        core.machine.write_memory(place[TARGET], target.numpy().astype(kind).tobytes())
        status, cycles = core.call("train_at", rate)
        assert status == 0
    error = _error(network, image.graph, partial(_tensor, core, place[RAM]))
    core.machine.write_memory(place[INFERENCE_INPUT], model.inputs[0][:1].numpy().tobytes())
    status, inference = core.call("infer")
    assert status == 0
    painted = core.machine.read_memory(top - STACK_BYTES, STACK_BYTES)
    stack = STACK_BYTES - len(painted) + len(painted.lstrip(bytes([PAINT])))
    with (image.elf_folder / f"{CORE}.elf").open("rb") as file:
        ram = ELFFile(file).get_section_by_name(".bss")["sh_size"] - STACK_BYTES
    return Result(cycles, inference, image.flash(), image.initial_bytes, ram, stack, error)


def _model(network: Network) -> Model:
    model: Model = globals()[network.model](network.batch)
    return model


def _tensor(core: EmulatedCore, ram: int, offset: int, size: int) -> np.ndarray:
    return np.frombuffer(core.machine.read_memory(ram + offset, size), np.float32)


def _error(network: Network, graph: Graph, tensor: Callable[[int, int], np.ndarray]) -> float:
    """After the same steps by PyTorch."""
    model = _model(network)
    kind = torch.optim.Adam if network.optimizer is ADAM else torch.optim.SGD
    optimizer = kind(model.module.parameters(), lr=RATE)
    named = dict(model.module.named_parameters())
    gradients: dict[str, float] = {}
    for x, target in batches(model):
        optimizer.zero_grad()
        model.loss(model.module(x), target).backward()
        for name, parameter in named.items():
            assert parameter.grad is not None
            gradients[name] = max(gradients.get(name, 0.0), float(parameter.grad.abs().max()))
        optimizer.step()
    found = {one.id: tensor(one.offset, one.bytes) for one in graph.residents if one.id in named}
    assert found.keys() == named.keys()
    expected = {name: parameter.detach().numpy().ravel() for name, parameter in named.items()}
    largest = max(float(np.abs(values).max()) for values in expected.values())
    errors = {name: float(np.abs(found[name] - values).max()) for name, values in expected.items()}
    return max(error for name, error in errors.items() if gradients[name] > NOISE) / largest


def main() -> int:
    wanted = sys.argv[1:] or list(NETWORKS)
    unknown = sorted(set(wanted) - NETWORKS.keys())
    if unknown:
        print(f"small_networks: no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}", file=sys.stderr)
        return 2
    speed = Table("network", "step", "at most", "inference", "at most", "off by", title="cycles (emulated)")
    size = Table("network", "flash without weights", "at most", "weights", "RAM", "stack", title="bytes")
    above = []
    with tempfile.TemporaryDirectory() as place:
        core = Path(place) / "core"
        core.mkdir()
        for name in wanted:
            network = NETWORKS[name]
            result = measured(network, image_of(network, core, Path(place) / name.replace(" ", "")))
            limits = (("step", network.step), ("inference", network.inference), ("flash", network.flash))
            above += [
                f"{name}: {what} {getattr(result, what):,}, more than {limit:,}"
                for what, limit in limits
                if getattr(result, what) > limit
            ]
            if not result.error <= DIGITS:
                above.append(f"{name}: a parameter is off by {result.error:.1e} of the largest")
            cycles = (result.step, network.step, result.inference, network.inference)
            speed.add_row(name, *(f"{each:,}" for each in cycles), f"{result.error:.1e}")
            sizes = (result.flash, network.flash, result.initial, result.ram, result.stack)
            size.add_row(name, *(f"{each:,}" for each in sizes))
    for table in (speed, size):
        Console(width=120).print(table)
    for line in above:
        print(line, file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
