# SPDX-License-Identifier: Apache-2.0
"""RAPL: the energy counters of x86 processors in ``/sys/class/powercap``. They wrap at ``max_energy_range_uj``.

Each zone has a name of its own. The sum is over the processor packages (``package-0``, ``package-0-die-1``) alone: what
lies within a package (``core``, ``uncore``) is in its counter already, ``psys`` is the platform around the packages,
and ``intel-rapl-mmio`` shows the same packages another time. Those, and ``dram``, are read when they are named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..connection.ports import by_number
from .clocked import ClockedMeter
from .counter import WrappingCounter
from .sysfs import number, text

ROOT = Path("/")
ZONES = "sys/class/powercap/intel-rapl*:*"
WHOLE = re.compile(r"intel-rapl:\d+")
PACKAGE = re.compile(r"package-\d+(-die-\d+)?")


@dataclass(frozen=True)
class Zone:
    """A counter: its folder, and the name that the kernel gives it."""

    folder: Path
    name: str

    @property
    def address(self) -> str:
        return self.folder.name

    @property
    def is_package(self) -> bool:
        return bool(WHOLE.fullmatch(self.address) and PACKAGE.fullmatch(self.name))

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def zones(root: Path = ROOT) -> list[Zone]:
    """Every counter that the kernel shows."""
    folders = sorted(root.glob(ZONES), key=lambda folder: ("mmio" in folder.name, by_number(folder.name)))
    return [Zone(folder, text(folder / "name")) for folder in folders if (folder / "energy_uj").exists()]


def packages(root: Path = ROOT) -> list[Zone]:
    """The processor packages, each once."""
    found: dict[str, Zone] = {}
    for zone in zones(root):
        if zone.is_package:
            found.setdefault(zone.name, zone)
    return list(found.values())


def find(root: Path = ROOT) -> list[str]:
    """Addresses of the processor packages, such as ``intel-rapl:0``."""
    return [zone.address for zone in packages(root)]


def open_rapl(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open one zone by its address or name, or the sum of all processor packages.

    Raises
    ------
    UserError
        If there is none, several have that name, or it may only be read by root.
    """
    known = zones(root)
    wanted = [zone for zone in known if address in (zone.address, zone.name)] if address else packages(root)
    if not wanted or (address and len(wanted) > 1):
        problem = f"{len(wanted) or 'no'} zones named {address}" if address else "no processor package"
        listed = ", ".join(map(str, known)) or "none"
        raise UserError(f"rapl: {problem}; zones found: {listed}; name one as --meter rapl:intel-rapl:N", NO_DEVICE)
    counters = [_counter(zone) for zone in wanted]

    def restart() -> None:
        for counter in counters:
            counter.restart()

    return ClockedMeter(
        read=lambda: sum(counter.joules() for counter in counters),
        is_energy=True,
        identity=f"RAPL {' + '.join(map(str, wanted))}",
        voltage_v=board.voltage_v,
        restart=restart,
    )


def _counter(zone: Zone) -> WrappingCounter:
    file = zone.folder / "energy_uj"
    text(file)  # says how to get the permission to read it
    return WrappingCounter(
        lambda: number(file) * 1e-6,
        range_j=float(text(zone.folder / "max_energy_range_uj") or 0) * 1e-6,
        rated_w=float(text(zone.folder / "constraint_0_max_power_uw") or 0) * 1e-6,
    )
