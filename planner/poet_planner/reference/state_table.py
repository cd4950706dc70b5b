# SPDX-License-Identifier: Apache-2.0
"""How a model's `state_dict` follows from what a board trains (docs/SPEC.md, section 8).

A board has each tensor once, and leaves out what no operator reads: weights that several modules share have several
names, unused parameters and counters such as `num_batches_tracked` are not there at all. The table says for every name
which array it is, and a counter's array what it holds after every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from poet_runtime.executor import bookkept
from poet_runtime.traced_graph import Kind, TracedGraph
from torch import Tensor, nn

TABLE = "..state_dict"
AFTER_STEPS = "..after_steps"
UNKEPT = "unkept"


def state_table(traced: TracedGraph, module: nn.Module, steps: int) -> dict[str, NDArray[Any]]:
    """The table, of shape (names, 3), and the counters' arrays, each with a leading axis of ``steps`` + 1.

    A row is a name of `module.state_dict()`, the name of its array, and `unkept` where a training step changes a
    buffer in a way that only PyTorch follows: from the batch, by operators that no gradient needs.
    """
    names = {id(tensor): name for name, tensor in named_tensors(module)}
    unkept = _unkept(traced)
    rows = [
        (name, source := names[id(tensor)], UNKEPT if source in unkept else "")
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, Tensor)
    ]
    arrays = {TABLE: np.array(rows, dtype=np.str_).reshape(len(rows), 3)}
    counted = {name for operator in traced.bookkeeping for name in operator.updates if name in names.values()} - unkept
    arrays |= {f"{name}{AFTER_STEPS}": values for name, values in _counters(traced, module, steps, counted).items()}
    return arrays


def named_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers, each once under the name that a traced graph has for it."""
    yield from module.named_parameters()
    yield from module.named_buffers()


def _unkept(traced: TracedGraph) -> set[str]:
    """Buffers whose update reads more than buffers and constants."""
    tainted = {resident.id for resident in traced.residents if resident.kind not in (Kind.BUFFER, Kind.CONSTANT)}
    buffers: set[str] = set()
    for operator in traced.bookkeeping:
        if tainted.intersection(ref.source for ref in operator.refs):
            tainted.update(operator.values)
            buffers.update(operator.updates)
    return buffers


def _counters(traced: TracedGraph, module: nn.Module, steps: int, counted: set[str]) -> Mapping[str, NDArray[Any]]:
    if not counted:
        return {}
    residents = {resident.id: torch.zeros(resident.shape, dtype=resident.dtype) for resident in traced.residents}
    residents |= {name: tensor.detach() for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    contents = {name: [residents[name].numpy().copy()] for name in counted}
    for _ in range(steps):
        residents |= bookkept(traced, residents)
        for name, values in contents.items():
            values.append(residents[name].numpy().copy())
    return {name: np.stack(values) for name, values in contents.items()}
