# SPDX-License-Identifier: Apache-2.0
"""A program's training step under a schedule, with gradient descent after it, as the firmware's `step` does it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import torch
from poet_profiles.schedule import Action, Schedule
from torch import Tensor

from poet_runtime.compiled_step import CompiledStep, compile_steps
from poet_runtime.executor import StepResult, storage_bytes
from poet_runtime.pager import Pager
from poet_runtime.peak import Peak, allocations
from poet_runtime.program import Program


class ScheduledStep:
    """Trains the residents in place: a step is computed, plain or traced, and then kept.

    Parameters
    ----------
    residents : mapping of str to Tensor
        Parameters, buffers and the batch.
    folder : Path
        Where pages go.

    Attributes
    ----------
    loss : Tensor
        Of the last step.
    results : dict of str to Tensor
        Loss and gradients of the last step, by resident id.
    needed_bytes : int
        What a step allocates at once beside the residents, by the plan.
    peak_bytes : int
        The most bytes in RAM in a step, residents included: the plan's, and after a traced step what that took.
    times_ns, peaks_bytes : list of int
        What each of the schedule's steps took, if the last training step was traced, and the most bytes in RAM during
        it, residents included.
    """

    def __init__(self, program: Program, residents: Mapping[str, Tensor], schedule: Schedule, folder: Path) -> None:
        self._graph = program.graph
        self._residents = residents
        self._pager = Pager(folder)
        self._steps = [*program.steps(schedule.steps)]
        self._compiled = compile_steps(program.graph, self._steps, self._pager)
        self._warm: set[bool] = set()
        self._made: StepResult | None = None
        self._peak: Peak | None = None
        left_out = program.orderings
        self._is_carried_out = [step.target not in left_out for step in schedule.steps]
        self.page_outs, self.page_ins = (
            sum(step.do is action for step in self._steps) for action in (Action.PAGE_OUT, Action.PAGE_IN)
        )
        self.resident_bytes = sum(map(storage_bytes, (*residents.values(), *program.graph.constants.values())))
        self.results: dict[str, Tensor] = {}
        self.loss = torch.zeros(())
        self.needed_bytes = self._compiled.peak_bytes
        self.peak_bytes = self.resident_bytes + self.needed_bytes
        self.times_ns: list[int] = []
        self.peaks_bytes: list[int] = []

    def close(self) -> None:
        """End the pager."""
        self._pager.close()

    def warm_up(self, trace: bool) -> None:
        """Before the first step of a form, compute one that does not count: kernels prepare themselves in it."""
        if trace not in self._warm:
            state = torch.get_rng_state()
            (self._traced if trace else self._compiled).result(self._graph, self._residents)
            torch.set_rng_state(state)
            self._warm.add(trace)

    def run(self) -> None:
        """Compute a step, pages beside the computing."""
        self.times_ns, self.peaks_bytes = [], []
        self._made = self._compiled.result(self._graph, self._residents)

    def run_traced(self) -> None:
        """Compute a step, each of the schedule's for itself and timed."""
        self._state = torch.get_rng_state()
        self._made = self._peak = None
        self._traced.result(self._graph, self._residents)
        readings = self._traced.times_ns
        self.times_ns = self._by_step([end - start for start, end in zip(readings[::2], readings[1::2], strict=True)])

    def observe(self) -> None:
        """Compute the traced step again, on the same random numbers, and see what PyTorch's allocator hands out.

        The record takes time: so this is no part of the timed run.
        """
        torch.set_rng_state(self._state)
        with allocations() as self._peak:
            self._made = self._traced.result(self._graph, self._residents)
        peak, self._peak = self._peak, None
        self.peak_bytes = self.resident_bytes + peak.bytes
        # What is allocated ahead of a step is the step's: copies that an operator then writes.
        most = map(max, zip(peak.before_marks[::2], peak.before_marks[1::2], strict=True))
        self.peaks_bytes = self._by_step([self.resident_bytes + held for held in most])

    @property
    def is_finite(self) -> bool:
        """Whether the loss of the step that was computed is: one that is not must not be kept."""
        assert self._made is not None
        return bool(self._made.loss.isfinite())

    def keep(self, learning_rate: float) -> None:
        """Let the step that was computed count: gradients and loss, buffers, and parameters a step further down."""
        assert self._made is not None
        result, self._made = self._made, None
        values = self._graph.values
        of_gradients = {name: values[ref.source].resident for name, ref in self._graph.gradients.items()}
        self.loss = result.loss
        self.results = {values[self._graph.loss.source].resident or "loss": result.loss}
        with torch.no_grad():
            for name, contents in {**result.buffers, **result.written}.items():
                self._residents[name].copy_(contents)
            for name, gradient in result.gradients.items():
                self.results[of_gradients[name] or f"{name}.grad"] = gradient
                if learning_rate:
                    # Product and difference are rounded one after the other, as the firmware does.
                    self._residents[name].sub_(learning_rate * gradient)

    @cached_property
    def _traced(self) -> CompiledStep:
        return compile_steps(self._graph, self._steps, self._pager, clock=self._clock, traced=True)

    def _clock(self) -> int:
        if self._peak is not None:
            self._peak.mark()
        return time.perf_counter_ns()

    def _by_step(self, numbers: list[int]) -> list[int]:
        """With a 0 for each step of the schedule that is no operator's and no value's."""
        rest = iter(numbers)
        return [next(rest) if carried_out else 0 for carried_out in self._is_carried_out]
