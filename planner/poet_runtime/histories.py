# SPDX-License-Identifier: Apache-2.0
"""The firmware's `shift` as an operator of PyTorch: what a stream remembers.

Importing this module registers ``torch.ops.poet.shift``.
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("poet::shift", mutates_args=())
def shift(x: Tensor, held: Tensor, axis: int) -> Tensor:
    """``held`` without its first columns along an axis, and behind them new ones."""
    return torch.cat([held, x], axis).narrow(axis, x.shape[axis], held.shape[axis]).clone()
