# SPDX-License-Identifier: Apache-2.0
"""Windows cut out of a sampled stream, against exact integrals of the waveform that was sampled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.meters.meter import Activity, Mark, MeterError, Window
from poet_harness.meters.sampled import WindowIntegrator, assign

from tests.support.levels import examples

PERIOD_S = 1e-5


def mark(duration_s: float) -> Mark:
    return Mark(Activity.COMPUTE, duration_s, 0.0, 0.0)


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=20),
    st.integers(1, 50),
    st.integers(0, 2**32 - 1),
)
def test_windows_do_not_depend_on_how_the_stream_is_cut(spans: list[tuple[int, int]], block: int, seed: int) -> None:
    line = np.concatenate([np.repeat([False, True], span) for span in spans] + [np.zeros(1, dtype=bool)])
    power = np.random.default_rng(seed).uniform(0.001, 0.1, len(line))
    integrator = WindowIntegrator(PERIOD_S)
    for start in range(0, len(line), block):
        integrator.feed(power[start : start + block], line[start : start + block])
    ends = np.cumsum([low + high for low, high in spans])
    expected = [power[end - high : end].sum() * PERIOD_S for end, (_, high) in zip(ends, spans, strict=True)]
    assert [window.energy_j for window in integrator.windows] == pytest.approx(expected, rel=1e-12)
    assert [window.samples for window in integrator.windows] == [high for _, high in spans]


@settings(max_examples=examples(50))
@given(st.floats(1e-3, 5e-3), st.floats(0, PERIOD_S), st.floats(1, 30))
def test_energy_of_a_moving_waveform_is_exact_to_a_thousandth_for_windows_of_a_millisecond(
    length_s: float, phase_s: float, frequency_hz: float
) -> None:
    def energy(time_s: float | np.ndarray) -> float | np.ndarray:
        """Integral of 10 mW * (1 + sin(2 pi f t) / 2) from 0."""
        omega = 2 * np.pi * frequency_hz
        return 0.01 * (time_s + (1 - np.cos(omega * time_s)) / (2 * omega))

    start_s = 1e-3 + phase_s
    edges_s = np.arange(900) * PERIOD_S
    power = np.diff(energy(edges_s)) / PERIOD_S
    middles_s = edges_s[:-1] + PERIOD_S / 2
    line = (middles_s >= start_s) & (middles_s < start_s + length_s)
    integrator = WindowIntegrator(PERIOD_S)
    integrator.feed(power, line)
    [window] = integrator.windows
    exact_j = energy(start_s + length_s) - energy(start_s)
    assert window.with_device_time(length_s).energy_j == pytest.approx(exact_j, rel=1e-3)


def test_lost_samples_are_counted_and_do_not_stretch_time() -> None:
    power = np.full(100, 0.5)
    power[40:45] = np.nan
    line = np.zeros(100, dtype=bool)
    line[20:80] = True
    integrator = WindowIntegrator(PERIOD_S)
    integrator.feed(power, line)
    [window] = integrator.windows
    assert (window.samples, window.lost, integrator.lost) == (60, 5, 5)
    assert window.duration_s == pytest.approx(60 * PERIOD_S)
    assert window.energy_j == pytest.approx(0.5 * 60 * PERIOD_S)
    assert window.lost_share == pytest.approx(5 / 60)


def test_a_disagreement_of_more_than_two_samples_stays_visible() -> None:
    window = Window(1e-3, 1e-6, samples=100, period_s=PERIOD_S, edge_power_w=1e-3)
    assert window.with_device_time(1.5e-3) == window


@settings(max_examples=examples(200))
@given(st.lists(st.floats(2e-6, 3e-4), min_size=1, max_size=40), st.floats(0, PERIOD_S))
def test_every_window_goes_to_its_mark_however_the_sampling_falls(lengths_s: list[float], phase_s: float) -> None:
    marks = [mark(5e-4), *(mark(length_s) for length_s in lengths_s)]
    edges_s = phase_s + np.cumsum([3e-5, *(part for each in marks for part in (each.device_s, 3.5e-5))])
    times_s = np.arange(0, edges_s[-1], PERIOD_S)
    inside = np.searchsorted(edges_s, times_s, side="right") % 2 == 1
    inside[-1] = False
    integrator = WindowIntegrator(PERIOD_S)
    integrator.feed(np.ones(len(times_s)), inside)
    for each, window in zip(marks, assign(integrator.windows, marks, PERIOD_S), strict=True):
        assert abs(window.duration_s - each.device_s) <= 1.01 * PERIOD_S


@pytest.mark.parametrize("found", [1, 3])
def test_a_window_too_many_or_too_few_is_a_fault(found: int) -> None:
    window = Window(1e-3, 1e-6, samples=100, period_s=PERIOD_S)
    with pytest.raises(MeterError, match="2 expected"):
        assign([window] * found, [mark(1e-3), mark(1e-3)], PERIOD_S)
