# SPDX-License-Identifier: Apache-2.0
"""Profiling: every configuration in turn, each row on disk before the next begins."""

from __future__ import annotations

import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from poet_profiles.boards import Board
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.firmware.operators import OPERATORS, dtype_of, parse_params
from poet_profiles.profile import LOOP, PLACE, ProfileRow, ProfileWriter
from poet_profiles.program.stopping import undisturbed
from poet_profiles.protocol.status import Status

from ..measuring.idle import measure_idle
from ..measuring.measure import Effort, Measurement, measure, spread
from ..meters.meter import Activity, Meter
from ..protocol.device import Device, Timing
from ..protocol.link import DeviceError, DeviceResetError
from .configurations import Configuration
from .drift import DriftWatch
from .outcome import Outcome
from .slices import ram_bytes, slices

T = TypeVar("T")
Began = Callable[[Configuration], None]

# Where a row's time was taken: of repeated calls, or in a training step.
MOST_RESETS = 8
STEADY_ATTEMPTS = 3
REST_S = 1.0
# What a card that moves data draws at the least; the chip alone does not reach it.
LEAST_CARD_A = 5e-3
IDLE = Configuration("idle", "")
# A power of fewer steps of the meter is known to a twentieth at best.
FEWEST_STEPS = 20


class Profiler(ABC):
    """Runs benchmarks on one board with one meter; what a page transfer is depends on the board.

    Parameters
    ----------
    device, meter, board
        The board under test, the instrument on its supply, and its description.
    effort : Effort
        How well each configuration is to be known.
    """

    def __init__(self, device: Device, meter: Meter, board: Board, effort: Effort) -> None:
        self._device = device
        self._meter = meter
        self._board = board
        self._effort = effort
        self._outcome = Outcome()
        self._watch = DriftWatch()
        self._idle_power_w = 0.0

    def run(
        self, configurations: Iterable[Configuration], profile: ProfileWriter, began: Began = lambda _: None
    ) -> Outcome:
        """Measure what the profile does not hold yet, and append it row by row.

        Parameters
        ----------
        began : callable
            Called with each configuration before it is measured.

        Raises
        ------
        UserError
            If the board no longer answers, keeps resetting, or the meter fails; rows written so far stay.
        """
        self._outcome = Outcome()
        self._watch = DriftWatch()
        idle = self._through_resets(partial(measure_idle, self._device, self._meter, self._effort))
        self._idle_power_w = idle.energy_j / idle.time_s
        if not self.is_done(IDLE, profile):
            self._append(profile, IDLE, replace(idle, energy_j=0.0), 1.0)
        first: tuple[Configuration, Measurement] | None = None
        for item in configurations:
            began(item)
            if self.is_done(item, profile):
                continue
            try:
                fraction, measurement = self._steadily(item)
            except DeviceError as error:
                if error.number == Status.E_ABSENT and item.is_page:
                    raise UserError(
                        "no card with poet's label in the board: --format-card writes it (and ends whatever the card "
                        "holds), --no-pages leaves page transfers out"
                    ) from None
                if error.number == Status.E_TAKEN:
                    raise UserError(
                        "the card in the board holds the tensors of another model: --format-card ends them, --no-pages "
                        "leaves page transfers out"
                    ) from None
                self._outcome.skipped.append((item, error.text))
                continue
            if self._passes_meter_by(item, measurement):
                drawn_a = self._above_idle_a(measurement)
                self._outcome.past_the_meter.append((item, f"{drawn_a * 1e3:.1f} mA more than asleep"))
                continue
            self._append(profile, item, measurement, fraction)
            if first is None and not item.is_page:
                first = item, measurement
        if first is not None:
            again = self._through_resets(partial(self._measure, first[0]))[1]
            self._outcome.drift = _largest_change(first[1], again)
        self._outcome.temperatures_c = self._watch.temperatures_c
        return self._outcome

    def take_over(self, costs: Mapping[Configuration, Measurement], idle_power_w: float, profile: ProfileWriter) -> int:
        """Append costs observed in place, above an idle power, that the profile does not hold; how many it did not.

        Page transfers whose current passes the meter by are left out; :meth:`run` measures them, and says so.
        """
        self._idle_power_w = idle_power_w
        new = [
            item for item in costs if not self.is_done(item, profile) and not self._passes_meter_by(item, costs[item])
        ]
        for item in new:
            self._append(profile, item, costs[item], 1.0, how=", in place", where=PLACE)
        return len(new)

    def is_done(self, item: Configuration, profile: ProfileWriter) -> bool:
        """Whether the profile has the row."""
        return (self._board.name, item.op, item.params, dtype_of(item.op), self._meter.source) in profile.done

    def _passes_meter_by(self, item: Configuration, measured: Measurement) -> bool:
        """Whether a real meter misses the card's current: a page would seem to cost next to nothing.

        A Linux board's pages go to its own disk, behind whatever feeds the board.
        """
        metered = self._meter.source == "measured" and self._board.kind == "microcontroller"
        return metered and item.is_page and self._above_idle_a(measured) < LEAST_CARD_A

    def _above_idle_a(self, measured: Measurement) -> float:
        return measured.energy_j / measured.time_s / self._meter.voltage_v

    def _steadily(self, item: Configuration) -> tuple[float, Measurement]:
        """Measure; again, after a rest, when the board's own sensors show drift."""
        for attempt in range(STEADY_ATTEMPTS):
            if attempt:
                self._through_resets(partial(self._device.idle, attempt * REST_S))
            fraction, measurement = self._through_resets(partial(self._measure, item))
            drift = self._watch.drift(measurement)
            if not drift:
                return fraction, measurement
        self._outcome.unsteady.append((item, drift))
        return fraction, measurement

    def _measure(self, item: Configuration) -> tuple[float, Measurement]:
        if item.is_page:
            return self._page(item)
        if item.op not in OPERATORS:
            raise DeviceError(0, "not in the operator table of this harness")
        params = parse_params(item.params)
        for fraction, cut in slices(item.op, params, self._device.hello.ram_bytes):
            try:
                return fraction, self._operator(item.op, cut)
            except DeviceError as error:
                if error.number != Status.E_MEMORY:
                    raise
        raise DeviceError(Status.E_MEMORY, f"needs {ram_bytes(item.op, params)} bytes, and no slice of it fits")

    def _operator(self, op: str, params: dict[str, int]) -> Measurement:
        operator = OPERATORS[op]
        values = operator.values(params)

        def call(repeats: int, expected_s: float) -> Timing:
            return self._device.bench(operator.code, repeats, values, expected_s)

        return measure(call, Activity.COMPUTE, self._meter, self._effort, self._idle_power_w)

    @abstractmethod
    def _page(self, item: Configuration) -> tuple[float, Measurement]:
        """Measure page transfers; the share of a page that was transferred at once, and what came of it."""

    def _through_resets(self, work: Callable[[], T]) -> T:
        """Do ``work`` again when the board was reset in the middle of it."""
        while True:
            try:
                return work()
            except DeviceResetError:
                self._outcome.resets += 1
                if self._outcome.resets > MOST_RESETS:
                    raise UserError(
                        f"the board was reset {self._outcome.resets} times; the last time: "
                        f"{self._device.hello.start.words}; then use --resume",
                        NO_DEVICE,
                    ) from None

    def _append(
        self,
        profile: ProfileWriter,
        item: Configuration,
        measured: Measurement,
        fraction: float,
        how: str = "",
        where: str = LOOP,
        call: str = "",
        closing: tuple[float | None, float | None] = (None, None),
    ) -> None:
        whole_bytes = round(measured.bytes / fraction)
        if item.op in OPERATORS and where == LOOP:
            whole_bytes = sum(OPERATORS[item.op].sizes(parse_params(item.params)).outputs)
        if measured.energy_j < 0:
            self._outcome.below_idle.append(item)
        power_w = self._idle_power_w if item.op == IDLE.op else measured.energy_j / measured.time_s
        if abs(power_w) < FEWEST_STEPS * self._meter.power_step_w:
            self._outcome.coarse.append((item, f"{power_w * 1e3:.3g} mW"))
            how = f", fewer than {FEWEST_STEPS} steps{how}"
        row = ProfileRow(
            board=self._board.name,
            op=item.op,
            params=item.params,
            dtype=dtype_of(item.op),
            time_s=measured.time_s / fraction,
            time_s_std=measured.time_s_std / fraction,
            energy_j=max(0.0, measured.energy_j) / fraction,
            energy_j_std=measured.energy_j_std / fraction,
            idle_power_w=self._idle_power_w,
            bytes=whole_bytes,
            workspace_bytes=measured.workspace_bytes,
            repeats=measured.repeats,
            slice=fraction,
            source=self._meter.source,
            meter=self._meter.identity + how,
            voltage_v=self._meter.voltage_v,
            firmware=self._device.hello.build,
            taken_at=datetime.now(UTC).isoformat(timespec="seconds"),
            cpu_hz=_median(measured.cpu_hz),
            cpu_hz_std=_spread(measured.cpu_hz),
            temperature_c=_median(measured.temperature_c),
            temperature_c_std=_spread(measured.temperature_c),
            where=where,
            call=call,
            closing_time=closing[0],
            closing_energy=closing[1],
        )
        with undisturbed():
            profile.append(row)
        self._outcome.written += 1


def _largest_change(before: Measurement, after: Measurement) -> float:
    """Relative change of time or of energy, whichever is larger."""
    pairs = ((before.time_s, after.time_s), (before.energy_j, after.energy_j))
    return max((now / then - 1 for then, now in pairs if then > 0), key=abs, default=0.0)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _spread(values: Sequence[float]) -> float | None:
    return spread(values) if values else None
