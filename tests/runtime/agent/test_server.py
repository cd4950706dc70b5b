# SPDX-License-Identifier: Apache-2.0
"""The agent's end of the line: what the protocol says of acknowledgements, repeated requests, resets and damage."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_profiles.errors import UserError
from poet_profiles.protocol.frame import MAX_LINE, decode
from poet_profiles.protocol.status import Status
from poet_runtime.agent.server import RefusedError, Server
from poet_runtime.agent.streams import serve_tcp

from tests.support.harness.simulated_device import crc


def request(sequence: int, text: str) -> bytes:
    body = f">{sequence:04x} {text}".encode()
    return body + b"*%04x\n" % crc(body)


class Counted:
    """A server of a verb that counts how often it was carried out."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sent = b""
        self.server = Server({"hello": self._hello, "count": self._count, "refuse": self._refuse})

    def _hello(self, _: Sequence[str]) -> str:
        return "protocol=2"

    def _count(self, arguments: Sequence[str]) -> str:
        self.calls.append(" ".join(arguments))
        return f"times={len(self.calls)}"

    def _refuse(self, _: Sequence[str]) -> str:
        raise RefusedError(Status.E_MEMORY, "too\nlarge, 5 µs")

    def ask(self, data: bytes) -> list[str]:
        self.sent = b""
        self.server.feed(data, self._take)
        frames = [decode(line) for line in self.sent.splitlines()]
        assert all(frame is not None and frame.direction == "<" for frame in frames)
        return [f"{frame.sequence:04x} {frame.text}" for frame in frames if frame]

    def _take(self, data: bytes) -> None:
        self.sent += data


def test_a_request_is_acknowledged_and_carried_out_once_however_often_it_comes() -> None:
    device = Counted()
    assert device.ask(request(1, "count a")) == ["0001 ack", "0001 err -4 reset"]
    assert device.ask(request(2, "hello")) == ["0002 ack", "0002 ok protocol=2"]
    for _ in range(3):
        assert device.ask(request(3, "count b")) == ["0003 ack", "0003 ok times=1"]
    assert device.ask(request(4, "count c")) == ["0004 ack", "0004 ok times=2"]
    assert device.ask(request(4, "hello")) == ["0004 ack", "0004 ok protocol=2"], "hello is always carried out"
    assert device.calls == ["b", "c"]
    assert device.ask(request(5, "refuse")) == ["0005 ack", "0005 err -2 too large, 5 ?s"]
    assert device.ask(request(6, "what")) == ["0006 ack", "0006 err -8 unknown verb"]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_noise_is_dropped_and_what_stands_between_is_answered(seed: int) -> None:
    source = random.Random(seed)
    device = Counted()
    device.ask(request(0, "hello"))
    for number in range(1, 8):
        noise = source.randbytes(source.randrange(2 * MAX_LINE))
        at = source.randrange(1, 20)
        damaged = bytearray(request(number, "count damaged"))
        damaged[at] ^= 1 << source.randrange(7)
        answers = device.ask(noise + b"\n" + bytes(damaged) + b"\n" + request(number, "count"))
        assert answers[-2:] == [f"{number:04x} ack", f"{number:04x} ok times={number}"]
    assert set(device.calls) == {""}


def test_one_host_after_the_other_is_served_at_a_port_and_what_is_there_stays(
    capfd: pytest.CaptureFixture[str],
) -> None:
    device = Counted()
    thread = threading.Thread(target=serve_tcp, args=(device.server, "127.0.0.1:0"), daemon=True)
    thread.start()
    place = ""
    while "listens at" not in place or not place.endswith("\n"):
        place += capfd.readouterr().err
        thread.join(0.01)
    port = int(place.rpartition(":")[2])
    for number, wanted in enumerate(("times=1", "times=2")):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            if not number:
                line.sendall(request(1, "hello"))
            line.sendall(request(2 + number, "count") + b">0009 a torn li")
            received = b""
            while wanted.encode() not in received:
                received += line.recv(4096)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "here"], "write HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "--listen 127.0.0.1:99999: "),
        (["--threads", "0"], "--threads 0: this computer has"),
        (["--serial", "/no/such/line"], "--serial /no/such/line: "),
        (["--window", "/no/such/file"], "--window /no/such/file: No such file"),
    ],
)
def test_a_users_mistake_ends_in_one_line(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    from poet_runtime.agent.cli import main

    with pytest.raises(SystemExit) as ended:
        main(options)
    assert ended.value.code == 2
    printed = capsys.readouterr().err
    assert words in printed
    assert printed.startswith("poet-agent: ") and printed.count("\n") == 1


def test_what_a_library_prints_never_gets_into_the_protocol() -> None:
    code = (
        "from poet_runtime.agent.server import Server\n"
        "from poet_runtime.agent.streams import serve_standard_streams\n"
        "import os\n"
        "def hello(_):\n    print('chatter', flush=True); os.write(1, b'more\\n'); return 'protocol=2'\n"
        "serve_standard_streams(Server({'hello': hello}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=request(1, "hello"), capture_output=True, check=True)
    assert done.stdout.splitlines()[1].startswith(b"<0001 ok protocol=2*")
    assert done.stderr == b"chatter\nmore\n"


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--listen 127.0.0.1:{port}: "):
            serve_tcp(Counted().server, f"127.0.0.1:{port}")
