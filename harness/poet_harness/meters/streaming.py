# SPDX-License-Identifier: Apache-2.0
"""Instruments at a serial port that stream from a start command to a stop command, read by a thread in between."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable

from poet_profiles.errors import NO_DEVICE, UserError

from ..ports import open_serial
from ..protocol.link import LostDeviceError
from ..serial_port import SerialPort
from .meter import Meter

FIRST_SAMPLES_S = 3.0
# What the instrument saw last is still on its way: USB and kernel hold some tens of milliseconds.
LAST_SAMPLES_S = 1.0


def open_instrument(url: str, baud: int = 9600) -> SerialPort:
    """Open its port.

    Raises
    ------
    UserError
        With exit code 4, if there is none, it is in use, or this user may not open it.
    """
    try:
        return open_serial(url, baud, timeout_s=0.2)
    except (OSError, ValueError) as error:
        raise UserError(f"{url}: cannot be opened ({error}); see poet-harness meters", NO_DEVICE) from None


class StreamingMeter(Meter):
    """Starts and stops the stream, and says in one line when the instrument is gone.

    A driver says what the commands are and takes the bytes in.
    """

    def __init__(self, port: SerialPort) -> None:
        self._port = port
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @abstractmethod
    def _start(self) -> None:
        """Forget the last recording, and let the instrument stream."""

    @abstractmethod
    def _take(self, data: bytes) -> bool:
        """Take bytes of the stream, and say whether a window may begin now."""

    @abstractmethod
    def _stop(self) -> None:
        """Let the instrument stop."""

    def begin(self) -> None:
        self._halt()
        self._failure = None
        self._halting, self._streaming = threading.Event(), threading.Event()
        try:
            self._start()
        except (OSError, ValueError) as error:
            raise self._gone(error) from None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        if not self._streaming.wait(FIRST_SAMPLES_S):
            self._halt()
            raise UserError(f"{self.identity}: sends no samples; unplug it and plug it in again", NO_DEVICE)

    def close(self) -> None:
        self._halt()
        self._port.close()

    def _finish(self, complete: Callable[[], bool]) -> None:
        """Stop the stream when the recording is complete, or nothing more can be on its way."""
        deadline_s = time.monotonic() + LAST_SAMPLES_S
        while not complete() and time.monotonic() < deadline_s and not self._failure:
            time.sleep(0.005)
        self._halt()
        if self._failure:
            raise self._gone(self._failure)

    def _gone(self, error: Exception) -> LostDeviceError:
        return LostDeviceError(f"{self.identity}: gone", error)

    def _halt(self) -> None:
        if self._thread is None:
            return
        self._halting.set()
        self._thread.join()
        self._thread = None
        try:
            self._stop()
        except OSError as error:
            self._failure = error

    def _read(self) -> None:
        try:
            while not self._halting.is_set():
                data = self._port.read(max(1, self._port.in_waiting))
                if data and self._take(data):
                    self._streaming.set()
        except OSError as error:
            self._failure = error
