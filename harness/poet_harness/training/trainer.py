# SPDX-License-Identifier: Apache-2.0
"""Training steps on the board: data in, one step under the schedule, loss and gradients out, energy beside it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray
from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.program.stopping import finishing, heed
from poet_profiles.protocol.status import Status

from ..card.in_board import tensors_in
from ..card.reading import Weights
from ..data.batches import TrainingData, part_of_batch
from ..meters.meter import Activity, Mark, Meter
from ..plan_folder.plan import Plan
from ..protocol.device import Device, StepReport
from ..protocol.link import DeviceError, DeviceResetError
from .features import KeptSamples, all_of, kept, make, make_all
from .finite import NotFiniteError, count_not_finite, largest_input
from .held_weights import HeldWeights
from .metering import Metering
from .observed import NOTHING_MADE, Made, ObservedAction, ObservedStep, added, total
from .ready import make_ready

# By words of the board's answer.
CURES = {
    "no label": "; poet-harness profile --format-card labels a card, and ends whatever it holds",
    "no commit": "; leave --resume out, or put in the card that holds it",
    "on the card is damaged": "; prepare the card anew with poet-harness card",
    "another model": "; put in another card, or end what it holds with poet-harness profile --format-card "
    "(of its own flash: flash --keep flash --force)",
}
NOTHING_LASTS = (
    "{}: --commit-every: its memory ends with the power; put a card in and label it (profile --format-card), or flash "
    "with --keep flash; or leave it out"
)
MOST_RESETS = 3
Rate = Callable[[int], float]
Feed = Callable[[int, int], None]


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
    metering : Metering
        The meter, and the power of the sleeping board, measured before the first step.
    observed : list of ObservedStep
        The steps so far, in order, whatever ended the training.
    held : HeldWeights
        Which weights the board has in RAM, and which are kept.
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
        self.metering = Metering(meter)
        self.held = HeldWeights(device, plan)
        self.unseen: list[int] = []
        self.is_finite = True
        self._plan = plan
        self._wants_gradients = gradients
        self._observed: dict[int, ObservedStep] = {}
        self._begin: int | None = None
        self._rate: Rate = lambda _: 0.0
        self._batches: list[dict[int, bytes]] = []  # those of the steps, where they are the data's
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
        self.held.data = data
        self._rate = learning_rate if callable(learning_rate) else lambda _: learning_rate
        self._batches = data.batches if feed is None else []
        self._kept_samples = kept_samples
        feed = feed or self._put_batch
        steps = steps or len(data.batches)
        for _ in range(MOST_RESETS + 1):
            try:
                begin = self._begun(resume, steps)
                traced = min((number for number, step in self._observed.items() if step.actions), default=begin)
                for number in range(begin, steps):
                    heed()
                    features = self._fed(number, feed)
                    with finishing() as stopping:
                        step = self._step(number, trace_all or number == traced, feed)
                        step = replace(step, features=features)
                        self._observed[number] = step
                        done(step)
                        if commit_every and (stopping() or (number + 1) % commit_every == 0):
                            if not self._commit(number + 1):
                                raise UserError(NOTHING_LASTS.format(self.device.link.name))
                        elif stopping() or number + 1 == steps:
                            self._commit_rest()
                return self.observed
            except DeviceResetError:
                self.held.in_ram = None
            except DeviceError as error:
                raise self._refused(error) from None
        last = self.device.hello.start.words
        raise UserError(f"the board was reset {MOST_RESETS + 1} times; the last time: {last}", NO_DEVICE)

    def _begun(self, resume: bool, steps: int) -> int:
        """Begin at the last commit, or with the weights of the data if there is none: with which step."""
        make_ready(self.device, self._plan)
        self._features_kept = False  # others under these numbers may be there, of an earlier run's samples
        kept = self.held.kept
        begin = self.held.restore(resume, steps)
        if kept is not None and begin > kept and begin - 1 not in self._observed:
            self.unseen.append(begin - 1)
        self._begin = begin if self._begin is None else self._begin
        self.metering.measure_idle(self.device)
        if self._plan.keeps_batches and not self._batches:
            self.device.batches(1)  # each step's takes the place of the one before
        self.held.put(begin)
        return begin

    def _put_batch(self, number: int, part: int) -> None:
        """Give the board a micro-batch of the data."""
        batch = self._batches[number % len(self._batches)]
        for index, content in part_of_batch(batch, self._plan, part).items():
            self.device.put(index, content)

    def _commit(self, steps: int) -> bool:
        try:
            return self.held.commit(steps)
        except DeviceError as error:
            if error.number == Status.E_NOT_FINITE:
                raise self._spoiled(steps, "values that are no numbers") from None
            raise

    def _commit_rest(self) -> None:
        """Have the card keep the steps since its last commit, where not each of them is one, or lasts."""
        if self._plan.commits_steps and self.held.in_ram not in (None, self.held.kept):
            self._commit(self.held.in_ram)

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
            if self._batches == [] or not self._plan.keeps_batches:
                feed(number, 0)
            return NOTHING_MADE if extraction is None else make(self.device, extraction, self.metering.around)
        numbers, around = samples.of_step(number).tolist(), self.metering.around
        read = kept(self.device, numbers, around) if self._features_kept else None
        if read is not None:
            return read
        made = make_all(self.device, extraction, samples, around)
        read = kept(self.device, numbers, around)
        self._features_kept = read is not None
        if read is None:
            raise UserError(f"{self.device.link.name}: it loses features; give --features each-step", NO_DEVICE)
        return all_of([made, read])

    def _step(self, number: int, trace: bool, feed: Feed) -> ObservedStep:
        """A step whose first micro-batch the board has been given."""
        parts = []
        for part in range(self._plan.micro_batches):
            if part:
                feed(number, part)
            self.metering.meter.begin()
            report = self._run(number, part, trace)
            loss: float = struct.unpack("<f", report.loss_bits.to_bytes(4, "little"))[0]
            if not math.isfinite(loss):
                raise self._ended(
                    f"the loss of step {number + 1} is no number, and its firmware, older than this harness, has "
                    "trained on: its weights are lost; flash it again"
                )
            seen = ObservedStep(number, loss, report, energy_j=None, actions=(), gradients={})
            if part == self._plan.micro_batches - 1:
                self.held.end_step(number, report.committed, report.lasting is None)
                if self._plan.commits_steps and report.committed == number + 1:
                    self._observed[number] = seen  # it counts, even if the board is reset before it tells the rest
            parts.append(self._traced(seen, part) if trace else replace(seen, energy_j=self.metering.end(report)))
        gradients = tensors_in(self.device, self._plan, ("gradient",)) if self._wants_gradients else {}
        return replace(added(parts), gradients=gradients)

    def _run(self, number: int, part: int, trace: bool) -> StepReport:
        self.held.begin_step(number)
        try:
            named = part if self._plan.micro_batches > 1 else None
            return self.device.step(self._rate(number), trace, self._plan.schedule.time_s, named)
        except DeviceError as error:
            self.held.in_ram = number  # a step that fails has changed no weight
            if error.number == Status.E_NOT_FINITE:
                raise self._not_finite(number, "loss" in error.text) from None
            raise

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
        kept = "" if self.held.kept is None else f"; the card has those of step {self.held.kept}"
        self.held.in_ram = None
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
        energies_j = self.metering.energies(marks)
        of_windows = iter(energies_j)
        actions = tuple(
            ObservedAction(time_s, next(of_windows) if is_marked else 0.0 if action.is_marked else None, peak_bytes)
            for action, time_s, is_marked, peak_bytes in zip(planned, times_s, marked, peaks, strict=True)
        )
        return replace(step, energy_j=total(energies_j), actions=actions)

    def weights(self) -> Weights:
        """Parameters and state as the board holds them now; of a plan that keeps some on the card, as committed.

        Raises
        ------
        NotFiniteError
            If a parameter is infinite or no number.
        UserError
            If the board does not answer, was reset, or was cut off in a step.
        """
        self._commit_rest()
        if self.held.card is not None and self._plan.commits_steps:
            return self.held.card.weights()
        steps, tensors = self._read()
        return Weights(steps, self._plan.whole(tensors), fell_back=False)

    def _read(self) -> tuple[int, dict[str, NDArray[Any]]]:
        steps, tensors = self.held.read()
        parameters = [tensors[one.id] for one in self._plan.residents if one.kind == "parameter"]
        if count := count_not_finite(parameters):
            raise self._spoiled(steps, f"{count} values that are no numbers")
        return steps, tensors

    def keep_here(self) -> TrainingData:
        """Read parameters and state, as they are now: from them a board that is reset goes on, if no card has others.

        Of a plan that keeps some on the card nothing is read: the card has them, and a board goes on from there.
        """
        self._commit_rest()
        if self._plan.commits_steps and self.held.in_ram is not None:
            return self.held.begin_again_from(self.held.in_ram, {})
        return self.held.begin_again_from(*self._read())
