# SPDX-License-Identifier: Apache-2.0
"""Profiles from published device constants: ``python -m poet_planner.planning.published_profiles --out profiles``.

The POET paper (ICML 2022) gives its four devices in Table 2, and its open code one compute rate, one power and one pair
of page constants for each. Every row made here is such a constant times the configuration's FLOPs or bytes, and is
marked `published`: it serves to plan before there is a board, and to compare with the paper. docs/costs.md lists the
constants and where they disagree with one another.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path

from poet_profiles.boards import Board, load_board
from poet_profiles.files.whole_file import write_whole
from poet_profiles.graph import Graph, Node
from poet_profiles.profile import COLUMNS, ProfileRow

from poet_planner import models
from poet_planner.costs.features import features
from poet_planner.lowering import lower_for_firmware, lower_for_linux
from poet_planner.planning.training_graph import training_step

PUBLISHED_AT = "2022-07-17T00:00:00Z"
# Models whose parameters alone are far beyond a microcontroller; the paper's ResNet-18 and VGG16 for CIFAR-10 stay.
LINUX_MODELS = ("bert_base", "gpt_small", "mobilenet_v2", "resnet18", "resnet50", "unet", "vgg16")
PAGE_BYTES = tuple(512 * 2**power for power in range(12))


@dataclass(frozen=True)
class Device:
    """Published constants of one device.

    The powers of a72 and tx2 are above idle by the source; of the others it does not say.
    """

    profile: str
    board: str
    source: str
    flops_per_s: float
    power_w: float
    page_power_w: float
    page_in_latency_s: float
    page_in_bytes_per_s: float
    page_out_latency_s: float
    page_out_bytes_per_s: float


# A device's compute rate is what its authors timed on one kernel; a power is current times supply voltage.
_CARD_IN_SPI_MODE = (0.109e-3, 4_616_510.0, 0.113e-3, 4_440_000.0)
_KERNEL_FLOPS = 16_283 * 100 * 1000

DEVICES = (
    Device("m0", "mkr1000", "POET open code, MKR1000", 2000 / 0.012, 0.020 * 3.3, 0.1 * 3.3, *_CARD_IN_SPI_MODE),
    Device(
        *("m4", "nrf52840", "POET open code, M4F"),
        *(_KERNEL_FLOPS / 255.6237, 0.003328 * 3.3, 0.1 * 3.3),
        *_CARD_IN_SPI_MODE,
    ),
    # The code's entry with 2 GFLOP/s contradicts its own energy a FLOP; this is the timed rate beside it.
    Device(
        *("a72", "rpi4b", "POET open code, RPi (timed rate)"),
        *(_KERNEL_FLOPS / 13.53, 0.6 * 5.0, 0.03 * 5.0),
        *(0.00509561e-3, 45.5e6, 0.0185314e-3, 24.5e6),
    ),
    # The same without the write cache of the storage.
    Device(
        *("a72nocache", "rpi4b", "POET open code, RPi without a write cache"),
        *(_KERNEL_FLOPS / 13.53, 0.6 * 5.0, 0.03 * 5.0),
        *(0.00509561e-3, 45.5e6, 4.235e-3, 17.1e6),
    ),
    # No compute rate was published. Two 64-bit lanes of fused multiply-add a cycle: 2 GHz * 4 lanes * 2 FLOP, one core.
    Device(
        *("tx2", "jetson-tx2", "POET open code, JetsonTX2; compute rate: Cortex-A57 peak at 2 GHz, one core"),
        *(2.0e9 * 4 * 2, 0.995 - 0.229, 0.309),
        *(0.54e-3, 108.5e6, 2.396e-3, 94.37e6),
    ),
)


def published_rows(device: Device, graphs: list[Graph]) -> Iterator[ProfileRow]:
    """One row for each configuration in ``graphs``, and the page rows.

    Compute: ``time = FLOPs / rate``, ``energy = time * power``. Pages: ``time = latency + bytes / throughput``.
    """
    board = load_board(device.board)
    done = set()
    for node in (node for graph in graphs for node in graph.nodes):
        if node.operation and (node.operation.op, node.operation.params) not in done:
            done.add((node.operation.op, node.operation.params))
            yield _compute_row(device, board, node)
    for size in PAGE_BYTES:
        yield _page_row(device, board, "page_in", size, device.page_in_latency_s + size / device.page_in_bytes_per_s)
        yield _page_row(device, board, "page_out", size, device.page_out_latency_s + size / device.page_out_bytes_per_s)


def _compute_row(device: Device, board: Board, node: Node) -> ProfileRow:
    assert node.operation is not None
    op, params = node.operation.op, node.operation.params
    time_s = features(op, params).flops / device.flops_per_s
    written = sum(value.bytes for value in node.values)
    return _row(device, board, op, params, time_s, time_s * device.power_w, written)


def _page_row(device: Device, board: Board, op: str, size: int, time_s: float) -> ProfileRow:
    key = f"bytes={size} pattern=sequential"
    return _row(device, board, op, key, time_s, time_s * device.page_power_w, size)


def _row(
    device: Device,
    board: Board,
    op: str,
    params: str,
    time_s: float,
    energy_j: float,
    size: int,
) -> ProfileRow:
    return ProfileRow(
        board=board.name,
        op=op,
        params=params,
        dtype="f32",
        time_s=time_s,
        time_s_std=0.0,
        energy_j=energy_j,
        energy_j_std=0.0,
        idle_power_w=0.0,  # nothing is subtracted from what is published
        bytes=size,
        workspace_bytes=0,
        repeats=1,
        slice=1.0,
        source="published",
        meter=device.source,
        voltage_v=board.voltage_v,
        firmware="none",
        taken_at=PUBLISHED_AT,
    )


def write_profiles(folder: Path, model_names: list[str]) -> list[Path]:
    """Write one CSV a device, over the configurations of the models as that device's board runs them."""
    paths = []
    for device in DEVICES:
        board = load_board(device.board)
        chosen = [name for name in model_names if board.kind == "linux" or name not in LINUX_MODELS]
        graphs = [_operators(name, board) for name in chosen]
        text = StringIO()
        table = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in published_rows(device, graphs))
        path = folder / f"{device.profile}.csv"
        write_whole(path, text.getvalue())
        paths.append(path)
    return paths


def _operators(model: str, board: Board) -> Graph:
    """The model's graph for a kind of board, without a rehearsal of its memory, which no row here tells of."""
    traced = training_step(model, None).traced
    return lower_for_linux(traced, board.dma_overlap) if board.kind == "linux" else lower_for_firmware(traced)


def main() -> None:
    """Write the profiles of all devices over all built-in models."""
    parser = argparse.ArgumentParser(prog="python -m poet_planner.planning.published_profiles", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("profiles"), help="folder to write into")
    for path in write_profiles(parser.parse_args().out, models.names()):
        print(path)


if __name__ == "__main__":
    main()
