# SPDX-License-Identifier: Apache-2.0
"""The Jetson's INA3221: three supply rails, each with a name.

JetPack 4 (IIO): ``/sys/bus/i2c/drivers/ina3221x/*/iio:device*/in_powerN_input`` in milliwatt, ``rail_name_N``.
JetPack 5 and later (hwmon ``ina3221``): ``inN_label``, ``inN_input`` in millivolt, ``currN_input`` in milliampere;
only N of 1 to 3 are rails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .clocked import ClockedMeter
from .sysfs import number, text

ROOT = Path("/")
WHOLE_BOARD = "VDD_IN"
RAILS = (1, 2, 3)


@dataclass(frozen=True)
class Rail:
    """A rail by its name, with readers of its power in watt and its voltage in volt."""

    name: str
    power_w: Callable[[], float]
    voltage_v: Callable[[], float]


def rails(root: Path = ROOT) -> list[Rail]:
    """Every rail that the kernel shows."""
    return [*_iio_rails(root), *_hwmon_rails(root)]


def find(root: Path = ROOT) -> list[str]:
    """The rail that feeds the whole board, if this is a Jetson."""
    return [rail.name for rail in rails(root) if rail.name == WHOLE_BOARD]


def open_jetson(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the rail ``address``, or ``VDD_IN``, which feeds the whole board.

    Raises
    ------
    UserError
        If there is no such rail.
    """
    wanted = address or WHOLE_BOARD
    known = rails(root)
    for rail in known:
        if rail.name == wanted:
            return ClockedMeter(
                rail.power_w, is_energy=False, identity=f"ina3221 rail {rail.name}", voltage_v=rail.voltage_v()
            )
    names = ", ".join(rail.name for rail in known) or "none; is this a Jetson?"
    raise UserError(f"jetson: no rail {wanted}; rails found: {names}", NO_DEVICE)


def _iio_rails(root: Path) -> list[Rail]:
    found = []
    for folder in sorted(root.glob("sys/bus/i2c/drivers/ina3221x/*/iio:device*")):
        for index in range(len(RAILS)):
            power, voltage = folder / f"in_power{index}_input", folder / f"in_voltage{index}_input"
            if power.exists():
                found.append(Rail(text(folder / f"rail_name_{index}"), _scaled(power), _scaled(voltage)))
    return found


def _hwmon_rails(root: Path) -> list[Rail]:
    found = []
    for name in sorted(root.glob("sys/class/hwmon/hwmon*/name")):
        if text(name) != "ina3221":
            continue
        for index in RAILS:
            label = text(name.parent / f"in{index}_label")
            if label:
                volt = _scaled(name.parent / f"in{index}_input")
                ampere = _scaled(name.parent / f"curr{index}_input")
                found.append(Rail(label, _product(volt, ampere), volt))
    return found


def _scaled(path: Path) -> Callable[[], float]:
    return lambda: number(path) * 1e-3


def _product(volt: Callable[[], float], ampere: Callable[[], float]) -> Callable[[], float]:
    return lambda: volt() * ampere()
