# SPDX-License-Identifier: Apache-2.0
"""A port of pyserial, of any class: it says how much there is, and fails in one way."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import serial
from poet_profiles.program.closing import Closing
from serial.urlhandler import protocol_socket

READ_BYTES = 65_536


class SerialPort(Closing):
    """An open port.

    Raises
    ------
    OSError
        By every method, where pyserial's own class, the terminal or the socket fails.
    """

    def __init__(self, port: serial.SerialBase) -> None:
        self._port = port

    @property
    def timeout(self) -> float | None:
        """How many seconds a read waits; None: for ever."""
        waits: float | None = self._port.timeout
        return waits

    @timeout.setter
    def timeout(self, timeout_s: float | None) -> None:
        self._port.timeout = timeout_s

    @property
    def in_waiting(self) -> int:
        """How many bytes can be read at once. pyserial's sockets say 1, however many are there."""
        with _failing_as_one():
            if not isinstance(self._port, protocol_socket.Serial):
                count: int = self._port.in_waiting
                return count
            try:
                return len(self._port._socket.recv(READ_BYTES, socket.MSG_PEEK)) or 1  # of an ended one a read says so
            except BlockingIOError:
                return 0

    def read(self, size: int = 1, /) -> bytes:
        with _failing_as_one():
            data: bytes = self._port.read(size)
            return data

    def write(self, data: bytes, /) -> int | None:
        with _failing_as_one():
            count: int | None = self._port.write(data)
            return count

    def reset_input_buffer(self) -> None:
        """Drop what has come and was not read."""
        with _failing_as_one():
            self._port.reset_input_buffer()

    def close(self) -> None:
        with _failing_as_one():
            self._port.close()


@contextmanager
def _failing_as_one() -> Iterator[None]:
    """Where a device is gone, a class may raise `termios.error`, or what Python says of a file that is closed."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise serial.SerialException(f"{error or type(error).__name__}") from error
