# SPDX-License-Identifier: Apache-2.0
"""Seconds, bytes and bits of ways to take a step, side by side in one process."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import torch
from poet_runtime.devices import Cpu
from torch import Tensor, nn

from benchmarks.executor.variants import Variant, descent

WARM_UP = 2
STEPS = 3
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _TOP_PAD = -3, -1, -2


@dataclass(frozen=True)
class Row:
    """One way: medians over rounds.

    ``time_s`` is the process's CPU time; on a GPU, time until the GPU is done.
    ``eager_time_s`` is eager PyTorch's in the same process. ``different`` says what is not eager's after three steps of
    descent.
    """

    name: str
    time_s: float
    eager_time_s: float
    wall_s: float
    peak_bytes: int
    different: str
    planned_bytes: int | None = None
    planned_s: float | None = None
    recomputations: int = 0
    paged_bytes: int = 0

    @property
    def extra(self) -> float:
        """Its time beyond eager PyTorch's, as a share of that."""
        return self.time_s / self.eager_time_s - 1


def repeatable_bits() -> None:
    """Let a GPU add in the same order each time."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)


def without_page_faults() -> None:
    """Let glibc keep what is freed: else its trimming decides who is quicker."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_MMAP_THRESHOLD, 1 << 30)
    libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(_TOP_PAD, 64 << 20)


def compared(variants: Sequence[Variant], rounds: int, device: Cpu) -> list[Row]:
    """Bits first, then peaks, then times in alternation; the first variant is what the others are compared with.

    But for those that name another, of which only bits count.
    """
    bits = [_after_steps(variant) for variant in variants]
    peaks = [peak_bytes(variant, device) for variant in variants]
    # A GPU's clock waits until all is done.
    clock = time.process_time_ns if device.kind == "cpu" else device.clock()
    spent: list[list[float]] = [[] for _ in variants]
    wall: list[list[float]] = [[] for _ in variants]
    for number in range(WARM_UP + rounds):
        for index, variant in enumerate(variants):
            _forget(variant.module)
            start_ns, wall_start = clock(), time.perf_counter()
            variant.take()
            end_ns, wall_end = clock(), time.perf_counter()
            if number >= WARM_UP:
                spent[index].append((end_ns - start_ns) * 1e-9)
                wall[index].append(wall_end - wall_start)
    for variant in variants:
        _forget(variant.module)
    wanted = {"": bits[0], **{variant.name: left for variant, left in zip(variants, bits, strict=True)}}
    return [
        _row(
            *(variant, median(spent[index]), median(spent[0]), min(wall[index]), peaks[index]),
            _different(wanted[variant.like], bits[index]),
        )
        for index, variant in enumerate(variants)
    ]


def _row(variant: Variant, time_s: float, eager_time_s: float, wall_s: float, peak: int, different: str) -> Row:
    report = variant.report
    if report is None:
        return Row(variant.name, time_s, eager_time_s, wall_s, peak, different)
    return Row(
        *(variant.name, time_s, eager_time_s, wall_s, peak, different),
        *(report.planned_peak_bytes, report.planned_time_s),
        recomputations=report.recomputations,
        paged_bytes=report.planned_out_bytes + report.planned_in_bytes,
    )


def _after_steps(variant: Variant) -> dict[str, Tensor]:
    """Loss, gradients and buffers of three steps of descent with momentum; parameters and velocities after them."""
    optimizer = variant.optimizer or descent(variant.module)
    left: dict[str, Tensor] = {}
    torch.manual_seed(1)
    for number in range(STEPS):
        left[f"loss {number}"] = variant.take().clone()
        if variant.optimizer is None:
            for name, parameter in variant.module.named_parameters():
                gradient = torch.empty(0) if parameter.grad is None else parameter.grad
                left[f"gradients {name} {number}"] = gradient.clone()
            optimizer.step()
            optimizer.zero_grad()
        left |= {f"buffers {name} {number}": buffer.clone() for name, buffer in variant.module.named_buffers()}
        for name, parameter in variant.module.named_parameters():
            left[f"parameters {name} {number}"] = parameter.detach().clone()
    for name, parameter in variant.module.named_parameters():
        left[f"velocities {name}"] = optimizer.state[parameter]["momentum_buffer"].clone()
    return left


def _different(expected: dict[str, Tensor], found: dict[str, Tensor]) -> str:
    """Kinds of things that are not the same to the last bit."""
    names = [name for name, tensor in expected.items() if not torch.equal(tensor, found[name])]
    return ", ".join(dict.fromkeys(name.split()[0] for name in names))


def peak_bytes(variant: Variant, device: Cpu) -> int:
    """What PyTorch's allocator counts beyond parameters, buffers and the batch."""
    _forget(variant.module)
    with device.allocations() as peak:
        variant.take()
    _forget(variant.module)
    return peak.bytes


def _forget(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = None
