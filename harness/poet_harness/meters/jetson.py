# SPDX-License-Identifier: Apache-2.0
"""The Jetson's INA3221: three supply rails a chip, each with a name.

Most modules have the rail ``VDD_IN``, which feeds the whole board. The AGX Orin has none: two chips measure the rails
of the module, and what the carrier draws beside it is in no reading. There the rails are added up.

JetPack 4 (IIO): ``/sys/bus/i2c/drivers/ina3221x/*/iio:device*/in_powerN_input`` in milliwatt, ``rail_name_N``.
JetPack 5 and later (hwmon ``ina3221``): ``inN_label``, ``inN_input`` in millivolt, ``currN_input`` in milliampere;
only N of 1 to 3 are rails. An input that nothing is connected to is called ``NC``. The driver averages ``samples``
conversions and shows a new result every ``update_interval`` milliseconds, which may be longer than an operator runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .clocked import ClockedMeter
from .sysfs import averaged, number, text

ROOT = Path("/")
WHOLE_BOARD = "VDD_IN"
# Rails that lie side by side. Of any other set nobody knows here whether one of them feeds another.
MODULE_RAILS = {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"}
MODULE = "module"
NOT_CONNECTED = "NC"
RAILS = (1, 2, 3)


@dataclass(frozen=True)
class Rail:
    """A rail by its name, with readers of its power in watt and its voltage in volt.

    ``averaging`` says over what the driver averages, as far as it tells.
    """

    name: str
    power_w: Callable[[], float]
    voltage_v: Callable[[], float]
    averaging: str = ""


def rails(root: Path = ROOT) -> list[Rail]:
    """Every rail that the kernel shows."""
    return [*_iio_rails(root), *_hwmon_rails(root)]


def find(root: Path = ROOT) -> list[str]:
    """The rail that feeds the whole board, or ``module`` on an AGX Orin; nothing if this is neither."""
    names = [rail.name for rail in rails(root)]
    return [WHOLE_BOARD] if WHOLE_BOARD in names else [MODULE] if _are_the_modules(names) else []


def _are_the_modules(names: list[str]) -> bool:
    return set(names) == MODULE_RAILS and len(names) == len(MODULE_RAILS)


def open_jetson(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the rail ``address``; without one ``VDD_IN``, which feeds the whole board, or else the module's rails.

    Raises
    ------
    UserError
        If there is no such rail.
    """
    known = rails(root)
    wanted = address or next(iter(find(root)), WHOLE_BOARD)
    if wanted == MODULE and _are_the_modules([rail.name for rail in known]):
        chosen = known
    else:
        chosen = [rail for rail in known if rail.name == wanted][:1]
    if not chosen:
        names = ", ".join(rail.name for rail in known) or "none; is this a Jetson?"
        raise UserError(f"jetson: no rail {wanted}; rails found: {names}", NO_DEVICE)
    names = " + ".join(rail.name for rail in chosen)
    identity = f"ina3221 {names}, module rails, carrier not included" if wanted == MODULE else f"ina3221 rail {names}"
    averaging = " and ".join(dict.fromkeys(rail.averaging for rail in chosen if rail.averaging))
    return ClockedMeter(
        lambda: sum(rail.power_w() for rail in chosen),
        is_energy=False,
        identity=f"{identity}, {averaging}" if averaging else identity,
        voltage_v=board.voltage_v if wanted == MODULE else chosen[0].voltage_v(),
    )


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
        averaging = averaged(name.parent)
        for index in RAILS:
            label = text(name.parent / f"in{index}_label")
            if label and label != NOT_CONNECTED:
                volt = _scaled(name.parent / f"in{index}_input")
                ampere = _scaled(name.parent / f"curr{index}_input")
                found.append(Rail(label, _product(volt, ampere), volt, averaging))
    return found


def _scaled(path: Path) -> Callable[[], float]:
    return lambda: number(path) * 1e-3


def _product(volt: Callable[[], float], ampere: Callable[[], float]) -> Callable[[], float]:
    return lambda: volt() * ampere()
