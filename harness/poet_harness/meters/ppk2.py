# SPDX-License-Identifier: Apache-2.0
"""Nordic Power Profiler Kit II: 100,000 samples a second over USB, the board's window line on its input D0.

The instrument streams one little-endian 32-bit word a sample: bits 0 to 13 the converter's value divided by four,
14 to 16 the measuring range, 18 to 23 a counter, 24 to 31 the digital inputs D0 to D7. Its metadata text carries the
constants of each range. The counter says which samples never arrived.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from ..ports import described, devices
from .meter import Mark, MeterError, Window
from .sampled import WindowIntegrator, assign
from .streaming import StreamingMeter, open_instrument

PERIOD_S = 1e-5
USB_ID = (0x1915, 0xC00A)
RANGES = 5
ADC_VOLT = 1.8 / 163840

START, STOP, SUPPLY, REGULATOR, MODE, METADATA = 0x06, 0x07, 0x0C, 0x0D, 0x11, 0x19
AMPERE_METER, SOURCE_METER = 1, 2
LOWEST_V, HIGHEST_V = 0.8, 5.0
MOST_A = 1.0
# Samples above that which may be of a change of the range.
FEW_SAMPLES = 10

COUNTER_MODULUS = 64
# Counter steps that are wrong in more than this share of a block: the words are out of step with the bytes.
OUT_OF_STEP = 0.5
WORD_BYTES = 4


class CalibrationError(ValueError):
    """Metadata of a PPK2 from which no current follows."""


@dataclass(frozen=True)
class Calibration:
    """Constants of the five ranges, each of shape (5,), and the line that goes into the profile."""

    r: NDArray[np.float64]
    gs: NDArray[np.float64]
    gi: NDArray[np.float64]
    o: NDArray[np.float64]
    s: NDArray[np.float64]
    i: NDArray[np.float64]
    ug: NDArray[np.float64]
    words: str

    @classmethod
    def parse(cls, metadata: str) -> Calibration:
        """Read the metadata text. A field that is absent or not a number takes the value that changes nothing.

        Raises
        ------
        CalibrationError
            If a range's resistance is missing: without it there is no current.
        """
        fields = dict(line.split(":", 1) for line in metadata.splitlines() if ":" in line)
        fields = {name.strip(): value.strip() for name, value in fields.items()}

        def column(name: str, neutral: float) -> NDArray[np.float64]:
            return np.array([_finite(fields.get(f"{name}{index}"), neutral) for index in range(RANGES)])

        resistances = column("R", 0.0)
        if not (resistances > 0).all():
            missing = ", ".join(f"R{index}" for index in np.flatnonzero(resistances <= 0))
            raise CalibrationError(f"its calibration is damaged: no resistance {missing}, so that range has no current")
        words = f"HW {fields.get('HW', '?')}, calibrated {fields.get('Calibrated', '?')}"
        return cls(
            r=resistances,
            gs=column("GS", 0.0),
            gi=column("GI", 1.0),
            o=column("O", 0.0),
            s=column("S", 0.0),
            i=column("I", 0.0),
            ug=column("UG", 1.0),
            words=words,
        )


class Decoder:
    """Words to power and window line, block by block.

    Parameters
    ----------
    calibration : Calibration
        Of this instrument.
    voltage_v : float
        Supply voltage of the board.

    Attributes
    ----------
    above : int
        How many samples were more than a PPK2 measures.
    """

    def __init__(self, calibration: Calibration, voltage_v: float) -> None:
        self.above = 0
        offsets = calibration.s * voltage_v + calibration.i
        # A table over range and converter value: 8 ranges of 2^14 values. Ranges 5 to 7 do not exist.
        table = np.full((8, 1 << 14), np.nan)
        volts = (np.arange(1 << 14) * 4.0 - calibration.o[:, None]) * (ADC_VOLT / calibration.r[:, None])
        gain = calibration.gs[:, None] * volts + calibration.gi[:, None]
        table[:RANGES] = calibration.ug[:, None] * (volts * gain + offsets[:, None]) * voltage_v
        self._most_w = MOST_A * voltage_v
        self._power_w = table.ravel().astype(np.float32)
        self._pending = b""
        self._counter: int | None = None

    def feed(self, data: bytes) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Power in watt, NaN for each sample that was lost, and the window line."""
        data = self._pending + data
        data = self._in_step(data)
        whole = len(data) - len(data) % WORD_BYTES
        self._pending = data[whole:]
        words = np.frombuffer(data[:whole], dtype="<u4")
        if not len(words):
            return np.empty(0, np.float32), np.empty(0, np.bool_)
        power_w = self._power_w[words & 0x1FFFF]
        self.above += int(np.count_nonzero(power_w > self._most_w))
        line = (words & 0x01000000) != 0
        lost = self._lost_before(words)
        if lost.any():
            places = np.repeat(np.arange(len(words)), lost)
            power_w = np.insert(power_w, places, np.float32(np.nan))
            line = np.insert(line, places, line[np.maximum(places - 1, 0)])
        return power_w, line

    def _lost_before(self, words: NDArray[np.uint32]) -> NDArray[np.int64]:
        counters = ((words >> 18) & 0x3F).astype(np.int8)
        steps = np.empty(len(words), np.int8)
        np.subtract(counters[1:], counters[:-1], out=steps[1:])
        steps[0] = 1 if self._counter is None else counters[0] - self._counter
        self._counter = int(counters[-1])
        return (steps.astype(np.int64) - 1) % COUNTER_MODULUS

    def _in_step(self, data: bytes) -> bytes:
        """Drop up to three bytes so that the counters of the words run on: a lost byte shifts all words after it."""
        candidates = [_wrong_steps(data[skip:]) for skip in range(WORD_BYTES)]
        if candidates[0] <= OUT_OF_STEP:
            return data
        return data[int(np.argmin(candidates)) :]


class Ppk2Meter(StreamingMeter):
    """A PPK2 on a serial port, as ampere meter or as the board's supply.

    Raises
    ------
    UserError
        With exit code 4, if nothing that speaks its protocol answers, or its calibration is damaged; with 2, if the
        board's voltage is not one of its.
    """

    shortest_window_s = 0.1
    most_a = MOST_A

    def __init__(self, port: str, board: Board, supply: bool) -> None:
        if not LOWEST_V <= board.voltage_v <= HIGHEST_V:
            raise UserError(f"PPK2: takes {LOWEST_V:g} to {HIGHEST_V:g} V, and {board.name} has {board.voltage_v:g} V")
        self.voltage_v = board.voltage_v
        super().__init__(open_instrument(port))
        try:
            self._write(STOP)
            self._port.reset_input_buffer()
            self._calibration = Calibration.parse(self._metadata())
            self._write(MODE, SOURCE_METER if supply else AMPERE_METER)
            if supply:
                self._write(REGULATOR, *_regulator(board.voltage_v))
            self._write(SUPPLY, 1)
        except CalibrationError as fault:
            raise UserError(f"{port}: the PPK2 there answers, but {fault}; measure with another", NO_DEVICE) from None
        except (OSError, ValueError) as error:
            raise UserError(f"{port}: no PPK2 answers there ({error})", NO_DEVICE) from None
        mode = "source" if supply else "ampere"
        self.identity = f"PPK2 {_serial_number(port)}, {mode} meter, {self._calibration.words}"

    def end(self, marks: Sequence[Mark]) -> list[Window]:
        self._finish(lambda: len(self._integrator.windows) >= len(marks))
        if self._decoder.above > FEW_SAMPLES:
            raise MeterError(
                f"overcurrent: {self._decoder.above} samples above {MOST_A:g} A, the most that it measures"
            )
        if not self._integrator.windows:
            raise MeterError(
                "no window seen; is the board's window line on D0, and VCC of the logic port at the board's voltage?"
            )
        windows = self._integrator.windows
        if len(windows) > len(marks):
            counts = f"{len(windows)} windows recorded, {len(marks)} expected"
            raise MeterError(f"{counts}; is VCC of the logic port at the board's voltage?")
        return assign(windows, marks, PERIOD_S)

    def _start(self) -> None:
        self._integrator = WindowIntegrator(PERIOD_S)
        self._decoder = Decoder(self._calibration, self.voltage_v)
        self._port.reset_input_buffer()
        self._write(START)

    def _take(self, data: bytes) -> bool:
        self._integrator.feed(*self._decoder.feed(data))
        return self._integrator.samples > 0

    def _stop(self) -> None:
        self._write(STOP)

    def _metadata(self) -> str:
        self._write(METADATA)
        text = b""
        deadline_s = time.monotonic() + 2.0
        while b"END" not in text:
            if time.monotonic() > deadline_s:
                raise ValueError("no metadata")
            text += self._port.read(max(1, self._port.in_waiting))
        return text.decode("ascii", errors="replace")

    def _write(self, *command: int) -> None:
        self._port.write(bytes(command))


def find() -> list[str]:
    """Ports of the connected instruments. Each has two; the first of its interfaces carries the protocol."""
    return [str(ports_of_one[0].device) for ports_of_one in devices(_ports())]


def open_ppk2(address: str, board: Board, supply: bool = False) -> Ppk2Meter:
    """Open the instrument at a port, or the only one."""
    found = [ports_of_one[0] for ports_of_one in devices(_ports())]
    if not address and len(found) != 1:
        listed = ", ".join(described(port) for port in found) or "no port"
        raise UserError(f"PPK2: found at {listed}; name its port as --meter ppk2:PORT", NO_DEVICE)
    return Ppk2Meter(address or str(found[0].device), board, supply)


def _ports() -> list[ListPortInfo]:
    return [port for port in list_ports.comports() if (port.vid, port.pid) == USB_ID]


def _finite(text: str | None, neutral: float) -> float:
    try:
        value = float(text) if text is not None else neutral
    except ValueError:
        return neutral
    return value if math.isfinite(value) else neutral


def _regulator(voltage_v: float) -> tuple[int, int]:
    """The regulator's setting: 3, 32 is 800 mV, and each millivolt counts one up."""
    setting = round((voltage_v - LOWEST_V) * 1000) + 32
    return 3 + setting // 256, setting % 256


def _serial_number(port: str) -> str:
    return next((str(entry.serial_number) for entry in list_ports.comports() if entry.device == port), "at " + port)


def _wrong_steps(data: bytes) -> float:
    """Share of words in a block whose counter does not follow the word before."""
    words = np.frombuffer(data[: min(len(data), 1024) // WORD_BYTES * WORD_BYTES], dtype="<u4")
    if len(words) < 8:
        return 0.0
    counters = ((words >> 18) & 0x3F).astype(np.int64)
    return float(np.mean((np.diff(counters) % COUNTER_MODULUS) != 1))
