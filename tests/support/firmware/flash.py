# SPDX-License-Identifier: Apache-2.0
"""A model of flash: bits only fall, units are erased whole, and cuts leave them torn."""

from __future__ import annotations

import ctypes as c
import random

import numpy as np

from tests.support.firmware.core import BLOCK, E_FULL, E_IO, ERASE, OK, READ, SYNC, BlockDevice

TEARS = ["nothing", "half", "whole", "noise"]
ROW = 256  # of the SAM D21, which takes at most eight programs
AT_ONCE = 64  # bytes that are programmed between two chances of a cut


class Flash:
    """A poet_block_device whose supply fails in operation number `cut`, which leaves it `torn`.

    A unit whose erase was cut has to be erased again, whatever it reads. With the tear "unsteady" it reads as if the
    operation had been whole, until the power comes the next time but one: then it is noise.

    Parameters
    ----------
    unit : int
        Bytes that are erased together; 0: it needs no erasing (FRAM).
    """

    def __init__(self, size: int, unit: int) -> None:
        self.size, self.unit = size, unit
        self.content = np.full(size, 0xFF, np.uint8)
        self.fresh = np.ones(size, bool)
        self.programs = np.zeros(size // ROW, int)
        self.erases = np.zeros(size // unit if unit else 0, int)
        self.operations = 0
        self.cut: int | None = None
        self.torn = TEARS[0]
        self.dead = False
        self.unsteady: list[tuple[slice, int]] = []
        self.noise = random.Random(3)
        self.device = BlockDevice(
            *(None, size // BLOCK, READ(self._read), READ(self._write), SYNC(lambda _: E_IO if self.dead else OK)),
            *(READ(0), READ(0), SYNC(0), unit // BLOCK, ERASE(self._erase) if unit else ERASE(0)),
        )

    def power_up(self) -> None:
        self.dead, self.cut = False, None
        for place, ups in self.unsteady:
            if ups == 1:
                self.content[place] &= np.frombuffer(self.noise.randbytes(place.stop - place.start), np.uint8)
        self.unsteady = [(place, ups + 1) for place, ups in self.unsteady]

    def _fails(self) -> bool:
        self.dead = self.operations == self.cut
        self.operations += 1
        return self.dead

    def _read(self, _context: int, block: int, data: int, count: int) -> int:
        if self.dead:
            return E_IO
        if block * BLOCK + count > self.size:
            return E_FULL
        c.memmove(data, self.content[block * BLOCK :].ctypes.data, count)
        return OK

    def _write(self, _context: int, block: int, data: int, count: int) -> int:
        if self.dead or block * BLOCK + count > self.size:
            return E_IO
        new = np.frombuffer(c.string_at(data, count), np.uint8)
        for done in range(0, count, AT_ONCE):
            place = slice(block * BLOCK + done, block * BLOCK + min(done + AT_ONCE, count))
            part = new[done : done + AT_ONCE]
            if self._fails():
                self._tear(place, part, np.full(len(part), 0x5A, np.uint8) | part)
                return E_IO
            self._program(place, part)
        return OK

    def _program(self, place: slice, new: np.ndarray) -> None:
        if self.unit:
            assert self.fresh[place].all(), f"programmed twice: {place}"
            self.programs[place.start // ROW] += 1
            assert self.programs[place.start // ROW] <= 8
            new = new & self.content[place]
        self.fresh[place] = False
        self.content[place] = new

    def _erase(self, _context: int, block: int, blocks: int) -> int:
        if self.dead:
            return E_IO
        assert blocks > 0 == block * BLOCK % self.unit == blocks * BLOCK % self.unit
        assert (block + blocks) * BLOCK <= self.size
        for unit in range(block * BLOCK // self.unit, (block + blocks) * BLOCK // self.unit):
            place = slice(unit * self.unit, (unit + 1) * self.unit)
            erased = np.full(self.unit, 0xFF, np.uint8)
            self.erases[unit] += 1
            if self._fails():
                self._tear(place, erased, self.content[place] | 0x5A)
                return E_IO
            self.content[place], self.fresh[place] = erased, True
            self.programs[place.start // ROW : place.stop // ROW] = 0
            self.unsteady = [(at, ups) for at, ups in self.unsteady if not place.start <= at.start < place.stop]
        return OK

    def _tear(self, place: slice, new: np.ndarray, noise: np.ndarray) -> None:
        before = self.content[place].copy()
        half = np.concatenate([new[: len(new) // 2], before[len(new) // 2 :]])
        left = {"nothing": before, "half": half, "noise": noise}.get(self.torn, new)
        if self.torn == "unsteady":
            self.unsteady.append((place, 0))
        if self.torn != "nothing":
            self.fresh[place] = False
        self.content[place] = left
