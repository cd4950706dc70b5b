# SPDX-License-Identifier: Apache-2.0
"""A program's training step under a schedule, with gradient descent behind it, as the firmware's `step` does it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from poet_profiles.schedule import Action, Schedule
from torch import Tensor

from poet_runtime.compiled_step import compile_steps
from poet_runtime.executor import Execution, StepResult, storage_bytes
from poet_runtime.page_file import PageFile
from poet_runtime.pager import Pager
from poet_runtime.peak import allocations
from poet_runtime.program import Program


@dataclass(frozen=True)
class Trace:
    """What each step of a schedule took, and the most bytes that were in RAM during it, residents included."""

    times_ns: list[int] = field(default_factory=list)
    peaks_bytes: list[int] = field(default_factory=list)


class ScheduledStep:
    """Trains the residents in place, step by step.

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
    peak_bytes : int
        The most bytes in RAM in the last step, residents included.
    """

    def __init__(self, program: Program, residents: Mapping[str, Tensor], schedule: Schedule, folder: Path) -> None:
        self._graph = program.graph
        self._orderings = program.orderings
        self._residents = residents
        self._schedule = schedule
        self._pager = Pager(folder)
        steps = [*program.steps(schedule.steps)]
        self._compiled = compile_steps(program.graph, steps, self._pager)
        self.page_outs, self.page_ins = (
            sum(step.do is action for step in steps) for action in (Action.PAGE_OUT, Action.PAGE_IN)
        )
        self.resident_bytes = sum(map(storage_bytes, (*residents.values(), *program.graph.constants.values())))
        self.results: dict[str, Tensor] = {}
        self.loss = torch.zeros(())
        self.peak_bytes = 0

    def close(self) -> None:
        """End the pager."""
        self._pager.close()

    def run(self, learning_rate: float) -> None:
        """One step, pages beside the computing. The peak is the plan's."""
        result = self._compiled.result(self._graph, self._residents)
        self.peak_bytes = self.resident_bytes + self._compiled.peak_bytes
        self._keep(result, learning_rate)

    def run_traced(self, learning_rate: float) -> Trace:
        """One step, each action for itself; the peak is what PyTorch's allocator saw."""
        trace = Trace()
        execution = _Observed(self._graph, self._residents, _PagesInTurn(self._pager))
        with allocations() as peak:
            for step in self._schedule.steps:
                before_bytes = execution.held_bytes
                start_ns = time.perf_counter_ns()
                if step.target not in self._orderings:
                    execution.step(step)
                trace.times_ns.append(time.perf_counter_ns() - start_ns)
                trace.peaks_bytes.append(self.resident_bytes + max(before_bytes, execution.held_bytes))
            result = execution.result()
        self.peak_bytes = self.resident_bytes + peak.bytes
        self._keep(result, learning_rate)
        return trace

    def _keep(self, result: StepResult, learning_rate: float) -> None:
        """What the step leaves: gradients and loss, buffers, and parameters one step further down."""
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
                    self._residents[name].sub_(gradient, alpha=learning_rate)


class _Observed(Execution):
    @property
    def held_bytes(self) -> int:
        """What values have in RAM, with results that the schedule has freed and the host has not fetched yet."""
        return sum(map(storage_bytes, (*self._values.values(), *self._results.values())))


class _PagesInTurn(PageFile):
    """The pager's file, each transfer waited for."""

    def __init__(self, pager: Pager) -> None:
        self._pager = pager

    def close(self) -> None:
        """The pager closes it."""

    def write(self, id: str, tensor: Tensor) -> None:
        slot = self._pager.slot(id, storage_bytes(tensor))
        self._pager.page_out(slot, tensor)
        self._pager.wait(slot)

    def read(self, id: str, shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> Tensor:
        slot = self._pager.slot(id, 0)
        tensor = self._pager.page_in(slot)
        self._pager.wait(slot)
        return tensor
