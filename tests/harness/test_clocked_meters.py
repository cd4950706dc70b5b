# SPDX-License-Identifier: Apache-2.0
"""Sensors and counters that are read by the host's clock, against trees like those of the kernel and fake drivers."""

from __future__ import annotations

import ctypes
import math
import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from poet_harness.meters import ina, jetson, nvml, pmic, rapl, sysfs
from poet_harness.meters.clocked import ClockedMeter
from poet_harness.meters.counter import WrappingCounter
from poet_harness.meters.meter import Activity, Mark, MeterError, Window
from poet_harness.meters.registry import KINDS, beyond, board_meter
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError

from tests.support import ROOT

BOARD = load_board("rpi4b")


def tree(root: Path, **files: object) -> None:
    """Write files below ``root``; two underscores stand for a slash."""
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")


def rewrite(path: Path, content: object) -> None:
    """Replace a file at once, so that nobody reads half of it."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(f"{content}\n")
    fresh.replace(path)


class Clock:
    """Time that a test lets pass."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


def measure(meter: ClockedMeter, length_s: float = 0.2) -> Window:
    meter.begin()
    time.sleep(0.02)
    start_s = time.monotonic()
    time.sleep(length_s)
    [window] = meter.end([Mark(Activity.COMPUTE, length_s, start_s, time.monotonic())])
    meter.close()
    return window


def ina226(root: Path, power_uw: int = 1_500_000) -> None:
    folder = root / "sys/class/hwmon/hwmon3"
    tree(folder, name="ina226", power1_input=power_uw, in1_input=5012, shunt_resistor=10_000, update_interval=34)


def test_ina_power_voltage_and_shunt_are_read_in_the_kernels_units(tmp_path: Path) -> None:
    ina226(tmp_path)
    tree(tmp_path / "sys/class/hwmon/hwmon0", name="coretemp", power1_input=7)
    assert ina.find(tmp_path) == ["hwmon3"]
    meter = ina.open_ina("", BOARD, tmp_path)
    assert meter.voltage_v == pytest.approx(5.012)
    assert meter.identity == (
        "ina226 hwmon3, shunt 0.01 ohm (the driver's default), in steps of 6.25 mW, up to 8.19 A, every 34 ms"
    )
    assert (meter.power_step_w, meter.most_a) == (pytest.approx(6.25e-3), pytest.approx(8.192))
    assert measure(meter).energy_j == pytest.approx(1.5 * 0.2, rel=1e-6)


def test_two_sensors_must_be_told_apart(tmp_path: Path) -> None:
    ina226(tmp_path)
    tree(tmp_path / "sys/class/hwmon/hwmon4", name="ina219", power1_input=1)
    with pytest.raises(UserError, match="sensors found: hwmon3, hwmon4"):
        ina.open_ina("", BOARD, tmp_path)


@pytest.mark.parametrize(
    ("chip", "shunt_uohm", "step_w", "most_a"),
    [
        # The steps that the kernel's own driver showed above simulated chips.
        ("ina219", 100_000, 2.0e-3, 3.2),
        ("ina219", 10_000, 20e-3, 32.0),
        ("ina220", 100_000, 2.0e-3, 3.2),
        ("ina226", 100_000, 0.625e-3, 0.8192),
        ("ina231", 10_000, 6.25e-3, 8.192),
        # By the driver's source: 0.2 of a step of the current, which is 20 uV over the shunt.
        ("ina238", 100_000, 0.04e-3, 1.6384),
        # Its shunt is inside.
        ("ina260", "", 10e-3, math.inf),
    ],
)
def test_a_sensors_resolution_and_range_follow_from_its_shunt(
    tmp_path: Path, chip: str, shunt_uohm: int, step_w: float, most_a: float
) -> None:
    tree(tmp_path / "sys/class/hwmon/hwmon0", name=chip, power1_input=0, in1_input=3000, shunt_resistor=shunt_uohm)
    meter = ina.open_ina("", BOARD, tmp_path)
    assert meter.power_step_w == pytest.approx(step_w)
    assert meter.most_a == pytest.approx(most_a)
    assert f"in steps of {step_w * 1e3:.3g} mW" in meter.identity


@pytest.mark.parametrize(("shunt_uohm", "said"), [(200_000, "up to 410 mA, and rpi4b draws awake"), (100_000, "")])
def test_a_shunt_too_large_for_the_board_is_said_before_it_is_used(tmp_path: Path, shunt_uohm: int, said: str) -> None:
    tree(tmp_path / "sys/class/hwmon/hwmon0", name="ina226", power1_input=0, in1_input=5000, shunt_resistor=shunt_uohm)
    words = beyond(ina.open_ina("", BOARD, tmp_path), BOARD)
    assert words == "" if not said else said in words and words.endswith("take a meter for larger currents")


CURRENT_SENSORS = [
    *("ina209", "ina219", "ina220", "ina226", "ina228", "ina230", "ina231", "ina233", "ina234", "ina237", "ina238"),
    *("ina260", "ina700", "ina780", "sy24655", "sq52206", "isl28022", "ltc2945", "ltc2947", "ltc4282", "pac1921"),
    *("adm1275", "adm1293", "lm25066"),
]
OTHER_POWERS = ("amdgpu", "BAT0", "corsairpsu", "fam15h_power", "nouveau", "zenpower")


@pytest.mark.parametrize("chip", CURRENT_SENSORS)
def test_every_current_sensor_of_the_same_interface_is_found(tmp_path: Path, chip: str) -> None:
    """Among powers that are not the board's, and sensors without a power."""
    for place, name in enumerate([*OTHER_POWERS, chip]):
        tree(tmp_path / f"sys/class/hwmon/hwmon{place}", name=name, power1_input=place * 1_000_000)
    tree(tmp_path / "sys/class/hwmon/hwmon8", name="ltc2990", curr1_input=5, in1_input=5)
    tree(tmp_path / "sys/class/hwmon/hwmon9", name="amd_energy", energy1_input=5)
    tree(tmp_path / "sys/class/hwmon/hwmon10", name="power_meter", power1_average=80_000_000)
    assert ina.find(tmp_path) == ["hwmon6"]
    assert measure(ina.open_ina("", BOARD, tmp_path)).energy_j == pytest.approx(6.0 * 0.2, rel=1e-6)
    assert ina.open_ina("corsairpsu", BOARD, tmp_path).identity == "corsairpsu hwmon2"
    assert measure(ina.open_ina("power_meter", BOARD, tmp_path)).energy_j == pytest.approx(80 * 0.2, rel=1e-6)
    with pytest.raises(UserError, match=r"found: hwmon6, and of other kinds hwmon0 \(amdgpu\), hwmon1 \(BAT0\)"):
        ina.open_ina("hwmon8", BOARD, tmp_path)


def test_channels_of_an_ina3221_are_three_and_sums_are_none(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/hwmon/hwmon2"
    tree(folder, name="ina3221", in1_input=5000, curr1_input=800, shunt1_resistor=100_000, in4_input=80_000)
    tree(folder, in2_input=3300, curr2_input=100, shunt2_resistor=10_000, in5_input=1, in2_label="camera")
    tree(folder, curr4_input=900, in7_label="sum of shunt voltages", in7_input=81)
    assert ina.find(tmp_path) == ["hwmon2/1", "hwmon2/2"]
    meter = ina.open_ina("hwmon2/1", BOARD, tmp_path)
    assert meter.voltage_v == pytest.approx(5.0)
    assert meter.power_step_w == pytest.approx(5e-3)  # a milliampere: finer than that the driver does not show
    assert meter.most_a == pytest.approx(1.6384)
    assert measure(meter).energy_j == pytest.approx(4.0 * 0.2, rel=1e-6)
    rewrite(folder / "in4_input", 163_800)  # microvolt
    with pytest.raises(MeterError, match="full scale"):
        measure(meter)
    meter = ina.open_ina("camera", BOARD, tmp_path)
    assert meter.power_step_w == pytest.approx(3.3 * 4e-3)  # 40 uV over 10 milliohm


@pytest.mark.parametrize("shunt", ["0.100000", "100000"])
def test_the_other_driver_of_an_ina226_is_read(tmp_path: Path, shunt: str) -> None:
    """ina2xx-adc, which Debian's kernels have: its readings are numbered through, and older ones show microohms."""
    folder = tmp_path / "sys/bus/iio/devices/iio:device0"
    tree(folder, name="ina226", in_shunt_resistor=shunt, in_sampling_frequency=114)
    tree(folder, in_voltage0_raw=4000, in_voltage0_scale=0.0025, in_voltage1_raw=4000, in_voltage1_scale=1.25)
    tree(folder, in_power2_raw=800, in_power2_scale=0.625, in_current3_raw=100, in_current3_scale=1.0)
    assert ina.find(tmp_path) == ["iio:device0"]
    meter = ina.open_ina("iio:device0", BOARD, tmp_path)
    assert meter.identity == "ina226 iio:device0, shunt 0.1 ohm, in steps of 0.625 mW, up to 0.819 A, 114 Hz"
    assert meter.voltage_v == pytest.approx(5.0)
    assert measure(meter).energy_j == pytest.approx(0.5 * 0.2, rel=1e-6)


@pytest.mark.parametrize("shows_power", [True, False])
def test_channels_of_iio_are_powers_or_volts_and_amperes_of_one_number(tmp_path: Path, shows_power: bool) -> None:
    folder = tmp_path / "sys/bus/iio/devices/iio:device3"
    tree(folder, name="pac1934")
    for channel, (volt, milliampere) in {1: (5.0, 300), 2: (3.3, 200)}.items():
        tree(folder, **{f"in_voltage{channel}_raw": int(volt * 1000 / 0.5), f"in_voltage{channel}_scale": 0.5})
        tree(folder, **{f"in_current{channel}_raw": milliampere * 4, f"in_current{channel}_scale": 0.25})
        if shows_power:
            tree(folder, **{f"in_power{channel}_raw": int(volt * milliampere * 10), f"in_power{channel}_scale": 0.1})
    tree(tmp_path / "sys/bus/iio/devices/iio:device4", name="ads1015", in_voltage0_raw=1, in_voltage0_scale=1)
    assert ina.find(tmp_path) == ["iio:device3/1", "iio:device3/2"]
    meter = ina.open_ina("iio:device3/2", BOARD, tmp_path)
    assert meter.voltage_v == pytest.approx(3.3)
    assert meter.power_step_w == pytest.approx(1e-4 if shows_power else 3.3 * 0.25e-3)
    assert measure(meter).energy_j == pytest.approx(0.66 * 0.2, rel=1e-6)


@pytest.mark.parametrize(
    ("chip", "below_mv", "full_mv"),
    [
        ("ina219", 319, 320),
        ("ina226", 80, 82),
        ("ina231", -80, -82),
        ("ina234", 80, 81),
        ("ina228", 162, 163),
        ("ina238", 162, 163),
    ],
)
def test_a_reading_at_full_scale_is_none(tmp_path: Path, chip: str, below_mv: int, full_mv: int) -> None:
    folder = tmp_path / "sys/class/hwmon/hwmon0"
    tree(folder, name=chip, power1_input=10**6, in1_input=5000, in0_input=below_mv, shunt_resistor=100_000)
    meter = ina.open_ina("", BOARD, tmp_path)
    assert measure(meter).energy_j == pytest.approx(0.2, rel=1e-6)
    rewrite(folder / "in0_input", full_mv)
    with pytest.raises(MeterError, match=f"{chip}: at its full scale"):
        measure(meter)


def test_a_slow_sensor_is_taken_at_its_own_pace() -> None:
    """Three registers on a busy bus take 15 ms: none of them is lost."""

    def read_w() -> float:
        time.sleep(0.015)
        return 1.5

    meter = ClockedMeter(read_w, is_energy=False, identity="slow", voltage_v=5.0)
    window = measure(meter, length_s=0.3)
    assert window.energy_j == pytest.approx(1.5 * 0.3, rel=1e-6)
    assert window.fault(0.3) == ""


def test_a_sensor_that_stalls_has_lost_what_it_did_not_show() -> None:
    readings = iter(range(10**9))

    def read_w() -> float:
        time.sleep(0.1 if next(readings) == 30 else 0.002)
        return 1.5

    meter = ClockedMeter(read_w, is_energy=False, identity="stalls", voltage_v=5.0)
    assert "lost" in measure(meter, length_s=0.3).fault(0.3)


def test_a_sensor_that_vanishes_ends_in_one_line(tmp_path: Path) -> None:
    ina226(tmp_path)
    meter = ina.open_ina("", BOARD, tmp_path)
    meter.begin()
    (tmp_path / "sys/class/hwmon/hwmon3/power1_input").unlink()
    with pytest.raises(UserError, match="cannot be read any more") as caught:
        meter.end([Mark(Activity.COMPUTE, 0.05, time.monotonic(), time.monotonic())])
    assert caught.value.exit_code == NO_DEVICE


def test_a_window_without_enough_readings_is_refused(tmp_path: Path) -> None:
    ina226(tmp_path)
    with pytest.raises(MeterError, match="are needed"):
        measure(ina.open_ina("", BOARD, tmp_path), length_s=0.004)


@pytest.mark.parametrize(
    ("place", "millivolt", "rails"),
    [
        ("0-0041/iio:device1", 19000, {"VDD_IN": 4200, "VDD_SYS_GPU": 900, "VDD_SYS_CPU": 600}),
        ("6-0040/iio:device0", 5000, {"POM_5V_IN": 2100, "POM_5V_GPU": 100, "POM_5V_CPU": 500}),  # a Nano
    ],
)
def test_jetpack_4_rails(tmp_path: Path, place: str, millivolt: int, rails: dict[str, int]) -> None:
    for index, (name, milliwatt) in enumerate(rails.items()):
        shown = {f"rail_name_{index}": name, f"in_power{index}_input": milliwatt, f"in_voltage{index}_input": millivolt}
        tree(tmp_path / "sys/bus/i2c/drivers/ina3221x" / place, **shown)
    first, second, _ = rails
    assert jetson.find(tmp_path) == [first]
    for address, name in (("", first), (second, second)):
        window = measure(jetson.open_jetson(address, BOARD, tmp_path))
        assert window.energy_j == pytest.approx(rails[name] * 1e-3 * 0.2, rel=1e-6)


def test_jetpack_5_rails_leave_shunts_and_sums_out(tmp_path: Path) -> None:
    folder = tmp_path / "sys/class/hwmon/hwmon1"
    tree(folder, name="ina3221", in1_label="VDD_IN", in1_input=5000, curr1_input=800)
    tree(folder, in2_label="VDD_CPU_GPU_CV", in2_input=5000, curr2_input=100)
    tree(folder, in4_input=80, in7_label="sum of shunt voltages", in7_input=90)
    assert [rail.name for rail in jetson.rails(tmp_path)] == ["VDD_IN", "VDD_CPU_GPU_CV"]
    meter = jetson.open_jetson("", BOARD, tmp_path)
    assert meter.voltage_v == pytest.approx(5.0)
    assert measure(meter).energy_j == pytest.approx(4.0 * 0.2, rel=1e-6)
    with pytest.raises(UserError, match="no rail VDD_X; rails found: VDD_IN"):
        jetson.open_jetson("VDD_X", BOARD, tmp_path)


def labelled(root: Path, hwmon: str, *rails: str) -> None:
    """A chip with rails of 5 V: 100 mA the first, 200 mA the second ..."""
    folder = root / "sys/class/hwmon" / hwmon
    tree(folder, name="ina3221")
    for place, label in enumerate(rails, 1):
        tree(folder, **{f"in{place}_label": label, f"in{place}_input": 5000, f"curr{place}_input": 100 * place})
        tree(folder, **{f"shunt{place}_resistor": 5000})


ORIN, NANO = ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"], ["POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"]
XAVIER = ["VDD_IN", "VDD_GPU", "VDD_MUX"]


@pytest.mark.parametrize(
    ("rails", "address", "words", "watt"),
    [
        (ORIN, "", "rail VDD_IN, the module's input, carrier not incl", 0.5),
        (NANO, "", "rail POM_5V_IN, the module's input, carrier", 0.5),
        (XAVIER, "", "rail VDD_IN, the module's input, carrier not included", 0.5),
        (XAVIER, "board", "VDD_IN + VDD_MUX, module and carrier board", 2.0),
        (XAVIER, "VDD_MUX", "rail VDD_MUX, in steps of 40 mW", 1.5),
    ],
)
def test_the_rails_are_what_the_design_guides_say(
    tmp_path: Path, rails: list[str], address: str, words: str, watt: float
) -> None:
    labelled(tmp_path, "hwmon1", *rails)
    assert jetson.find(tmp_path) == rails[:1]
    meter = jetson.open_jetson(address, BOARD, tmp_path)
    assert meter.identity.startswith(f"ina3221 {words}")
    assert "whole board" not in meter.identity
    assert measure(meter).energy_j == pytest.approx(watt * 0.2, rel=1e-6)


def test_thors_input_has_a_sensor_of_its_own(tmp_path: Path) -> None:
    labelled(tmp_path, "hwmon1", "VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0")
    tree(tmp_path / "sys/class/hwmon/hwmon2", name="ina238", power1_input=25_000_000, in1_input=20_000)
    assert jetson.find(tmp_path) == ["VIN"]
    meter = jetson.open_jetson("", BOARD, tmp_path)
    assert (meter.identity, meter.voltage_v) == ("ina238 rail VIN, the input by its sensor", 20.0)
    assert measure(meter).energy_j == pytest.approx(25 * 0.2, rel=1e-6)


def test_a_breakout_beside_a_jetson_is_not_its_input(tmp_path: Path) -> None:
    agx_orin(tmp_path)
    tree(tmp_path / "sys/class/hwmon/hwmon9", name="ina238", power1_input=1, in1_input=5000)
    assert jetson.find(tmp_path) == ["module"]
    assert "VIN +" not in jetson.open_jetson("", BOARD, tmp_path).identity


def test_an_agx_xavier_is_refused_with_what_is_not_known(tmp_path: Path) -> None:
    labelled(tmp_path, "hwmon1", "GPU", "CPU", "SOC")
    labelled(tmp_path, "hwmon2", "CV", "VDDRQ", "SYS5V")
    assert jetson.find(tmp_path) == []
    with pytest.raises(
        UserError, match=r"found: GPU, CPU, SOC, CV, VDDRQ, SYS5V; which of them feeds another is not kn"
    ):
        jetson.open_jetson("", BOARD, tmp_path)
    with pytest.raises(UserError, match="no rail board; rails found: GPU"):
        jetson.open_jetson("board", BOARD, tmp_path)
    assert jetson.open_jetson("GPU", BOARD, tmp_path).identity == "ina3221 rail GPU, in steps of 40 mW"


def agx_orin(root: Path, **labels: str) -> None:
    """Two chips as others have read them on that module: millivolts and milliamperes of each rail."""
    rails = {"in1": ("VDD_GPU_SOC", 5000, 600), "in2": ("VDD_CPU_CV", 5000, 400), "in3": ("VIN_SYS_5V0", 5000, 900)}
    second = {"in1": ("NC", 0, 0), "in2": ("VDDQ_VDD2_1V8AO", 5000, 100), "in3": ("NC", 0, 0)}
    for hwmon, inputs in (("hwmon3", rails), ("hwmon4", second)):
        folder = root / "sys/class/hwmon" / hwmon
        tree(folder, name="ina3221", samples=128, update_interval=250, in7_label="sum of shunt voltages", in7_input=9)
        for place, (label, millivolt, milliampere) in inputs.items():
            shown = labels.get(label, label)
            tree(folder, **{f"{place}_label": shown, f"{place}_input": millivolt})
            tree(folder, **{f"{place.replace('in', 'curr')}_input": milliampere})


def test_without_an_input_rail_the_rails_of_the_module_are_added_up_and_called_that(tmp_path: Path) -> None:
    agx_orin(tmp_path)
    assert jetson.find(tmp_path) == ["module"]
    meter = jetson.open_jetson("", BOARD, tmp_path)
    for words in ("module rails, carrier not included", "VDD_GPU_SOC + VDD_CPU_CV", "128 samples every 250 ms"):
        assert words in meter.identity
    assert "NC" not in meter.identity
    assert measure(meter).energy_j == pytest.approx((3.0 + 2.0 + 4.5 + 0.5) * 0.2, rel=1e-6)
    assert jetson.open_jetson("VDD_CPU_CV", BOARD, tmp_path).identity.startswith("ina3221 rail VDD_CPU_CV")


def test_rails_of_which_one_may_feed_another_are_never_added_up(tmp_path: Path) -> None:
    agx_orin(tmp_path, VIN_SYS_5V0="POM_5V_IN")
    assert jetson.find(tmp_path) == []
    for address in ("", "module"):
        with pytest.raises(UserError, match="rails found: VDD_GPU_SOC, VDD_CPU_CV, POM_5V_IN, VDDQ_VDD2_1V8AO"):
            jetson.open_jetson(address, BOARD, tmp_path)


PMIC = """
     3V7_WL_SW_A current(0)=0.09662566A
       VDD_CORE_A current(7)=2.00000000A
   3V7_WL_SW_V volt(8)=3.70513900V
        VDD_CORE_V volt(15)=0.90000000V
           EXT5V_V volt(24)=5.12526000V
            BATT_V volt(25)=0.00000000V
"""


@pytest.mark.parametrize("text", [PMIC, re.sub(r" (current|volt)\(\d+\)", "", PMIC)])
def test_a_raspberry_pis_rails_are_never_its_input(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both forms in which its firmware has printed them."""
    monkeypatch.setattr(pmic, "PERIOD_S", 0.005)
    meter = pmic.open_pmic("", BOARD, lambda: text)
    assert "pmic, rails only (2 of them" in meter.identity
    assert meter.voltage_v == pytest.approx(5.12526)
    assert measure(meter).energy_j == pytest.approx((0.09662566 * 3.705139 + 2.0 * 0.9) * 0.2, rel=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no current"),
        ("EXT5V_V volt(24)=5.1V", "no current"),
        ("VDD_CORE_A current(7)=2.0A", "no voltage of VDD_CORE"),
        (PMIC + "VDD_NEW_A power(3)=1.0W", "VDD_NEW_A power.* is no reading that this program knows"),
        ("error=1 error_msg=Command not registered", "is no reading"),
    ],
)
def test_what_is_missing_from_a_raspberry_pis_rails_is_no_power_of_zero(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as caught:
        pmic.open_pmic("", BOARD, lambda: text)
    assert caught.value.exit_code == NO_DEVICE


def test_a_command_that_fails_in_between_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pmic, "PERIOD_S", 0.005)
    texts = iter([PMIC] * 5)
    meter = pmic.open_pmic("", BOARD, lambda: next(texts, "VCHI initialization failed"))
    meter.begin()
    with pytest.raises(UserError, match=r"cannot be read any more: .*VCHI initialization failed"):
        meter.end([Mark(Activity.COMPUTE, 0.05, time.monotonic(), time.monotonic())])


@pytest.mark.skipif(shutil.which("vcgencmd") is not None, reason="could be a Raspberry Pi")
def test_another_computer_has_no_such_rails() -> None:
    assert pmic.find() == []
    with pytest.raises(UserError, match="is this a Raspberry Pi 5"):
        pmic.open_pmic("", BOARD)


@pytest.mark.parametrize("name", ["rapl", "jetson:VDD_IN", "nvml:0", "pmic"])
def test_a_sensor_of_this_computer_is_not_taken_for_a_board_elsewhere(name: str) -> None:
    with pytest.raises(UserError, match="run poet-harness on the board"):
        board_meter(name, BOARD, runs_agent=True, here=False)


def test_an_agent_without_a_sensor_says_so_in_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in KINDS:
        monkeypatch.setitem(KINDS, kind, replace(KINDS[kind], find=lambda: []))
    for name, here in ((None, True), (None, False), ("nominal", False)):
        meter = board_meter(name, BOARD, runs_agent=True, here=here)
        assert (meter.source, meter.senses) == ("measured", False)
        assert meter.identity == "no sensor: energy by the power states of rpi4b.toml"
    assert board_meter("nominal", BOARD, runs_agent=False, here=False).source == "emulated"
    with pytest.raises(UserError, match="no power meter found"):
        board_meter(None, BOARD, runs_agent=False, here=False)


def test_an_agent_here_takes_the_computers_own_sensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path / "sys/class/powercap/intel-rapl:0", name="package-0", energy_uj=5, max_energy_range_uj=10**9)
    for kind in KINDS:
        monkeypatch.setitem(KINDS, kind, replace(KINDS[kind], find=lambda: []))
    own = replace(KINDS["rapl"], find=lambda: ["x"], open=lambda _, board: rapl.open_rapl("", board, tmp_path))
    monkeypatch.setitem(KINDS, "rapl", own)
    assert board_meter(None, BOARD, runs_agent=True, here=True).identity == "RAPL package-0 (intel-rapl:0)"
    assert not board_meter(None, BOARD, runs_agent=True, here=False).senses


def count(monkeypatch: pytest.MonkeyPatch, path: Path, watt: float, range_uj: int, start_uj: int) -> None:
    """Let an energy counter stand where it is whenever it is read, wrapping as the kernel's does."""
    began_s = time.monotonic()

    def number(file: Path) -> float:
        rewrite(path, (start_uj + int((time.monotonic() - began_s) * watt * 1e6)) % range_uj)
        return sysfs.number(file)

    monkeypatch.setattr(rapl, "number", number)


def test_rapl_counts_across_its_wrap_and_leaves_subzones_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zones = tmp_path / "sys/class/powercap"
    tree(zones / "intel-rapl:0", name="package-0", energy_uj=900_000, max_energy_range_uj=1_000_000)
    tree(zones / "intel-rapl:0:0", name="core", energy_uj=5, max_energy_range_uj=1_000_000)
    assert rapl.find(tmp_path) == ["intel-rapl:0"]
    count(monkeypatch, zones / "intel-rapl:0/energy_uj", watt=2.0, range_uj=1_000_000, start_uj=900_000)
    window = measure(rapl.open_rapl("", BOARD, tmp_path), length_s=0.3)
    assert window.energy_j == pytest.approx(2.0 * 0.3, rel=0.05)


LAPTOP = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "uncore", "intel-rapl:1": "psys",
          "intel-rapl-mmio:0": "package-0"}  # fmt: skip
SERVER = {f"intel-rapl:{index}": f"package-{index}" for index in range(11)} | {"intel-rapl:0:0": "dram",
          "intel-rapl:1:0": "dram"}  # fmt: skip
DIES = {f"intel-rapl:{index}": f"package-0-die-{index}" for index in range(2)}
WITH_DIES = DIES | {"intel-rapl:2": "package-0", "intel-rapl:3": "package-1-die-0", "intel-rapl-mmio:0": "package-1"}


@pytest.mark.parametrize(
    ("kernel", "address", "summed"),
    [
        (LAPTOP, "", ["package-0 (intel-rapl:0)"]),
        (LAPTOP, "psys", ["psys (intel-rapl:1)"]),
        (LAPTOP, "intel-rapl:1", ["psys (intel-rapl:1)"]),
        (LAPTOP, "intel-rapl:0:0", ["core (intel-rapl:0:0)"]),
        (SERVER, "", [f"package-{index} (intel-rapl:{index})" for index in range(11)]),
        (SERVER, "intel-rapl:1:0", ["dram (intel-rapl:1:0)"]),
        (DIES, "", ["package-0-die-0 (intel-rapl:0) = package-0-die-1 (intel-rapl:1) as one counter"]),
        (DIES, "package-0-die-1", ["package-0-die-1 (intel-rapl:1)"]),
        (WITH_DIES, "", ["package-0 (intel-rapl:2)", "package-1-die-0 (intel-rapl:3)"]),
    ],
)
def test_rapl_adds_up_packages_alone_and_names_what_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: dict[str, str], address: str, summed: list[str]
) -> None:
    """Every zone counts one joule a reading."""
    for zone, name in kernel.items():
        tree(tmp_path / "sys/class/powercap" / zone, name=name, energy_uj=0, max_energy_range_uj=262_143_328_850)
    readings: dict[Path, int] = {}

    def number(file: Path) -> float:
        readings[file] = readings.get(file, -1) + 1
        return readings[file] * 1e6

    monkeypatch.setattr(rapl, "number", number)
    meter = rapl.open_rapl(address, BOARD, tmp_path)
    assert meter.identity == f"RAPL {' + '.join(summed)}"
    meter._read()
    assert meter._read() == pytest.approx(len(summed))


@pytest.mark.parametrize(
    ("kernel", "address", "words"),
    [
        (LAPTOP, "intel-rapl:7", r"no zones named intel-rapl:7; zones found: package-0 \(intel-rapl:0\), core"),
        (LAPTOP, "package-0", "2 zones named package-0"),
        (SERVER, "dram", r"2 zones named dram; .*dram \(intel-rapl:1:0\)"),
        ({"intel-rapl:0": "psys"}, "", r"no processor package; zones found: psys \(intel-rapl:0\); name one"),
        ({}, "", "zones found: none"),
    ],
)
def test_rapl_asks_where_it_cannot_tell(tmp_path: Path, kernel: dict[str, str], address: str, words: str) -> None:
    for zone, name in kernel.items():
        tree(tmp_path / "sys/class/powercap" / zone, name=name, energy_uj=0, max_energy_range_uj=262_143_328_850)
    with pytest.raises(UserError, match=words) as caught:
        rapl.open_rapl(address, BOARD, tmp_path)
    assert caught.value.exit_code == NO_DEVICE


RANGE_J = 262_143.0
THREADRIPPER = {f"package-0-die-{die}": (68.0, 1000.0, 0) for die in range(2)}
EPYC = {f"package-{socket}-die-{die}": (100.0, 5000.0, socket) for socket in range(2) for die in range(4)}
CASCADE_LAKE_AP = {f"package-{socket}-die-{die}": (90.0 + die, 900.0 * die, 2 * socket + die)
                   for socket in range(2) for die in range(2)}  # fmt: skip


def count_dies(
    monkeypatch: pytest.MonkeyPatch, root: Path, dies: dict[str, tuple[float, float, int]]
) -> dict[int, float]:
    """Zones of ``(watt, joule at the start, register)``. A register is brought up to date every millisecond, and wraps.

    What it returns adds joules to a register.
    """
    registers: dict[str, tuple[float, float, int]] = {}
    for place, (name, register) in enumerate(dies.items()):
        zone = root / f"sys/class/powercap/intel-rapl:{place}"
        tree(zone, name=name, max_energy_range_uj=int(RANGE_J * 1e6), energy_uj=0)
        registers[f"intel-rapl:{place}"] = register
    began_s, added_j = time.monotonic(), dict.fromkeys(range(8), 0.0)

    def number(file: Path) -> float:
        watt, start_j, register = registers[file.parent.name]
        elapsed_s = int((time.monotonic() - began_s) * 1000) / 1000
        return (start_j + elapsed_s * watt + added_j[register]) % RANGE_J * 1e6

    monkeypatch.setattr(rapl, "number", number)
    return added_j


@pytest.mark.parametrize(
    ("dies", "watt", "counters"), [(THREADRIPPER, 68.0, 1), (EPYC, 200.0, 2), (CASCADE_LAKE_AP, 2 * (90 + 91), 4)]
)
def test_a_counter_is_counted_once_whatever_the_kernel_calls_its_zones(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies: dict[str, tuple[float, float, int]],
    watt: float,
    counters: int,
) -> None:
    """Zen 1 and 2 show the socket's counter as one of each die; Intel's dies have counters of their own."""
    count_dies(monkeypatch, tmp_path, dies)
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert meter.identity.count(" + ") == counters - 1
    assert meter.identity.count(" = ") == len(dies) - counters
    assert measure(meter, length_s=0.3).energy_j == pytest.approx(watt * 0.3, rel=0.05)


def test_a_program_that_has_to_wait_still_sees_one_counter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading takes so long that a fast processor draws more than a joule meanwhile."""
    count_dies(monkeypatch, tmp_path, THREADRIPPER)
    quick = rapl.number

    def number(file: Path) -> float:
        time.sleep(0.03)
        return quick(file)

    monkeypatch.setattr(rapl, "number", number)
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert "as one counter" in meter.identity
    meter._read()
    meter._read()


def test_a_die_that_is_brought_up_to_date_a_little_later_is_still_of_one_counter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By three milliseconds, while the counter moves by 5 J each 20 ms; a zone is read every millisecond."""
    for die in range(2):
        tree(tmp_path / f"sys/class/powercap/intel-rapl:{die}", name=f"package-0-die-{die}", energy_uj=0)
    clock = Clock(monkeypatch)
    began_s = clock.now_s

    def number(file: Path) -> float:
        clock.now_s += 0.001
        late_s = 0.003 * (file.parent.name == "intel-rapl:1")
        return 5e6 * int((clock.now_s - began_s - late_s) / 0.02)

    monkeypatch.setattr(rapl, "number", number)
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert "as one counter" in meter.identity
    first_j, start_s = meter._read(), clock.now_s
    readings_j = [meter._read() for _ in range(400)]
    assert readings_j[-1] - first_j == pytest.approx(250 * (clock.now_s - start_s), abs=5.0)


def test_dies_of_one_counter_are_one_across_its_wrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read one after the other, one die has wrapped before the other; two counters wrap each at its own time."""
    near = {name: (watt, RANGE_J - 20, register) for name, (watt, _, register) in THREADRIPPER.items()}
    count_dies(monkeypatch, tmp_path, near | {"package-1": (50.0, RANGE_J - 25, 7)})
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert (
        "package-0-die-0 (intel-rapl:0) = package-0-die-1 (intel-rapl:1) as one counter + package-1" in meter.identity
    )
    assert measure(meter, length_s=0.6).energy_j == pytest.approx((68 + 50) * 0.6, rel=0.05)


def test_counters_that_met_by_chance_are_never_one_for_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They moved alike when the meter was opened; once they move apart, windows are refused."""
    added_j = count_dies(monkeypatch, tmp_path, {"package-0-die-0": (50.0, 7.0, 0), "package-0-die-1": (50.0, 7.0, 1)})
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert "as one counter" in meter.identity
    added_j[1] += 3.0
    with pytest.raises(MeterError, match=r"die-0 .* and package-0-die-1 .* have moved apart: start again"):
        measure(meter)
    assert measure(rapl.open_rapl("", BOARD, tmp_path)).energy_j == pytest.approx(100 * 0.2, rel=0.05)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    range_j=st.floats(1.0, 1e6),
    start=st.floats(0.0, 0.999),
    power_w=st.floats(0.1, 500.0),
    gaps=st.lists(st.floats(1e-3, 0.4), min_size=2, max_size=30),
)
def test_a_counter_is_right_across_wraps_or_refused(
    monkeypatch: pytest.MonkeyPatch, range_j: float, start: float, power_w: float, gaps: list[float]
) -> None:
    """Gaps as shares of a wrap, the first one short: right while no reading may hide a whole wrap."""
    clock = Clock(monkeypatch)
    began_s = clock.now_s
    counter = WrappingCounter(lambda: (start * range_j + (clock.now_s - began_s) * power_w) % range_j, range_j)
    counter.joules()
    for gap in gaps:
        clock.now_s += gap * range_j / power_w
        assert counter.joules() == pytest.approx((clock.now_s - began_s) * power_w, rel=1e-6, abs=1e-6 * range_j)
    for wraps in (0.6, 1.3, 2.5):
        clock.now_s += wraps * range_j / power_w
        with pytest.raises(MeterError, match="may have wrapped more than once"):
            counter.joules()


def test_a_counter_knows_what_its_zone_is_rated_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    counter = WrappingCounter(lambda: 1.0, range_j=100.0, rated_w=50.0)
    counter.joules()
    clock.now_s += 1.1
    with pytest.raises(MeterError, match=r"within 1\.100 s"):
        counter.joules()


def test_a_recording_starts_afresh_however_long_the_meter_lay_idle(tmp_path: Path) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    tree(zone, name="package-0", energy_uj=5, max_energy_range_uj=100, constraint_0_max_power_uw=1000)
    meter = rapl.open_rapl("", BOARD, tmp_path)
    assert measure(meter, length_s=0.1).energy_j == 0
    time.sleep(0.12)  # longer than a wrap takes at that power
    assert measure(meter, length_s=0.1).energy_j == 0


@pytest.mark.parametrize("limit", [{}, {"max_energy_range_uj": 0}])
def test_a_counter_that_goes_back_gives_no_energy(tmp_path: Path, limit: dict[str, int]) -> None:
    zone = tmp_path / "sys/class/powercap/intel-rapl:0"
    tree(zone, name="package-0", energy_uj=500, **limit)
    meter = rapl.open_rapl("", BOARD, tmp_path)
    meter.begin()
    rewrite(zone / "energy_uj", 100)
    time.sleep(0.05)
    with pytest.raises(MeterError, match="went back"):
        meter.end([Mark(Activity.COMPUTE, 0.01, time.monotonic(), time.monotonic())])


def test_a_driver_that_counts_from_zero_again_gives_no_energy() -> None:
    readings = iter([5.0, 6.0, 1.0, *range(2, 10_000)])
    meter = ClockedMeter(lambda: next(readings), is_energy=True, identity="reset", voltage_v=5.0)
    with pytest.raises(MeterError, match="went back"):
        measure(meter, length_s=0.1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_counter_for_root_alone_says_how_to_read_it(tmp_path: Path) -> None:
    tree(tmp_path / "sys/class/powercap/intel-rapl:0", name="package-0", energy_uj=1, max_energy_range_uj=10)
    (tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj").chmod(0)
    with pytest.raises(UserError, match="sudo chmod"):
        rapl.open_rapl("", BOARD, tmp_path)


class LateSensor:
    """Power of a board that draws 2 W, and 0.5 W asleep, shown 15 ms late."""

    LATE_S = 0.015

    def __init__(self) -> None:
        self._naps: list[tuple[float, float]] = []

    def power_w(self) -> float:
        shown_s = time.monotonic() - self.LATE_S
        return 0.5 if any(start_s <= shown_s < end_s for start_s, end_s in self._naps) else 2.0

    def idle(self, duration_s: float) -> tuple[float, float]:
        start_s = time.monotonic()
        self._naps.append((start_s, start_s + duration_s))
        time.sleep(duration_s)
        return start_s, duration_s


def test_a_late_sensor_is_aligned_and_the_residual_reported() -> None:
    sensor = LateSensor()
    meter = ClockedMeter(sensor.power_w, is_energy=False, identity="late", voltage_v=5.0)
    meter.synchronise(sensor.idle)
    assert meter._delay_s == pytest.approx(sensor.LATE_S, abs=0.004)
    assert "aligned by" in meter.identity
    meter.begin()
    time.sleep(0.05)
    start_s, slept_s = sensor.idle(0.1)
    time.sleep(0.05)
    [window] = meter.end([Mark(Activity.IDLE, slept_s, start_s, start_s + slept_s)])
    assert window.energy_j == pytest.approx(0.5 * 0.1, rel=0.1)


def test_without_contrast_nothing_is_aligned() -> None:
    meter = ClockedMeter(lambda: 2.0, is_energy=False, identity="flat", voltage_v=5.0)
    meter.synchronise(LateSensor().idle)
    assert meter._delay_s == 0
    assert "not aligned" in meter.identity


@pytest.fixture(scope="module")
def management_library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """A stand-in for NVIDIA's library, under the name by which NVIDIA's package loads it."""
    pytest.importorskip("pynvml")
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    source = ROOT / "tests/support/harness/simulated_nvml.c"
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    subprocess.run([*command, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def test_nvml_energy(management_library: ctypes.CDLL) -> None:
    assert nvml.find() == ["0"]
    meter = nvml.open_nvml("", BOARD)
    assert meter.identity == "NVML Simulated GPU"
    assert measure(meter, length_s=0.5).energy_j == pytest.approx(25, rel=0.05)
    with pytest.raises(UserError, match="GPU 7 does not give its energy: Invalid Argument"):
        nvml.open_nvml("7", BOARD)
    for name in ("first", "-1", "1.5", "GPU-12ab"):
        with pytest.raises(UserError, match=f"'{name}' is no number of a GPU"):
            nvml.open_nvml(name, BOARD)


def test_several_gpus_are_never_added_up_nor_taken_by_luck(
    management_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.c_uint.in_dll(management_library, "gpus"), "value", 2)
    assert nvml.find() == ["0", "1"]
    with pytest.raises(UserError, match=r"2 GPUs: 0 \(Simulated GPU\), 1 \(Simulated GPU\); name one as"):
        nvml.open_nvml("", BOARD)
    assert nvml.open_nvml("1", BOARD).identity == "NVML Simulated GPU, GPU 1 of 2"


def test_a_divided_gpu_says_that_its_counter_is_of_all_instances(
    management_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.c_uint.in_dll(management_library, "divided"), "value", 1)
    assert nvml.find() == ["0"]
    assert nvml.open_nvml("", BOARD).identity == "NVML Simulated GPU, all instances of it (MIG)"


def test_not_supported_is_never_taken_for_no_energy(
    management_library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes.c_int.in_dll(management_library, "counts_energy"), "value", 0)
    assert nvml.find() == []
    with pytest.raises(UserError, match="does not give its energy: Not Supported"):
        nvml.open_nvml("", BOARD)


def test_a_missing_package_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    modules: dict[str, Any] = __import__("sys").modules
    monkeypatch.setitem(modules, "pynvml", None)
    with pytest.raises(UserError, match="pip install"):
        nvml.open_nvml("", BOARD)
