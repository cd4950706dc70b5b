# SPDX-License-Identifier: Apache-2.0
"""Training steps on the board: data in, one step under the schedule, loss and gradients out, energy beside it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.graph.kept import TRAINED_KINDS
from poet_profiles.protocol.status import Status
from poet_profiles.stopping import finishing, heed

from ..card.in_board import CardInBoard, tensors_in
from ..card.reading import Weights
from ..data.batches import TrainingData, part_of_batch
from ..measuring.idle import measure_idle
from ..measuring.measure import Effort
from ..meters.meter import Activity, Mark, Meter, MeterError
from ..plan_folder.plan import Plan
from ..protocol.device import Device, Restored, StepReport
from ..protocol.link import DeviceError, DeviceResetError
from .features import NOTHING_MADE, KeptSamples, Made, make, make_all
from .finite import NotFiniteError, count_not_finite, largest_input
from .micro_batches import added, total

# By words of the board's answer.
CURES = {
    "no label": "; poet-harness profile --format-card labels a card, and ends whatever it holds",
    "no commit": "; leave --resume out, or put in the card that holds it",
    "on the card is damaged": "; prepare the card anew with poet-harness card",
    "another model": "; put in another card, or end what it holds with poet-harness profile --format-card",
}
LOST = "the board was cut off in a step, or was reset; its weights are lost"
MOST_RESETS = 3
Rate = Callable[[int], float]
Feed = Callable[[int, int], None]
NO_HASH = "0" * 16


@dataclass(frozen=True)
class ObservedAction:
    """Time, energy and RAM of one action.

    ``energy_j`` is that above the idle power, None where the board marks no window or the meter failed; ``peak_bytes``
    the most in RAM during it, None of firmware, which allocates nothing.
    """

    time_s: float
    energy_j: float | None
    peak_bytes: int | None


@dataclass(frozen=True)
class ObservedStep:
    """One training step as board and meter saw it, or a micro-batch of one.

    ``energy_j`` is that above the idle power, ``features`` what it took to make those that it read. ``actions`` is
    empty for a step that was not traced.
    """

    number: int
    loss: float
    report: StepReport
    energy_j: float | None
    actions: tuple[ObservedAction, ...]
    gradients: dict[str, NDArray[Any]]
    features: Made = NOTHING_MADE


class Trainer:
    """Runs a plan on a board.

    Parameters
    ----------
    device, meter
        The board, flashed with the plan, and the instrument on its supply.
    plan : Plan
        The plan it was flashed with; the agent of a Linux board loads it.
    gradients : bool
        Whether each step's gradients are fetched, which takes time.

    Attributes
    ----------
    hello : Hello
        What the board said of itself when it was greeted.
    unmetered : list of str
        Why the energy of a step or an action is not known, one reason each.
    idle_power_w : float
        Of the sleeping board, measured before the first step.
    observed : list of ObservedStep
        The steps so far, in order, whatever ended the training.
    kept : int or None
        How many steps made the weights that this run has committed, or began with; None if there are none.
    steps_done : int or None
        How many steps made the weights that the board has in RAM; None while it works on them, or has lost them.
    unseen : list of int
        Steps that count, though the board was reset before it could say their loss.
    is_finite : bool
        Whether training has come to no loss and no weight that is infinite or no number.

    Raises
    ------
    UserError
        If the board carries another model or schedule.
    """

    def __init__(self, device: Device, meter: Meter, plan: Plan, gradients: bool = True) -> None:
        self.device = device
        self.meter = meter
        self._plan = plan
        self._wants_gradients = gradients
        self.unmetered: list[str] = []
        self.idle_power_w = math.nan
        self._observed: dict[int, ObservedStep] = {}
        self.kept: int | None = None
        self._being_kept: int | None = None
        self.unseen: list[int] = []
        self.steps_done: int | None = None
        self.is_finite = True
        self._begin: int | None = None
        self._rate: Rate = lambda _: 0.0
        self._batches: list[dict[int, bytes]] = []  # those of the steps, where they are the data's
        self._card = CardInBoard(device, plan) if plan.commits_steps else None
        self._frozen = CardInBoard(device, plan) if plan.card is not None and not plan.commits_steps else None
        self._data: TrainingData | None = None
        self._kept_samples: KeptSamples | None = None
        self._features_kept = False
        make_ready(device, plan)
        self.hello = device.hello

    @property
    def observed(self) -> list[ObservedStep]:
        return [self._observed[number] for number in sorted(self._observed)]

    def train(
        self,
        data: TrainingData,
        learning_rate: float | Rate,
        commit_every: int = 0,
        resume: bool = False,
        done: Callable[[ObservedStep], None] = lambda _: None,
        trace_all: bool = False,
        steps: int | None = None,
        feed: Feed | None = None,
        kept_samples: KeptSamples | None = None,
    ) -> list[ObservedStep]:
        """Run one step a batch; the first is traced action by action, with `trace_all` every one.

        A board that is reset in the middle goes on from the weights that this run last committed (or began with), or
        else from the initial ones, or those of the last :meth:`keep_here`; either gives the same bits.

        Parameters
        ----------
        learning_rate : float or callable
            Of all steps, or of the step with a number.
        commit_every : int
            Keep the weights on the card after every so many steps; 0 for never. A plan that keeps tensors there commits
            every step.
        resume : bool
            Begin with the weights that an earlier run committed, at the batch after theirs.
        steps : int, optional
            In all, an earlier run's included; as many as there are batches if not given. Of more, the next one begins
            with the first batch again.
        done : callable
            Called with each finished step, again for one that a reset makes necessary again.
        feed : callable, optional
            Gives the board a micro-batch of a step, by both numbers; by default that of the data, over the line.
        kept_samples : KeptSamples, optional
            Those of which the board keeps features; by default it makes them for each step.

        Raises
        ------
        Stopped
            On a signal: after the step under way, which is observed and, where steps are committed, committed; on a
            second one at once.
        NotFiniteError
            If the loss of a step, or a weight after it, is infinite or no number.
        UserError
            If the board refuses a step or keeps resetting, if there is nothing to resume from or nothing left to do, or
            if the meter is gone.
        """
        self._data = data
        self._rate = rate = learning_rate if callable(learning_rate) else lambda _: learning_rate
        self._batches = data.batches if feed is None else []
        self._kept_samples = kept_samples
        if feed is None:

            def feed(number: int, part: int) -> None:
                self._put(part_of_batch(data.batches[number % len(data.batches)], self._plan, part))

        for _ in range(MOST_RESETS + 1):
            try:
                self._steps(rate, commit_every, resume, done, trace_all, steps or len(data.batches), feed)
                return self.observed
            except DeviceResetError:
                self.steps_done = None
            except DeviceError as error:
                raise self._refused(error) from None
        last = self.device.hello.start.words
        raise UserError(f"the board was reset {MOST_RESETS + 1} times; the last time: {last}", NO_DEVICE)

    def steps_on_card(self) -> int:
        """How many steps made the weights on the card, for a plan that keeps them there; else 0."""
        if self._card is None:
            return 0
        try:
            return self._card.restore().step
        except DeviceError:
            return 0

    def _steps(
        self,
        learning_rate: Rate,
        commit_every: int,
        resume: bool,
        done: Callable[[ObservedStep], None],
        trace_all: bool,
        steps: int,
        feed: Feed,
    ) -> None:
        """Steps from the last commit on, or from the weights of the data if there is none."""
        make_ready(self.device, self._plan)
        self._features_kept = False  # others under these numbers may be there, of an earlier run's samples
        data = self._data
        assert data is not None
        if self._frozen is not None:
            self._frozen.restore_or_prepare(data)
        begin = self._restored(data, resume, steps)
        self._begin = begin if self._begin is None else self._begin
        if math.isnan(self.idle_power_w):
            idle = measure_idle(self.device, self.meter, Effort(fewest=1, most=1))
            self.idle_power_w = idle.energy_j / idle.time_s
        in_ram = {index: content for index, content in data.weights.items() if index < len(self._plan.residents)}
        self._put(data.constants if self.kept is not None else {**data.constants, **in_ram})
        self.steps_done = begin
        traced = min((number for number, step in self._observed.items() if step.actions), default=begin)
        for number in range(begin, steps):
            heed()
            features = self._fed(number, feed)
            with finishing() as stopping:
                step = self._step(number, learning_rate(number), trace_all or number == traced, feed)
                step = replace(step, features=features)
                self._observed[number] = step
                done(step)
                if commit_every and (stopping() or (number + 1) % commit_every == 0):
                    self._commit(number + 1)

    def _restored(self, data: TrainingData, resume: bool, steps: int) -> int:
        """How many steps made the weights that the card gives back, where this run has kept or resumes any."""
        begin = self._given_back(data, resume, steps)
        if self.kept is None and (resume or self._card is not None):
            self.kept = begin
            if begin >= steps:
                raise UserError(f"{begin} steps are committed already; ask for more of them with --steps")
            if begin < data.step:
                raise UserError(
                    f"{self.device.link.name}: the card holds the weights after {begin} steps, and the folder goes on "
                    f"after {data.step}; give the card of that training"
                )
        if begin not in (data.step if self.kept is None else self.kept, self._being_kept):
            raise UserError(
                f"{self.device.link.name}: the card gives back the weights after {begin} steps, this run committed "
                f"those after {self.kept}; the card loses data: begin anew with another",
                NO_DEVICE,
            )
        if self.kept is not None and begin > self.kept:
            self.kept = begin
            if begin - 1 not in self._observed:
                self.unseen.append(begin - 1)
        return begin

    def _given_back(self, data: TrainingData, resume: bool, steps: int) -> int:
        if self._card is None:
            return self._committed().step if resume or self.kept is not None else data.step
        if self.kept is not None:
            return self._card.restore().step
        restored = self._card.restore() if resume else self._card.restore_or_prepare(data)
        if restored.step and not resume:
            raise UserError(
                f"{self.device.link.name}: the card holds the weights after {restored.step} steps; go on from them "
                "with --resume, or prepare it anew with poet-harness card"
            )
        self._card.check(restored, data, steps)
        return restored.step

    def _committed(self) -> Restored:
        return self.device.restore() if self._frozen is None else self._frozen.restore()

    def _put(self, residents: Mapping[int, bytes]) -> None:
        for index, content in residents.items():
            self.device.put(index, content)

    def _commit(self, steps: int) -> None:
        # A reset meanwhile leaves open whether it is whole.
        self._being_kept = steps
        try:
            self.device.commit(steps)
        except DeviceError as error:
            if error.number == Status.E_NOT_FINITE:
                raise self._spoiled(steps, "values that are no numbers") from None
            raise
        self.kept = steps

    def _refused(self, error: DeviceError) -> UserError:
        where = self.device.link.name
        if error.number == Status.E_MEMORY:
            need, have = self._plan.schedule.peak_bytes, self.device.hello.ram_bytes
            return UserError(f"{where}: the plan needs {need:,} bytes of RAM, the board has {have:,}: {error}")
        cure = next((cure for words, cure in CURES.items() if words in error.text), "")
        return UserError(f"{where}: training failed, {error}{cure}", NO_DEVICE)

    def _fed(self, number: int, feed: Feed) -> Made:
        """Have the first micro-batch of a step on the board; its features, too, where the step reads these."""
        extraction, samples = self._plan.extraction, self._kept_samples
        if extraction is None or samples is None:
            if not self._plan.keeps_batches:
                feed(number, 0)
            return NOTHING_MADE if extraction is None else make(self.device, extraction, self._drawn_by)
        numbers, made = samples.of_step(number).tolist(), NOTHING_MADE
        if not self._features_kept or not self.device.kept(numbers):
            made = make_all(self.device, extraction, samples, self._drawn_by)
            self._features_kept = self.device.kept(numbers)
            if not self._features_kept:
                raise UserError(
                    f"{self.device.link.name}: its RAM loses features; give --features each-step", NO_DEVICE
                )
        return made

    def _drawn_by(self, run: Callable[[], StepReport]) -> tuple[StepReport, float | None]:
        self.meter.begin()
        report = run()
        [energy_j] = self._energies([Mark(Activity.STEP, report.work_s, report.host_start_s, report.host_end_s)])
        return report, energy_j

    def _step(self, number: int, learning_rate: float, trace: bool, feed: Feed) -> ObservedStep:
        """A step whose first micro-batch the board has been given."""
        self.steps_done = None
        parts = []
        for part in range(self._plan.micro_batches):
            if part:
                feed(number, part)
            self.meter.begin()
            report = self._run(number, part, learning_rate, trace)
            loss: float = struct.unpack("<f", report.loss_bits.to_bytes(4, "little"))[0]
            if not math.isfinite(loss):
                raise self._ended(
                    f"the loss of step {number + 1} is no number, and its firmware, older than this harness, has "
                    "trained on: its weights are lost; flash it again"
                )
            seen = ObservedStep(number, loss, report, energy_j=None, actions=(), gradients={})
            if part == self._plan.micro_batches - 1:
                self._note_done(seen)
            parts.append(self._traced(seen, part) if trace else self._metered(seen))
        return replace(added(parts), gradients=self._gradients() if self._wants_gradients else {})

    def _run(self, number: int, part: int, learning_rate: float, trace: bool) -> StepReport:
        if self._card is not None:
            self._being_kept = number + 1  # a reset after its end leaves open whether it counts
        try:
            named = part if self._plan.micro_batches > 1 else None
            return self.device.step(learning_rate, trace, self._plan.schedule.time_s, named)
        except DeviceError as error:
            self.steps_done = number  # a step that fails has changed no weight
            if error.number == Status.E_NOT_FINITE:
                raise self._not_finite(number, "loss" in error.text) from None
            raise

    def _note_done(self, step: ObservedStep) -> None:
        self.steps_done = step.number + 1
        if self._card is not None:
            self._note_committed(step.report)
            self._observed[step.number] = step  # it counts, even if the board is reset before it tells the rest

    def _metered(self, step: ObservedStep) -> ObservedStep:
        report = step.report
        [energy_j] = self._energies([Mark(Activity.STEP, report.work_s, report.host_start_s, report.host_end_s)])
        return replace(step, energy_j=energy_j)

    def _note_committed(self, report: StepReport) -> None:
        if report.committed != self._being_kept:
            raise UserError(
                f"{self.device.link.name}: the board committed step {report.committed}, and was asked for "
                f"{self._being_kept}: does somebody else use it?",
                NO_DEVICE,
            )
        self.kept = report.committed

    def _not_finite(self, number: int, of_loss: bool) -> NotFiniteError:
        """The board has ended a step before it changed anything."""
        what = f"{'the loss' if of_loss else 'a weight'} of step {number + 1} is no number"
        begin = self._begin or 0
        maker = number - 1 if of_loss else number  # the step whose rate made these weights
        if maker >= begin and self._rate(maker):
            cause = f": the rate {self._rate(maker):g} is too high, or a sample is damaged"
        else:
            cause = ", before any weight has changed: samples or weights are damaged, or too large"
        has = f"of step {number}" if number > begin else "that it began with"
        seen = largest_input(self._plan, self._batches, range(begin, number + 1))
        return self._ended(f"{what}{cause}{seen}; the board has the weights {has}")

    def _spoiled(self, steps: int, what: str) -> NotFiniteError:
        """A gradient has overflowed, though the loss of its step was a number: the weights in RAM are lost."""
        self.steps_done = None
        kept = "" if self.kept is None else f"; the card has those of step {self.kept}"
        rate = self._rate(steps - 1)
        return self._ended(
            f"the weights of step {steps} have {what}: the rate {rate:g} is too high, or a sample is damaged{kept}"
        )

    def _ended(self, words: str) -> NotFiniteError:
        self.is_finite = False
        return NotFiniteError(f"{self.device.link.name}: {words}")

    def _traced(self, step: ObservedStep, part: int) -> ObservedStep:
        """Each action with its time, energy and RAM; what waits for the last micro-batch has no window before."""
        planned = self._plan.actions
        times_s = self.device.times(len(planned))
        peaks = self.device.peaks(len(planned)) if self._plan.documents else [None] * len(planned)
        is_last = part == self._plan.micro_batches - 1
        marked = [action.is_marked and (is_last or action.runs > 1) for action in planned]
        marks = []
        clock_s = step.report.host_start_s
        for action, time_s, is_marked in zip(planned, times_s, marked, strict=True):
            if is_marked:
                activity = Activity(action.do) if action.do != "compute" else Activity.COMPUTE
                marks.append(Mark(activity, time_s, clock_s, clock_s + time_s))
            clock_s += time_s
        energies_j = self._energies(marks)
        of_windows = iter(energies_j)
        actions = tuple(
            ObservedAction(time_s, next(of_windows) if is_marked else 0.0 if action.is_marked else None, peak_bytes)
            for action, time_s, is_marked, peak_bytes in zip(planned, times_s, marked, peaks, strict=True)
        )
        return replace(step, energy_j=total(energies_j), actions=actions)

    def _energies(self, marks: list[Mark]) -> list[float | None]:
        """Energy of each mark above idle; None where the recording cannot be used. Training goes on without it."""
        try:
            windows = self.meter.end(marks)
        except MeterError as error:
            self.unmetered.append(str(error))
            return [None] * len(marks)
        energies: list[float | None] = []
        for window, mark in zip(windows, marks, strict=True):
            if fault := window.fault(mark.device_s):
                self.unmetered.append(fault)
                energies.append(None)
            else:
                drawn_j = window.with_device_time(mark.device_s).energy_j
                energies.append(drawn_j - self.idle_power_w * mark.device_s)
        return energies

    def weights(self) -> Weights:
        """Parameters and state as the board holds them now; of a plan that keeps some on the card, as committed.

        Raises
        ------
        NotFiniteError
            If a parameter is infinite or no number.
        UserError
            If the board does not answer, was reset, or was cut off in a step.
        """
        if self._card is not None:
            return self._card.weights()
        if self.steps_done is None:
            raise UserError(LOST)
        tensors = self._tensors(self.steps_done)
        return Weights(self.steps_done, self._plan.whole(tensors), fell_back=False)

    def _tensors(self, steps: int) -> dict[str, NDArray[Any]]:
        """Parameters and state in RAM, after so many steps."""
        tensors = tensors_in(self.device, self._plan, TRAINED_KINDS)
        parameters = [tensors[one.id] for one in self._plan.residents if one.kind == "parameter"]
        if count := count_not_finite(parameters):
            raise self._spoiled(steps, f"{count} values that are no numbers")
        return tensors

    def keep_here(self) -> TrainingData:
        """Read parameters and state, as they are now: from them a board that is reset goes on, if no card has others.

        Of a plan that keeps some on the card nothing is read: the card has them, and a board goes on from there.

        Returns
        -------
        TrainingData
            To train on with, another time.

        Raises
        ------
        UserError
            As for :meth:`weights`.
        """
        if self.steps_done is None or self._data is None:
            raise UserError(LOST)
        if self._card is not None:
            self._data = replace(self._data, step=self.steps_done)
            return self._data
        tensors = self._tensors(self.steps_done)
        read = {
            index: tensors[resident.id].tobytes()
            for index, resident in enumerate(self._plan.residents)
            if resident.id in tensors
        }
        self._data = replace(self._data, weights={**self._data.weights, **read}, step=self.steps_done)
        return self._data

    def _gradients(self) -> dict[str, NDArray[Any]]:
        return tensors_in(self.device, self._plan, ("gradient",))


def make_ready(device: Device, plan: Plan) -> None:
    """Let an agent load this plan; make sure that a board with firmware was flashed with it.

    Raises
    ------
    UserError
        With both hashes, if its model or its schedule is another one. If the plan is for PyTorch and the board runs
        firmware, or the other way round.
    """
    if device.hello.is_agent != bool(plan.documents):
        here, there = ("poet-agent", "firmware") if device.hello.is_agent else ("firmware", "PyTorch, by poet-agent")
        raise UserError(f"{device.link.name}: runs {here}, and the plan is one for {there}; plan with its profile")
    if plan.documents and (device.hello.model, device.hello.schedule) != (plan.graph_hash, plan.schedule_hash):
        for document in plan.documents:
            device.load(document)
    hello = device.hello
    flash = "run poet-harness flash first"
    # Headers from before schedules had a hash can be built all the same.
    again = "plan again, then flash" if hello.schedule == NO_HASH else flash
    features = [] if plan.extraction is None else [("features", hello.features, plan.extraction.schedule_hash, flash)]
    for what, found, wanted, cure in (
        ("model", hello.model, plan.graph_hash, flash),
        ("schedule", hello.schedule, plan.schedule_hash, again),
        *features,
    ):
        if found != wanted:
            raise UserError(f"{device.link.name}: the board's {what} has the hash {found}, the plan's {wanted}; {cure}")
