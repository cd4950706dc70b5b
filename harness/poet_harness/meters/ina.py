# SPDX-License-Identifier: Apache-2.0
"""INA219 and INA226 on I2C, through the kernel's ``ina2xx`` driver in ``/sys/class/hwmon``.

``power1_input`` is in microwatt, ``in1_input`` (bus voltage) in millivolt, ``shunt_resistor`` in microohm, as the
kernel's hwmon interface states.
"""

from __future__ import annotations

from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..connection.ports import by_number
from .clocked import ClockedMeter
from .sysfs import averaged, number, text

CHIPS = {"ina219", "ina220", "ina226", "ina230", "ina231"}
ROOT = Path("/")


def find(root: Path = ROOT) -> list[str]:
    """Addresses such as ``hwmon2``."""
    names = root.glob("sys/class/hwmon/hwmon*/name")
    return sorted((path.parent.name for path in names if text(path) in CHIPS), key=by_number)


def open_ina(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the sensor ``address``, or the only one.

    Raises
    ------
    UserError
        If there is none, or several and none was named.
    """
    found = find(root)
    if not address and len(found) == 1:
        address = found[0]
    if address not in found:
        raise UserError(f"ina: sensors found: {', '.join(found) or 'none'}; name one as --meter ina:hwmonN", NO_DEVICE)
    folder = root / "sys/class/hwmon" / address
    power, chip = folder / "power1_input", text(folder / "name")
    shunt_ohm = float(text(folder / "shunt_resistor") or 0) * 1e-6
    millivolt = text(folder / "in1_input")
    return ClockedMeter(
        read=lambda: number(power) * 1e-6,
        is_energy=False,
        identity=", ".join(filter(None, (f"{chip} {address}", f"shunt {shunt_ohm:g} ohm", averaged(folder)))),
        voltage_v=float(millivolt) / 1000 if millivolt else board.voltage_v,
    )
