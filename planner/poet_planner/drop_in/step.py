# SPDX-License-Identifier: Apache-2.0
"""A training step that is called in the place of a forward and a backward pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, Self

import torch
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.schedule import Schedule
from poet_runtime.compiled_step import CompiledStep
from poet_runtime.devices import device_named
from poet_runtime.executor import accumulate
from poet_runtime.nested import fixed_in, tensors_in
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor

from poet_planner.drop_in.inner_optimizer import InnerOptimizer
from poet_planner.drop_in.module_state import ModuleState
from poet_planner.drop_in.report import Report
from poet_planner.tracing.unfit import refuse_unfit_batch

# The first step may allocate what later ones find there.
OBSERVED = 2


@dataclass
class Planned:
    """One shape of batches: its plan and what runs it."""

    traced: TracedGraph
    graph: Graph
    schedule: Schedule
    compiled: CompiledStep
    state: ModuleState
    report: Report
    optimizer: InnerOptimizer | None = None

    def __post_init__(self) -> None:
        self._device = device_named(self.traced.device)
        residents = {resident.id: resident for resident in self.traced.residents}
        batch = [r for r in residents.values() if r.kind in (Kind.INPUT, Kind.TARGET)]
        batch.sort(key=lambda resident: resident.kind is Kind.TARGET)
        self._layouts = [(r.id, r.shape, r.dtype, _steps(r.shape, r.stride or _contiguous(r.shape))) for r in batch]
        given = {id: index for index, id in enumerate((*self.state.ids, *(r.id for r in batch)))}
        constants = [*self.traced.constants]
        given |= {id: len(given) + index for index, id in enumerate(constants)}
        self._constants = [self.traced.constants[id] for id in constants]
        self._places = [(given[id], residents[id].kind is Kind.PARAMETER) for id in self.compiled.residents]
        self._trained = [given[id] for id in self.compiled.gradients]
        self._updated = [given[id] for id in self.compiled.updates]
        self._optimised = {update.parameter: given[update.parameter] for update in self.traced.optimizer_updates}

    def __call__(self, batch: Sequence[Tensor]) -> Tensor:
        """Take one step: the loss, detached; gradients and buffers as `backward()` would leave them."""
        for tensor, (id, shape, dtype, steps) in zip(batch, self._layouts, strict=True):
            if tensor.dtype != dtype or _steps(shape, tensor.stride()) != steps:
                raise UserError(
                    f"{self.traced.name}: {id} is {tensor.dtype} with strides {tensor.stride()}, and was {dtype} with "
                    f"strides {steps} when compiled; convert it, or call poet_planner.compile again"
                )
        tensors = [*self.state.tensors(), *batch, *self._constants]
        report = self.report
        with ExitStack() as within:
            # Eager's gradients are plain tensors, whatever class the batch is of.
            within.enter_context(torch._C.DisableTorchFunctionSubclass())
            if torch.is_autocast_enabled(self._device.kind):
                # The casts of the step are operators of its own.
                within.enter_context(torch.autocast(self._device.kind, enabled=False))
            if self.optimizer is not None:
                optimised = {id: tensors[place] for id, place in self._optimised.items()}
                within.enter_context(self.optimizer.step(optimised))
            observing = report.steps + 1 == OBSERVED and not torch._C._autograd._profiler_enabled()
            peak = within.enter_context(self._device.allocations()) if observing else None
            started = time.perf_counter()
            given = [tensors[place].detach() if needs_grad else tensors[place] for place, needs_grad in self._places]
            loss, gradients, contents = self.compiled.run(given)
            with torch.no_grad():
                for place, gradient in zip(self._trained, gradients, strict=True):
                    accumulate(tensors[place], gradient)
                if contents:
                    torch._foreach_copy_([tensors[place] for place in self._updated], list(contents))
            elapsed_s = time.perf_counter() - started
        report.steps += 1
        if peak is not None:
            report.peak_bytes = peak.bytes
        elif report.steps > 1:
            report.time_s = elapsed_s
        if self.compiled.pager is not None:
            report.out_bytes = self.compiled.pager.traffic.out_bytes
            report.in_bytes = self.compiled.pager.traffic.in_bytes
        return loss

    def close(self) -> None:
        """End the thread and the file of its pages."""
        if self.compiled.pager is not None:
            self.compiled.pager.close()


class Step:
    """A planned training step; close it, or use it as a context manager, to end its thread and page file.

    Attributes
    ----------
    report : Report
        What was planned for the batches of the example, and what has been seen.
    plan : Schedule
        Its steps.
    source : str
        Text of the function that takes it.
    planned : Planned
        All that was made for the batches of the example: traced step, costed graph, schedule, compiled function.
    """

    def __init__(self, example: Sequence[Any], planned_for: Callable[[Sequence[Any]], Planned]) -> None:
        self._planned_for = planned_for
        self._fixed = fixed_in(example)
        self._plans: dict[tuple[torch.Size, ...], Planned] = {}
        self._closed = False
        self.planned = self._plan(example, tensors_in(example))

    def __call__(self, *batch: Any) -> Tensor:
        """Take one step with a batch in the example's form, and return the loss, detached.

        Raises
        ------
        UserError
            If the module or the batch is not what was compiled, or a page could not be moved. Gradients and buffers
            are then as they were.
        """
        if self._closed:
            raise UserError("the step has been closed; call poet_planner.compile again")
        tensors = tensors_in(batch)
        if fixed_in(batch) != self._fixed:
            raise UserError("the batch has another nesting, or other fixed values, than the example; compile for it")
        traced = self.planned.traced
        refuse_unfit_batch(traced.name, tensors, traced.device)
        return self._plan(batch, tensors)(tensors)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: threads, files and the places of parameters are of this process and model."""
        raise TypeError("a compiled step belongs to its process and model; call poet_planner.compile there")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def report(self) -> Report:
        return self.planned.report

    @property
    def plan(self) -> Schedule:
        return self.planned.schedule

    @property
    def source(self) -> str:
        return self.planned.compiled.source

    def close(self) -> None:
        """End threads and page files; the step cannot be called any more."""
        self._closed = True
        for planned in self._plans.values():
            planned.close()

    def _plan(self, batch: Sequence[Any], tensors: Sequence[Tensor]) -> Planned:
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in self._plans:
            self._plans[shapes] = self._planned_for(batch)
        return self._plans[shapes]


def _steps(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Strides of the axes that have one: an axis of one element never takes a step."""
    return tuple(step for extent, step in zip(shape, stride, strict=True) if extent != 1)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(tuple(shape), device="meta").stride()
