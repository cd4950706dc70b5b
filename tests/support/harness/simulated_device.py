# SPDX-License-Identifier: Apache-2.0
"""A device under test in Python: the protocol of docs/SPEC.md, section 6, written from that page alone.

It shares no code with the harness, so that the two check each other. `serve` puts it behind a TCP port
(``socket://``), with a line in between that damages bytes on request.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import sys
import threading
import tty
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import serial
from poet_profiles.protocol.f32 import f32_of_bits
from serial.rfc2217 import PortManager

TICKS_HZ = 16_000_000


def crc(data: bytes) -> int:
    """CRC-16/CCITT-FALSE, bit by bit as its definition says."""
    register = 0xFFFF
    for byte in data:
        register ^= byte << 8
        for _ in range(8):
            register = ((register << 1) ^ 0x1021 if register & 0x8000 else register << 1) & 0xFFFF
    return register


class Noise:
    """Flips, drops or doubles one byte in `1 / rate`, each as often as the others."""

    def __init__(self, rate: float, seed: int) -> None:
        self.damaged = 0
        self._rate = rate
        self._random = random.Random(seed)

    def __call__(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self._random.random() >= self._rate:
                out.append(byte)
                continue
            self.damaged += 1
            fault = self._random.choice(("flip", "drop", "double"))
            if fault == "flip":
                out.append(byte ^ (1 << self._random.randrange(8)))
            elif fault == "double":
                out += bytes((byte, byte))
        return bytes(out)


def clean(data: bytes) -> bytes:
    return data


@dataclass
class SimulatedDevice:
    """State of the device. ``resets_after`` are counts of carried-out requests after which it loses its memory.

    The card fails in training step ``fails_at`` since the last reset, counted from 1.

    ``start`` is what ``hello`` says of its last start, with a space before each pair.

    ``sensors`` gives clock in kHz and temperature in thousandths of a degree at the end of each benchmark.
    """

    board: str = "nrf52840"
    ram_bytes: int = 245_760
    resident_bytes: tuple[int, ...] = ()
    schedule_ticks: tuple[int, ...] = ()
    graph_hash: str = "0" * 16
    schedule_hash: str = "0" * 16
    card: bool = True
    resets_after: list[int] = field(default_factory=list)
    carried_out: list[str] = field(default_factory=list)
    boot: int = 1
    slowness: float = 1.0
    sensors: Callable[[], tuple[int, int]] | None = None
    committed: tuple[int, bytes] | None = None
    fails_at: int = 0
    start: str = ""

    def __post_init__(self) -> None:
        self.greeted = False
        self.kept: tuple[int, bytes] | None = None
        self.residents = [bytearray(count) for count in self.resident_bytes]
        self.steps = 0

    def reset(self) -> None:
        self.boot += 1
        self.__post_init__()

    def receive(self, line: bytes) -> Iterator[bytes]:
        """Lines that a request brings back; nothing if the device is reset while it works."""
        line = line.removesuffix(b"\r")
        if len(line) > 512 or line[:1] != b">" or line[-5:-4] != b"*":
            return
        if line[-4:] != b"%04x" % crc(line[:-5]):
            return
        sequence = int(line[1:5], 16)
        yield self._line(sequence, "ack")
        if self.kept is None or self.kept[0] != sequence:
            if self.resets_after and len(self.carried_out) >= self.resets_after[0]:
                self.resets_after.pop(0)
                self.reset()
                return
            answer = self._answer(line[6:-5].decode().split())
            self.kept = (sequence, self._line(sequence, answer))
        yield self.kept[1]

    def _line(self, sequence: int, text: str) -> bytes:
        body = f"<{sequence:04x} {text}".encode()
        return body + b"*%04x\n" % crc(body)

    def _answer(self, words: list[str]) -> str:
        verb, *arguments = words
        if verb != "hello" and not self.greeted:
            return "err -4 reset"
        self.carried_out.append(" ".join(words))
        handler = getattr(self, f"_{verb}", None)
        return handler(*arguments) if handler else "err -8 unknown verb"

    def _hello(self) -> str:
        self.greeted = True
        return (
            f"ok protocol=2 board={self.board} firmware=simulated-1 boot={self.boot:08x} ticks_hz={TICKS_HZ} "
            f"ram_bytes={self.ram_bytes} model={self.graph_hash} schedule={self.schedule_hash}{self.start}"
        )

    def _bench(self, code: str, repeats: str, *params: str) -> str:
        """An operator whose cost is a plain function of its parameters, and grows with the first in proportion."""
        size = int(params[0]) if int(params[0]) < 10**8 else 1  # it may be a fraction, in billionths
        if size * 1000 > self.ram_bytes:
            return "err -2 does not fit"
        ticks = 100 * size * (1 + zlib.crc32(" ".join((code, *params[1:])).encode()) % 50)
        ticks = round(ticks * int(repeats) * self.slowness)
        return f"ok ticks={ticks} repeats={repeats} bytes=64 workspace=0 checksum=00000000{self._sensed()}"

    def _page(self, direction: str, count: str, repeats: str, pattern: str) -> str:
        if not self.card:
            return "err -9 no card"
        ticks = (3000 if direction == "in" else 9000) + 40 * int(count) + (500 if pattern == "scattered" else 0)
        return f"ok ticks={ticks * int(repeats)} repeats={repeats} bytes={count}{self._sensed()}"

    def _sensed(self) -> str:
        return " cpu_khz={} temperature_mc={}".format(*self.sensors()) if self.sensors else ""

    def _idle(self, ticks: str) -> str:
        return f"ok ticks={ticks}"

    def _format(self) -> str:
        self.card = True
        return "ok blocks=65536"

    def _put(self, index: str, offset: str, data: str) -> str:
        content = bytes.fromhex(data)
        place = self.residents[int(index)]
        place[int(offset) : int(offset) + len(content)] = content
        return f"ok bytes={len(content)}"

    def _get(self, index: str, offset: str, count: str) -> str:
        return f"ok data={self.residents[int(index)][int(offset) : int(offset) + int(count)].hex()}"

    def _step(self, rate: str, trace: str) -> str:
        """Adds the rate to each float of resident 0, and writes the sum of the last resident into resident 1."""
        values = struct.unpack(f"<{len(self.residents[0]) // 4}f", self.residents[0])
        self.residents[0][:] = struct.pack(f"<{len(values)}f", *(value + f32_of_bits(rate) for value in values))
        self.steps += 1
        if self.steps == self.fails_at:
            return "err -9 no card, or no label on it"
        batch = struct.unpack(f"<{len(self.residents[-1]) // 4}f", self.residents[-1])
        self.residents[1][:] = struct.pack("<f", sum(batch))
        loss = struct.pack(">f", 1.0 / self.steps).hex()
        return f"ok ticks={sum(self.schedule_ticks)} page_ins=1 page_outs=1 loss={loss}"

    def _commit(self, step: str) -> str:
        self.committed = (int(step), bytes(self.residents[0]))
        return "ok ticks=1000 bytes=8"

    def _restore(self) -> str:
        if self.committed is None:
            return "err -9 no commit of this model"
        self.residents[0][:] = self.committed[1]
        self.steps = self.committed[0]
        return f"ok step={self.committed[0]} bytes=8"

    def _times(self, first: str, count: str) -> str:
        chosen = self.schedule_ticks[int(first) : int(first) + int(count)]
        return "ok ticks=" + ",".join(str(ticks) for ticks in chosen)

    def _stack(self) -> str:
        return "ok bytes=512"


Line = Callable[[bytes], bytes]


@contextlib.contextmanager
def serve(device: SimulatedDevice, to_device: Line = clean, to_host: Line = clean) -> Iterator[str]:
    """URL at which the device answers; bytes pass through ``to_device`` and ``to_host``."""
    open_now: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_talk, args=(server, open_now, device, to_device, to_host), daemon=True)
        thread.start()
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        for connection in open_now:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=1)


@dataclass
class SerialServer:
    """A serial port on the network (RFC 2217): ``port`` has the settings that the client chose."""

    connection: socket.socket
    port: serial.SerialBase
    received: bytearray = field(default_factory=bytearray)

    def write(self, data: bytes) -> None:
        self.connection.sendall(data)

    def serve(self, device: SimulatedDevice) -> None:
        manager = PortManager(self.port, self)
        pending = b""
        while data := self.connection.recv(4096):
            self.received += data
            *lines, pending = (pending + b"".join(manager.filter(data))).split(b"\n")
            for line in lines:
                for reply in device.receive(line):
                    self.write(b"".join(manager.escape(reply)))


@contextlib.contextmanager
def serve_rfc2217(device: SimulatedDevice) -> Iterator[tuple[str, list[SerialServer]]]:
    """URL of a serial port on the network at which the device answers, and the server once a client came."""
    servers: list[SerialServer] = []

    def talk() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, serial.serial_for_url("loop://") as port:
                servers.append(SerialServer(connection, port))
                servers[0].serve(device)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        yield f"rfc2217://127.0.0.1:{listener.getsockname()[1]}", servers
        thread.join(timeout=1)


@contextlib.contextmanager
def serve_terminal(device: SimulatedDevice) -> Iterator[str]:
    """Name of a pseudo-terminal at which the device answers."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    thread = threading.Thread(target=_talk_on_terminal, args=(ours, device), daemon=True)
    thread.start()
    yield os.ttyname(theirs)
    os.close(theirs)
    thread.join(timeout=1)
    os.close(ours)


def _talk_on_terminal(terminal: int, device: SimulatedDevice) -> None:
    pending = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 4096):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                for reply in device.receive(line):
                    os.write(terminal, reply)


def speak_on_standard_streams(device: SimulatedDevice) -> None:
    """Answer as a program does that ssh has started."""
    for line in sys.stdin.buffer:
        for reply in device.receive(line.removesuffix(b"\n")):
            sys.stdout.buffer.write(reply)
            sys.stdout.buffer.flush()


def _talk(
    server: socket.socket, open_now: list[socket.socket], device: SimulatedDevice, to_device: Line, to_host: Line
) -> None:
    with contextlib.suppress(OSError):
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        open_now.append(connection)
        with connection:
            pending = b""
            while data := connection.recv(4096):
                *lines, pending = (pending + to_device(data)).split(b"\n")
                for line in lines:
                    for reply in device.receive(line):
                        connection.sendall(to_host(reply))


if __name__ == "__main__":
    speak_on_standard_streams(SimulatedDevice(board=sys.argv[1]))
