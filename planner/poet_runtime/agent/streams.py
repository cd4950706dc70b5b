# SPDX-License-Identifier: Apache-2.0
"""Where the line runs: the standard streams, a TCP port, or a serial line."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress

from poet_profiles.errors import UserError

from poet_runtime.agent.server import Server

READ_BYTES = 65_536
DEFAULT_BAUD = 1_000_000


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

    Raises
    ------
    UserError
        If the place is none, or taken.
    """
    host, colon, port = place.rpartition(":")
    if not colon or not port.isdigit():
        raise UserError(f"--listen {place}: write HOST:PORT, for example localhost:7654")
    try:
        listener = socket.create_server((host.strip("[]"), int(port)))
    except (OSError, OverflowError) as error:
        raise UserError(f"--listen {place}: {error}") from None
    with listener:
        print(f"poet-agent listens at {host}:{listener.getsockname()[1]}", file=sys.stderr, flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server.begin()
            with connection, suppress(ConnectionError):
                while data := connection.recv(READ_BYTES):
                    server.feed(data, connection.sendall)


def serve_serial(server: Server, device: str, baud: int = DEFAULT_BAUD) -> None:
    """At a serial line, for as long as it is there.

    Raises
    ------
    UserError
        If pyserial is missing, or the line cannot be opened or is gone.
    """
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
