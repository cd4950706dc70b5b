# SPDX-License-Identifier: Apache-2.0
"""What the kernel shows of the board: its memory, its processor's clock and governor, its temperature."""

from __future__ import annotations

import os
import re
from pathlib import Path

SYSFS = Path("/sys")
MEMINFO = Path("/proc/meminfo")
# Files of sensors, the file beside each that says what it measures, and words of it. First the processor's own zones,
# then its driver's sensors: another zone may be a radio's, or one that always shows the same.
# firmware/boards/host/board.c takes the same ones.
SENSORS = (
    ("class/thermal/thermal_zone*/temp", "type", ("cpu", "soc", "pkg", "package", "core")),
    ("class/hwmon/hwmon*/temp*_input", "name", ("coretemp", "k10temp", "zenpower")),
    ("class/thermal/thermal_zone*/temp", "type", ("",)),
)
COLDEST_MC, HOTTEST_MC = -55_000, 150_000


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
    """The hottest sensor of the first kind that there is, in thousandths of a degree Celsius.

    One that cannot be read, or shows what no board survives or exactly 0, is off.
    """
    for pattern, name, words in SENSORS:
        of_kind = [
            path for path in sysfs.glob(pattern) if any(word in _text(path.with_name(name)).lower() for word in words)
        ]
        numbers = [int(text) for path in of_kind if re.fullmatch(r"-?[0-9]{1,9}", text := _text(path))]
        if shown := [number for number in numbers if COLDEST_MC < number < HOTTEST_MC and number != 0]:
            return max(shown)
    return None


def _cpus(sysfs: Path) -> list[Path]:
    return [sysfs / f"devices/system/cpu/cpu{number}" for number in sorted(os.sched_getaffinity(0))]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
