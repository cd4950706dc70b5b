# SPDX-License-Identifier: Apache-2.0
"""Eager PyTorch's own backward pass in less memory.

What autograd saves is held a piece at a time. It begins with the last piece. Where it wants what is not held, the
forward pass is taken again from the same state, up to there, and the piece before is held. Bits are eager's.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from poet_runtime.executor import storage_bytes
from torch import Tensor


class _Enough(BaseException):
    """The forward pass has come to where it was wanted."""


class _Whole(BaseException):
    """The step goes no other way than whole."""


@dataclass(frozen=True)
class Step:
    """What is taken in pieces.

    Attributes
    ----------
    forward : callable
        The loss.
    between : callable
        Called with the loss before the backward pass.
    again : callable
        Puts everything but gradients back to where the forward pass begins.
    written : callable
        What a step may write, as something that is another once it is written.
    held : iterable of Tensor
        Parameters, buffers and the batch, which are held anyway.
    """

    forward: Callable[[], Tensor]
    between: Callable[[Tensor], object]
    again: Callable[[], object]
    written: Callable[[], object]
    held: Iterable[Tensor]


def backward_in_pieces(step: Step, limit_bytes: float) -> int:
    """Leave gradients as ``forward().backward()`` does.

    Returned is how often the forward pass was begun. No more than ``limit_bytes`` is held of what autograd saves,
    unless one tensor alone is larger, the forward pass itself takes gradients, or the backward pass writes what is left
    of the step.
    """
    if limit_bytes < math.inf:
        try:
            return _Pieces(step, limit_bytes).backward()
        except _Whole:
            step.again()
    value = step.forward()
    step.between(value)
    value.backward()  # type: ignore[no-untyped-call]  # a reentrant checkpoint takes no `autograd.grad`
    return 1


class _Pieces:
    def __init__(self, step: Step, limit_bytes: float) -> None:
        self._step, self._limit_bytes = step, limit_bytes
        self._storages = {tensor.untyped_storage()._cdata for tensor in step.held}
        self._piece: dict[int, Tensor] = {}
        self._users: Counter[int] = Counter()  # by storage
        self._bytes = 0
        self._count = 0
        self._wanted: float = math.inf
        self._is_forward = False
        self._passes = 0

    def backward(self) -> int:
        with torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack):
            value = self._taken()
            self._step.between(value)
            value.backward()  # type: ignore[no-untyped-call]
        if self._passes > 1:
            self._refuse_writes()
        return self._passes

    def _refuse_writes(self) -> None:
        """Go no further in pieces where the backward pass has written."""
        if self._step.written() != self._written:
            raise _Whole

    def _taken(self) -> Tensor:
        self._count, self._is_forward = 0, True
        self._passes += 1
        try:
            return self._step.forward()
        finally:
            self._is_forward = False
            self._written = self._step.written()

    def _pack(self, tensor: Tensor) -> Any:
        plain = tensor.layout is torch.strided and tensor.untyped_storage()._cdata not in self._storages
        if not (plain and self._is_forward):
            return tensor
        number = self._count
        self._count += 1
        if number <= self._wanted:
            self._hold(number, tensor.detach())
        if number == self._wanted:
            raise _Enough
        return number

    def _unpack(self, packed: Any) -> Tensor:
        if isinstance(packed, Tensor):
            return packed
        if packed not in self._piece:
            if self._is_forward:
                raise _Whole
            self._refuse_writes()
            for number in [*self._piece]:
                self._let_go(number)
            self._wanted = packed
            self._step.again()
            with suppress(_Enough), torch.enable_grad():
                self._taken()
        return self._let_go(packed)

    def _hold(self, number: int, tensor: Tensor) -> None:
        self._piece[number] = tensor
        storage = tensor.untyped_storage()._cdata
        self._users[storage] += 1
        if self._users[storage] == 1:
            self._bytes += storage_bytes(tensor)
        while self._bytes > self._limit_bytes and len(self._piece) > 1:
            self._let_go(next(iter(self._piece)))

    def _let_go(self, number: int) -> Tensor:
        tensor = self._piece.pop(number)
        storage = tensor.untyped_storage()._cdata
        self._users[storage] -= 1
        if self._users[storage] == 0:
            self._bytes -= storage_bytes(tensor)
        return tensor
