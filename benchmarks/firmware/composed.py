# SPDX-License-Identifier: Apache-2.0
"""What the cost model says of convolutions tile by tile, beside what the emulated nRF52840 takes for them.

    .venv/bin/python -m benchmarks.firmware.composed [--profile FILE]

Such an operator without a row of its own is composed of tiles (docs/costs.md). The shipped profile has none of these
shapes tile by tile; of some it has the layer as a whole. Transfers are part of time and energy.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from poet_harness.firmware import build
from poet_harness.measuring.measure import Effort
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration
from poet_harness.target.connect import connect
from poet_planner.costs.cost_model import CostModel
from poet_profiles.boards import Board, load_board
from poet_profiles.firmware.operators import params_key, parse_params, rows_together
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_profiles.profile import ProfileWriter, read_profile
from rich.console import Console
from rich.table import Table

from benchmarks.firmware.emulated_core import FIRMWARE
from benchmarks.firmware.kernels import Layer

Costs = dict[tuple[str, str], tuple[float, float]]

SHIPPED = FIRMWARE.parent / "profiles" / "nrf52840.csv"
OPERATORS = ("streamed_conv2d", "streamed_conv2d_backward_input", "streamed_conv2d_update")
# By Winograd's algorithm, and directly; with filters in a tile.
LAYERS = (
    (Layer(64, 64, 8, 8, 3), (8, 16, 32)),
    (Layer(32, 32, 16, 16, 3), (4, 8)),
    (Layer(64, 64, 16, 16, 3), (8, 16, 32)),
    (Layer(48, 96, 12, 12, 3), (8, 16)),
    (Layer(16, 64, 24, 24, 3), (8, 16)),
    (Layer(128, 128, 4, 4, 3), (8, 16)),
    (Layer(64, 128, 16, 16, 3, 2), (2, 8, 32)),
    (Layer(128, 256, 8, 8, 3, 2), (1, 4, 8)),
    (Layer(64, 64, 24, 24, 1), (16,)),
    (Layer(32, 64, 32, 32, 1, 2), (4, 16)),
)


def configurations() -> Iterator[tuple[str, Configuration]]:
    """Each with its layer's label."""
    for layer, tiles in LAYERS:
        for tile in tiles:
            params = layer.params | {"tile": tile}
            for op in OPERATORS:
                if "backward_input" not in op or tile % rows_together(op, params) == 0:
                    yield layer.label, Configuration(op, params_key(op, params))


def composed(costs: CostModel, item: Configuration) -> tuple[float, float]:
    """Time in seconds and energy in joules."""
    operation = Operation(item.op, item.params, (), ("n",))
    graph = Graph("composed", (Node("n", 0, 0, (Value("n", 4),), operation=operation),))
    (node,) = costs.apply(graph).graph.nodes
    return node.time_s, node.energy_j


def emulated(board: Board, items: list[Configuration], folder: Path) -> Costs:
    """Likewise, of those that fit the board's RAM, by operator and parameters."""
    path = folder / "rows.csv"
    with (
        connect(board, image=build(board), emulate=True) as target,
        ProfileWriter(path) as writer,
    ):
        target.device.format()
        BoardProfiler(target.device, target.meter, board, Effort(fewest=1, most=1)).run(items, writer)
    rows = read_profile(path)
    costs = zip(rows["time_s"], rows["energy_j"], strict=True)
    return dict(zip(zip(rows["op"], rows["params"], strict=True), costs, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, default=SHIPPED, help="of the nRF52840")
    options = parser.parse_args()
    board = load_board("nrf52840")
    costs = CostModel(read_profile(options.profile), board.storage_block_bytes, board.dma_overlap, fpu=board.fpu)
    wanted = list(configurations())
    table = Table(
        "layer", "tile", "operator", "ms", "off", "mJ", "off", title="emulated; the composed costs are off by"
    )
    with tempfile.TemporaryDirectory() as folder:
        observed = emulated(board, [item for _, item in wanted], Path(folder))
    for label, item in wanted:
        (time_s, energy_j), (composed_s, composed_j) = observed[item.op, item.params], composed(costs, item)
        cells = [f"{1e3 * time_s:.1f}", f"{composed_s / time_s - 1:+.1%}"]
        cells += [f"{1e3 * energy_j:.2f}", f"{composed_j / energy_j - 1:+.1%}"]
        name = item.op.removeprefix("streamed_")
        table.add_row(label, str(parse_params(item.params)["tile"]), name, *cells)
    Console(width=140).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
