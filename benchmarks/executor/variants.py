# SPDX-License-Identifier: Apache-2.0
"""Ways to take one training step: eager PyTorch, poet's plans, and what PyTorch has to save memory with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import poet_planner as poet
import torch
from poet_planner.torch_step.report import Report
from poet_profiles.errors import UserError
from poet_profiles.schedule import Action
from poet_runtime.compiled_step import compile_steps
from poet_runtime.direct_file import ALIGNMENT, DirectFile
from poet_runtime.program import Program
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.executor.greedy import greedy_steps
from benchmarks.executor.networks import Batch, checkpoint_every_block

BUDGETED = "activation_memory_budget"
POET = "poet"
# PyTorch asks no solver where a minimum cut keeps the budget.
LEAST_BUDGET = 0.1
# Saved tensors below this stay in RAM: a transfer of one costs more than it frees.
LEAST_PAGE_BYTES = 64 << 10


@dataclass
class Variant:
    """One way: a copy of the module, and what takes a step with it; poet's have a report.

    ``optimizer`` is the one whose step ``take`` takes as well; None where it leaves gradients. ``like`` is the name of
    the way whose bits it is to have; empty: the first's.
    """

    name: str
    module: nn.Module
    take: Callable[[], Tensor]
    report: Report | None = None
    optimizer: torch.optim.Optimizer | None = None
    like: str = ""


def eager(module: nn.Module, batch: Batch, name: str = "eager") -> Variant:
    """What PyTorch does by itself."""

    def take() -> Tensor:
        loss = cross_entropy(module(batch[0]), batch[1])
        torch.autograd.backward(loss)
        return loss.detach()

    return Variant(name, module, take)


def by_hand(module: nn.Module, batch: Batch, count: int) -> Variant:
    """Gradients accumulated over so many slices of the batch, as people do it."""
    module = copy.deepcopy(module)

    def take() -> Tensor:
        losses = []
        for x, y in zip(*(tensor.chunk(count) for tensor in batch), strict=True):
            loss = cross_entropy(module(x), y) / count
            torch.autograd.backward(loss)
            losses.append(loss.detach())
        return sum(losses[1:], losses[0])

    return Variant(f"by hand, {count} slices", module, take)


def checkpointed(module: nn.Module, batch: Batch) -> Variant:
    """`torch.utils.checkpoint` on every block."""
    module = copy.deepcopy(module)
    blocks = checkpoint_every_block(module)
    return eager(module, batch, f"checkpoint, {blocks} blocks")


def offloaded(module: nn.Module, batch: Batch, folder: Path) -> Variant:
    """Every saved tensor to a file and back, by PyTorch's hooks and the same direct transfers as the pager's."""
    module = copy.deepcopy(module)
    kept = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        cross_entropy(copy.deepcopy(module)(batch[0]), batch[1])
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
            loss = cross_entropy(module(batch[0]), batch[1])
        torch.autograd.backward(loss)
        return loss.detach()

    return Variant("saved tensors to disk", module, take)


def saved_on_host(module: nn.Module, batch: Batch) -> Variant:
    """Every saved tensor to pinned memory of the GPU's host and back, by PyTorch's own hooks."""
    variant = eager(copy.deepcopy(module), batch)

    def take() -> Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return variant.take()

    return replace(variant, name="save_on_cpu, pinned", take=take)


def budgeted(module: nn.Module, batch: Batch, budget: float, solver: str, seconds: float) -> Variant:
    """`torch.compile` with an `activation_memory_budget`, which it may be given once in a process.

    ``solver`` is one of PyTorch's, or `POET`.
    """
    from torch._functorch import config

    from benchmarks.executor.knapsack import WithinPeak

    module = copy.deepcopy(module)
    config.activation_memory_budget = LEAST_BUDGET if solver == POET else budget
    config.activation_memory_budget_solver = WithinPeak(budget, seconds) if solver == POET else solver
    # Without decompositions, saved statistics of batch norms are found changed in the backward pass.
    compiled = torch.compile(module, backend="aot_eager_decomp_partition")

    def take() -> Tensor:
        loss = cross_entropy(compiled(batch[0]), batch[1])
        torch.autograd.backward(loss)
        return loss.detach()

    return Variant(f"{BUDGETED} {budget:g}, {solver}", module, take)


def trained(module: nn.Module, batch: Batch) -> Variant:
    """PyTorch with its optimiser's step, each gradient there until then."""
    variant = eager(copy.deepcopy(module), batch)
    optimizer = descent(variant.module)

    def take() -> Tensor:
        loss = variant.take()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return replace(variant, take=take, optimizer=optimizer)


def updating(module: nn.Module, batch: Batch, ram: str | None, seconds: float) -> Variant:
    """A plan with the optimiser's updates inside."""
    module = copy.deepcopy(module)
    optimizer = descent(module)
    options = poet.OptimiseOptions(time_limit_s=seconds)
    step = poet.compile(module, cross_entropy, example=batch, ram=ram, optimizer=optimizer, options=options, quiet=True)
    return Variant("keep all" if ram is None else f"plan {ram}", module, lambda: step(*batch), step.report, optimizer)


def descent(module: nn.Module) -> torch.optim.Optimizer:
    """What all rows train with where bits are compared."""
    return torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)


def planned(
    module: nn.Module,
    batch: Batch,
    ram: int | str | None,
    pages: Path | str | None,
    seconds: float,
    name: str = "",
    slices: int | str = 1,
) -> Variant:
    """A plan of poet's within so much memory."""
    module = copy.deepcopy(module)
    step = poet.compile(
        module,
        cross_entropy,
        example=batch,
        ram=ram,
        pages=pages,
        slices=slices,
        options=poet.OptimiseOptions(time_limit_s=seconds),
        quiet=True,
    )
    name = name or ("keep all" if ram is None else f"plan {ram}{', pages' if pages else ''}")
    count = step.report.slices
    if count > 1:
        return Variant(
            f"{name}, {count} slices", module, lambda: step(*batch), step.report, like=f"by hand, {count} slices"
        )
    return Variant(name, module, lambda: step(*batch), step.report)


def greedy(module: nn.Module, batch: Batch, share: int) -> Variant:
    """A greedy choice of what to recompute, run as poet's plans are.

    Raises
    ------
    UserError
        If it does not keep within so many per cent of the step that keeps everything.
    """
    module = copy.deepcopy(module)
    kept = poet.compile(module, cross_entropy, example=batch, quiet=True).planned
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
    return Variant(f"greedy {share}%", module, lambda: step(batch), report)
