# SPDX-License-Identifier: Apache-2.0
"""Profiles taken on the emulated nRF52840: the image that would be flashed, a damaged line, and resets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest
from poet_harness.emulation.meter import EmulatedMeter
from poet_harness.firmware import build
from poet_harness.measuring.measure import Effort
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration, page
from poet_harness.profiling.outcome import Outcome
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_harness.regression import Verdict, compare_files
from poet_planner.costs.cost_model import Basis, CostModel
from poet_profiles.boards import load_board
from poet_profiles.graph import Graph, Node, Operation, Value
from poet_profiles.profile import ProfileWriter, read_profile

from tests.support import ROOT, needs
from tests.support.harness.simulated_device import Noise

pytestmark = needs.emulator

BOARD = load_board("nrf52840")
EAGER = Patience(acknowledge_s=0.05, answer_s=0.5, attempts=10)
CONFIGURATIONS = [
    Configuration("pointwise", "size=64 steps=relu(y0,x0)"),
    Configuration("pointwise", "size=4096 steps=relu(y0,x0)"),
    Configuration("pointwise", "size=512 steps=add(y0,x0,x1)"),
    Configuration("linear", "m=8 k=64 n=10 bias=1"),
    page("page_in", 4096, "sequential"),
    page("page_out", 4096, "sequential"),
]


class NoisyLine:
    """One percent of the bytes flipped, dropped or doubled, in both directions."""

    def __init__(self) -> None:
        self.to_board, self.to_host = Noise(0.01, seed=1), Noise(0.01, seed=2)

    def host_to_board(self, byte: int) -> bytes:
        return self.to_board(bytes((byte,)))

    def board_to_host(self, byte: int) -> bytes:
        return self.to_host(bytes((byte,)))


@pytest.fixture(scope="module")
def image(builds: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        yield build(BOARD)


@contextmanager
def profiling(image: Path, card: Path, line: NoisyLine | None = None) -> Iterator[tuple[BoardProfiler, object]]:
    from poet_harness.emulation import open_emulated_board

    with open_emulated_board(BOARD, image, card, line) as emulated:
        device = Device(Link(emulated.serial, "emulated", EAGER))
        device.format()
        yield BoardProfiler(device, EmulatedMeter(emulated, BOARD.voltage_v), BOARD, Effort()), emulated


def profile(image: Path, folder: Path, line: NoisyLine | None = None, resets: int = 0) -> tuple[pd.DataFrame, Outcome]:
    """Rows without their date. The board is reset before the second configuration, the third and so on."""
    folder.mkdir()
    with profiling(image, folder / "card.img", line) as (profiler, emulated), ProfileWriter(folder / "p.csv") as writer:

        def began(item: Configuration) -> None:
            if 1 <= CONFIGURATIONS.index(item) <= resets:
                emulated.reset()  # type: ignore[attr-defined]

        outcome = profiler.run(CONFIGURATIONS, writer, began)
    return read_profile(folder / "p.csv").drop(columns="taken_at"), outcome


def test_energy_is_the_rails_current_times_voltage_times_time(image: Path, tmp_path: Path) -> None:
    rows, _ = profile(image, tmp_path / "clean")
    rows = rows.set_index(["op", "params"])
    compute = rows.loc[("pointwise", "size=4096 steps=relu(y0,x0)")]
    rails = BOARD.rails_a
    assert compute["energy_j"] == pytest.approx(
        compute["time_s"] * BOARD.voltage_v * (rails.cpu_active - rails.cpu_idle), rel=1e-3
    )
    idle_w = BOARD.voltage_v * (rails.cpu_idle + rails.storage_idle)
    assert compute["idle_power_w"] == pytest.approx(idle_w, rel=1e-2)
    paging = rows.loc[("page_in", "bytes=4096 pattern=sequential")]
    assert paging["energy_j"] > compute["energy_j"] / compute["time_s"] * paging["time_s"]
    assert set(rows["source"]) == {"emulated"}
    assert compute["bytes"] == 4 * 4096


def test_a_damaged_line_and_three_resets_change_no_row(image: Path, tmp_path: Path) -> None:
    clean, _ = profile(image, tmp_path / "clean")
    line = NoisyLine()
    rough, outcome = profile(image, tmp_path / "rough", line, resets=3)
    assert outcome.resets == 3
    assert line.to_board.damaged > 20
    assert line.to_host.damaged > 20
    assert list(rough["params"]) == list(clean["params"])
    # A reset moves the phase between the board's clock and the card's and meter's: equal to a part in ten thousand.
    for column in ("time_s", "energy_j", "idle_power_w"):
        assert rough[column].to_numpy() == pytest.approx(clean[column].to_numpy(), rel=1e-3), column
    compared = compare_files(tmp_path / "clean" / "p.csv", tmp_path / "rough" / "p.csv", 0.001)
    assert len(compared.of(Verdict.SAME)) == len(compared.changes) == 2 * len(clean) - 1
    assert not (compared.only_first or compared.only_second or compared.left_out or compared.notes)


TILED = "n=1 c=32 h=8 w=8 k=32 r=3 s=3 sh=1 sw=1 ph=1 pw=1 g=1 bias=0 tile="


@pytest.mark.parametrize(
    ("op", "tile"),
    [
        ("streamed_conv2d", 4),
        ("streamed_conv2d", 8),
        ("streamed_conv2d_backward_input", 8),
        ("streamed_conv2d_backward_input", 16),
        ("streamed_conv2d_update", 8),
    ],
)
def test_convolutions_tile_by_tile_take_what_the_shipped_profile_composes(
    image: Path, tmp_path: Path, op: str, tile: int
) -> None:
    """Read tile by tile, at once or in halves; inputs are transformed for each tile."""
    operation = Operation(op, f"{TILED}{tile}", (), ("n",))
    graph = Graph("composed", (Node("n", 0, 0, (Value("n", 4),), operation=operation),))
    shipped, card = read_profile(ROOT / "profiles" / "nrf52840.csv"), (BOARD.storage_block_bytes, BOARD.dma_overlap)
    costs = CostModel(shipped, *card, fpu=BOARD.fpu)
    costed = costs.apply(graph)
    assert costed.basis["n"] is Basis.FITTED
    with profiling(image, tmp_path / "card.img") as (profiler, _), ProfileWriter(tmp_path / "p.csv") as writer:
        profiler.run([Configuration(op, operation.params)], writer)
    observed = read_profile(tmp_path / "p.csv").set_index("op").loc[op]
    # The shipped rows are older than the updates of momentum on the card, which are some 5 % quicker.
    assert costed.graph.nodes[0].time_s == pytest.approx(observed["time_s"], rel=0.06)
    assert costed.graph.nodes[0].energy_j == pytest.approx(observed["energy_j"], rel=0.06)
