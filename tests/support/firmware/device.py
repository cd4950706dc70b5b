# SPDX-License-Identifier: Apache-2.0
"""The protocol server on the test board, spoken to frame by frame."""

from __future__ import annotations

import binascii
import ctypes as c
from dataclasses import dataclass

from tests.support.firmware.core import OPERATORS, BlockDevice, Built, Card, Net, Server


@dataclass
class Device:
    """The firmware's side of the serial line, in this process."""

    core: c.CDLL
    server: Server
    keep: object
    sequence: int = 0x100

    def train(self, step: str, steps: int) -> int | None:
        """Ask for a step until so many are committed, or the card is dead; the last one that was answered."""
        done = None
        while done is None or done < steps:
            answer = self.ask(step)
            if not answer.startswith("ok"):
                return done
            done = int(answer.split("committed=")[1])
        return done

    def raw(self, text: str) -> list[str]:
        """Send one frame, and return the bodies of the lines that came back, checked."""
        length = c.c_uint32.in_dll(self.core, "test_output_length")
        length.value = 0
        frame = b"%s*%04x\n" % (text.encode(), binascii.crc_hqx(text.encode(), 0xFFFF))
        for byte in frame:
            self.core.poet_server_receive(c.byref(self.server), c.c_char(byte))
        output = bytes((c.c_char * length.value).in_dll(self.core, "test_output"))
        lines = []
        for line in output.splitlines():
            assert len(line) <= 512
            body, crc = line.rsplit(b"*", 1)
            assert int(crc, 16) == binascii.crc_hqx(body, 0xFFFF)
            lines.append(body.decode())
        return lines

    def ask(self, body: str) -> str:
        self.sequence += 1
        ack, answer = self.raw(f">{self.sequence:04x} {body}")
        assert ack == f"<{self.sequence:04x} ack"
        assert answer.startswith(f"<{self.sequence:04x} ")
        return answer[6:]

    def ok(self, body: str) -> dict[str, str]:
        answer = self.ask(body)
        assert answer.startswith("ok"), answer
        return dict(pair.split("=") for pair in answer.split()[1:])

    def window_edges(self) -> list[int]:
        count = c.c_uint32.in_dll(self.core, "test_window_count")
        edges = list((c.c_uint8 * count.value).in_dll(self.core, "test_window_edges"))
        count.value = 0
        return edges

    def insert(self, card: Card) -> None:
        c.memmove(c.byref(BlockDevice.in_dll(self.core, "test_card")), c.byref(card.device), c.sizeof(BlockDevice))
        self.keep = (self.keep, card)


def boot(core: c.CDLL, net: Net | None = None, noise: bool = False) -> Device:
    """Power the test board up, without a card, its RAM zero or full of noise."""
    c.memset(c.byref(BlockDevice.in_dll(core, "test_card")), 0, c.sizeof(BlockDevice))
    c.memset((c.c_char * 1).in_dll(core, "test_ram"), 0xA5 if noise else 0, 8 << 16)
    c.c_uint32.in_dll(core, "test_window_count").value = 0
    built = net.built if net else Built(operators=c.pointer(OPERATORS))
    device = Device(core, Server(), (net, built))
    core.poet_server_init(c.byref(device.server), c.byref(built))
    return device
