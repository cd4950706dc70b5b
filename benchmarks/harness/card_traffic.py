# SPDX-License-Identifier: Apache-2.0
"""How fast the emulated card moves: bytes a second of this computer's processor.

    python -m benchmarks.harness.card_traffic [--pages 131072 16384 4096]

Goal: 5 MB a second on the nRF52840. Needs arm-none-eabi-gcc and the emulator extra.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from poet_harness.emulation import open_emulated_board
from poet_harness.firmware import build
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link, Patience
from poet_profiles.boards import load_board

BOARDS = ("nrf52840", "mkr1000")
DIRECTIONS = ("in", "out")
MOVED_BYTES = 1_000_000


def moved_mb_s(board_name: str, image: Path, direction: str, page_bytes: int) -> float:
    """Page many pages: how fast, in MB a second of this computer's processor time."""
    count = max(1, MOVED_BYTES // page_bytes)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_emulated_board(load_board(board_name), image, Path(folder) / "c.img") as emulated,
    ):
        device = Device(Link(emulated.serial, board_name, Patience(5.0, 600.0, 1)))
        device.format()
        begin_s = time.process_time()
        device.page(direction, page_bytes, count, "sequential")
        return count * page_bytes / (time.process_time() - begin_s) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, nargs="+", default=[131_072, 16_384, 4_096], help="page sizes, bytes")
    sizes = parser.parse_args().pages
    print(f"{'board':10} {'':4} {'page':>8} {'MB/s':>6}")
    for name in BOARDS:
        board, image = load_board(name), build(load_board(name))
        for direction in DIRECTIONS:
            for size in (size for size in sizes if size <= board.usable_ram_bytes):
                print(f"{name:10} {direction:4} {size:8,} {moved_mb_s(name, image, direction, size):6.2f}")


if __name__ == "__main__":
    main()
