# SPDX-License-Identifier: Apache-2.0
"""RAPL: the energy counters of x86 processors in ``/sys/class/powercap``. They wrap at ``max_energy_range_uj``.

Each zone has a name of its own. The sum is over the processor packages (``package-0``, ``package-0-die-1``) alone: what
lies within a package (``core``, ``uncore``) is in its counter already, ``psys`` is the platform around the packages,
and ``intel-rapl-mmio`` shows the same packages another time. Those, and ``dram``, are read when they are named.

Names do not say whether the dies of a package count apart. Intel's do (Cascade Lake AP); on AMD's Zen 1 and 2 each die
shows the one counter of the socket. Dies whose counters stand together are one counter, which is watched for as long as
it is read.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..ports import by_number
from .clocked import ClockedMeter
from .counter import WrappingCounter
from .meter import MeterError
from .sysfs import number, text

ROOT = Path("/")
ZONES = "sys/class/powercap/intel-rapl*:*"
WHOLE = re.compile(r"intel-rapl:\d+")
PACKAGE = re.compile(r"(package-\d+)(-die-\d+)?")
# Zones that are brought up to date one after the other stand apart for a moment.
MOMENTS = 4
# What each die shows of one counter may have been brought up to date a little earlier, by a millisecond or so.
TOGETHER_J = 1.0
# Looks before it is used, each a little longer after the one before.
LOOKS, LONGER_S = 10, 4e-3


@dataclass(frozen=True)
class Zone:
    """A counter: its folder, and the name that the kernel gives it."""

    folder: Path
    name: str

    @property
    def address(self) -> str:
        return self.folder.name

    @property
    def package(self) -> str:
        """The processor package that it counts, or a die of; empty if it is anything else."""
        named = PACKAGE.fullmatch(self.name)
        return named[1] if named and WHOLE.fullmatch(self.address) else ""

    @cached_property
    def range_j(self) -> float:
        """Where it wraps; 0 if the kernel does not say."""
        return float(text(self.folder / "max_energy_range_uj") or 0) * 1e-6

    def counter_j(self) -> float:
        """Where the counter stands."""
        return number(self.folder / "energy_uj") * 1e-6

    def ahead_j(self, one_j: float, other_j: float) -> float:
        """By how much it stands further at one reading than at another, below zero for less; it may have wrapped."""
        ahead_j, half_j = one_j - other_j, self.range_j / 2
        return (ahead_j + half_j) % self.range_j - half_j if half_j else ahead_j

    def __str__(self) -> str:
        return f"{self.name} ({self.address})"


def zones(root: Path = ROOT) -> list[Zone]:
    """Every counter that the kernel shows."""
    folders = sorted(root.glob(ZONES), key=lambda folder: ("mmio" in folder.name, by_number(folder.name)))
    return [Zone(folder, text(folder / "name")) for folder in folders if (folder / "energy_uj").exists()]


def packages(root: Path = ROOT) -> list[Zone]:
    """The processor packages, each once; the dies of one that the kernel does not show as a whole."""
    found: dict[str, Zone] = {}
    for zone in zones(root):
        if zone.package:
            found.setdefault(zone.name, zone)
    return [zone for zone in found.values() if zone.name == zone.package or zone.package not in found]


def find(root: Path = ROOT) -> list[str]:
    """Addresses of the processor packages, such as ``intel-rapl:0``."""
    return [zone.address for zone in packages(root)]


def open_rapl(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open one zone by its address or name, or the sum of all processor packages."""
    known = zones(root)
    wanted = [zone for zone in known if address in (zone.address, zone.name)] if address else packages(root)
    if not wanted or (address and len(wanted) > 1):
        problem = f"{len(wanted) or 'no'} zones named {address}" if address else "no processor package"
        listed = ", ".join(map(str, known)) or "none"
        cure = "name one as --meter rapl:intel-rapl:N" if known else "only Linux on x86 has them (intel_rapl_msr)"
        raise UserError(f"rapl: {problem}; zones found: {listed}; {cure}", NO_DEVICE)
    groups = _counters(wanted)
    counters = [_counter(group) for group in groups]

    def restart() -> None:
        for counter in counters:
            counter.restart()

    return ClockedMeter(
        read=lambda: sum(counter.joules() for counter in counters),
        is_energy=True,
        identity=f"RAPL {' + '.join(map(_words, groups))}",
        voltage_v=board.voltage_v,
        restart=restart,
    )


def _counters(wanted: Sequence[Zone]) -> list[list[Zone]]:
    """The zones, with those together that show one counter."""
    for zone in wanted:
        text(zone.folder / "energy_uj")  # says how to get the permission to read it
    groups: list[list[Zone]] = []
    for zone in wanted:
        for group in groups:
            if group[0].package == zone.package and _move_together(group[0], zone):
                group.append(zone)
                break
        else:
            groups.append([zone])
    return groups


def _move_together(one: Zone, other: Zone) -> bool:
    shared = SharedCounter([one, other])
    for look in range(LOOKS):
        time.sleep(look * LONGER_S)  # a counter is brought up to date at even intervals
        try:
            shared.counter_j()
        except MeterError:
            return False
        except OSError as error:
            raise UserError(f"rapl: cannot be read: {error}", NO_DEVICE) from None
    return True


class SharedCounter:
    """One counter that the kernel shows as several zones. They are watched, since two may stand together by chance.

    Zones are read in turn, so what the others show lies between two readings of the first.
    """

    def __init__(self, zones: Sequence[Zone]) -> None:
        self._zones = zones
        self._before_j: list[float] = []
        self._apart = 0

    def counter_j(self) -> float:
        """Where it stands.

        Raises
        ------
        MeterError
            If the zones stay apart.
        """
        first = self._zones[0]
        now_j = [zone.counter_j() for zone in self._zones]
        steps_j = [first.ahead_j(other_j, now_j[0]) for other_j in now_j[1:]]
        if self._before_j:
            steps_j += [first.ahead_j(now_j[0], other_j) for other_j in self._before_j[1:]]
        self._before_j = now_j
        self._apart = self._apart + 1 if min(steps_j, default=0.0) < -TOGETHER_J else 0
        if self._apart == MOMENTS:
            self._apart -= 1
            raise MeterError(
                f"{' and '.join(map(str, self._zones))} were taken for one counter, as they stood together, and have "
                "moved apart: start again"
            )
        return now_j[0]


def _words(group: Sequence[Zone]) -> str:
    return str(group[0]) if len(group) == 1 else f"{' = '.join(map(str, group))} as one counter"


def _counter(group: Sequence[Zone]) -> WrappingCounter:
    first = group[0]
    return WrappingCounter(
        SharedCounter(group).counter_j,
        range_j=first.range_j,
        rated_w=float(text(first.folder / "constraint_0_max_power_uw") or 0) * 1e-6,
    )
