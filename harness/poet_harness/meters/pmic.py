# SPDX-License-Identifier: Apache-2.0
"""The Raspberry Pi 5's power management chip, by ``vcgencmd pmic_read_adc``: twelve rails, volts and amperes.

It measures after its own converters: what USB devices and HATs draw, and what the conversion loses, is not in the sum.
So its power is never that of the board's input, and the identity says ``rails only``. The input's voltage (EXT5V) has
no current beside it.

Firmware has printed the readings in two forms, ``VDD_CORE_A current(7)=1.66A`` and ``VDD_CORE_A=1.66A``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .clocked import ClockedMeter

COMMAND = ("vcgencmd", "pmic_read_adc")
READING = re.compile(r"\s*(?P<rail>\w+)_(?P<unit>[AV])(\s+(current|volt)\(\d+\))?\s*=\s*(?P<number>[0-9.]+)[AV]\s*")
INPUT = "EXT5V"
ANSWER_S = 5.0
# Each reading starts a program, which takes time from what is measured: few of them, and long windows.
PERIOD_S = 0.1
SHORTEST_WINDOW_S = 3.0

Readings = dict[str, dict[str, float]]


def readings(text: str) -> Readings:
    """Volts and amperes by rail.

    Raises
    ------
    OSError
        If a line is none of the known forms: a rail that is left out would be power that is missing.
    """
    found: Readings = {}
    for line in filter(str.strip, text.splitlines()):
        reading = READING.fullmatch(line)
        if reading is None:
            raise OSError(f"pmic_read_adc: {line.strip()!r} is no reading that this program knows")
        found.setdefault(reading["rail"], {})[reading["unit"]] = float(reading["number"])
    return found


def power_w(rails: Readings) -> float:
    """Sum over the rails that show a current.

    Raises
    ------
    OSError
        If there is none, or one has no voltage.
    """
    metered = {name: rail for name, rail in rails.items() if "A" in rail}
    missing = [name for name, rail in metered.items() if "V" not in rail]
    if missing or not metered:
        raise OSError(f"pmic_read_adc: no voltage of {', '.join(missing)}" if metered else "pmic_read_adc: no current")
    return sum(rail["V"] * rail["A"] for rail in metered.values())


def find() -> list[str]:
    """``pmic``, if this is a Raspberry Pi 5."""
    try:
        power_w(readings(_ask()))
    except (OSError, UserError):
        return []
    return ["pmic"]


def open_pmic(_address: str, board: Board, ask: Callable[[], str] | None = None) -> ClockedMeter:
    """Read the chip's rails.

    Parameters
    ----------
    ask : callable, optional
        Gives the command's output; runs it if left out.

    Raises
    ------
    UserError
        If this is no Raspberry Pi 5, or it may not be read.
    """
    ask = ask or _ask
    try:
        rails = readings(ask())
        power_w(rails)
    except OSError as error:
        raise UserError(f"pmic: {error}; is this a Raspberry Pi 5?", NO_DEVICE) from None
    metered = sum("A" in rail for rail in rails.values())
    meter = ClockedMeter(
        read=lambda: power_w(readings(ask())),
        is_energy=False,
        identity=f"Raspberry Pi 5 pmic, rails only ({metered} of them; no USB, no HAT, no conversion losses)",
        voltage_v=rails.get(INPUT, {}).get("V", board.voltage_v),
        period_s=PERIOD_S,
    )
    meter.shortest_window_s = SHORTEST_WINDOW_S
    return meter


def _ask() -> str:
    if shutil.which(COMMAND[0]) is None:
        raise UserError(f"pmic: there is no {COMMAND[0]} here; is this a Raspberry Pi 5?", NO_DEVICE)
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise OSError(f"{' '.join(COMMAND)}: no answer within {ANSWER_S:g} s") from None
    if done.returncode:
        words = (done.stderr or done.stdout).strip() or f"code {done.returncode}"
        raise OSError(f"{' '.join(COMMAND)}: {words} (may this user? try: sudo usermod -aG video $USER)")
    return done.stdout
