# SPDX-License-Identifier: Apache-2.0
"""Arithmetic as people write it, by the firmware's sums and products, against autograd."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.support import needs
from tests.support.firmware.against_autograd import equals_autograd
from tests.support.firmware.host_operators import Operators

pytestmark = needs.gcc

WRITTEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "difference": lambda a, b: a - b,
    "minus sign": lambda a, b: -a * b,
    "gate": lambda a, b: torch.sigmoid(a) * b + (1 - torch.sigmoid(a)) * a,
    "numbers": lambda a, b: (a + 0.5) * (b - 3) + (2 - a),
    "factors": lambda a, b: a / 3 - b / 7,
    "alpha": lambda a, b: torch.sub(a, b, alpha=0.3) + torch.add(b, a, alpha=2),
    "alpha of a number": lambda a, b: torch.add(a, 2, alpha=0.25) * torch.rsub(b, 1, alpha=3),
    "powers": lambda a, b: a**2 + b**3 + a**1,
    "less its mean": lambda a, b: (a - a.mean(1, keepdim=True)) * (b - b.mean()),
    "rotary": lambda a, b: torch.cat([-a[:, 4:], b[:, :4]], 1) * a,
    "less a row": lambda a, b: a - b[:1],
}


class Two(nn.Module):
    def __init__(self, written: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.a, self.b, self.written = nn.Linear(6, 8), nn.Linear(6, 8), written

    def forward(self, x: Tensor) -> Tensor:
        return self.written(self.a(x), self.b(x))


@pytest.mark.parametrize("name", WRITTEN)
def test_a_network_computes_what_is_written(name: str, operators: Operators) -> None:
    torch.manual_seed(0)
    equals_autograd(Two(WRITTEN[name]), torch.randn(4, 6), operators)


@pytest.mark.parametrize("row", [0, 3, 6])
def test_a_padding_row_has_no_gradient(row: int, operators: Operators) -> None:
    tokens = torch.randint(7, (4, 5), dtype=torch.int64)
    equals_autograd(nn.Sequential(nn.Embedding(7, 8, padding_idx=row), nn.Linear(8, 3)), tokens, operators)
