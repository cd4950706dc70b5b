# SPDX-License-Identifier: Apache-2.0
"""A port of pyserial, of any class: it says how much there is, and fails in one way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import serial
from poet_profiles.program.closing import Closing
from serial.urlhandler import protocol_socket

READ_BYTES = 65_536


@contextmanager
def _failing_as_one() -> Iterator[None]:
    """Where a device is gone, a class may raise `termios.error`, or what Python says of a file that is closed."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise serial.SerialException(f"{error or type(error).__name__}") from error


class SerialPort(Closing):
    """An open port: every method raises `OSError` where pyserial, a terminal or a socket fails."""

    def __init__(self, port: serial.SerialBase) -> None:
        self._port: Any = port

    @property
    def timeout(self) -> float | None:
        """How many seconds a read waits; None: for ever."""
        return self._port.timeout  # type: ignore[no-any-return]

    @timeout.setter
    def timeout(self, timeout_s: float | None) -> None:
        self._port.timeout = timeout_s

    @property
    @_failing_as_one()
    def in_waiting(self) -> int:
        """How many bytes can be read at once. pyserial's sockets say 1, however many are there."""
        if not isinstance(self._port, protocol_socket.Serial):
            return int(self._port.in_waiting)
        try:
            return len(self._port._socket.recv(READ_BYTES, socket.MSG_PEEK)) or 1  # of an ended one a read says so
        except BlockingIOError:
            return 0

    @_failing_as_one()
    def read(self, size: int = 1, /) -> bytes:
        return bytes(self._port.read(size))

    @_failing_as_one()
    def write(self, data: bytes, /) -> int | None:
        return self._port.write(data)  # type: ignore[no-any-return]

    @_failing_as_one()
    def reset_input_buffer(self) -> None:
        """Drop what has come and was not read."""
        self._port.reset_input_buffer()

    @_failing_as_one()
    def close(self) -> None:
        self._port.close()
