# SPDX-License-Identifier: Apache-2.0
"""What the kernel shows of the board: its memory, its processor's clock and governor, its temperature."""

from __future__ import annotations

import os
from pathlib import Path

SYSFS = Path("/sys")
MEMINFO = Path("/proc/meminfo")


def available_bytes() -> int:
    """RAM that a program may still take."""
    for line in MEMINFO.read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(rest.split()[0])
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def governor(sysfs: Path = SYSFS) -> str:
    """The frequency governors of the processors that the agent may use, ``+`` between different ones; empty if none."""
    return "+".join(sorted({name for cpu in _cpus(sysfs) if (name := _text(cpu / "cpufreq/scaling_governor"))}))


def clock_khz(sysfs: Path = SYSFS) -> int | None:
    """The slowest clock of those processors: none runs faster than what it shows."""
    clocks = [int(text) for cpu in _cpus(sysfs) if (text := _text(cpu / "cpufreq/scaling_cur_freq")).isdigit()]
    return min(clocks, default=None)


def temperature_mc(sysfs: Path = SYSFS) -> int | None:
    """The hottest thermal zone, in thousandths of a degree Celsius."""
    zones = (_text(zone) for zone in sorted(sysfs.glob("class/thermal/thermal_zone*/temp")))
    return max((int(text) for text in zones if text.removeprefix("-").isdigit()), default=None)


def _cpus(sysfs: Path) -> list[Path]:
    return [sysfs / f"devices/system/cpu/cpu{number}" for number in sorted(os.sched_getaffinity(0))]


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
