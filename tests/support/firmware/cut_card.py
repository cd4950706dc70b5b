# SPDX-License-Identifier: Apache-2.0
"""A card whose supply fails in the middle of a write, which it leaves torn in every way that a card may tear it."""

from __future__ import annotations

import ctypes as c

from tests.support.firmware.core import BLOCK, E_IO, OK, Card

TEARS = ["nothing written", "half written", "half written, rest erased", "erased", "written, but not reported"]


class CutCard(Card):
    """The supply fails in the middle of write number `cut`; from then on nothing answers.

    Half of a write are half its blocks; half of a single block are its first `half_block` bytes.
    """

    def __init__(self, blocks: int, dma: bool = False, half_block: int = 16) -> None:
        super().__init__(blocks, dma)
        self.cut: int | None = None
        self.torn = TEARS[0]
        self.writes = 0
        self.dead = False
        self._half_block = half_block

    def power_up(self) -> None:
        self.dead = False
        self.cut = None

    def _read(self, context: int, block: int, data: int, count: int) -> int:
        return E_IO if self.dead else super()._read(context, block, data, count)

    def _sync(self, context: int) -> int:
        return E_IO if self.dead else super()._sync(context)

    def _write(self, context: int, block: int, data: int, count: int) -> int:
        if self.dead:
            return E_IO
        if self.writes == self.cut:
            self.dead = True
            self._tear(block, c.string_at(data, count))
            return E_IO
        self.writes += 1
        return super()._write(context, block, data, count)

    def _tear(self, block: int, data: bytes) -> None:
        blocks = -(-len(data) // BLOCK)
        place = slice(block * BLOCK, (block + blocks) * BLOCK)
        old, new = bytes(self.content[place]), data.ljust(blocks * BLOCK, b"\0")
        middle = (blocks // 2) * BLOCK + (self._half_block if blocks == 1 else 0)
        self.content[place] = {
            "nothing written": old,
            "half written": new[:middle] + old[middle:],
            "half written, rest erased": new[:middle] + b"\xff" * (len(new) - middle),
            "erased": b"\xff" * len(new),
            "written, but not reported": new,
        }[self.torn]


class BlockCard(CutCard):
    """Writes block by block, each a write that may be cut."""

    def _write(self, context: int, block: int, data: int, count: int) -> int:
        for done in range(0, count, BLOCK):
            status = super()._write(context, block + done // BLOCK, data + done, min(BLOCK, count - done))
            if status != OK:
                return status
        return OK
