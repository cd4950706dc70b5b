"""RAPL: the energy counters of x86 processors in ``/sys/class/powercap``. They wrap at ``max_energy_range_uj``."""

from __future__ import annotations

import re
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from .clocked import ClockedMeter
from .sysfs import number, text

ROOT = Path("/")
PACKAGE = re.compile(r"intel-rapl:\d+")


def find(root: Path = ROOT) -> list[str]:
    """Names of the processor packages, such as ``intel-rapl:0``."""
    zones = root.glob("sys/class/powercap/intel-rapl:*")
    return sorted(zone.name for zone in zones if PACKAGE.fullmatch(zone.name) and (zone / "energy_uj").exists())


def open_rapl(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the counter ``address``, or the sum of all processor packages.

    Raises
    ------
    UserError
        If there is none, or it may only be read by root.
    """
    found = [name for name in find(root) if address in ("", name)]
    if not found:
        raise UserError(f"rapl: no processor package {address}; found: {', '.join(find(root)) or 'none'}", NO_DEVICE)
    counters = [_Counter(root / "sys/class/powercap" / name) for name in found]
    return ClockedMeter(
        read=lambda: sum(counter.joules() for counter in counters),
        is_energy=True,
        identity=f"RAPL {', '.join(found)}",
        voltage_v=board.voltage_v,
    )


class _Counter:
    """Energy since the first reading, across wraps."""

    def __init__(self, zone: Path) -> None:
        self._file = zone / "energy_uj"
        self._range_uj = float(text(zone / "max_energy_range_uj") or 0)
        self._last_uj = float(text(self._file))
        self._total_uj = 0.0

    def joules(self) -> float:
        now_uj = number(self._file)
        step_uj = now_uj - self._last_uj
        self._total_uj += step_uj if step_uj >= 0 else step_uj + self._range_uj
        self._last_uj = now_uj
        return self._total_uj * 1e-6
