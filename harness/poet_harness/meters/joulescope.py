# SPDX-License-Identifier: Apache-2.0
"""Joulescope JS110, JS220 and JS320 (optional package ``pyjoulescope_driver``), the board's window line on input 0.

The driver publishes blocks of power (float) and of the input (one bit a sample, packed) apart, each with the number
of its first sample; where a number is left out, samples were lost.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..ports import by_number
from ..protocol.link import LostDeviceError
from .meter import Mark, Meter, MeterError, Window
from .sampled import WindowIntegrator, assign

CURE = "pip install 'poet-edge[joulescope]'"
POWER, INPUT = "s/p", "s/gpi/0"
DRIVER_ERRORS = (RuntimeError, ValueError, TimeoutError)
LOW, HIGH, LOST = 0, 1, 2
MODEL = re.compile(r"/js\d+/")
SIGNALS = ("s/i", "s/v", POWER, INPUT)


class Pairing:
    """Brings power and input samples of the same instants together, whichever comes first.

    Positions count samples of the power signal. Where a block of either is left out, power is NaN.
    """

    def __init__(self) -> None:
        self.integrator: WindowIntegrator | None = None
        self._divider = 1
        self._power = np.empty(0, np.float32)
        self._line = np.empty(0, np.int8)
        self._power_at: int | None = None
        self._line_at: int | None = None
        self._held = LOW

    def power(self, block: Mapping[str, Any]) -> None:
        """Take a block of power."""
        self._divider = int(block["decimate_factor"])
        if self.integrator is None:
            self.integrator = WindowIntegrator(self._divider / float(block["sample_rate"]))
        at = int(block["sample_id"]) // self._divider
        data = np.asarray(block["data"], np.float32)
        if self._power_at is None:
            self._power_at = at
        gap = at - (self._power_at + len(self._power))
        self._power = np.concatenate((self._power, np.full(max(gap, 0), np.nan, np.float32), data))
        self._pair()

    def line(self, block: Mapping[str, Any]) -> None:
        """Take a block of the input, brought to the power's rate."""
        if self._power_at is None:
            return
        bits = np.unpackbits(np.asarray(block["data"], np.uint8), bitorder="little").astype(np.int8)
        first, factor = int(block["sample_id"]), int(block["decimate_factor"])
        begin = -(-first // self._divider)
        end = -(-(first + len(bits) * factor) // self._divider)
        data = bits[np.clip((np.arange(begin, end) * self._divider - first) // factor, 0, len(bits) - 1)]
        if self._line_at is None:
            self._line_at = begin
        gap = begin - (self._line_at + len(self._line))
        self._line = np.concatenate((self._line, np.full(max(gap, 0), self._held | LOST, np.int8), data))
        self._held = int(data[-1])
        self._pair()

    def _pair(self) -> None:
        if self._power_at is None or self._line_at is None or self.integrator is None:
            return
        begin = max(self._power_at, self._line_at)
        end = min(self._power_at + len(self._power), self._line_at + len(self._line))
        if end <= begin:
            return
        power = self._power[begin - self._power_at : end - self._power_at]
        line = self._line[begin - self._line_at : end - self._line_at]
        lost = line >= LOST
        if lost.any():
            power = np.where(lost, np.float32(np.nan), power)
        self.integrator.feed(power, (line & HIGH) != 0)
        self._power, self._power_at = self._power[end - self._power_at :], end
        self._line, self._line_at = self._line[end - self._line_at :], end


class JoulescopeMeter(Meter):
    """One Joulescope.

    Raises
    ------
    UserError
        With exit code 4, if the driver cannot open it.
    """

    shortest_window_s = 0.05
    most_a = 3.0  # for longer than some milliseconds

    def __init__(self, driver: Any, path: str, board: Board) -> None:
        self.voltage_v = board.voltage_v
        self.identity = f"Joulescope {path.removeprefix('u/').replace('/', ' ')}"
        self._driver = driver
        self._path = path
        self._lock = threading.Lock()
        self._pairing: Pairing | None = None
        try:
            driver.open(path, "defaults")
            driver.publish(f"{path}/s/i/range/{'select' if 'js110' in path else 'mode'}", "auto")
            driver.subscribe(f"{path}/{POWER}/!data", ["pub"], self._on_power)
            driver.subscribe(f"{path}/{INPUT}/!data", ["pub"], self._on_line)
        except DRIVER_ERRORS as error:
            raise UserError(f"{path}: the Joulescope cannot be opened ({error})", NO_DEVICE) from None

    def begin(self) -> None:
        with self._lock:
            self._pairing = Pairing()
        self._switch(1)
        deadline_s = time.monotonic() + 3.0
        while not self._samples():
            if time.monotonic() > deadline_s:
                raise UserError(f"{self.identity}: sends no samples; unplug it and plug it in again", NO_DEVICE)
            time.sleep(0.005)

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        deadline_s = time.monotonic() + 1.0
        while len(self._windows()) < len(marks) and time.monotonic() < deadline_s:
            time.sleep(0.005)
        self._switch(0)
        windows = self._windows()
        if not windows:
            raise MeterError(
                "no window seen; is the board's window line on input 0, and c/gpio/vref at the board's voltage?"
            )
        return assign(windows, marks, windows[0].period_s)

    def close(self) -> None:
        with contextlib.suppress(*DRIVER_ERRORS):
            self._driver.close(self._path)

    def _switch(self, on: int) -> None:
        try:
            for signal in SIGNALS:
                self._driver.publish(f"{self._path}/{signal}/ctrl", on)
        except DRIVER_ERRORS as error:
            raise LostDeviceError(f"{self.identity}: gone", error) from None

    def _samples(self) -> int:
        with self._lock:
            integrator = self._pairing.integrator if self._pairing else None
            return integrator.samples if integrator else 0

    def _windows(self) -> list[Window]:
        with self._lock:
            integrator = self._pairing.integrator if self._pairing else None
            return list(integrator.windows) if integrator else []

    def _on_power(self, _topic: str, block: Mapping[str, Any]) -> None:
        with self._lock:
            if self._pairing:
                self._pairing.power(block)

    def _on_line(self, _topic: str, block: Mapping[str, Any]) -> None:
        with self._lock:
            if self._pairing:
                self._pairing.line(block)


def find() -> list[str]:
    """Paths of the connected instruments, such as ``u/js220/001234``."""
    try:
        driver = _driver()
    except UserError:
        return []
    return _paths(driver)


def open_joulescope(address: str, board: Board) -> JoulescopeMeter:
    """Open the instrument at a path, or the only one."""
    driver = _driver()
    paths = _paths(driver)
    if not address and len(paths) != 1:
        raise UserError(
            f"Joulescope: found {', '.join(paths) or 'none'}; name one as --meter joulescope:PATH", NO_DEVICE
        )
    return JoulescopeMeter(driver, address or paths[0], board)


def _paths(driver: Any) -> list[str]:
    """What the driver calls a Joulescope; it lists other products of the same vendor too."""
    return sorted((path for path in driver.device_paths() if MODEL.search(path)), key=by_number)


def _driver() -> Any:
    try:
        module = importlib.import_module("pyjoulescope_driver")
    except ImportError:
        raise UserError(f"Joulescope: its driver is not installed: {CURE}", NO_DEVICE) from None
    try:
        return _started(module)
    except DRIVER_ERRORS as error:
        raise UserError(
            f"Joulescope: its driver does not start ({error}); does another program use it?", NO_DEVICE
        ) from None


@cache
def _started(module: Any) -> Any:
    """The driver of this process: it allows one."""
    return module.Driver()
