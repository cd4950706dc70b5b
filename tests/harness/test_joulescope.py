# SPDX-License-Identifier: Apache-2.0
"""The Joulescope driver against a module that publishes blocks as the vendor's driver does."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from poet_harness.meters import joulescope
from poet_harness.meters.joulescope import Pairing
from poet_harness.meters.meter import Activity, Mark
from poet_profiles.boards import load_board
from poet_profiles.errors import NO_DEVICE, UserError

from tests.support.levels import examples

BOARD = load_board("nrf52840")
RATE = 2_000_000
PATH = "u/js220/001234"


def block(sample_id: int, data: np.ndarray, decimate_factor: int) -> dict[str, Any]:
    return {"sample_id": sample_id, "sample_rate": RATE, "decimate_factor": decimate_factor, "data": data}


def packed(line: np.ndarray) -> np.ndarray:
    return np.packbits(line.astype(np.uint8), bitorder="little")


@settings(max_examples=examples(30))
@given(st.integers(1, 4), st.sampled_from([1, 2]), st.integers(1, 40), st.booleans())
def test_power_and_input_meet_whatever_their_rates_and_order(
    blocks: int, divider: int, first: int, input_first: bool
) -> None:
    """Power every ``divider`` ids; the input at every id, high in the middle third."""
    ids = 4800 * blocks
    start = first * 16
    power = np.arange(ids // divider, dtype=np.float32) % 100 / 1000
    line = (np.arange(ids) >= ids // 3) & (np.arange(ids) < 2 * ids // 3)
    pairing = Pairing()
    pairing.power(block(start, power[:1], divider))
    feeds: list[Callable[[], None]] = []
    for low in range(0, ids, 1200):
        high = low + 1200
        data = power[max(low // divider, 1) : high // divider]
        at = start + max(low, divider)
        feeds.append(lambda at=at, data=data: pairing.power(block(at, data, divider)))
        feeds.append(lambda low=low, high=high: pairing.line(block(start + low, packed(line[low:high]), 1)))
    order = [*feeds[1::2], *feeds[::2]] if input_first else [*feeds[::2], *feeds[1::2]]
    for feed in order:
        feed()
    assert pairing.integrator is not None
    [window] = pairing.integrator.windows
    inside = power[ids // 3 // divider : 2 * ids // 3 // divider]
    assert window.samples == len(inside)
    assert window.energy_j == pytest.approx(float(inside.sum()) * divider / RATE, rel=1e-5)
    assert window.lost == 0


def test_a_block_that_never_comes_is_counted_as_lost() -> None:
    pairing = Pairing()
    ones, high = np.ones(1000, np.float32), packed(np.ones(1000, dtype=bool))
    pairing.power(block(0, ones, 1))
    pairing.line(block(0, packed(np.zeros(1000, dtype=bool)), 1))
    for at in (1000, 3000):
        pairing.power(block(at, ones, 1))
        pairing.line(block(at, high, 1))
    pairing.power(block(4000, ones, 1))
    pairing.line(block(4000, packed(np.zeros(1000, dtype=bool)), 1))
    assert pairing.integrator is not None
    [window] = pairing.integrator.windows
    assert (window.samples, window.lost) == (3000, 1000)
    assert window.duration_s == pytest.approx(3000 / RATE)


def test_an_edge_that_may_lie_in_a_lost_block_of_the_input_spoils_its_window() -> None:
    """Power arrives whole; of the input, the block in which the line fell is missing."""
    pairing = Pairing()
    ones, low, high = np.ones(1000, np.float32), np.zeros(1000, dtype=bool), np.ones(1000, dtype=bool)
    for number, line in enumerate((low, high, high, None, low)):
        pairing.power(block(1000 * number, ones, 1))
        if line is not None:
            pairing.line(block(1000 * number, packed(line), 1))
    assert pairing.integrator is not None
    [window] = pairing.integrator.windows
    assert window.lost == 1000
    assert window.fault(2500 / RATE)


class FakeDriver:
    """Publishes one second's worth of blocks, 10 mW with a window of 40 ms, when the power stream is switched on."""

    def __init__(self, path: str = PATH) -> None:
        self.published: list[tuple[str, Any]] = []
        self.unplugged = False
        self._path = path
        self._callbacks: dict[str, Callable[[str, Any], None]] = {}

    def device_paths(self) -> list[str]:
        return [self._path]

    def open(self, path: str, mode: str) -> None:
        assert (path, mode) == (self._path, "defaults")

    def close(self, path: str) -> None:
        pass

    def subscribe(self, topic: str, flags: list[str], callback: Callable[[str, Any], None]) -> None:
        self._callbacks[topic.removeprefix(self._path + "/")] = callback

    def publish(self, topic: str, value: Any) -> None:
        name = topic.removeprefix(self._path + "/")
        if self.unplugged:
            raise TimeoutError("jsdrv_publish timed out")
        self.published.append((name, value))
        if (name, value) == ("s/gpi/0/ctrl", 1):
            threading.Thread(target=self._stream, daemon=True).start()

    def _stream(self) -> None:
        for at in range(0, RATE // 5, 20_000):
            line = (np.arange(at, at + 20_000) >= 100_000) & (np.arange(at, at + 20_000) < 180_000)
            self._callbacks["s/p/!data"]("", block(at, np.full(10_000, 0.01, np.float32), 2))
            self._callbacks["s/gpi/0/!data"]("", block(at, packed(line), 1))


def install(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("pyjoulescope_driver")
    module.Driver = lambda: driver  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", module)


def test_a_js110_has_another_name_for_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver("u/js110/002345")
    install(driver, monkeypatch)
    assert "js110 002345" in joulescope.open_joulescope("", BOARD).identity
    assert driver.published == [("s/i/range/select", "auto")]


def test_an_instrument_that_was_unplugged_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = FakeDriver()
    install(driver, monkeypatch)
    meter = joulescope.open_joulescope("", BOARD)
    driver.unplugged = True
    with pytest.raises(UserError, match=r"js220 001234: gone .*--resume") as caught:
        meter.begin()
    assert caught.value.exit_code == NO_DEVICE


@pytest.mark.parametrize("model", ["js220", "js320"])
def test_a_window_is_measured_through_the_driver(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    path = f"u/{model}/001234"
    driver = FakeDriver(path)
    install(driver, monkeypatch)
    assert joulescope.find() == [path]
    meter = joulescope.open_joulescope("", BOARD)
    meter.begin()
    [window] = meter.end([Mark(Activity.COMPUTE, 0.04, 0.0, 0.0)])
    meter.close()
    assert window.duration_s == pytest.approx(0.04)
    assert window.energy_j == pytest.approx(0.01 * 0.04, rel=1e-5)
    assert f"{model} 001234" in meter.identity
    assert ("s/i/range/mode", "auto") in driver.published
    assert driver.published[-4:] == [(f"{signal}/ctrl", 0) for signal in joulescope.SIGNALS]


def test_the_vendors_driver_without_an_instrument() -> None:
    pytest.importorskip("pyjoulescope_driver")
    for _ in range(2):  # it allows one driver a process
        assert joulescope.find() == []
    with pytest.raises(UserError, match="found none; name one as --meter joulescope:PATH"):
        joulescope.open_joulescope("", BOARD)
    with pytest.raises(UserError, match=f"{PATH}: the Joulescope cannot be opened"):
        joulescope.open_joulescope(PATH, BOARD)


def test_a_missing_driver_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", None)
    assert joulescope.find() == []
    with pytest.raises(UserError, match="pip install"):
        joulescope.open_joulescope("", BOARD)
