# SPDX-License-Identifier: Apache-2.0
"""Training steps under an optimised plan on both emulated boards, against the same kernels with unlimited memory.

    .venv/bin/python -m benchmarks.firmware.training [--seconds 20] [--out DIR]

Plans MLPerf Tiny's DS-CNN for the nRF52840 and a narrow CNN for the MKR1000 from the shipped profiles, trains three
steps on the emulated board, and compares loss, every gradient, every parameter and all running statistics after each of
them with a run on this computer that keeps everything. Gradients that have no place of their own are read out of the
arena, as a debug probe would. RAM in all is what the firmware takes as the linker placed it (stack, data, tables), the
resident tensors, and the arena up to its highest address. Exits 1 if a bit differs, or if the RAM exceeds the board's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.device import Device, StepReport
from poet_harness.protocol.link import Link
from poet_harness.target.connect import connect
from poet_planner.planning.training_graph import training_step
from poet_planner.schedule.c_headers import write_headers
from poet_planner.schedule.store_all import store_all_schedule
from poet_planner.torch_reference.training_data import training_data
from poet_profiles.boards import Board, load_board
from poet_profiles.graph import Graph
from poet_profiles.graph.file import read_graph
from poet_profiles.schedule.file import read_schedule
from rich.console import Console
from rich.table import Table

CASES = (("nrf52840", "mlperf_ds_cnn"), ("mkr1000", "digits_cnn_small"))
STEPS = 3
LEARNING_RATE = 0.05
RAM_BEGIN = 0x20000000

Tensors = dict[str, bytes]
ReadGradient = Callable[[str], bytes]


@dataclass(frozen=True)
class Trained:
    """Reports of the steps, and the tensors after each."""

    reports: list[StepReport]
    tensors: list[Tensors]


def gradients_of(graph: Graph) -> dict[str, str]:
    """Gradients by parameter: ids of residents, or of values in the arena."""
    updates = (node.operation for node in graph.nodes if node.operation and node.operation.op == "sgd")
    return {update.operands[1]: update.operands[0] for update in updates}


def train(device: Device, graph: Graph, model: str, read_gradient: ReadGradient) -> Trained:
    data = training_data(model, STEPS, 0, None)
    places = {resident.id: index for index, resident in enumerate(graph.residents)}
    sizes = {resident.id: resident.bytes for resident in graph.residents}
    for resident in graph.residents:
        if resident.kind in ("parameter", "state", "constant"):
            device.put(places[resident.id], data[resident.id].tobytes())
    kept = [resident.id for resident in graph.residents if resident.kind in ("parameter", "state", "loss")]
    trained = Trained([], [])
    for step in range(STEPS):
        for name in ("input", "target"):
            device.put(places[name], np.ascontiguousarray(data[name][step]).tobytes())
        trained.reports.append(device.step(LEARNING_RATE, trace=step == 1, expected_s=60.0))
        tensors = {id: device.get(places[id], sizes[id]) for id in kept}
        for parameter, gradient in gradients_of(graph).items():
            here = gradient in places
            content = device.get(places[gradient], sizes[gradient]) if here else read_gradient(gradient)
            tensors[f"gradient of {parameter}"] = content
        trained.tensors.append(tensors)
    return trained


def unlimited(board: Board, model: str, folder: Path) -> Trained:
    """Everything kept, on this computer."""
    step = training_step(model, None)
    graph = step.graph(board)
    write_headers(graph, store_all_schedule(graph), folder, step.constants(graph))
    host = load_board("native")
    with connect(host, image=build(host, folder)) as target:
        return train(target.device, graph, model, lambda _: b"")


def end_of_firmware(image: Path) -> int:
    """Where the firmware's own RAM ends and the model's begins."""
    with image.open("rb") as file:
        (symbol,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name("poet_ram_start")
        return int(symbol["st_value"])


def scheduled(board: Board, model: str, plan: Path, scratch: Path) -> tuple[Trained, int, int]:
    """On the emulated board; also the RAM that the firmware takes, and the most stack that it used."""
    graph, schedule = read_graph(plan / "graph.json"), read_schedule(plan / "schedule.json")
    image = build(board, plan)
    ram = end_of_firmware(image)
    offsets = {id: offset for step in schedule.steps for id, offset in step.offsets.items()}  # each value's last
    bytes_of = {value.id: value.bytes for node in graph.nodes for value in node.values}
    with open_emulated_board(board, image, scratch / "card.img") as emulated:
        device = Device(Link(emulated.serial, f"emulated {board.name}"))
        device.greet()
        device.format()

        def read_gradient(id: str) -> bytes:
            return emulated.memory(ram + graph.resident_bytes + offsets[id], bytes_of[id])

        trained = train(device, graph, model, read_gradient)
        return trained, ram - RAM_BEGIN, device.stack()


def make_plan(board: str, model: str, seconds: int, out: Path) -> None:
    command = [str(Path(sys.executable).parent / "poet-plan"), "--model", model, "--profile", board]
    command += ["--time-limit", str(seconds), "--out", str(out)]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(f"training: no plan for {model} on {board}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="to plan for, each")
    parser.add_argument("--out", type=Path, help="where to keep the plans")
    options = parser.parse_args()
    table = Table(
        *("board, model", "resident", "arena", "firmware", "of it stack used", "RAM in all", "step", "tensors equal"),
        title="training under a plan (emulated)",
    )
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name, model in CASES:
            board, scratch = load_board(name), Path(folder) / name
            plan = (options.out or Path(folder)) / f"{name}-plan"
            scratch.mkdir()
            make_plan(name, model, options.seconds, plan)
            expected = unlimited(board, model, scratch)
            observed, firmware, stack = scheduled(board, model, plan, scratch)
            resident = read_graph(plan / "graph.json").resident_bytes
            report = observed.reports[-1]
            used = firmware + resident + report.arena_bytes
            differing = sorted(
                {id for ours, theirs in zip(observed.tensors, expected.tensors, strict=True)
                 for id in theirs if ours.get(id) != theirs[id]}
            )  # fmt: skip
            good = good and not differing and used <= board.ram_bytes
            cells = (f"{count:,}" for count in (resident, report.arena_bytes, firmware, stack, used))
            verdict = f"all {len(expected.tensors[0])}, {STEPS} steps" if not differing else f"NOT {differing[0]}"
            table.add_row(f"{name}, {model}", *cells, f"{report.work_s:.3f} s", verdict)
    Console(width=150).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
