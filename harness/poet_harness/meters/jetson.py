# SPDX-License-Identifier: Apache-2.0
"""The Jetson's INA3221: three supply rails a chip, each with a name.

The pins ``VDD_IN`` feed the module (TX1, TX2, Xavier NX, Orin NX, Orin Nano; NVIDIA's design guides), ``POM_5V_IN`` the
Nano's. What the carrier board draws is in neither; kits of the TX1 and TX2 have ``VDD_MUX`` for it, which lies beside
``VDD_IN``. The AGX Orin has no such rail: two chips measure the rails of the module, which are added up. Thor has an
INA238 for its input, which its own tools call ``VIN``. Of any other set (AGX Xavier) nobody knows here whether one rail
feeds another.

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
from .ina import ina3221_step_a
from .sysfs import averaged, number, text

ROOT = Path("/")
MODULE_INPUT, NANO_INPUT, THOR_INPUT = "VDD_IN", "POM_5V_IN", "VIN"
# Rails that lie side by side, and what their sum is.
MODULE_RAILS = {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"}
BOARD_RAILS = {"VDD_IN", "VDD_MUX"}
MODULE_ALONE = "the module's input, carrier not included"
WORDS = {
    "module": "module rails, carrier not included",
    "board": "module and carrier board",
    MODULE_INPUT: MODULE_ALONE,
    NANO_INPUT: MODULE_ALONE,
    THOR_INPUT: "the input by its sensor",
}
MODULE, BOARD = "module", "board"
NOT_CONNECTED = "NC"
RAILS = (1, 2, 3)


@dataclass(frozen=True)
class Rail:
    """A rail by its name, with readers of its power in watt and its voltage in volt.

    ``averaging`` says over what the driver averages, as far as it says, ``step_a`` how finely it shows the current.
    """

    name: str
    power_w: Callable[[], float]
    voltage_v: Callable[[], float]
    averaging: str = ""
    step_a: float = 0.0
    chip: str = "ina3221"


def rails(root: Path = ROOT) -> list[Rail]:
    """Every rail that the kernel shows, and beside them the input, where an INA238 has that."""
    found = [*_iio_rails(root), *_hwmon_rails(root)]
    return [*found, *_input_sensors(root)] if found else []


def find(root: Path = ROOT) -> list[str]:
    """The rail that feeds the module, ``module`` on an AGX Orin, or Thor's input; nothing if this is none of them."""
    names = {rail.name for rail in rails(root)}
    if MODULE_INPUT in names:
        return [MODULE_INPUT]
    if NANO_INPUT in names and all(name.startswith("POM_") for name in names):
        return [NANO_INPUT]
    if _sum_of(MODULE, rails(root)):
        return [MODULE]
    return [THOR_INPUT] if {THOR_INPUT, "VIN_SYS_5V0"} <= names else []


def _sum_of(wanted: str, known: list[Rail]) -> list[Rail]:
    """The rails whose sum is the module or the board; nothing if there are others that could feed one of them."""
    names = [rail.name for rail in known if rail.name != THOR_INPUT]
    whole = MODULE_RAILS if wanted == MODULE else BOARD_RAILS
    complete = sorted(names) == sorted(whole) if wanted == MODULE else whole <= set(names)
    return [rail for rail in known if rail.name in whole] if complete else []


def open_jetson(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the rail ``address``, or the sum ``module`` or ``board``; without one, what shows the module."""
    known = rails(root)
    wanted = address or next(iter(find(root)), MODULE_INPUT)
    if wanted in (MODULE, BOARD):
        chosen = _sum_of(wanted, known)
    else:
        chosen = [rail for rail in known if rail.name == wanted][:1]
    if not chosen:
        listed = ", ".join(rail.name for rail in known)
        beside = "" if address else "; which of them feeds another is not known here: name one as --meter jetson:RAIL"
        raise UserError(
            f"jetson: no rail {wanted}; rails found: {listed + beside if known else 'none; is this a Jetson?'}",
            NO_DEVICE,
        )
    try:
        volts = [rail.voltage_v() for rail in chosen]
    except OSError as error:
        raise UserError(f"jetson: cannot be read: {error}", NO_DEVICE) from None
    step_w = sum(rail.step_a * volt for rail, volt in zip(chosen, volts, strict=True))
    words = (
        f"{chosen[0].chip} {'rail ' * (len(chosen) == 1)}{' + '.join(rail.name for rail in chosen)}",
        WORDS.get(wanted, ""),
        f"in steps of {step_w * 1e3:.3g} mW" if step_w else "",
        " and ".join(dict.fromkeys(rail.averaging for rail in chosen if rail.averaging)),
    )
    meter = ClockedMeter(
        lambda: sum(rail.power_w() for rail in chosen),
        is_energy=False,
        identity=", ".join(filter(None, words)),
        voltage_v=volts[0] if len(chosen) == 1 else board.voltage_v,
    )
    meter.power_step_w = step_w
    return meter


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
                step_a = ina3221_step_a(name.parent, str(index))
                found.append(Rail(label, _product(volt, ampere), volt, averaging, step_a))
    return found


def _input_sensors(root: Path) -> list[Rail]:
    folders = [name.parent for name in root.glob("sys/class/hwmon/hwmon*/name") if text(name) == "ina238"]
    if len(folders) != 1:
        return []
    [folder] = folders
    power_w, voltage_v = (lambda: number(folder / "power1_input") * 1e-6), _scaled(folder / "in1_input")
    return [Rail(THOR_INPUT, power_w, voltage_v, averaged(folder), chip="ina238")]


def _scaled(path: Path) -> Callable[[], float]:
    return lambda: number(path) * 1e-3


def _product(volt: Callable[[], float], ampere: Callable[[], float]) -> Callable[[], float]:
    return lambda: volt() * ampere()
