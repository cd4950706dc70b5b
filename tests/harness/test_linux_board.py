# SPDX-License-Identifier: Apache-2.0
"""A Linux board is the firmware core as a program: profiled here as a process, and by way of ssh."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from poet_harness.cli import app
from poet_harness.firmware import build
from poet_harness.measuring.idle import IDLE_WINDOWS
from poet_harness.measuring.measure import Effort
from poet_harness.meters.clocked import ClockedMeter
from poet_harness.meters.lpm01a import Lpm01aMeter
from poet_harness.meters.nominal import NominalMeter
from poet_harness.profiling.board_profiler import BoardProfiler
from poet_harness.profiling.configurations import Configuration, page
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import Link
from poet_harness.target.connect import connect
from poet_harness.target.process import ProcessStream
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from poet_profiles.profile import ProfileWriter, read_profile
from poet_profiles.shipped import SHIPPED
from typer.testing import CliRunner

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

WANTED = [Configuration("pointwise", f"size={size} steps=relu(y0,x0)") for size in (512, 1024, 2048)]


@pytest.fixture(scope="module")
def program(builds: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLATFORMIO_BUILD_DIR", str(builds))
        yield build(load_board("rpi4b"))


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """The description of a Linux board whose processor is this computer's."""
    text = (SHIPPED / "boards" / "rpi4b.toml").read_text()
    text = text.replace('"rpi4b"', '"thisboard"').replace('"cortex-a72"', f'"{platform.machine()}"')
    path = tmp_path / "thisboard.toml"
    path.write_text(text.replace("2_147_483_648", "603_979_776"))  # 64 MB beside what Linux takes
    return path


def show(sysfs: Path, mhz: int, celsius: float) -> None:
    """A made-up tree of the kernel's files."""
    for cpu in range(os.sysconf("SC_NPROCESSORS_CONF")):
        _write(sysfs / f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", mhz * 1000)
    _write(sysfs / "class/thermal/thermal_zone0/temp", round(celsius * 1000))


def _write(path: Path, content: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name("new").write_text(f"{content}\n")
    path.with_name("new").replace(path)


def test_a_clock_that_falls_in_the_middle_of_a_run_is_noticed(program: Path, tmp_path: Path) -> None:
    sysfs, description = tmp_path / "sys", load_board("rpi4b")
    show(sysfs, 1500, 48.0)
    stream = ProcessStream([str(program), "--sysfs", str(sysfs)])
    device = Device(Link(stream, "program"))

    def began(item: Configuration) -> None:
        if item == WANTED[1]:
            show(sysfs, 1000, 82.5)

    profiler = BoardProfiler(device, NominalMeter(description), description, Effort(fewest=2, most=2))
    with ProfileWriter(tmp_path / "p.csv") as writer:
        outcome = profiler.run(WANTED, writer, began)
    stream.close()
    assert [item for item, _ in outcome.unsteady] == WANTED[1:]
    assert "clock at 1000 MHz, at its fastest 1500 MHz" in outcome.unsteady[0][1]
    assert outcome.temperatures_c == (48.0, 82.5)
    rows = read_profile(tmp_path / "p.csv").set_index("params")
    assert rows["cpu_hz"].to_dict() == {"": pytest.approx(float("nan"), nan_ok=True)} | {
        item.params: hertz for item, hertz in zip(WANTED, (1.5e9, 1e9, 1e9), strict=True)
    }
    assert rows.loc[WANTED[2].params, "temperature_c"] == 82.5


def test_the_longest_idle_window_fits_the_boards_counter(program: Path) -> None:
    stream = ProcessStream([str(program)])
    device = Device(Link(stream, "program"))
    longest_s = IDLE_WINDOWS * max(meter.shortest_window_s for meter in (ClockedMeter, Lpm01aMeter))
    assert longest_s * device.hello.ticks_hz < 2**32
    assert 0.1 <= device.idle(0.1).work_s < 50
    stream.close()


def test_profiled_as_a_process_on_the_board_itself(
    program: Path, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    configs, out = tmp_path / "c.csv", tmp_path / "p.csv"
    wanted = [WANTED[0], page("page_out", 4096, "sequential"), page("page_in", 4096, "scattered")]
    configs.write_text("op,params\n" + "".join(f'{item.op},"{item.params}"\n' for item in wanted))
    options = ["--board", str(board), "--image", str(program), "--meter", "nominal", "--quick"]
    done = CliRunner().invoke(app, ["profile", *options, "--configs", str(configs), "--out", str(out)])
    assert done.exit_code == 0, done.output
    rows = read_profile(out)
    assert list(rows["op"]) == ["idle", "pointwise", "page_out", "page_in"]
    assert set(rows["board"]) == {"thisboard"}
    assert (rows["time_s"] > 0).all()


def test_profiled_by_way_of_ssh(program: Path, board: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for ssh that runs the remote command here."""
    shim = tmp_path / "ssh"
    shim.write_text('#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done\nshift 2\nexec "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    configs, out = tmp_path / "c.csv", tmp_path / "p.csv"
    configs.write_text('op,params\npointwise,"size=512 steps=relu(y0,x0)"\npage_in,bytes=4096 pattern=sequential\n')
    url = f"ssh://pi@far/{program} --card {tmp_path}/card.img"
    options = ["--board", str(board), "--port", url, "--meter", "nominal", "--quick", "--format-card"]
    done = CliRunner().invoke(app, ["profile", *options, "--configs", str(configs), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert list(read_profile(out)["op"]) == ["idle", "pointwise", "page_in"]
    assert (tmp_path / "card.img").exists()


@pytest.mark.skipif(platform.machine().startswith(("aarch64", "arm")), reason="this computer could be one")
def test_this_computer_is_not_taken_for_a_board_that_it_cannot_be(program: Path) -> None:
    with pytest.raises(UserError, match=r"is no rpi4b \(cortex-a72\).*--port ssh://"):
        connect(load_board("rpi4b"), image=program, meter="nominal")
    with pytest.raises(UserError, match="only microcontrollers are emulated"):
        connect(load_board("rpi4b"), image=program, emulate=True)
