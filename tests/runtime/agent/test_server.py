# SPDX-License-Identifier: Apache-2.0
"""The agent's end of the line: what the protocol says of acknowledgements, repeated requests, resets and damage."""

from __future__ import annotations

import contextlib
import io
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.ports import open_port
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import DeviceError, Link, Patience
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.protocol.frame import MAX_LINE, decode
from poet_profiles.protocol.status import Status
from poet_runtime.agent import streams
from poet_runtime.agent.server import RefusedError, Server
from poet_runtime.agent.streams import serve_tcp

from tests.support.harness.simulated_device import crc
from tests.support.levels import examples


def request(sequence: int, text: str) -> bytes:
    body = f">{sequence:04x} {text}".encode()
    return body + b"*%04x\n" % crc(body)


class Counted:
    """A server of a verb that counts how often it was carried out."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.sent = b""
        self.server = Server(
            {"hello": self._hello, "count": self._count, "refuse": self._refuse, "fail": self._fail, "tell": self._tell}
        )

    def _hello(self, _: Sequence[str]) -> str:
        return "protocol=2"

    def _count(self, arguments: Sequence[str]) -> str:
        self.calls.append(" ".join(arguments))
        return f"times={len(self.calls)}"

    def _refuse(self, _: Sequence[str]) -> str:
        raise RefusedError(Status.E_MEMORY, "too\nlarge, 5 µs")

    def _fail(self, arguments: Sequence[str]) -> str:
        raise FAILURES[int(arguments[0])][0]

    def _tell(self, arguments: Sequence[str]) -> str:
        return {"long": "x" * 5000, "unicode": "é", "lines": "a\nb=c"}[arguments[0]]

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


class OddError(Exception):
    def __str__(self) -> str:
        return "\n\x1b[2J é"


FAILURES: list[tuple[Exception, str]] = [
    (RuntimeError("mat1 and mat2\nshapes"), "-8 RuntimeError: mat1 and mat2"),
    (RuntimeError("[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: 4 bytes"), "-2 "),
    (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "-2 RuntimeError: CUDA out of memory."),
    (RuntimeError("std::bad_alloc"), "-2 "),
    (RuntimeError("more than one element refers to a single memory location"), "-8 "),
    (MemoryError(), "-2 MemoryError:"),
    (RecursionError("deep"), "-8 RecursionError: deep"),
    (AssertionError(), "-8 AssertionError:"),
    (KeyError("x"), "-8 KeyError: 'x'"),
    (UnicodeEncodeError("ascii", "é", 0, 1, "bad"), "-8 UnicodeEncodeError: "),
    (UserError("no disk"), "-8 UserError: no disk"),
    (OSError(28, "No space left on device"), "-8 OSError: [Errno 28] No space left on device"),
    (OddError(), "-8 OddError:"),
]


def test_whatever_a_verb_raises_is_an_answer_and_the_next_request_is_carried_out() -> None:
    device = Counted()
    device.ask(request(0, "hello"))
    for number, (_, words) in enumerate(FAILURES):
        ack, answer = device.ask(request(2 * number + 2, f"fail {number}"))
        assert answer.partition(" err ")[2].startswith(words), answer
        assert device.ask(request(2 * number + 2, f"fail {number}")) == [ack, answer], "kept like any other"
        assert device.ask(request(2 * number + 3, "count"))[1].endswith(f"times={number + 1}")
    for what in ("long", "unicode", "lines"):
        assert " err -8 ValueError: " in device.ask(request(99, f"tell {what}"))[1]
        assert device.ask(request(98, "count"))[1].partition(" ok ")[2]


@settings(max_examples=examples(60))
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


def listening(server: Server, place: str = "127.0.0.1:0") -> tuple[int, str]:
    """The port at which a server listens from now on, and what it has said.

    Its own stream: what is written while a capture is read and cut off is lost, and then waited for in vain.
    """
    thread = threading.Thread(target=serve_tcp, args=(server, place), daemon=True)
    stream = io.StringIO()
    with contextlib.redirect_stderr(stream):
        thread.start()
        while "listens at" not in (said := stream.getvalue()) or not said.endswith("\n"):
            thread.join(0.01)
    return int(said.splitlines()[0].rpartition(":")[2]), said


def answer(line: socket.socket, wanted: bytes = b"") -> bytes:
    """What comes up to some words, or to the connection's end."""
    received = b""
    while (not wanted or wanted not in received) and (data := line.recv(4096)):
        received += data
    return received


class Slow(Counted):
    """Works until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.may_end = threading.Event()

    def _count(self, arguments: Sequence[str]) -> str:
        assert self.may_end.wait(60)
        return super()._count(arguments)


@pytest.mark.parametrize("first", [b"", b">0001 hel", request(1, "hello"), request(1, "hello") + request(2, "count")])
def test_a_second_host_is_told_that_another_is_connected(first: bytes) -> None:
    """Whatever the first does: silent, in the middle of a line, idle after hello, or waiting for a long request."""
    device = Slow()
    port, _ = listening(device.server)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as holder:
        holder.sendall(first)
        if len(first) > 10:
            answer(holder, b"protocol=2")
        url = f"socket://127.0.0.1:{port}"
        with pytest.raises(DeviceError, match="the board answers: busy: another host is connected") as caught:
            Device(Link(open_port(url, 1), url, Patience(acknowledge_s=20.0, answer_s=20.0)))
        assert caught.value.exit_code == NO_DEVICE
        device.may_end.set()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(request(3, "hello"))
        assert b"protocol=2" in answer(line, b"protocol=2")


def test_a_client_that_says_nothing_does_not_hold_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENT_S", 0.2)
    port, _ = listening(Counted().server)
    for beginning in (b"", b">0001 hel"):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as silent:
            silent.sendall(beginning)
            assert silent.recv(1) == b"", "it is let go"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as dripping, pytest.raises(ConnectionError):
        for _ in range(6000):  # for a minute
            dripping.sendall(b"x")
            time.sleep(0.01)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        line.sendall(request(1, "hello"))
        answer(line, b"protocol=2")
        line.settimeout(1.0)
        with pytest.raises(TimeoutError):
            line.recv(1)  # a host that has said hello may think for as long as it likes


def test_a_host_that_hangs_up_leaves_the_board_free() -> None:
    port, _ = listening(Counted().server)
    for number in range(30):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
            line.sendall(request(number, "hello"))
            assert b"busy" not in answer(line, b"protocol=2")


def test_a_dead_host_is_noticed_by_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = socket.create_connection(server.getsockname())
        near, _ = server.accept()
        kept = near.dup()
        far.close()
        streams._serve(Counted().server, near, to_the_end=True)
        assert kept.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        idle, between, count = (
            kept.getsockopt(socket.IPPROTO_TCP, option)
            for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
        assert idle + between * count <= 120
        kept.close()


@pytest.mark.parametrize(("place", "is_open"), [(":0", True), ("0.0.0.0:0", True), ("localhost:0", False)])
def test_it_is_told_who_can_reach_the_agent(place: str, is_open: bool) -> None:
    port, said = listening(Counted().server, place)
    words = f"\nanyone who reaches port {port} of this computer can run this agent, without a password"
    assert (words in said) == is_open


def test_one_host_after_the_other_is_served_at_a_port_and_what_is_there_stays() -> None:
    port, _ = listening(Counted().server)
    for number, wanted in enumerate(("times=1", "times=2")):
        with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
            if not number:
                line.sendall(request(1, "hello"))
            line.sendall(request(2 + number, "count") + b">0009 a torn li")
            answer(line, wanted.encode())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "here"], "write HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "--listen 127.0.0.1:99999: "),
        (["--listen", "..:7654"], "--listen ..:7654: "),
        (["--listen", ""], "the value of an option is empty"),
        (["--pages", " "], "the value of an option is empty"),
        (["--release-freed", "0"], "takes no threshold of 0 B"),
        (["--release-freed", "-5"], "takes no threshold of -5 B"),
        (["--release-freed", str(2**32 + 65536)], "takes no threshold of 4295032832 B"),
        (["--release-freed", "9" * 30], "takes no threshold of 999"),
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


def test_a_folder_of_pages_in_ram_is_told_of_before_anything_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from poet_runtime.agent import cli

    monkeypatch.setattr("poet_runtime.agent.streams.serve_standard_streams", lambda server: None)
    monkeypatch.setattr(cli, "ram_disk", lambda folder: "tmpfs" if str(folder) == "here" else "")
    for folder, lines in (("here", ["poet-agent: --pages here: lies in RAM (tmpfs)"]), ("there", [])):
        cli.main(["--pages", folder])
        assert [line.partition(": what")[0] for line in capsys.readouterr().err.splitlines()] == lines


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
        with pytest.raises(UserError, match=f"--listen 127.0.0.1:{port}: Address already in use"):
            serve_tcp(Counted().server, f"127.0.0.1:{port}")
