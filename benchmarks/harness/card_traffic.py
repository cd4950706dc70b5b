# SPDX-License-Identifier: Apache-2.0
"""How fast the emulated card moves: bytes a second of this computer's processor, with the compiled half and without.

    python -m benchmarks.harness.card_traffic [--pages 131072 16384 4096]

Both do the same: the rows of emulated time and charge must be equal to the last digit. Goal: 5 MB a second on the
nRF52840. Needs arm-none-eabi-gcc and the emulator extra.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_profiles.boards import load_board

BOARDS = ("nrf52840", "mkr1000")
DIRECTIONS = ("in", "out")
GOAL_MB_S = 5.0
MOVED_BYTES = {True: 1_000_000, False: 20_000}


@dataclass(frozen=True)
class Emulated:
    """Cycles inside the window of one page, and what the supply gave in them: this may hang on nothing here."""

    cycles: int
    charge_c: float


@dataclass(frozen=True)
class Moved:
    """Some pages moved. ``spent_s`` is this computer's processor time."""

    first: Emulated
    moved_bytes: int
    spent_s: float

    @property
    def mb_s(self) -> float:
        return self.moved_bytes / self.spent_s / 1e6


def move(board_name: str, image: Path, direction: str, page_bytes: int, native: bool) -> Moved:
    """Page one page, whose emulated time is kept, then many that are timed here."""
    board = load_board(board_name)
    count = max(1, MOVED_BYTES[native] // page_bytes)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_emulated_board(board, image, Path(folder) / "c.img", native=native) as emulated,
    ):
        device = Device(Link(emulated.serial, board_name, Patience(5.0, 600.0, 1)))
        device.format()
        emulated.power_trace()
        device.page(direction, page_bytes, 1, "sequential")
        trace = emulated.power_trace()
        cycles = np.rint(np.diff(trace.times_s) * board.clock_hz)[trace.window]
        charge_c = float(cycles @ trace.current_a[trace.window]) / board.clock_hz
        begin_s = time.process_time()
        device.page(direction, page_bytes, count, "sequential")
        spent_s = time.process_time() - begin_s
    return Moved(Emulated(int(cycles.sum()), charge_c), count * page_bytes, spent_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs="+", default=[131_072, 16_384, 4_096], help="page sizes, bytes")
    sizes = parser.parse_args().pages
    print(f"{'board':10} {'':4} {'page':>8} {'compiled':>10} {'Python':>10} {'ratio':>6}  emulated")
    for name in BOARDS:
        board, image = load_board(name), build(load_board(name))
        for direction in DIRECTIONS:
            for size in (size for size in sizes if size <= board.usable_ram_bytes):
                compiled, python = (move(name, image, direction, size, native) for native in (True, False))
                same = "the same" if compiled.first == python.first else f"DIFFER: {compiled.first}, {python.first}"
                print(
                    f"{name:10} {direction:4} {size:8,} {compiled.mb_s:5.2f} MB/s {python.mb_s:5.2f} MB/s "
                    f"{compiled.mb_s / python.mb_s:6.1f}  {same}"
                )


if __name__ == "__main__":
    main()
