"""The LPM01A driver against a simulated instrument that speaks its shell."""

from __future__ import annotations

import pytest
from poet_harness.meters.lpm01a import Lpm01aMeter, Transcript
from poet_harness.meters.meter import Activity, Mark, MeterError
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError
from simulated_lpm01a import SimulatedLpm01a, plugged_in, sample

BOARD = load_board("nrf52840")
FALL_S, LENGTH_S = 0.30, 0.15


def ramp(time_s: float) -> float:
    """1 mA, rising by 10 mA a second."""
    return 1e-3 + 10e-3 * time_s


def mark() -> Mark:
    return Mark(Activity.COMPUTE, LENGTH_S, 0.0, 0.0)


def test_the_simulated_format_is_the_documented_one() -> None:
    assert sample(640.9e-6) == "6409-07"


def test_a_window_ends_at_the_falling_edge_and_is_as_long_as_the_board_says() -> None:
    instrument = SimulatedLpm01a(ramp, [FALL_S])
    with plugged_in(instrument) as port:
        meter = Lpm01aMeter(port, BOARD)
        meter.begin()
        [window] = meter.end([mark()])
        meter.close()
    middle_a = ramp(FALL_S - LENGTH_S / 2)
    assert window.energy_j == pytest.approx(BOARD.voltage_v * middle_a * LENGTH_S, rel=2e-3)
    assert window.duration_s == pytest.approx(LENGTH_S)
    assert window.lost == 0
    assert "volt 3000m" in instrument.commands
    assert instrument.commands[0] == "htc"
    assert instrument.commands[-1] == "hrc"


def test_samples_that_the_time_stamps_miss_are_counted() -> None:
    instrument = SimulatedLpm01a(ramp, [FALL_S], lost=range(1800, 1850))
    with plugged_in(instrument) as port:
        meter = Lpm01aMeter(port, BOARD)
        meter.begin()
        [window] = meter.end([mark()])
        meter.close()
    assert window.lost == pytest.approx(50, abs=1)
    assert window.lost_share > 0.001


def test_a_window_that_nobody_marked_is_told() -> None:
    with plugged_in(SimulatedLpm01a(ramp, [])) as port:
        meter = Lpm01aMeter(port, BOARD)
        meter.begin()
        with pytest.raises(MeterError, match="is the window line on D7"):
            meter.end([mark()])
        meter.close()


def test_a_refused_setting_is_told() -> None:
    with (
        plugged_in(SimulatedLpm01a(ramp, [], refuses="volt")) as port,
        pytest.raises(UserError, match="'volt 3000m' refused") as caught,
    ):
        Lpm01aMeter(port, BOARD)
    assert caught.value.exit_code == NO_DEVICE


def test_damaged_lines_are_not_samples() -> None:
    transcript = Transcript(sample_hz=1000)
    for line in (b"6409-07", b"64-07", b"6409-0", b"", b"x6409-07", b"6409-07"):
        transcript.line(line)
    assert transcript.current_a == pytest.approx([640.9e-6] * 2)
