# SPDX-License-Identifier: Apache-2.0
"""Profiling an agent: operators in their place in a training step, and page transfers one by one.

What an operator costs in a step and in a loop differs: in the loop its operands lie in the caches. So its time is
taken in the step, each operator between two readings of the clock. A step is too short for a power meter; power is
therefore taken in windows of repeated calls, and energy is that power times the time in place.

    energy = (power in the window - idle power) * time in place

After the operators come two rows more. `overhead` is the time between two operators. `step` is the whole step, which
nothing interrupts; its closing error is what the planner would predict for it, as a share of what it takes.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import hypot
from typing import NamedTuple, TypeVar

from poet_profiles.boards import Board
from poet_profiles.profile import PLACE, ProfileWriter, read_profile
from poet_profiles.protocol.status import Status

from ..measuring.measure import Call, Effort, Measurement, measure, spread
from ..meters.meter import Activity, Mark, Meter
from ..protocol.device import Device, Timing
from ..protocol.link import DeviceError
from .configurations import PAGE_OPS, Configuration, page
from .network import Network
from .outcome import Closing, Outcome
from .profiler import REST_S, STEADY_ATTEMPTS, Began, Profiler

WARM_UP_STEPS = 2
PLACED_STEPS = 7
TRANSFERS = 15
PAGE_SIZES = tuple(4096 << shift for shift in range(13))
OVERHEAD = Configuration("overhead", "")

T = TypeVar("T")


class Power(NamedTuple):
    """Power above idle in watt, and its standard deviation over windows."""

    median_w: float
    std_w: float


@dataclass(frozen=True)
class Placement:
    """Several steps, timed operator by operator.

    Attributes
    ----------
    times_s : list of list of float
        By step and operator.
    between_s : list of float
        Time between two operators, mean of each step.
    timings : list of Timing
        Of the steps.
    whole : list of Timing
        Of as many steps that nothing interrupted, one after each: what else the board does meets both alike.
    workspaces_bytes : list of int
        By operator, what its kernel allocates on the board beside its results.
    """

    times_s: list[list[float]] = field(default_factory=list)
    between_s: list[float] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    whole: list[Timing] = field(default_factory=list)
    workspaces_bytes: list[int] = field(default_factory=list)

    def measurement(self, network: Network, item: Configuration) -> Measurement:
        """Time of one configuration: over steps the median, over its places the mean, as a plan adds them up.

        Something is slow in every step, each time something else, so that the medians add up to too little. They are
        scaled to add up to the median step.
        """
        places = network.places[item]
        medians = (self._medians_s[place] * self._scale for place in places)
        steps = [statistics.fmean(step[place] for place in places) for step in self.times_s]
        size, workspace = network.operators[places[0]].bytes, max(self.workspaces_bytes[place] for place in places)
        return self._measurement(statistics.fmean(medians), steps, len(places), size, workspace)

    @cached_property
    def _medians_s(self) -> list[float]:
        return [statistics.median(times) for times in zip(*self.times_s, strict=True)]

    @cached_property
    def _scale(self) -> float:
        total = sum(self._medians_s)
        return statistics.median(map(sum, self.times_s)) / total if total else 1.0

    def overhead(self, operators: int) -> Measurement:
        """Time between two operators."""
        return self._measurement(statistics.median(self.between_s), self.between_s, operators - 1, 0, 0)

    def step(self) -> Measurement:
        """Time of the step that nothing interrupts."""
        steps = [timing.work_s for timing in self.whole]
        return self._measurement(statistics.median(steps), steps, 1, 0, 0)

    def _measurement(
        self, time_s: float, steps_s: Sequence[float], places: int, size: int, workspace: int
    ) -> Measurement:
        return Measurement(
            time_s=time_s,
            time_s_std=spread(steps_s),
            energy_j=0.0,
            energy_j_std=0.0,
            repeats=len(steps_s) * places,
            bytes=size,
            workspace_bytes=workspace,
            cpu_hz=tuple(timing.cpu_hz for timing in self.timings if timing.cpu_hz is not None),
            temperature_c=tuple(t.temperature_c for t in self.timings if t.temperature_c is not None),
        )


class AgentProfiler(Profiler):
    """A profiler of a Linux board under PyTorch; see :class:`Profiler`.

    Parameters
    ----------
    networks : sequence of Network
        Those whose operators are timed in their place, after the configurations.
    """

    def __init__(
        self, device: Device, meter: Meter, board: Board, effort: Effort, networks: Sequence[Network] = ()
    ) -> None:
        super().__init__(device, meter, board, effort)
        self._networks = networks

    def run(
        self, configurations: Iterable[Configuration], profile: ProfileWriter, began: Began = lambda _: None
    ) -> Outcome:
        """Measure configurations, then networks; see :meth:`Profiler.run`."""
        super().run(configurations, profile, began)
        for network in self._networks:
            try:
                self._network(network, profile, began)
            except DeviceError as error:
                self._outcome.skipped.append((network.step, f"{network.name}: {error.text}"))
                if error.number == Status.E_MEMORY:
                    self._in_loops(network, profile, began)
        self._outcome.temperatures_c = self._watch.temperatures_c
        return self._outcome

    def _network(self, network: Network, profile: ProfileWriter, began: Began) -> None:
        missing = [item for item in network.places if not self.is_done(item, profile)]
        if not missing and all(self.is_done(item, profile) for item in (OVERHEAD, network.step)):
            return
        began(network.step)
        placement = self._placed_steadily(network)
        for item in missing:
            began(item)
            self._append_placed(network, item, placement, profile)
        power = self._power(partial(self._run_step, network), Activity.STEP)
        if not self.is_done(OVERHEAD, profile):
            measured = _with_energy(placement.overhead(len(network.operators)), power)
            self._append(profile, OVERHEAD, measured, 1.0, where=PLACE)
        if not self.is_done(network.step, profile):
            measured = _with_energy(placement.step(), power)
            closing = self._closing(network, profile, measured)
            self._outcome.closings.append(closing)
            self._append(profile, network.step, measured, 1.0, where=PLACE, closing=(closing.time, closing.energy))

    def _in_loops(self, network: Network, profile: ProfileWriter, began: Began) -> None:
        """Rows of the operators by themselves, where the board has not the RAM for their step."""
        found = self._loaded(network, lambda: self._device.workspaces(len(network.operators)))
        for item, places in network.places.items():
            if self.is_done(item, profile):
                continue
            began(item)
            call = self._calling(network, places[0])
            try:
                work = partial(measure, call, Activity.COMPUTE, self._meter, self._effort, self._idle_power_w)
                measured = self._through_resets(work)
            except DeviceError as error:
                self._outcome.skipped.append((item, error.text))
                continue
            size, workspace = network.operators[places[0]].bytes, max(found[place] for place in places)
            measured = replace(measured, bytes=size, workspace_bytes=workspace)
            self._append(profile, item, measured, 1.0, call=self._text(network, places[0]))

    def _calling(self, network: Network, index: int) -> Call:
        """Calls of one of its operators."""

        def call(repeats: int, expected_s: float) -> Timing:
            return self._loaded(network, lambda: self._device.call(repeats, f"@{index}", expected_s))

        return call

    def _text(self, network: Network, index: int) -> str:
        return self._through_resets(lambda: self._loaded(network, lambda: self._device.text(index)))

    def _append_placed(
        self, network: Network, item: Configuration, placement: Placement, profile: ProfileWriter
    ) -> None:
        """One row of an operator."""
        index = network.places[item][0]
        power = self._power(self._calling(network, index), Activity.COMPUTE)
        measured = _with_energy(placement.measurement(network, item), power)
        self._append(profile, item, measured, 1.0, where=PLACE, call=self._text(network, index))

    def _closing(self, network: Network, profile: ProfileWriter, step: Measurement) -> Closing:
        rows = read_profile(profile.path)
        rows = rows[(rows["board"] == self._board.name) & (rows["source"] == self._meter.source)]
        costs = rows.set_index(["op", "params"])[["time_s", "energy_j"]]
        names = [
            (item.op, item.params) for operator in network.operators for item in (operator.configuration, OVERHEAD)
        ]
        time_s, energy_j = costs.loc[names].sum()
        energy = float(energy_j / step.energy_j) if self._meter.senses and step.energy_j > 0 else None
        return Closing(network.name, float(time_s / step.time_s), energy)

    def _placed_steadily(self, network: Network) -> Placement:
        """Time the steps; again, after a rest, when the board's own sensors show drift."""
        for attempt in range(STEADY_ATTEMPTS):
            if attempt:
                self._through_resets(partial(self._device.idle, attempt * REST_S))
            placement = self._through_resets(partial(self._placed, network))
            drift = self._watch.drift(placement.step())
            if not drift:
                return placement
        self._outcome.unsteady.append((network.step, drift))
        return placement

    def _placed(self, network: Network) -> Placement:
        placement = Placement()
        operators = len(network.operators)
        for step in range(WARM_UP_STEPS + PLACED_STEPS):
            placed = self._loaded(network, lambda: self._device.place(1, trace=True))
            times_s = self._device.times(operators)
            whole = self._run_step(network, 1, 0.0)
            if step >= WARM_UP_STEPS:
                placement.times_s.append(times_s)
                placement.between_s.append(placed.between_s / max(1, operators - 1))
                placement.timings.append(placed.timing)
                placement.whole.append(whole)
        placement.workspaces_bytes.extend(
            self._loaded(network, lambda: self._device.workspaces(operators, placement.step().time_s))
        )
        return placement

    def _run_step(self, network: Network, repeats: int, expected_s: float) -> Timing:
        return self._loaded(network, lambda: self._device.place(repeats, trace=False, expected_s=expected_s)).timing

    def _loaded(self, network: Network, work: Callable[[], T]) -> T:
        """Do something with a network's program, which an agent that was reset has lost."""
        if self._device.hello.model != network.graph_hash:
            self._device.load(network.program)
        return work()

    def _page(self, item: Configuration) -> tuple[float, Measurement]:
        """Median and spread of single transfers."""
        words = dict(pair.split("=") for pair in item.params.split())
        size, pattern, direction = int(words["bytes"]), words["pattern"], PAGE_OPS[item.op]

        def call(repeats: int, expected_s: float) -> Timing:
            return self._device.page(direction, size, repeats, pattern, expected_s)

        timing = call(TRANSFERS, 0.0)
        self._outcome.through_cache |= not timing.direct
        times_s = self._device.times(TRANSFERS)
        measured = Measurement(
            time_s=statistics.median(times_s),
            time_s_std=spread(times_s),
            energy_j=0.0,
            energy_j_std=0.0,
            repeats=TRANSFERS,
            bytes=size,
            workspace_bytes=0,
            cpu_hz=() if timing.cpu_hz is None else (timing.cpu_hz,),
            temperature_c=() if timing.temperature_c is None else (timing.temperature_c,),
        )
        return 1.0, _with_energy(measured, self._power(call, Activity(item.op)))

    def _power(self, call: Callable[[int, float], Timing], activity: Activity) -> Power:
        """Power above idle while something runs."""
        if not self._meter.senses:
            self._meter.begin()
            [second] = self._meter.end([Mark(activity, 1.0, 0.0, 1.0)])
            return Power(second.energy_j - self._idle_power_w, 0.0)

        def work() -> Measurement:
            return measure(call, activity, self._meter, self._effort, self._idle_power_w)

        window = self._through_resets(work)
        return Power(window.energy_j / window.time_s, window.energy_j_std / window.time_s)


def _with_energy(measured: Measurement, power: Power) -> Measurement:
    """A measured time, with the energy that a power gives it; their errors add as independent ones do."""
    return replace(
        measured,
        energy_j=power.median_w * measured.time_s,
        energy_j_std=hypot(power.std_w * measured.time_s, power.median_w * measured.time_s_std),
    )


def page_sizes() -> list[Configuration]:
    """Transfers from 4 KiB to 16 MiB in both directions."""
    return [page(op, size, "sequential") for op in PAGE_OPS for size in PAGE_SIZES]


class PageFit(NamedTuple):
    """``latency + bytes / throughput`` over the rows of one direction, with its mean and its worst relative error."""

    op: str
    latency_s: float
    bytes_a_second: float
    mean_error: float
    worst_error: float

    @property
    def words(self) -> str:
        return (
            f"{self.op}: {self.latency_s * 1e6:.0f} us, then {self.bytes_a_second / 1e6:.0f} MB/s; "
            f"{self.mean_error:.0%} off on average, {self.worst_error:.0%} at worst"
        )


def fit_pages(profile: ProfileWriter, board: Board) -> list[PageFit]:
    """The line through each direction's rows, of pages that are not too small to follow one."""
    import numpy as np

    rows = read_profile(profile.path)
    rows = rows[(rows["board"] == board.name) & (rows["bytes"] >= board.smallest_page_bytes)]
    fits = []
    for op in PAGE_OPS:
        chosen = rows[(rows["op"] == op) & (rows["time_s"] > 0)]
        if len(chosen) < 3:
            continue
        sizes, times_s = chosen["bytes"].to_numpy(float), chosen["time_s"].to_numpy(float)
        table = np.stack([np.ones_like(sizes), sizes], axis=1)
        (latency_s, per_byte_s), *_ = np.linalg.lstsq(table / times_s[:, None], np.ones_like(sizes), rcond=None)
        errors = np.abs(table @ (latency_s, per_byte_s) / times_s - 1)
        if per_byte_s > 0:
            fits.append(PageFit(op, latency_s, 1 / per_byte_s, float(errors.mean()), float(errors.max())))
    return fits
