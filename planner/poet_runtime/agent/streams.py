# SPDX-License-Identifier: Apache-2.0
"""Where the line runs: the standard streams, a TCP port, or a serial line."""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from queue import SimpleQueue

from poet_profiles.errors import UserError
from poet_profiles.protocol.status import Status

from poet_runtime.agent.server import HELLO, RefusedError, Server

READ_BYTES = 65_536
DEFAULT_BAUD = 1_000_000
OPEN = (
    "anyone who reaches port {port} of this computer can run this agent, without a password; --listen 127.0.0.1:{port} "
    "or ssh keeps others out"
)
SILENT_S = 10.0  # a connection that has brought no whole request by then is no host's, whatever else it brings
LEAVING_S = 1.0  # in which it is noticed that a host has hung up
# A host that lost its power or its network is given up after a minute and a half.
KEEPALIVE = {
    socket.TCP_KEEPIDLE: 60,
    socket.TCP_KEEPINTVL: 10,
    socket.TCP_KEEPCNT: 3,
    socket.TCP_USER_TIMEOUT: 90_000,
}


def serve_standard_streams(server: Server) -> None:
    """Until the input ends. What libraries print goes to standard error, so that it never gets into the protocol."""
    line = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(data: bytes) -> None:
        while data:
            data = data[os.write(line, data) :]

    with suppress(BrokenPipeError):
        while data := os.read(sys.stdin.fileno(), READ_BYTES):
            server.feed(data, send)


def serve_tcp(server: Server, place: str) -> None:
    """One host after the other at ``HOST:PORT``; what is loaded stays between two.

    Requests are carried out by the thread that calls this, because threads of PyTorch are counted for each caller. A
    second one accepts, so that a host which comes while another is connected is refused at once.
    """
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdecimal():
        raise UserError(f"--listen {place}: write HOST:PORT, for example localhost:7654")
    try:
        listener = _listener(host.strip("[]"), int(port))
    except (OSError, OverflowError, UnicodeError) as error:  # also of a name that none can be
        raise UserError(f"--listen {place}: {getattr(error, 'strerror', None) or error}") from None
    with listener:
        address = listener.getsockname()
        here_only = ip_address(address[0].partition("%")[0]).is_loopback
        warning = "" if here_only else f"\n{OPEN.format(port=address[1])}"
        print(f"poet-agent listens at {host}:{address[1]}{warning}", file=sys.stderr, flush=True)
        hosts: SimpleQueue[socket.socket] = SimpleQueue()
        free = threading.Semaphore()
        threading.Thread(target=_accept, args=(listener, hosts, free), daemon=True).start()
        while True:
            connection = hosts.get()
            server.begin()
            _serve(server, connection, to_the_end=True)
            free.release()


def _listener(host: str, port: int) -> socket.socket:
    """At the first address of a name, IPv4 or IPv6; without a name, at every address of this computer."""
    family, _, _, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    return socket.create_server((str(address[0]), port), family=family)


def _accept(listener: socket.socket, hosts: SimpleQueue[socket.socket], free: threading.Semaphore) -> None:
    while listener.fileno() >= 0:
        try:
            connection, _ = listener.accept()
        except OSError:  # it hung up already, or there are too many open files
            time.sleep(LEAVING_S)
            continue
        if free.acquire(timeout=LEAVING_S):
            hosts.put(connection)
        else:
            threading.Thread(target=_serve, args=(Server({HELLO: _busy}), connection), daemon=True).start()


def _busy(_: Sequence[str]) -> str:
    raise RefusedError(Status.E_TAKEN, "busy: another host is connected")


def _serve(server: Server, connection: socket.socket, to_the_end: bool = False) -> None:
    """Answer a host until it hangs up, but not for long: ``to_the_end`` only if it sends a whole request by then."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEPALIVE.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    end_s = time.monotonic() + SILENT_S

    def send(data: bytes) -> None:
        nonlocal end_s
        if to_the_end:
            end_s = math.inf
            connection.settimeout(None)
        with suppress(OSError):  # the next read tells
            connection.sendall(data)

    with connection:
        while (left_s := end_s - time.monotonic()) > 0:
            if left_s < math.inf:
                connection.settimeout(left_s)
            data = _received(connection)
            if not data:
                break
            server.feed(data, send)


def _received(connection: socket.socket) -> bytes:
    """What has come; nothing if it has hung up, or is silent for too long."""
    with suppress(OSError):
        return connection.recv(READ_BYTES)
    return b""


def serve_serial(server: Server, device: str, baud: int = DEFAULT_BAUD) -> None:
    """At a serial line, for as long as it is there."""
    try:
        import serial
    except ImportError:
        raise UserError("--serial needs pyserial; pip install pyserial") from None
    try:
        with serial.Serial(device, baud, exclusive=True) as line:
            while True:
                server.feed(line.read(max(1, line.in_waiting)), line.write)
    except (serial.SerialException, OSError) as error:
        raise UserError(f"--serial {device}: {error}") from None
