# SPDX-License-Identifier: Apache-2.0
"""``poet-harness energy`` and recorded traces, against integrals known in closed form."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.cli import app
from poet_harness.meters.meter import Activity, Mark, MeterError
from poet_harness.meters.recorded import RecordedMeter, Recording, read_trace, read_windows
from poet_profiles.boards import load_board
from poet_profiles.errors import UserError
from typer.testing import CliRunner

from tests.support.levels import examples

# A ramp from 0 W to 10 W over ten seconds: the energy up to t is t * t / 2, whatever the sampling.
RAMP_TIMES_S = [0.0, 1.0, 4.0, 4.5, 9.0, 10.0]


def write(path: Path, header: str, *rows: object) -> Path:
    path.write_text("\n".join([header, *map(str, rows)]) + "\n")
    return path


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    return write(tmp_path / "ramp.csv", "time_s,power_w", *(f"{time},{time}" for time in RAMP_TIMES_S))


@given(st.floats(0, 9.9), st.floats(0.01, 10))
def test_a_linear_waveform_is_integrated_exactly_wherever_the_edges_fall(
    tmp_path_factory: pytest.TempPathFactory, start_s: float, length_s: float
) -> None:
    end_s = min(10.0, start_s + length_s)
    path = tmp_path_factory.getbasetemp() / "ramp.csv"
    write(path, "time_s,power_w", *(f"{time},{time}" for time in RAMP_TIMES_S))
    assert read_trace(path, None).energy_j(start_s, end_s) == pytest.approx((end_s**2 - start_s**2) / 2, abs=1e-9)


def test_current_needs_a_voltage_and_is_scaled_by_it(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.csv", "time_s,current_a", "0,0.5", "2,0.5")
    assert read_trace(path, 3.0).energy_j(0.5, 1.5) == pytest.approx(1.5)
    with pytest.raises(UserError, match="--voltage"):
        read_trace(path, None)


def test_energies_belong_to_the_time_since_the_row_before(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.csv", "time_s,energy_j", "0,99", "1,2", "2,4")
    recording = read_trace(path, None)
    assert recording.energy_j(0, 1) == pytest.approx(2)
    assert recording.energy_j(0.5, 1.5) == pytest.approx(1 + 2)


def test_the_verb_prints_json_that_a_program_reads(ramp: Path, tmp_path: Path) -> None:
    windows = write(tmp_path / "windows.csv", "start_s,end_s,label", "0,2,first", "2,4,second")
    result = CliRunner().invoke(app, ["energy", "--trace", str(ramp), "--windows", str(windows), "--json"])
    rows = json.loads(result.stdout)
    assert [(row["label"], row["energy_j"]) for row in rows] == [("first", 2.0), ("second", 6.0)]
    assert rows[1]["mean_power_w"] == pytest.approx(3.0)


def test_the_verb_prints_a_table(ramp: Path, tmp_path: Path) -> None:
    windows = write(tmp_path / "windows.csv", "start_s,end_s,label", "0,2,first")
    result = CliRunner().invoke(app, ["energy", "--trace", str(ramp), "--windows", str(windows)])
    assert "first" in result.stdout


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("power_w", ["1", "2"], r"trace.csv:1: time_s: column is missing"),
        ("time_s,volts", ["0,1", "1,1"], r"trace.csv:1: power_w: column is missing"),
        ("time_s,power_w", ["0,1", "1,x"], r"trace.csv:3: power_w: 'x' is not a finite number"),
        ("time_s,power_w", ["0,1", "1,inf"], r"trace.csv:3: power_w"),
        ("time_s,power_w", ["0,1", "2,1", "1,1"], r"trace.csv:4: time_s: 1.0 is not after 2.0"),
        ("time_s,power_w", ["0,1", "1,1", "1,1"], r"trace.csv:4: time_s: 1.0 is not after 1.0"),
        ("time_s,power_w", ["0,1"], r"two samples or more"),
    ],
)
def test_a_bad_trace_is_one_line_with_its_place(tmp_path: Path, header: str, rows: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_trace(write(tmp_path / "trace.csv", header, *rows), None)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("2,1,x", r"windows.csv:2: end_s: 1.0 is not after start_s 2.0"),
        ("-1,1,x", r"windows.csv:2: start_s: outside the trace, which runs from 0.0 s to 10.0 s"),
        ("1,11,x", r"windows.csv:2: end_s: outside"),
    ],
)
def test_a_window_that_cannot_be_integrated_is_refused(ramp: Path, tmp_path: Path, row: str, message: str) -> None:
    windows = write(tmp_path / "windows.csv", "start_s,end_s,label", row)
    with pytest.raises(UserError, match=message):
        read_windows(windows, read_trace(ramp, None))


def test_a_recording_is_played_back_window_by_window(tmp_path: Path) -> None:
    times_s = np.arange(0, 1, 0.01)
    line = ((times_s > 0.105) & (times_s < 0.305)) | ((times_s > 0.505) & (times_s < 0.605))
    rows = (f"{time},{1.0 + high},{int(high)}" for time, high in zip(times_s, line, strict=True))
    meter = RecordedMeter(write(tmp_path / "t.csv", "time_s,power_w,window", *rows), load_board("nrf52840"))
    mark = Mark(Activity.COMPUTE, 0.2, 0.0, 0.2)
    [first] = meter.end([mark])
    [second] = meter.end([mark])
    assert (first.duration_s, second.duration_s) == (pytest.approx(0.2), pytest.approx(0.1))
    assert first.energy_j == pytest.approx(0.4, rel=0.03)
    with pytest.raises(MeterError, match="only 2 windows"):
        meter.end([mark])


@pytest.mark.parametrize("voltage_v", ["nan", "inf", "-3", "0", "3300", "1e9"])
def test_what_is_no_voltage_is_refused_before_the_trace_is_read(tmp_path: Path, voltage_v: str) -> None:
    arguments = [
        *("energy", "--trace", str(tmp_path / "none"), "--windows", str(tmp_path / "none"), "--voltage", voltage_v),
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exception is not None
    words = "is no finite number" if voltage_v in ("nan", "inf") else "is no supply voltage"
    assert words in str(result.exception)


def test_a_window_column_holds_zeros_and_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "time_s,power_w,window", "0,1,0", "1,1,3.3", "2,1,0")
    with pytest.raises(UserError, match=r"t.csv:3: window: 3.3 is neither 0 nor 1"):
        RecordedMeter(path, load_board("nrf52840"))


RATE_HZ = 100_000


def exported(times_s: np.ndarray, kept: np.ndarray, path: Path) -> Path:
    """10 mW with a burst of 80 mW for 50 ms of a window of 0.2 s, as an exporter writes it that leaves rows out."""
    power_w = np.where((times_s >= 0.12) & (times_s < 0.17), 0.08, 0.01)
    window = (times_s >= 0.0999999) & (times_s < 0.2999999)
    rows = zip(times_s[kept], power_w[kept], window[kept], strict=True)
    return write(path, "time_s,power_w,window", *(f"{time:.7f},{power},{int(high)}" for time, power, high in rows))


BURST = slice(12_000, 17_000)


@pytest.mark.parametrize(
    ("dropped", "lost"),
    [
        ([], 0),
        ([slice(5_000, 6_000), slice(35_000, 36_000)], 0),
        ([BURST], 5_000),
        ([slice(20_000, 20_001)], 1),
        ([slice(20_000, 20_010), slice(20_011, 20_013)], 12),
        ([slice(11_000, 29_000, 3)], 6_000),
    ],
    ids=["none", "outside", "a burst", "one sample", "side by side", "every third"],
)
def test_samples_that_an_export_left_out_are_lost(tmp_path: Path, dropped: list[slice], lost: int) -> None:
    times_s = np.arange(0, 0.4, 1 / RATE_HZ)
    kept = np.ones(len(times_s), dtype=bool)
    for gap in dropped:
        kept[gap] = False
    meter = RecordedMeter(exported(times_s, kept, tmp_path / "t.csv"), load_board("nrf52840"))
    [window] = meter.end([Mark(Activity.COMPUTE, 0.2, 0.0, 0.2)])
    assert window.samples == pytest.approx(20_000, abs=1)
    assert window.lost == lost
    assert ("lost" in window.fault(0.2)) == (lost > 20)


@settings(max_examples=examples(30))
@given(st.floats(0.0, 0.3), st.integers(0, 2**32 - 1))
def test_jitter_and_a_rate_that_changes_are_no_losses(jitter: float, seed: int) -> None:
    """Each sample comes late by up to 0.3 of a period; the rate changes up to a hundredfold."""
    random = np.random.default_rng(seed)
    for periods_s in ([1e-3], [1e-3, 1e-2], [1e-2, 1e-4, 3e-3]):
        steps_s = np.repeat(periods_s, 300)
        times_s = np.cumsum(steps_s) + jitter * steps_s * random.random(len(steps_s))
        recording = Recording.of_power(times_s, np.ones(len(times_s)))
        assert recording.lost(times_s[0], times_s[-1]) == 0


def test_the_verb_says_how_much_of_a_window_lies_in_gaps(tmp_path: Path) -> None:
    times_s = np.arange(0, 0.4, 1 / RATE_HZ)
    kept = np.ones(len(times_s), dtype=bool)
    kept[BURST] = False
    trace = exported(times_s, kept, tmp_path / "t.csv")
    windows = write(tmp_path / "w.csv", "start_s,end_s,label", "0.1,0.3,holed", "0.15,0.25,edge", "0.3,0.35,whole")
    arguments = ["energy", "--trace", str(trace), "--windows", str(windows)]
    rows = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [row["lost_samples"] for row in rows] == [5000, 5000, 0]
    assert [row["gap_s"] for row in rows] == pytest.approx([0.05, 0.02, 0], abs=2 / RATE_HZ)
    printed = CliRunner().invoke(app, arguments).stdout
    assert "a part of the energy is a guess: holed (25.0%), edge (20.0%) of the time" in printed
