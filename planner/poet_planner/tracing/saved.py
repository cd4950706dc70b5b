# SPDX-License-Identifier: Apache-2.0
"""A step over real data in the memory of a forward pass.

What autograd saves is let go at once. The backward pass reads zeros in its place, of the same layout, and while it is
traced the same node of the graph. What it computes is worthless: nobody may ask for it, or go another way by it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from poet_runtime.devices import laid_out
from poet_runtime.executor import storage_bytes
from poet_runtime.traced_graph import Blank
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, set_proxy_slot
from torch.utils._python_dispatch import _disable_current_modes

# Smaller tensors are held: indices, masks, statistics, numbers.
LEAST_BYTES = 4 << 10


class WantsSavedError(Exception):
    """The step has to be taken with what autograd saves."""


class _LetGo(NamedTuple):
    layout: Blank
    device: torch.device
    tensor: weakref.ref[Tensor]
    version: int
    proxy: Any


@contextmanager
def let_go(held: Iterable[Tensor], made: Callable[[Tensor], object] = lambda _: None) -> Iterator[None]:
    """Within, of what autograd saves only ``held`` and what is small stays.

    ``made`` is told of what is in its place.

    Raises
    ------
    WantsSavedError
        If what has been saved is written to, which eager PyTorch refuses; or in the place of an error that may come of
        the zeros.
    """
    storages = {tensor.untyped_storage()._cdata for tensor in held}
    zeros = 0

    def pack(tensor: Tensor) -> Any:
        plain = type(tensor) is Tensor and tensor.layout is torch.strided and not (tensor.is_conj() or tensor.is_neg())
        if not plain or storage_bytes(tensor) < LEAST_BYTES or tensor.untyped_storage()._cdata in storages:
            return tensor
        mode = get_proxy_mode()
        proxy = None if mode is None else get_proxy_slot(tensor, mode.tracer, None)
        if mode is not None and proxy is None:
            return tensor
        layout = Blank(tuple(tensor.shape), tensor.stride(), tensor.dtype)
        return _LetGo(layout, tensor.device, weakref.ref(tensor), tensor._version, proxy)

    def unpack(packed: Any) -> Tensor:
        nonlocal zeros
        if isinstance(packed, Tensor):
            return packed
        saved = packed.tensor()
        if saved is not None and saved._version != packed.version:
            raise WantsSavedError
        with _disable_current_modes():
            tensor = laid_out(packed.layout, packed.device)
        mode = get_proxy_mode()
        if mode is not None:
            set_proxy_slot(tensor, mode.tracer, packed.proxy)
        zeros += 1
        made(tensor)
        return tensor

    try:
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield
    except Exception as error:
        if zeros and not isinstance(error, torch.OutOfMemoryError | MemoryError):
            raise WantsSavedError from error
        raise
