# SPDX-License-Identifier: Apache-2.0
"""The PPK2 driver against a simulated instrument that speaks its bytes, and the decoder against exact integrals."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from poet_harness.meters.meter import Activity, Mark, MeterError, Window
from poet_harness.meters.ppk2 import Calibration, Decoder, Ppk2Meter
from poet_harness.meters.sampled import WindowIntegrator
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError

from tests.support.harness.simulated_ppk2 import METADATA, SimulatedPpk2, plugged_in, words
from tests.support.levels import examples

BOARD = load_board("nrf52840")
PERIOD_S = 1e-5
START_S, LENGTH_S = 0.050, 0.020


def steady(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """5 mA, and 40 mA in the second half of the window: two ranges of the instrument."""
    return np.where(times_s < START_S + LENGTH_S / 2, 5e-3, 40e-3)


def one_window(times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (times_s >= START_S) & (times_s < START_S + LENGTH_S)


def never(times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.zeros(len(times_s), dtype=bool)


@contextmanager
def recording(instrument: SimulatedPpk2) -> Iterator[Ppk2Meter]:
    with plugged_in(instrument) as port:
        meter = Ppk2Meter(port, BOARD, supply=False)
        meter.begin()
        yield meter
        meter.close()


def mark(length_s: float = LENGTH_S) -> Mark:
    return Mark(Activity.COMPUTE, length_s, 0.0, 0.0)


def test_a_window_is_measured_through_the_port() -> None:
    instrument = SimulatedPpk2(steady, one_window)
    with recording(instrument) as meter:
        [window] = meter.end([mark()])
    assert window.duration_s == pytest.approx(LENGTH_S, abs=PERIOD_S / 10)
    assert window.energy_j == pytest.approx(BOARD.voltage_v * LENGTH_S * (5e-3 + 40e-3) / 2, rel=1e-3)
    assert window.lost == 0
    assert "PPK2" in meter.identity
    assert "HW 9173" in meter.identity
    assert instrument.commands[instrument.commands.index(0x11) :][:2] == [0x11, 1]
    assert instrument.commands[-1] == 0x07


def test_as_supply_it_sets_the_boards_voltage() -> None:
    instrument = SimulatedPpk2(steady, one_window)
    with plugged_in(instrument) as port:
        Ppk2Meter(port, BOARD, supply=True).close()
    place = instrument.commands.index(0x0D)
    high, low = instrument.commands[place + 1 : place + 3]
    assert (high - 3) * 256 + low - 32 + 800 == 3000
    assert instrument.commands[place + 3 : place + 5] == [0x0C, 1]


def window_without(count: int) -> Window:
    """Measured where so many of the words on the line are lost."""

    def damage(block: int, data: bytes) -> bytes:
        return data[:1600] + data[1600 + 4 * count :] if block == 5 else data

    with recording(SimulatedPpk2(steady, one_window, damage)) as meter:
        [window] = meter.end([mark()])
    return window


def test_lost_words_are_counted_and_do_not_shorten_the_window() -> None:
    window = window_without(37)
    assert window.lost == 37
    assert window.duration_s == pytest.approx(LENGTH_S, abs=PERIOD_S / 10)
    assert window.lost_share > 0.001


def test_a_loss_that_the_counter_cannot_show_is_found_by_the_boards_clock() -> None:
    """64 words are once around the counter."""
    window = window_without(64)
    assert window.lost == 0
    assert "where the device counted 0.020000 s" in window.fault(LENGTH_S)


def test_no_window_line_is_told() -> None:
    missing = "window line on D0, and VCC of the logic port"
    with recording(SimulatedPpk2(steady, never)) as meter, pytest.raises(MeterError, match=missing):
        meter.end([mark()])


def test_a_line_that_comes_and_goes_names_the_logic_ports_supply() -> None:
    """As D0 does on a PPK2 whose logic port has none."""

    def flickering(times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        return one_window(times_s) & (times_s // 1e-3 % 2 == 0)

    with recording(SimulatedPpk2(steady, flickering)) as meter:
        deadline_s = time.monotonic() + 10
        while len(meter._integrator.windows) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.01)
        with pytest.raises(MeterError, match="windows recorded, 1 expected; is VCC of the logic port at the board"):
            meter.end([mark()])


def test_a_cable_pulled_out_ends_in_one_line() -> None:
    def pull(block: int, data: bytes) -> bytes | None:
        return None if block == 4 else data

    with plugged_in(SimulatedPpk2(steady, one_window, pull)) as port:
        meter = Ppk2Meter(port, BOARD, supply=False)
        meter.begin()
        with pytest.raises(UserError, match=r"gone .*--resume") as caught:
            meter.end([mark()])
    assert caught.value.exit_code == NO_DEVICE


def test_something_else_at_the_port_ends_in_one_line() -> None:
    with (
        plugged_in(SimulatedPpk2(steady, one_window, silent=True)) as port,
        pytest.raises(UserError, match="no PPK2 answers there"),
    ):
        Ppk2Meter(port, BOARD, supply=False)


@pytest.mark.parametrize(
    ("was", "now", "named"), [("R4: 0.043", "R4: 0.0", "R4"), ("R0: 1031.64\nO0: 12.0", "R0: -nan\nO0: 12.0", "R0")]
)
def test_a_damaged_calibration_is_not_taken_for_no_answer(was: str, now: str, named: str) -> None:
    assert was in METADATA
    instrument = SimulatedPpk2(steady, one_window, metadata=METADATA.replace(was, now))
    with plugged_in(instrument) as port, pytest.raises(UserError) as caught:
        Ppk2Meter(port, BOARD, supply=False)
    assert f"the PPK2 there answers, but its calibration is damaged: no resistance {named}" in caught.value.printed
    assert "no PPK2 answers" not in caught.value.printed
    assert caught.value.exit_code == NO_DEVICE


@pytest.mark.parametrize(("samples", "refused"), [(5, False), (200, True)])
def test_an_overcurrent_is_called_one(samples: int, refused: bool) -> None:
    """A sample or two may belong to a change of the range."""

    def current(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        above = (times_s >= START_S) & (times_s < START_S + (samples - 0.5) * PERIOD_S)
        return np.where(above, 1.4, 5e-3)

    with recording(SimulatedPpk2(current, one_window)) as meter:
        if refused:
            with pytest.raises(MeterError, match=f"overcurrent: {samples} samples above 1 A"):
                meter.end([mark()])
        else:
            assert len(meter.end([mark()])) == 1


@pytest.mark.parametrize("supply", [True, False])
def test_a_voltage_that_is_not_its_own_is_refused_and_not_made_smaller(supply: bool) -> None:
    instrument = SimulatedPpk2(steady, one_window)
    board = BOARD.model_copy(update={"voltage_v": 19.0})
    with plugged_in(instrument) as port, pytest.raises(UserError, match=r"takes 0.8 to 5 V, and nrf52840 has 19 V"):
        Ppk2Meter(port, board, supply=supply)
    assert instrument.commands == []


def test_calibration_constants_enter_as_documented() -> None:
    text = METADATA.replace("GS1: 0.0", "GS1: 0.5").replace("UG1: 1.0", "UG1: 1.01").replace("I1: 0.0", "I1: 1e-4")
    text = text.replace("S1: -nan", "S1: 2e-5")
    word = np.array([2000 | 1 << 14], dtype="<u4").tobytes()
    power_w, _ = Decoder(Calibration.parse(text), 3.0).feed(word)
    x = (2000 * 4 - 9.0) * 1.8 / 163840 / 101.65
    assert power_w[0] == pytest.approx(3.0 * 1.01 * (x * (0.5 * x + 1.0) + 2e-5 * 3.0 + 1e-4), rel=1e-5)


def test_metadata_without_resistances_is_refused() -> None:
    with pytest.raises(ValueError, match="no resistance"):
        Calibration.parse("Calibrated: 1\nEND\n")


@settings(max_examples=examples(30))
@given(st.integers(1, 3), st.lists(st.integers(1, 5000), min_size=1, max_size=30))
def test_decoding_does_not_depend_on_how_bytes_arrive(_seed: int, sizes: list[int]) -> None:
    count = 3000
    current = np.random.default_rng(_seed).uniform(1e-6, 0.05, count)
    line = np.arange(count) % 700 > 300
    stream = words(current, line, first=7).tobytes()
    whole_power, whole_line = Decoder(Calibration.parse(METADATA), 3.0).feed(stream)
    decoder = Decoder(Calibration.parse(METADATA), 3.0)
    parts, start = [], 0
    for size in [*sizes, len(stream)]:
        parts.append(decoder.feed(stream[start : start + size]))
        start += size
    assert np.array_equal(np.concatenate([power for power, _ in parts]), whole_power)
    assert np.array_equal(np.concatenate([inside for _, inside in parts]), whole_line)
    assert np.array_equal(whole_line, line)
    assert whole_power == pytest.approx(current * 3.0, rel=2e-2, abs=2e-7)


def test_a_lost_byte_is_found_and_the_stream_falls_into_step_again() -> None:
    count = 6000
    stream = words(np.full(count, 5e-3), np.zeros(count, dtype=bool), first=0).tobytes()
    damaged = stream[:4001] + stream[4002:]
    decoder = Decoder(Calibration.parse(METADATA), 3.0)
    tail = [decoder.feed(damaged[start : start + 400]) for start in range(0, len(damaged), 400)][-20:]
    power_w = np.concatenate([power for power, _ in tail])
    assert not np.isnan(power_w).any()
    assert power_w == pytest.approx(np.full(len(power_w), 0.015), rel=1e-3)


def test_windows_from_a_millisecond_on_are_exact_to_a_thousandth_through_the_port() -> None:
    """A current whose integral is known in closed form, in windows whose edges lie anywhere between two samples."""
    spans_s = [(0.0500037, 0.001), (0.0600012, 0.0023), (0.0700071, 0.0057), (0.0900098, 0.0201)]

    def current(times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        return 5e-3 * (1 + 0.3 * np.sin(80 * times_s))

    def charge(time_s: float) -> float:
        return float(5e-3 * (time_s - 0.3 * np.cos(80 * time_s) / 80))

    def line(times_s: NDArray[np.float64]) -> NDArray[np.bool_]:
        return np.any([(times_s >= start_s) & (times_s < start_s + length_s) for start_s, length_s in spans_s], axis=0)

    with recording(SimulatedPpk2(current, line)) as meter:
        windows = meter.end([mark(length_s) for _, length_s in spans_s])
    for window, (start_s, length_s) in zip(windows, spans_s, strict=True):
        exact_j = BOARD.voltage_v * (charge(start_s + length_s) - charge(start_s))
        assert window.fault(length_s) == ""
        assert window.with_device_time(length_s).energy_j == pytest.approx(exact_j, rel=1e-3)


@settings(max_examples=examples(40))
@given(st.integers(100, 5000), st.floats(0, 0.999), st.floats(2, 50), st.sampled_from([2e-4, 2e-3, 2e-2]))
def test_energy_of_a_known_waveform_is_exact_to_a_thousandth(
    samples: int, phase: float, frequency_hz: float, scale_a: float
) -> None:
    """Windows from 1 ms on, anywhere between the samples; the exact integral is known in closed form."""
    omega = 2 * np.pi * frequency_hz
    start_s, length_s = (400 + phase) * PERIOD_S, samples * PERIOD_S
    times_s = np.arange(samples + 1000) * PERIOD_S
    current = scale_a * (1 + 0.3 * np.sin(omega * times_s))
    line = (times_s >= start_s) & (times_s < start_s + length_s)

    def charge(time_s: float) -> float:
        return float(scale_a * (time_s - 0.3 * np.cos(omega * time_s) / omega))

    integrator = WindowIntegrator(PERIOD_S)
    integrator.feed(*Decoder(Calibration.parse(METADATA), 3.0).feed(words(current, line, first=0).tobytes()))
    [window] = integrator.windows
    exact_j = 3.0 * (charge(start_s + length_s) - charge(start_s))
    assert window.with_device_time(length_s).energy_j == pytest.approx(exact_j, rel=1e-3)


def test_a_port_that_is_not_there_is_not_taken_for_a_silent_instrument() -> None:
    with pytest.raises(UserError, match=r"/dev/none: cannot be opened \(.*No such file") as caught:
        Ppk2Meter("/dev/none", BOARD, supply=False)
    assert "answers" not in caught.value.printed
    assert caught.value.exit_code == NO_DEVICE
