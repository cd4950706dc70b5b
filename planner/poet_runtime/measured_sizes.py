# SPDX-License-Identifier: Apache-2.0
"""What a traced step really occupies where PyTorch runs it: storages and kernels' temporaries, operator by operator.

Tracing sees shapes; a kernel may hand out a larger storage than its result needs, and allocates scratch memory while
it works. Both are read off PyTorch's allocator. Results are dropped at once, and later operators read other numbers of
the same layout: the host needs room for one operator, and not for a step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile, record_function

from poet_runtime.devices import device_named, laid_out
from poet_runtime.executor import Execution, execute, residents_of, storage_bytes, store_all_steps, viewed
from poet_runtime.peak import ALLOCATION
from poet_runtime.traced_graph import Blank, Ref, TracedGraph, TracedOperator

_MARK = "poet:"
# What the caching allocator rounds up to.
GPU_BLOCK_BYTES = 512


def measured(graph: TracedGraph, module: nn.Module, inputs: Sequence[Any], targets: Sequence[Any]) -> TracedGraph:
    """The same graph with the bytes of real storages, and with every operator's workspace at the present thread count.

    See :func:`rehearsed`; the module stays as it is.
    """
    return rehearsed(graph, residents_of(graph, module, inputs, targets))


def rehearsed(graph: TracedGraph, residents: Mapping[str, Tensor]) -> TracedGraph:
    """The same of a step on any numbers.

    Workspace is what the kernel allocates at most, its results left out. Known afterwards are also the range of the
    numbers in each integer resident, and the strides of the gradients. Residents and random generator stay as they are.
    """
    rehearsal = _rehearsal(graph, residents, sized=True)
    peaks, strides = rehearsal.peaks, rehearsal.strides
    gradients = {id: replace(ref, stride=strides[id]) for id, ref in graph.gradients.items()}
    values = {id: replace(value, bytes=rehearsal.bytes.get(id, value.bytes)) for id, value in graph.values.items()}

    def with_workspace(operator: TracedOperator) -> TracedOperator:
        written = {write.value for write in operator.writes}
        results = sum(values[id].bytes for id in operator.values if id not in written)
        return replace(operator, workspace_bytes=max(0, peaks.get(operator.id, 0) - results))

    operators = tuple(with_workspace(operator) for operator in graph.operators)
    ranges = {id: _range(tensor) for id, tensor in {**residents, **graph.constants}.items() if _has_range(tensor)}
    return replace(graph, operators=operators, values=values, gradients=gradients, ranges=ranges)


def times_apart_s(graph: TracedGraph, residents: Mapping[str, Tensor]) -> dict[str, float]:
    """Seconds of each operator, by itself: in a step it may take a quarter more."""
    return {id: time_ns * 1e-9 for id, time_ns in _rehearsal(graph, residents, sized=False).times_ns.items()}


def _rehearsal(graph: TracedGraph, residents: Mapping[str, Tensor], sized: bool) -> _Rehearsal:
    with device_named(graph.device).kept_randomness():
        if graph.device != "cpu":
            return _GpuRehearsal(graph, residents).taken(sized)
        try:
            return Apart(graph, residents).taken(sized)
        except Exception:  # Some operators take only what others have made: a decomposition, an index.
            return _Rehearsal(graph, residents).taken(sized)


class _Rehearsal(Execution):
    """A whole step."""

    def __init__(self, graph: TracedGraph, residents: Mapping[str, Tensor]) -> None:
        super().__init__(graph, residents)
        self.bytes: dict[str, int] = {}
        self.peaks: dict[str, int] = {}
        self.times_ns: dict[str, int] = {}
        self.strides: dict[str, tuple[int, ...]] = {}
        self._clock = self._device.clock()
        self._gradients: dict[str, list[tuple[str, Ref]]] = {}
        for name, ref in graph.gradients.items():
            self._gradients.setdefault(ref.source, []).append((name, ref))

    def taken(self, sized: bool) -> _Rehearsal:
        """Take it, and see by operator the most bytes allocated since it started."""
        if not sized:
            self._take()
            return self
        # Read when the profiler first starts: it would announce itself on standard error.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
            self._take()
        self.peaks = _peaks(record.kineto_results.events())
        return self

    def _take(self) -> None:
        for step in store_all_steps(self._graph):
            self.step(step)

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with record_function(_MARK + operator.id):
            started = self._clock()
            results = super()._call(operator, args, kwargs)
            self.times_ns[operator.id] = self._clock() - started
        return results

    def _hold(self, id: str, tensor: Tensor) -> None:
        super()._hold(id, tensor)
        held = self._values[id]
        self.bytes[id] = storage_bytes(held)
        for name, ref in self._gradients.get(id, ()):
            self.strides[name] = viewed(held, ref).stride()


class Apart(_Rehearsal):
    """Each operator by itself."""

    def _take(self) -> None:
        layouts: dict[str, Blank] = {}
        others: dict[Blank, Tensor] = {}
        for operator in self._graph.operators:
            given = {id: layouts[id] for id in self._graph.inputs(operator)}
            others = {layout: tensor for layout, tensor in others.items() if layout in given.values()}
            for layout in given.values():
                if layout not in others:
                    others[layout] = self._stand_in(layout)
            self._values = {id: others[layout] for id, layout in given.items()}
            self._run(operator)
            layouts |= {
                id: Blank(tuple(held.shape), held.stride(), held.dtype)
                for id, held in self._values.items()
                if id in operator.values
            }
            self._values, self._updates = {}, {}

    def _stand_in(self, layout: Blank) -> Tensor:
        """Numbers that most operators take; whole ones are indices."""
        return laid_out(layout, self._graph.device, 0.5 if layout.dtype.is_floating_point else 0)


class _GpuRehearsal(_Rehearsal):
    """The caching allocator counts for itself, in whole blocks; values take whole blocks, too.

    A step goes before the one that is measured: the libraries of a GPU take scratch memory when they are first called,
    and keep it (cuBLAS 32 MiB on an H200).
    """

    def taken(self, sized: bool) -> _Rehearsal:
        if sized:
            execute(self._graph, self._residents)
        self._take()
        self.bytes = {id: -(-size // GPU_BLOCK_BYTES) * GPU_BLOCK_BYTES for id, size in self.bytes.items()}
        return self

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with self._device.allocations() as peak:
            results = super()._call(operator, args, kwargs)
        self.peaks[operator.id] = peak.bytes
        return results


def _has_range(tensor: Tensor) -> bool:
    return tensor.numel() > 0 and not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _range(tensor: Tensor) -> tuple[int, int]:
    low, high = tensor.aminmax()
    return int(low), int(high)


def _peaks(events: Iterable[Any]) -> dict[str, int]:
    """By operator, the most bytes allocated since it started."""
    spans = []
    allocations = []
    for event in events:
        if event.name() == ALLOCATION:
            allocations.append((event.start_ns(), event.nbytes()))
        elif event.name().startswith(_MARK):
            spans.append((event.start_ns(), event.end_ns(), event.name().removeprefix(_MARK)))
    spans.sort()
    allocations.sort()
    peaks = {}
    index = 0
    for start, end, id in spans:
        held = peak = 0
        while index < len(allocations) and allocations[index][0] <= end:
            if allocations[index][0] >= start:
                held += allocations[index][1]
                peak = max(peak, held)
            index += 1
        peaks[id] = peak
    return peaks
