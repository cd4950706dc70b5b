# SPDX-License-Identifier: Apache-2.0
"""Current sensors on I2C (INA219, INA226, LTC2947, PAC1934 ...), through whichever driver of the kernel has the chip.

hwmon (``/sys/class/hwmon``): ``powerN_input`` or ``_average`` in microwatt, ``in1_input`` (bus) and ``in0_input`` (over
the shunt) in millivolt, ``shunt_resistor`` in microohm. The INA3221 shows volts and amperes of three channels and no
power; its inputs from the fourth on are shunt voltages (in microvolt) and sums.

IIO (``/sys/bus/iio/devices``): ``in_powerN_raw``, ``in_voltageN_raw`` and ``in_currentN_raw``, each times its ``scale``
in milliwatt, millivolt and milliampere; ``_input`` where the driver has multiplied already.

Whatever shows a power there can be named. Only chips that measure the current in a wire are taken without being named:
the power of a graphics card, a battery or a power supply is not the board's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError

from ..ports import by_number
from .clocked import ClockedMeter
from .meter import MeterError
from .sysfs import averaged, number, text

ROOT = Path("/")
CHIPS = re.compile(r"(ina|sy|sq|isl|ltc|pac|adm1|max34|lm25|mcp39|tps25)\d+\w*")
# What the kernel's drivers take where nobody says otherwise; breakouts have ten times as much.
DEFAULT_SHUNT_OHM = 0.01
# The shunt's voltage at full scale, and one step of power times the shunt's resistance, as the drivers set the chips.
FULL_SCALE_V = {
    "ina209 ina219 ina220": 0.32,
    "ina226 ina230 ina231 ina234 sy24655": 0.08192,
    "ina228 ina237 ina238 ina3221": 0.16384,
}
POWER_STEP_W_OHM = {
    "ina219 ina220": 2e-4,
    "ina226 ina230 ina231 sy24655": 6.25e-5,
    "ina237 ina238": 4e-6,
    "ina260": 2e-5,
}
SHUNT_INSIDE_OHM = {"ina260": 2e-3}
INA3221_STEP_V = 40e-6
INA3221_CHANNELS = ("1", "2", "3")
MILLI, MICRO = 1e-3, 1e-6


@dataclass(frozen=True)
class Quantity:
    """What a file of the kernel shows, in SI units, and how finely; 0 where that is not known."""

    read: Callable[[], float]
    step: float


@dataclass(frozen=True)
class Sensor:
    """A power that the kernel shows, or a voltage and a current.

    Parameters
    ----------
    address : str
        Its folder, with ``/N`` after it where that shows several.
    chip, label : str
        Names that the kernel gives it.
    power, volt, ampere, shunt_volt : Quantity or None
        The last one is the voltage over the shunt.
    shunt_ohm : float
        What the driver reckons with; 0 if it does not say.
    averaging : str
        Over what the driver averages, as far as it says.
    """

    address: str
    chip: str
    label: str
    power: Quantity | None
    volt: Quantity | None
    ampere: Quantity | None
    shunt_volt: Quantity | None
    shunt_ohm: float
    averaging: str

    @property
    def full_scale_v(self) -> float:
        return _of_chip(FULL_SCALE_V, self.chip)

    @property
    def most_a(self) -> float:
        """Current at full scale; 0 if unknown."""
        return self.full_scale_v / self.shunt_ohm if self.shunt_ohm else 0.0

    def step_w(self) -> float:
        """One step of the power that it shows now; 0 if unknown."""
        if self.power:
            return self.power.step
        return self.volt.read() * self.ampere.step if self.volt and self.ampere else 0.0

    def power_w(self) -> float:
        """Read it.

        Raises
        ------
        MeterError
            At full scale: nobody knows how much more it was.
        """
        if self.power:
            power_w = self.power.read()
        else:
            assert self.volt and self.ampere
            power_w = self.volt.read() * self.ampere.read()
        # The drivers show whole millivolts.
        most_v = int(self.full_scale_v / MILLI) * MILLI
        if self.shunt_volt and most_v and abs(self.shunt_volt.read()) >= most_v:
            raise MeterError(
                f"{self.chip}: at its full scale, {most_v:g} V over the shunt; the board may have drawn more"
            )
        return power_w


def sensors(root: Path = ROOT) -> list[Sensor]:
    """Every power that the kernel shows through one of the two interfaces."""
    return [
        *(sensor for folder in _folders(root, "sys/class/hwmon/hwmon*") for sensor in _hwmon(folder)),
        *(sensor for folder in _folders(root, "sys/bus/iio/devices/iio:device*") for sensor in _iio(folder)),
    ]


def find(root: Path = ROOT) -> list[str]:
    """Addresses such as ``hwmon2``, ``hwmon2/1`` or ``iio:device0``."""
    return [sensor.address for sensor in sensors(root) if CHIPS.fullmatch(sensor.chip)]


def open_ina(address: str, board: Board, root: Path = ROOT) -> ClockedMeter:
    """Open the sensor with this address, label or chip's name, or the only one."""
    known, usual = sensors(root), find(root)
    wanted = {address} if address else set(usual)
    chosen = [sensor for sensor in known if wanted & {sensor.address, sensor.chip, sensor.label}]
    if len(chosen) != 1:
        others = [f"{sensor.address} ({sensor.chip})" for sensor in known if sensor.address not in usual]
        also = f", and of other kinds {', '.join(others)}" if others else ""
        cure = "name one as --meter ina:hwmonN" if known else "load its driver and declare the chip (docs/meters.md)"
        raise UserError(f"ina: sensors found: {', '.join(usual) or 'none'}{also}; {cure}", NO_DEVICE)
    [sensor] = chosen
    try:
        voltage_v = sensor.volt.read() if sensor.volt else board.voltage_v
        step_w = sensor.step_w()
    except OSError as error:
        raise UserError(f"ina: {sensor.address} cannot be read: {error}", NO_DEVICE) from None
    meter = ClockedMeter(sensor.power_w, is_energy=False, identity=_words(sensor, step_w), voltage_v=voltage_v)
    meter.power_step_w = step_w
    meter.most_a = sensor.most_a or meter.most_a
    return meter


def _words(sensor: Sensor, step_w: float) -> str:
    default = " (the driver's default)" if math.isclose(sensor.shunt_ohm, DEFAULT_SHUNT_OHM) else ""
    words = (
        " ".join(filter(None, (sensor.chip, sensor.address, sensor.label))),
        f"shunt {sensor.shunt_ohm:g} ohm{default}" if sensor.shunt_ohm else "",
        f"in steps of {step_w / MILLI:.3g} mW" if step_w else "",
        f"up to {sensor.most_a:.3g} A" if sensor.most_a else "",
        sensor.averaging,
    )
    return ", ".join(filter(None, words))


def ina3221_step_a(folder: Path, channel: str) -> float:
    """One step of a channel's current: 40 uV over the shunt, and no less than the driver shows."""
    shunt_ohm = _positive(folder / f"shunt{channel}_resistor") * MICRO
    return max(MILLI, INA3221_STEP_V / shunt_ohm) if shunt_ohm else MILLI


def _hwmon(folder: Path) -> Iterator[Sensor]:
    chip, averaging = text(folder / "name"), averaged(folder)
    if chip == "ina3221":
        for channel in INA3221_CHANNELS:
            volt = _hwmon_quantity(folder, f"in{channel}_input", MILLI)
            shunt_ohm = _positive(folder / f"shunt{channel}_resistor") * MICRO
            ampere = _hwmon_quantity(folder, f"curr{channel}_input", MILLI, ina3221_step_a(folder, channel))
            if volt and ampere:
                address, label = f"{folder.name}/{channel}", text(folder / f"in{channel}_label")
                shunt_volt = _hwmon_quantity(folder, f"in{int(channel) + 3}_input", MICRO)
                yield Sensor(address, chip, label, None, volt, ampere, shunt_volt, shunt_ohm, averaging)
        return
    channels = _channels(folder, r"power(\d+)_(?:input|average)")
    shunt_ohm = _positive(folder / "shunt_resistor") * MICRO or _of_chip(SHUNT_INSIDE_OHM, chip)
    step_w = _of_chip(POWER_STEP_W_OHM, chip) / shunt_ohm if shunt_ohm else 0.0
    for channel in channels:
        yield Sensor(
            address=folder.name if len(channels) == 1 else f"{folder.name}/{channel}",
            chip=chip,
            label=text(folder / f"power{channel}_label"),
            power=_hwmon_quantity(folder, f"power{channel}_input", MICRO, step_w)
            or _hwmon_quantity(folder, f"power{channel}_average", MICRO, step_w),
            volt=_hwmon_quantity(folder, "in1_input", MILLI),
            ampere=None,
            shunt_volt=_hwmon_quantity(folder, "in0_input", MILLI),
            shunt_ohm=shunt_ohm,
            averaging=averaging,
        )


def _iio(folder: Path) -> Iterator[Sensor]:
    chip, hertz = text(folder / "name"), text(folder / "in_sampling_frequency")
    # The driver of the INA2xx numbers its readings through: voltage over the shunt, of the bus, power, current.
    through = chip.startswith("ina2")
    powers = _channels(folder, r"in_power(\d+)_(?:raw|input)")
    channels = powers or _channels(folder, r"in_current(\d+)_(?:raw|input)")
    for channel in channels:
        power, ampere = _iio_quantity(folder, f"in_power{channel}"), _iio_quantity(folder, f"in_current{channel}")
        volt = _iio_quantity(folder, "in_voltage1" if through else f"in_voltage{channel}")
        if power or (volt and ampere):
            yield Sensor(
                address=folder.name if len(channels) == 1 else f"{folder.name}/{channel}",
                chip=chip,
                label=text(folder / f"in_power{channel}_label"),
                power=power,
                volt=volt,
                ampere=ampere,
                shunt_volt=_iio_quantity(folder, "in_voltage0") if through else None,
                shunt_ohm=_iio_shunt_ohm(folder / "in_shunt_resistor"),
                averaging=f"{hertz} Hz" if hertz else "",
            )


def _iio_shunt_ohm(path: Path) -> float:
    """In ohm with a point; older drivers show whole microohms."""
    return _positive(path) * (1.0 if "." in text(path) else MICRO)


def _hwmon_quantity(folder: Path, name: str, unit: float, step: float = 0.0) -> Quantity | None:
    path = folder / name
    return Quantity(lambda: number(path) * unit, step) if path.exists() else None


def _iio_quantity(folder: Path, name: str) -> Quantity | None:
    """A reading in thousandths of an SI unit; None if there is none, or nobody says by what to multiply it."""
    done, raw, offset = folder / f"{name}_input", folder / f"{name}_raw", folder / f"{name}_offset"
    if done.exists():
        return Quantity(lambda: number(done) * MILLI, 0.0)
    scale = _positive(folder / f"{name}_scale") or _positive(folder / f"{name.rstrip('0123456789')}_scale")
    if not raw.exists() or not scale:
        return None
    shift = number(offset) if offset.exists() else 0.0
    return Quantity(lambda: (number(raw) + shift) * scale * MILLI, scale * MILLI)


def _folders(root: Path, pattern: str) -> list[Path]:
    return sorted(root.glob(pattern), key=lambda folder: by_number(folder.name))


def _channels(folder: Path, pattern: str) -> list[str]:
    named = (re.fullmatch(pattern, path.name) for path in folder.iterdir())
    return sorted({match[1] for match in named if match}, key=int)


def _positive(path: Path) -> float:
    """A number in a file; 0 if there is none, or none above zero."""
    try:
        return max(0.0, float(text(path)))
    except ValueError:
        return 0.0


def _of_chip(table: dict[str, float], chip: str) -> float:
    return next((value for chips, value in table.items() if chip in chips.split()), 0.0)
