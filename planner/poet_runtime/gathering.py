# SPDX-License-Identifier: Apache-2.0
"""The firmware's `gather` and its gradient as operators of PyTorch.

They take numbers by labels. A table of one axis is read by labels of any shape. A label that equals ``ignored`` takes
nothing: 0. Importing this module registers ``torch.ops.poet.gather`` and ``gather_backward``.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _places(index: Tensor, ignored: int | None) -> tuple[Tensor, Tensor]:
    """Labels that may be looked up, and which of them are left out."""
    left_out = index == ignored if ignored is not None else torch.zeros_like(index, dtype=torch.bool)
    return index.masked_fill(left_out, 0), left_out


@torch.library.custom_op("poet::gather", mutates_args=())
def gather(x: Tensor, index: Tensor, axis: int, ignored: int | None) -> Tensor:
    """As ``x.gather(axis, index)``."""
    places, left_out = _places(index, ignored)
    found = x[places] if x.dim() == 1 else x.gather(axis, places)
    return found.masked_fill(left_out, 0)


@torch.library.custom_op("poet::gather_backward", mutates_args=())
def gather_backward(gy: Tensor, index: Tensor, axis: int, extent: int, ignored: int | None) -> Tensor:
    """The gradient of a tensor with so many numbers along the axis."""
    places, left_out = _places(index, ignored)
    shape = [*index.shape[:axis], extent, *index.shape[axis + 1 :]]
    return gy.new_zeros(shape).scatter_add(axis, places, gy.masked_fill(left_out, 0))
