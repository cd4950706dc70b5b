# SPDX-License-Identifier: Apache-2.0
"""The LPM01A driver against a simulated instrument that speaks its shell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from poet_harness.meters.lpm01a import Lpm01aMeter, Transcript
from poet_harness.meters.meter import Activity, Mark, MeterError
from poet_harness.meters.registry import open_meter
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError

from tests.support.harness.simulated_lpm01a import SimulatedLpm01a, plugged_in, sample

BOARD = load_board("nrf52840")
FALL_S, LENGTH_S = 0.30, 0.15


def ramp(time_s: float) -> float:
    """1 mA, rising by 10 mA a second."""
    return 1e-3 + 10e-3 * time_s


def high_from(late_s: float) -> Callable[[float], float]:
    """10 mA, and more than it takes after a while."""
    return lambda time_s: 0.07 if time_s > late_s else 0.01


@contextmanager
def recording(instrument: SimulatedLpm01a) -> Iterator[Lpm01aMeter]:
    with plugged_in(instrument) as port:
        meter = Lpm01aMeter(port, BOARD)
        meter.begin()
        yield meter
        meter.close()


def mark() -> Mark:
    return Mark(Activity.COMPUTE, LENGTH_S, 0.0, 0.0)


def test_the_simulated_format_is_the_documented_one() -> None:
    assert sample(640.9e-6) == "6409-07"


def test_a_window_ends_at_the_falling_edge_and_is_as_long_as_the_board_says() -> None:
    instrument = SimulatedLpm01a(ramp, [FALL_S])
    with recording(instrument) as meter:
        [window] = meter.end([mark()])
    middle_a = ramp(FALL_S - LENGTH_S / 2)
    assert window.energy_j == pytest.approx(BOARD.voltage_v * middle_a * LENGTH_S, rel=2e-3)
    assert window.duration_s == pytest.approx(LENGTH_S)
    assert window.lost == 0
    assert "volt 3000m" in instrument.commands
    assert instrument.commands[0] == "htc"
    assert instrument.commands[-1] == "hrc"


@pytest.mark.parametrize(
    ("lost", "counted"),
    [
        (range(2500, 2550), 50),
        # After the last time stamp before the edge: only the next stamp can tell.
        (range(3500, 3550), 50),
        # Before the window, but after the same stamps as its beginning: it may have been inside.
        (range(2050, 2100), 50),
        (range(1500, 1550), 0),
    ],
)
def test_samples_that_the_time_stamps_miss_are_counted(lost: range, counted: int) -> None:
    """The window lies from 0.22 s to 0.37 s, a time stamp at each tenth of a second."""
    instrument = SimulatedLpm01a(ramp, [0.37], lost=lost)
    with recording(instrument) as meter:
        [window] = meter.end([mark()])
    assert window.lost == pytest.approx(counted, abs=1)
    assert (window.lost_share > 0.001) == (counted > 0)


OVERCURRENT = "the instrument says: error: Overcurrent >59mA, dynamic acquisition stop"


@pytest.mark.parametrize(
    ("instrument", "words"),
    [
        (lambda: SimulatedLpm01a(ramp, []), "is the window line on D7"),
        # Its words for what ends an acquisition are not known; those of this test are made up.
        (
            lambda: SimulatedLpm01a(high_from(0.2), [FALL_S], stops_with="Protection: load off"),
            "0 windows seen, 1 expected; it said 'Protection: load off'; is",
        ),
        # In the instrument's own words, which others have seen; before its first time stamp and after.
        (lambda: SimulatedLpm01a(high_from(0.02), [FALL_S]), OVERCURRENT),
        (lambda: SimulatedLpm01a(high_from(0.25), [FALL_S]), OVERCURRENT),
    ],
    ids=["nobody marked it", "ended", "overcurrent at once", "overcurrent later"],
)
def test_why_a_window_is_missing_is_told(instrument: Callable[[], SimulatedLpm01a], words: str) -> None:
    with recording(instrument()) as meter, pytest.raises(MeterError, match=words):
        meter.end([mark()])


def test_a_refused_setting_is_told() -> None:
    with (
        plugged_in(SimulatedLpm01a(ramp, [], refuses="volt")) as port,
        pytest.raises(UserError, match="'volt 3000m' refused") as caught,
    ):
        Lpm01aMeter(port, BOARD)
    assert caught.value.exit_code == NO_DEVICE


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"error: overcurrent", "error: overcurrent"),
        (b"err 12", "err 12"),
        (b"Error: board temperature", "Error: board temperature"),
        (b"PowerShield > error stop", "error stop"),
        (b"summary: overcurrent at 70 ms", "summary: overcurrent at 70 ms"),
        (b"Over current", "Over current"),
        (b"event 01 ris", ""),
        (b"TimeStamp: 001s 000ms, buff 05%", ""),
        (b"PowerShield > ack start", ""),
        (b"Acquisition completed", ""),
    ],
)
def test_whatever_the_instrument_calls_an_error_is_one(line: bytes, said: str) -> None:
    transcript = Transcript(sample_hz=1000)
    for entry in (b"6409-07", line, b"6409-07"):
        transcript.line(entry)
    assert transcript.trouble == said


def test_nothing_stays_as_another_program_left_it() -> None:
    """That program's recording is still running; mode, trigger and supply are set."""
    instrument = SimulatedLpm01a(ramp, [FALL_S], acquiring=True)
    with recording(instrument) as meter:
        [window] = meter.end([mark()])
    assert window.energy_j > 0
    assert instrument.commands[:2] == ["htc", "stop"]
    for setting in ("acqmode dyn", "funcmode optim", "trigsrc sw", "trigdelay 0", "acqtime inf", "pwr on"):
        assert setting in instrument.commands


def test_a_voltage_that_it_does_not_supply_is_refused_before_anything_is_sent() -> None:
    board = BOARD.model_copy(update={"voltage_v": 5.0})
    instrument = SimulatedLpm01a(ramp, [])
    with (
        plugged_in(instrument) as port,
        pytest.raises(UserError, match=r"supplies 1.8 to 3.3 V, and nrf52840 takes 5 V"),
    ):
        Lpm01aMeter(port, board)
    assert instrument.commands == []


def test_what_it_cannot_measure_is_said_before_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    with plugged_in(SimulatedLpm01a(ramp, [])) as port:
        open_meter(f"lpm01a:{port}", BOARD).close()
        said = capsys.readouterr().err
        assert "measures up to 50 mA, and nrf52840 draws when it moves pages 103 mA or so" in said
        assert len(said.splitlines()) == 1
        open_meter(f"lpm01a:{port}", load_board("nucleo-f411re").model_copy(update={"storage": "none"})).close()
        open_meter("nominal", BOARD)
    assert "measures up to" not in capsys.readouterr().err


def test_damaged_lines_are_not_samples() -> None:
    transcript = Transcript(sample_hz=1000)
    for line in (b"6409-07", b"64-07", b"6409-0", b"", b"x6409-07", b"6409-07"):
        transcript.line(line)
    assert transcript.current_a == pytest.approx([640.9e-6] * 2)


def test_time_stamps_that_go_back_are_told() -> None:
    """A counter of three digits would stand at 0 after 999 seconds."""
    transcript = Transcript(sample_hz=10)
    for second in (998, 999, 0):
        for _ in range(10):
            transcript.line(b"1000-06")
        assert not transcript.went_back
        transcript.line(f"TimeStamp: {second:03d}s 000ms, buff 05%".encode())
    assert transcript.went_back


def test_a_port_that_is_not_there_is_not_taken_for_a_silent_instrument() -> None:
    with pytest.raises(UserError, match=r"/dev/none: cannot be opened \(.*No such file") as caught:
        Lpm01aMeter("/dev/none", BOARD)
    assert "answers" not in caught.value.printed
    assert caught.value.exit_code == NO_DEVICE
