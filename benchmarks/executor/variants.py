# SPDX-License-Identifier: Apache-2.0
"""Ways to take one training step: eager PyTorch, poet's plans, and what PyTorch has to save memory with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import poet_planner as poet
import torch
from poet_planner.drop_in.report import Report
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action
from poet_runtime.compiled_step import compile_steps
from poet_runtime.direct_file import ALIGNMENT, DirectFile
from poet_runtime.program import Program
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.executor.greedy import greedy_steps
from benchmarks.executor.networks import checkpoint_every_block

# Saved tensors below this stay in RAM: a transfer of one costs more than it frees.
LEAST_PAGE_BYTES = 64 << 10


@dataclass
class Variant:
    """One way: a copy of the module, and what takes a step with it; poet's have a report."""

    name: str
    module: nn.Module
    take: Callable[[], Tensor]
    report: Report | None = None


def eager(module: nn.Module, x: Tensor, y: Tensor, name: str = "eager") -> Variant:
    """What PyTorch does by itself."""

    def take() -> Tensor:
        loss = cross_entropy(module(x), y)
        torch.autograd.backward(loss)
        return loss.detach()

    return Variant(name, module, take)


def checkpointed(module: nn.Module, x: Tensor, y: Tensor) -> Variant:
    """`torch.utils.checkpoint` on every block."""
    module = copy.deepcopy(module)
    blocks = checkpoint_every_block(module)
    return eager(module, x, y, f"checkpoint, {blocks} blocks")


def offloaded(module: nn.Module, x: Tensor, y: Tensor, folder: Path) -> Variant:
    """Every saved tensor to a file and back, by PyTorch's hooks and the same direct transfers as the pager's."""
    module = copy.deepcopy(module)
    kept = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        cross_entropy(copy.deepcopy(module)(x), y)
    file = DirectFile(folder / "offloaded", sum(tensor.nbytes + ALIGNMENT for tensor in saved))
    saved.clear()
    end = 0

    def pack(tensor: Tensor) -> object:
        nonlocal end
        if tensor.nbytes < LEAST_PAGE_BYTES or tensor.untyped_storage()._cdata in kept:
            return tensor
        contiguous = tensor.detach().contiguous()
        data = contiguous.reshape(-1).view(torch.uint8)
        place, end = end, end + -(-len(data) // ALIGNMENT) * ALIGNMENT
        file.write(place, data)
        return place, len(data), tensor.shape, tensor.dtype

    def unpack(packed: object) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        assert isinstance(packed, tuple)
        place, size, shape, dtype = packed
        data = torch.empty(size, dtype=torch.uint8)
        file.read(place, data)
        return data.view(dtype).reshape(shape)

    def take() -> Tensor:
        nonlocal end
        end = 0
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            loss = cross_entropy(module(x), y)
        torch.autograd.backward(loss)
        return loss.detach()

    return Variant("saved tensors to disk", module, take)


def planned(
    module: nn.Module, x: Tensor, y: Tensor, ram: int | str | None, pages: Path | None, seconds: float
) -> Variant:
    """A plan of poet's within so much memory."""
    module = copy.deepcopy(module)
    step = poet.compile(
        module,
        cross_entropy,
        example=(x, y),
        ram=ram,
        pages=pages,
        options=poet.OptimiseOptions(time_limit_s=seconds),
        quiet=True,
    )
    name = "keep all" if ram is None else f"plan {ram}{'' if isinstance(ram, str) else ' B'}"
    return Variant(name + (", pages" if pages else ""), module, lambda: step(x, y), step.report)


def greedy(module: nn.Module, x: Tensor, y: Tensor, share: int) -> Variant:
    """A greedy choice of what to recompute, run as poet's plans are.

    Raises
    ------
    UserError
        If it does not keep within so many per cent of the step that keeps everything.
    """
    module = copy.deepcopy(module)
    kept = poet.compile(module, cross_entropy, example=(x, y), quiet=True).planned
    budget = kept.report.plain_peak_bytes * share // 100
    steps = greedy_steps(kept.graph, budget)
    if steps is None:
        raise UserError("the greedy choice ends before it keeps within them")
    compiled = compile_steps(kept.traced, Program.of_plan(kept.traced, kept.graph).steps(steps), limit_bytes=budget)
    times = {node.id: node.time_s for node in kept.graph.nodes}
    computes = [step.target for step in steps if step.do is Action.COMPUTE]
    report = replace(
        kept.report,
        planned_peak_bytes=compiled.peak_bytes,
        planned_time_s=sum(times[id] for id in computes),
        recomputations=len(computes) - len(times),
    )
    step = replace(kept, compiled=compiled, report=report)
    return Variant(f"greedy {share}%", module, lambda: step((x, y)), report)
