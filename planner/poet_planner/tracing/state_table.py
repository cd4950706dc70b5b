# SPDX-License-Identifier: Apache-2.0
"""How a model's `state_dict` follows from what a board trains (docs/SPEC.md, section 8).

A board has each tensor once, and leaves out what no operator reads: weights that several modules share have several
names, unused parameters and counters such as `num_batches_tracked` are not there at all. The table says for every name
which array it is, and by how much a counter rises a step. Of a buffer that changes in another way without the batch, an
array says what it holds after every step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from poet_runtime.executor import bookkept
from poet_runtime.traced_graph import Kind, Ref, TracedGraph, TracedOperator
from torch import Tensor, nn

TABLE = "..state_dict"
PARAMETERS = "..parameters"
AFTER_STEPS = "..after_steps"
UNKEPT = "unkept"


def state_table(traced: TracedGraph, module: nn.Module, steps: int) -> dict[str, NDArray[Any]]:
    """The table, of shape (names, 3), the names of the parameters, and arrays with a leading axis of ``steps`` + 1.

    A row is a name of `module.state_dict()`, the name of its array, and a note: `+1` for a counter that rises by one a
    step; `unkept` where a training step changes a buffer in a way that only PyTorch follows: from the batch, by
    operators that no gradient needs. The parameters are in the order by which `torch.optim` numbers them.
    """
    names = {id(tensor): name for name, tensor in named_tensors(module)}
    notes = _rises(traced) | dict.fromkeys(_unkept(traced), UNKEPT)
    rows = [
        (name, source := names[id(tensor)], notes.get(source, ""))
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, Tensor)
    ]
    arrays: dict[str, NDArray[Any]] = {TABLE: np.array(rows, dtype=np.str_).reshape(len(rows), 3)}
    arrays[PARAMETERS] = np.array([name for name, _ in module.named_parameters()], dtype=np.str_)
    changed = {name for operator in traced.bookkeeping for name in operator.updates if name in names.values()}
    counters = _counters(traced, module, steps, changed - notes.keys())
    return arrays | {f"{name}{AFTER_STEPS}": values for name, values in counters.items()}


def unheld_state(traced: TracedGraph, module: nn.Module) -> dict[str, NDArray[Any]]:
    """The table written beside a plan.

    Entries of the `state_dict` that are neither on the board nor frozen keep their initial values.
    """
    arrays = state_table(traced, module, 0)
    read = {ref.source for operator in traced.operators for ref in operator.refs} | traced.frozen.keys()
    sources = {str(source) for _, source, _ in arrays[TABLE]}
    unheld = {name: tensor for name, tensor in named_tensors(module) if name in sources - read}
    return arrays | {name: _as_array(tensor.detach().cpu()) for name, tensor in unheld.items()}


def _as_array(tensor: Tensor) -> NDArray[Any]:
    """NumPy has no bfloat16; an f32 holds each of its numbers."""
    array: NDArray[Any] = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy().copy()
    return array


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


def _rises(traced: TracedGraph) -> dict[str, str]:
    """The whole number that each counter rises by in a step."""
    made = {id: operator for operator in traced.bookkeeping for id in operator.values}
    changes = [(name, operator) for operator in traced.bookkeeping for name in operator.updates]
    rises = {name: _rise(name, operator, made) for name, operator in changes}
    return {name: f"+{rise}" for name, rise in rises.items() if rise is not None}


def _rise(name: str, update: TracedOperator, made: Mapping[str, TracedOperator]) -> int | None:
    if update.target is not torch.ops.aten.copy_.default or not isinstance(update.args[1], Ref):
        return None
    copied = update.args[1]
    added = made.get(copied.source)
    if added is None or copied.views or added.kwargs or added.target is not torch.ops.aten.add.Tensor:
        return None
    counter, rise = added.args
    is_itself = isinstance(counter, Ref) and counter.source == name and not counter.views
    is_whole = is_itself and not counter.dtype.is_floating_point and counter.shape == copied.shape
    return rise if is_whole and type(rise) is int and rise > 0 else None


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
