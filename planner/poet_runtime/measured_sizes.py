# SPDX-License-Identifier: Apache-2.0
"""What a traced step really occupies where PyTorch runs it: storages and kernels' temporaries, from one rehearsal.

Tracing sees shapes; a kernel may hand out a larger storage than its result needs, and allocates scratch memory while
it works. Both are read off PyTorch's allocator during a run of the step, so the host has to have room for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile, record_function

from poet_runtime.devices import device_named
from poet_runtime.executor import Execution, execute, residents_of, storage_bytes, store_all_steps
from poet_runtime.peak import ALLOCATION
from poet_runtime.traced_graph import TracedGraph, TracedOperator

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
    numbers in each integer tensor, and the strides of the gradients. The step runs once; residents and random
    generator stay as they are.
    """
    rehearsal = _GpuRehearsal(graph, residents) if graph.device != "cpu" else _Rehearsal(graph, residents)
    with device_named(graph.device).kept_randomness():
        peaks = rehearsal.peaks()
        seen = rehearsal.result().gradients
    gradients = {id: replace(ref, stride=seen[id].stride()) for id, ref in graph.gradients.items()}
    values = {id: replace(value, bytes=rehearsal.bytes.get(id, value.bytes)) for id, value in graph.values.items()}

    def with_workspace(operator: TracedOperator) -> TracedOperator:
        written = {write.value for write in operator.writes}
        results = sum(values[id].bytes for id in operator.values if id not in written)
        return replace(operator, workspace_bytes=max(0, peaks.get(operator.id, 0) - results))

    operators = tuple(with_workspace(operator) for operator in graph.operators)
    return replace(graph, operators=operators, values=values, gradients=gradients, ranges=rehearsal.ranges)


class _Rehearsal(Execution):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.bytes: dict[str, int] = {}
        self.ranges = {id: _range(tensor) for id, tensor in self._residents.items() if _has_range(tensor)}

    def peaks(self) -> dict[str, int]:
        """Take the step; by operator, the most bytes allocated since it started."""
        # Read when the profiler first starts: it would announce itself on standard error.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        with profile(use_device=None, profile_memory=True, use_kineto=True) as record:
            self._take()
        return _peaks(record.kineto_results.events())

    def _take(self) -> None:
        for step in store_all_steps(self._graph):
            self.step(step)

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with record_function(_MARK + operator.id):
            return super()._call(operator, args, kwargs)

    def _hold(self, id: str, tensor: Tensor) -> None:
        super()._hold(id, tensor)
        self.bytes[id] = storage_bytes(self._values[id])
        if _has_range(tensor):
            self.ranges[id] = _range(tensor)


class _GpuRehearsal(_Rehearsal):
    """The caching allocator counts for itself, in whole blocks; values take whole blocks, too.

    A step goes before the one that is measured: the libraries of a GPU take scratch memory when they are first called,
    and keep it (cuBLAS 32 MiB on an H200).
    """

    def peaks(self) -> dict[str, int]:
        self._peaks: dict[str, int] = {}
        execute(self._graph, self._residents)
        self._take()
        self.bytes = {id: -(-size // GPU_BLOCK_BYTES) * GPU_BLOCK_BYTES for id, size in self.bytes.items()}
        return self._peaks

    def _call(self, operator: TracedOperator, args: list[Any], kwargs: dict[str, Any]) -> Any:
        with self._device.allocations() as peak:
            results = Execution._call(self, operator, args, kwargs)
        self._peaks[operator.id] = peak.bytes
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
