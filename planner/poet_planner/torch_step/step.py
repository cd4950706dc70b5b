# SPDX-License-Identifier: Apache-2.0
"""A training step that is called in the place of a forward and a backward pass."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, cast

import torch
from poet_profiles.errors import UserError
from poet_profiles.graph import Graph
from poet_profiles.program.closing import Closing
from poet_profiles.schedule import Schedule
from poet_runtime.compiled_step import CompiledStep
from poet_runtime.devices import device_named
from poet_runtime.executor import accumulate
from poet_runtime.nested import Parts, Touched, other_nest, parts_of, with_tensors
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from poet_planner.torch_step.guard import Change, Guard
from poet_planner.torch_step.inner_optimizer import InnerOptimizer
from poet_planner.torch_step.module_state import ModuleState
from poet_planner.torch_step.report import Report
from poet_planner.torch_step.slices import WHOLE, Slices, Sums
from poet_planner.torch_step.structure import Structure
from poet_planner.torch_step.values import Values, readable, touched
from poet_planner.tracing.alone import alone, in_turn
from poet_planner.tracing.micro_batches import cut
from poet_planner.tracing.unfit import refuse_unfit_batch

# The first step may allocate what later ones find there.
OBSERVED = 2
# So often in a row, each time after fewer steps than that, a step is traced again before it is refused.
MOST_TRACES = 8
# So many shapes of batches are kept: each may have a thread, an open file and a page file.
MOST_SHAPES = 8


@dataclass
class Planned:
    """One shape of batches and one state of the model: its plan and what runs it."""

    traced: TracedGraph
    structure: Structure
    guard: Guard
    graph: Graph
    schedule: Schedule
    compiled: CompiledStep
    state: ModuleState
    report: Report
    optimizer: InnerOptimizer | Sums | None = None
    slices: Slices = WHOLE
    values: Values = field(default_factory=Values)  # of the batch

    def __post_init__(self) -> None:
        self._device = device_named(self.traced.device)
        residents = {resident.id: resident for resident in self.traced.residents}
        batch = [r for r in residents.values() if r.kind in (Kind.INPUT, Kind.TARGET)]
        batch.sort(key=lambda resident: resident.kind is Kind.TARGET)
        self._layouts = [(r.id, r.shape, r.dtype, _steps(r.shape, r.stride or _contiguous(r.shape))) for r in batch]
        given = {id: index for index, id in enumerate((*self.state.ids, *(r.id for r in batch)))}
        given |= {id: len(given) + index for index, id in enumerate(self.traced.constants)}
        # A tensor that no place leads to has been made by the step itself, and stays what it is.
        constants = self.traced.constants.values()
        self._constants = [self.guard.place_of(tensor) or partial(_itself, tensor) for tensor in constants]
        # None is last, in the place of what no operator reads.
        self._places = [
            (given.get(id, -1), id in given and residents[id].kind is Kind.PARAMETER) for id in self.compiled.residents
        ]
        self._trained = [given[id] for id in self.compiled.gradients]
        self._updated = [given[id] for id in self.compiled.updates]
        self._optimised = {update.parameter: given[update.parameter] for update in self.traced.optimizer_updates}

    def __call__(self, batch: Sequence[Tensor]) -> Tensor:
        """Take one step: the loss, detached; gradients and buffers as `backward()` would leave them."""
        parts = cut(batch, self.slices.count) if self.slices.count > 1 else [batch]
        for tensor, (id, shape, dtype, steps) in zip(parts[0], self._layouts, strict=True):
            if tensor.dtype != dtype or _steps(shape, tensor.stride()) != steps:
                raise UserError(
                    f"{self.traced.name}: {id} is {tensor.dtype} with strides {tensor.stride()}, and was {dtype} with "
                    f"strides {steps} when compiled; convert it, or call poet_planner.compile again"
                )
        state = self.state.tensors()
        tensors: list[Any] = [*state, *parts[0], *(place() for place in self._constants), None]
        report = self.report
        with ExitStack() as within:
            # Eager's gradients are plain tensors, whatever class the batch is of.
            within.enter_context(torch._C.DisableTorchFunctionSubclass())
            if torch.is_autocast_enabled(self._device.kind):
                # The casts of the step are operators of its own.
                within.enter_context(torch.autocast(self._device.kind, enabled=False))
            if self.optimizer is not None:
                optimised = {id: tensors[place] for id, place in self._optimised.items()}
                left = {id: tensors[place] for id, place in zip(self.compiled.gradients, self._trained, strict=True)}
                within.enter_context(self.optimizer.step(optimised, left))
            observing = report.steps + 1 == OBSERVED and not torch._C._autograd._profiler_enabled()
            peak = within.enter_context(self._device.allocations()) if observing else None
            started = time.perf_counter()
            loss: Any = None
            for part in parts:
                tensors[len(state) : len(state) + len(part)] = part
                given = [tensors[at].detach() if needs_grad else tensors[at] for at, needs_grad in self._places]
                value, gradients, contents = self.compiled.run(given)
                loss = value if loss is None else loss + value
                del value
            with torch.no_grad():
                for trained, gradient in zip(self._trained, gradients, strict=True):
                    accumulate(tensors[trained], gradient)
                if self._updated:
                    new = list(contents[: len(self._updated)])
                    torch._foreach_copy_([tensors[place] for place in self._updated], new)
            kept = iter(contents[len(self._updated) :])
            for one in self.traced.kept:
                one.put(with_tensors(one.nest, [next(kept) for _ in one.refs]) if one.refs else one.nest)
            elapsed_s = time.perf_counter() - started
        report.steps += 1
        if peak is not None:
            report.peak_bytes = peak.bytes
        elif report.steps > 1:
            report.time_s = elapsed_s
        if self.compiled.pager is not None:
            report.out_bytes = self.compiled.pager.traffic.out_bytes
            report.in_bytes = self.compiled.pager.traffic.in_bytes
        return cast(Tensor, loss)

    def close(self) -> None:
        """End the thread and the file of its pages."""
        if self.compiled.pager is not None:
            self.compiled.pager.close()


_Form = tuple[Any, tuple[torch.Size, ...]]


class _Plans:
    """The plans for one shape of batches, the latest first, and how often they have had to be made."""

    def __init__(self) -> None:
        self.planned: list[Planned] = []
        self.traces = 0
        self.in_a_row = 0
        self.steps = 0

    def current(self, batch: Mapping[str, Any]) -> list[Change]:
        """What the latest plan finds changed, and then each other; none if one of them, the latest now, fits.

        ``batch`` is what is no tensor in it, by path.
        """
        changes: list[Change] = []
        for number, planned in enumerate(self.planned):
            change = planned.values.changed(batch) or planned.guard.changed()
            if change is None:
                self.planned.insert(0, self.planned.pop(number))
                planned.report.retraced = self.traces
                return []
            changes.append(change)
        return changes

    def add(self, planned: Planned, changes: Sequence[Change]) -> None:
        """Take on a plan; those go that an object now gone would stay alive for."""
        if changes:
            self.traces += 1
            self.in_a_row = self.in_a_row + 1 if self.steps < MOST_TRACES else 1
            self.steps = 0
        planned.report.retraced = self.traces
        old = self.planned
        kept = [other for other, change in zip(old, changes, strict=True) if change.plain][: MOST_TRACES - 1]
        self.planned = [planned, *kept]
        pagers = [other.compiled.pager for other in self.planned]
        for other in old:
            if other.compiled.pager not in pagers:
                other.close()


class PlannedStep(Closing):
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

    def __init__(
        self,
        example: Sequence[Any],
        planned_for: Callable[[Sequence[Any], Sequence[Planned], str], Planned],
        parts: Sequence[object],
        retraces: bool = True,
        quiet: bool = False,
    ) -> None:
        self._planned_for = planned_for
        self._parts = parts
        self._quiet = quiet
        self._lock = threading.RLock()
        self._retraces = retraces
        self._plans: dict[_Form, _Plans] = {}
        self._closed = False
        parts_given = parts_of(tuple(example))
        self._form = _form(parts_given)
        self._plan(tuple(example), parts_given)

    def __call__(self, *batch: Any) -> Tensor:
        """Take one step with a batch in the example's form, and return the loss, detached.

        If something that the step reads in Python is not what it was, the step is traced again first.

        Raises
        ------
        UserError
            If the batch is not what was compiled, the step cannot be traced again, or is not to be, or a page could not
            be moved. Gradients and buffers are then as they were, or the line says that gradients have been added.
        """
        with self._lock:
            loss: Tensor = in_turn(self._parts, self._step, batch)
            return loss

    def _step(self, batch: Sequence[Any]) -> Tensor:
        if self._closed:
            raise UserError("the step has been closed; call poet_planner.compile again")
        parts = parts_of(batch)
        change = other_nest(parts.form, self._form[0])
        if change is not None:
            raise UserError(f"the batch has another nesting than the example: {change}; compile for it")
        traced = self.planned.traced
        refuse_unfit_batch(traced.name, parts.tensors, traced.device)
        return self._plan(batch, parts)(parts.tensors)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied: threads, files and the places of parameters are of this process and model."""
        raise TypeError("a compiled step belongs to its process and model; call poet_planner.compile there")

    @property
    def planned(self) -> Planned:
        return self._plans[self._form].planned[0]

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
        for plans in self._plans.values():
            for planned in plans.planned:
                planned.close()

    def _plan(self, batch: Sequence[Any], parts: Parts) -> Planned:
        form = _form(parts)
        plans = self._plans.get(form) or _Plans()
        changes = plans.current(parts.values)
        if changes or not plans.planned:
            if changes:
                self._refuse(plans, changes[0])
            words = changes[0].words if changes else ""
            try:
                with alone(*self._parts):
                    plans.add(self._planned_for(readable(batch), plans.planned, words), changes)
            except Touched as path:
                raise touched(path, parts) from None
        self._plans[form] = self._plans.pop(form, plans)  # the latest is last
        if len(self._plans) > MOST_SHAPES:
            self._let_go()
        plans.steps += 1
        return plans.planned[0]

    def _let_go(self) -> None:
        """Of the shape that has not come for the longest time; the example's stays."""
        oldest = next(form for form in self._plans if form != self._form)
        for planned in self._plans.pop(oldest).planned:
            planned.close()
        with alone():
            FakeTensorMode.cache_clear()  # It grows with each shape.
        if not self._quiet:
            self._quiet = True
            print(
                f"poet: {self.planned.traced.name}: batches have come in more than {MOST_SHAPES} shapes, and each that "
                "comes anew is traced and planned: pad them to a few lengths",
                file=sys.stderr,
            )

    def _refuse(self, plans: _Plans, change: Change) -> None:
        name = plans.planned[0].traced.name
        if not self._retraces:
            when = " when compiled" if ", and " in change.words else ""
            raise UserError(f"{name}: {change.words}{when}; call poet_planner.compile again")
        if plans.in_a_row >= MOST_TRACES and plans.steps < MOST_TRACES:
            raise UserError(
                f"{name}: {change.words}: the step has been traced again {plans.in_a_row} times in a row; keep what "
                "changes so often in a tensor (scale = torch.tensor(1.0), scale.fill_(0.5)), which is read at each call"
            )


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _form(parts: Parts) -> _Form:
    """What a batch has to have in common with another of the same plan: its nesting, in order, and all shapes."""
    return parts.form, tuple(tensor.shape for tensor in parts.tensors)


def _steps(shape: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Strides of the axes that have one: an axis of one element never takes a step."""
    return tuple(step for extent, step in zip(shape, stride, strict=True) if extent != 1)


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return torch.empty(tuple(shape), device="meta").stride()
