# SPDX-License-Identifier: Apache-2.0
"""A SAM-BA monitor on a pseudo-terminal: Arduino's bootloader of a SAMD21, as bossac meets it over USB.

Commands and answers follow ArduinoCore-samd, bootloaders/zero/sam_ba_monitor.c. Over USB, data come after a command as
they are. A caller that takes the port for RS-232 begins with two bytes 0x80 and waits for XMODEM, which nobody sends.
"""

from __future__ import annotations

import os
import select
import threading
import tty
from binascii import crc_hqx
from collections.abc import Iterator
from contextlib import contextmanager, suppress

REGISTERS = {0xE000_ED00: 0x410C_C601, 0x4100_2018: 0x1001_0305}  # CPUID of a Cortex-M0+, DSU.DID of a SAMD21G18A
AIRCR, RESET = 0xE000_ED0C, 0x05FA_0004
RAM, RAM_BYTES, FLASH_BYTES = 0x2000_0000, 32_768, 262_144
COMMANDS = b"NVwoWOSRGXYZ"


class Monitor:
    """The chip's memory, and what came that is no command: a byte each."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._buffer = 0
        self.flash = bytearray(b"\x5a" * FLASH_BYTES)
        self.ram = bytearray(RAM_BYTES)
        self.strange = b""
        self.resets = 0

    def serve(self, ended: threading.Event) -> None:
        with suppress(OSError):
            while not ended.is_set():
                if select.select([self._terminal], [], [], 0.05)[0]:
                    self._take(os.read(self._terminal, 1))

    def _take(self, letter: bytes) -> None:
        if letter not in COMMANDS:
            self.strange += letter
            return
        words = b"".join(iter(lambda: os.read(self._terminal, 1), b"#")).split(b",")
        self._carry_out(letter, *(int(word or b"0", 16) for word in words))

    def _carry_out(self, letter: bytes, address: int, number: int = 0) -> None:
        answer = b""
        if letter == b"N":
            answer = b"\n\r"
        elif letter == b"V":
            answer = b"v2.0 [Arduino:XYZ] Mar 19 2018 09:45:14\n\r"
        elif letter in b"wo":
            answer = self._memory(address, 4 if letter == b"w" else 1)
        elif letter == b"W":
            self.resets += (address, number) == (AIRCR, RESET)
        elif letter == b"S":
            data = b""
            while len(data) < number:
                data += os.read(self._terminal, number - len(data))
            self.ram[address - RAM : address - RAM + number] = data
        elif letter == b"R":
            answer = self._memory(address, number)
        elif letter == b"X":
            self.flash[address:] = b"\xff" * (FLASH_BYTES - address)
            answer = b"X\n\r"
        elif letter == b"Y":
            if number:
                self.flash[address : address + number] = self._memory(self._buffer, number)
            else:
                self._buffer = address
            answer = b"Y\n\r"
        elif letter == b"Z":
            answer = b"Z%08X#\n\r" % crc_hqx(self._memory(address, number), 0)
        os.write(self._terminal, answer)

    def _memory(self, address: int, size: int) -> bytes:
        if address in REGISTERS:
            return REGISTERS[address].to_bytes(size, "little")
        part, begin = (self.ram, RAM) if address >= RAM else (self.flash, 0)
        return bytes(part[address - begin : address - begin + size]).ljust(size, b"\0")


@contextmanager
def serve_sam_ba() -> Iterator[tuple[str, Monitor]]:
    """Name of the pseudo-terminal, and the monitor behind it."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    ended, monitor = threading.Event(), Monitor(ours)
    thread = threading.Thread(target=monitor.serve, args=(ended,), daemon=True)
    thread.start()
    yield os.ttyname(theirs), monitor
    ended.set()
    os.close(theirs)  # a monitor that waits for data sees it
    thread.join(timeout=1)
    os.close(ours)
