# SPDX-License-Identifier: Apache-2.0
"""The drivers of NOR flash and FRAM on an SPI bus, against a chip that takes bytes."""

from __future__ import annotations

import ctypes as c
import subprocess

import numpy as np
import pytest

from tests.emulation.test_sdcard import SELECT, SET_SPEED, SLEEP, TRANSFER, Spi
from tests.firmware.test_commits_in_flash import NET, Keeper
from tests.support.firmware import core as fw
from tests.support.firmware.flash import Flash

PAGE, SECTOR = 256, 4096
ABSENT, PROTECTED = -9, -10


class Chip:
    """NOR flash of 64 KB or FRAM of 16 KB, which carries a command out when it is deselected."""

    def __init__(self, nor: bool) -> None:
        self.flash = Flash(65536, SECTOR) if nor else Flash(16384, 0)
        self.status, self.looks, self.frame, self.answers = 0, 0, b"", True
        self.address_bytes = 3 if nor else 2
        self.spi = Spi(
            *(None, 8_000_000, SET_SPEED(lambda *_: None), SELECT(self._select), TRANSFER(self._transfer)),
            *(TRANSFER(), SLEEP(), None, 1_000_000),
        )
        self.ticks = 0
        self._tick = c.CFUNCTYPE(c.c_uint32)(self._now)
        self.spi.ticks = c.cast(self._tick, c.c_void_p)

    def _now(self) -> int:
        self.ticks += 1000
        return self.ticks

    def _transfer(self, _context: int, send: int | None, receive: int | None, count: int) -> None:
        begin = len(self.frame)
        self.frame += c.string_at(send, count) if send else b"\xff" * count
        if receive:
            said = self._said(begin, count) if self.answers else b"\xff" * count
            c.memmove(receive, said, count)

    def _said(self, begin: int, count: int) -> bytes:
        command = self.frame[0]
        if command == 0x05:
            self.looks = max(0, self.looks - 1)
            return bytes([self.status | (self.looks > 0)]) * count
        assert not self.looks, "asked for while it is busy"
        if command == 0x9F:
            return b"\xc2\x20\x10"[:count]
        assert (command, begin) == (0x03, 1 + self.address_bytes)
        return bytes(self.flash.content[self._address() :][:count])

    def _address(self) -> int:
        return int.from_bytes(self.frame[1 : 1 + self.address_bytes])

    def _select(self, _context: int, selected: bool) -> None:
        frame, self.frame = (b"" if selected else self.frame), (b"" if selected else self.frame)
        if frame and frame[0] in (0x04, 0x06):
            self.status = self.status & ~2 | (frame[0] & 2)
        elif frame and frame[0] in (0x02, 0x20):
            assert self.status & 2
            assert not self.looks
            self.status, data = self.status & ~2, frame[1 + self.address_bytes :]
            if frame[0] == 0x20:
                self.flash._erase(0, self._address() // 512, SECTOR // 512)
            else:
                assert not self.flash.unit or self._address() % PAGE + len(data) <= PAGE, "wraps within its page"
                self.flash._program(slice(self._address(), self._address() + len(data)), np.frombuffer(data, np.uint8))
            self.looks = 3 if self.flash.unit else 0


class Driver(c.Structure):
    """``poet_spi_flash`` of poet/spi_flash.h."""

    _fields_ = [("spi", c.c_void_p), ("first", c.c_uint32), ("blocks", c.c_uint32), ("address_bytes", c.c_uint8)]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> c.CDLL:
    made = tmp_path_factory.mktemp("spi_flash") / "driver.so"
    flags = [
        "-std=c99",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wconversion",
        "-fsanitize=undefined",
        "-shared",
        "-fPIC",
    ]
    source = fw.FIRMWARE / "src/storage/spi_flash.c"
    subprocess.run(["gcc", *flags, f"-I{fw.FIRMWARE / 'include'}", str(source), "-o", str(made)], check=True)
    return c.CDLL(str(made))


@pytest.mark.parametrize("nor", [True, False])
def test_commits_lie_in_the_chip(core: c.CDLL, library: c.CDLL, nor: bool) -> None:
    chip, device = Chip(nor), fw.BlockDevice()
    driver = Driver(c.addressof(chip.spi))
    begin = library.poet_nor_init if nor else library.poet_fram_init
    size = 48 if nor else 16384
    assert begin(c.byref(driver), size, c.byref(device)) == fw.OK
    assert core.poet_pager_format(c.byref(device)) == fw.OK
    keeper = Keeper(core, chip.flash)
    keeper.own = c.byref(device), c.byref(NET.model), 0
    for step in range(1, 8):
        assert keeper.commit(step) == fw.OK
    chip.looks = 3 if nor else 0  # it was reset in the middle of a program
    assert begin(c.byref(driver), size, c.byref(device)) == fw.OK
    assert keeper.restore() == 7
    if nor:
        assert not chip.flash.erases[:10].any(), "in front of its last 48 blocks"
        assert bytes(chip.flash.content[65536 - 48 * 512 :][:12]) == b"POET CARD 1\n"
    past = c.create_string_buffer(512)
    assert device.read(device.context, device.block_count, past, 1) == fw.E_FULL
    assert device.write(device.context, device.block_count - 1, past, 513) == fw.E_FULL


@pytest.mark.parametrize("nor", [True, False])
def test_a_chip_that_is_absent_small_or_locked_is_refused(library: c.CDLL, nor: bool) -> None:
    chip, device = Chip(nor), fw.BlockDevice()
    driver = Driver(c.addressof(chip.spi))
    begin = library.poet_nor_init if nor else library.poet_fram_init
    chip.status = 0x0C
    assert begin(c.byref(driver), 128, c.byref(device)) == PROTECTED
    chip.answers, chip.status = False, 0
    assert begin(c.byref(driver), 128, c.byref(device)) == ABSENT
    chip.answers = True
    if nor:
        assert begin(c.byref(driver), 136, c.byref(device)) == begin(c.byref(driver), 9, c.byref(device)) == fw.E_FULL
