# SPDX-License-Identifier: Apache-2.0
"""Ways to take one training step: eager PyTorch, poet's plans, and what PyTorch has to save memory with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import poet_planner as poet
import torch
from poet_planner.drop_in.step import Step
from poet_runtime.direct_file import ALIGNMENT, DirectFile
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.executor.networks import checkpoint_every_block

# Saved tensors below this stay in RAM: a transfer of one costs more than it frees.
LEAST_PAGE_BYTES = 64 << 10
FILE_BYTES = 1 << 30


@dataclass
class Variant:
    """One way: a copy of the module, and what takes a step with it; poet's have a compiled step."""

    name: str
    module: nn.Module
    take: Callable[[], Tensor]
    compiled: Step | None = None


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
    file = DirectFile(folder / "offloaded", FILE_BYTES)
    kept = {parameter.untyped_storage()._cdata for parameter in module.parameters()}
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
    return Variant(name + (", pages" if pages else ""), module, lambda: step(x, y), step)
