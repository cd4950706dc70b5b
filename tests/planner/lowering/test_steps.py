# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators as steps, against autograd in double precision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

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
    "powers": lambda a, b: a**2 + b**3 + a**1 + (b * b + 1) ** -1.5 + (a * a + 1) ** 0.7 + 2**a,
    "less its mean": lambda a, b: (a - a.mean(1, keepdim=True)) * (b - b.mean()),
    "rotary": lambda a, b: torch.cat([-a[:, 4:], b[:, :4]], 1) * a,
    "less a row": lambda a, b: a - b[:1],
    "quotient": lambda a, b: a / (1 + b.abs()) + 1 / (2 + torch.tanh(b)),
    "functions": lambda a, b: torch.exp(-a * a) * torch.log(b * b + 1) + torch.log1p(a * a) + torch.expm1(0.1 * b),
    "turns": lambda a, b: torch.sin(3 * a) * torch.cos(b) + torch.erf(a) - torch.erfc(2 * b),
    "roots": lambda a, b: torch.sqrt(a * a + 0.1) * torch.rsqrt(b * b + 0.1) + torch.reciprocal(2 + a * a),
    "chosen": lambda a, b: torch.where(a > b, a * b, 2.0) + a.masked_fill((a < 0) & ~(b >= 0.5), -1.0),
    "most and least": lambda a, b: torch.maximum(a, b) + torch.minimum(a, 2 * b) + a.clamp(-0.4, 0.3) + b.clamp(min=0),
    "squares over rows": lambda a, b: a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6) * b[0],
    "signs": lambda a, b: a.sign() * b + b.abs() * a + torch.floor(a) * b + torch.round(a) * b,
    "flags counted": lambda a, b: a * (b > 0).float() + b * (a != b) + a * ((a > 0) | (b > 0)) * 0.5,
    "constant flags": lambda a, b: a * (torch.arange(8) % 3 == 0) + torch.where(torch.eye(8)[:4] > 0, b, a),
    "straight through": lambda a, b: a * (b + (torch.round(b) - b).detach()),
    "elu": lambda a, b: functional.elu(a, 0.7) + functional.selu(b),
    "softplus": lambda a, b: functional.softplus(a) + functional.softplus(b, 2.0, 1.0),
    "mish": lambda a, b: functional.mish(a) * b,
    "gelu": lambda a, b: functional.gelu(a, approximate="tanh") + functional.gelu(b) * a,
    "hard": lambda a, b: functional.hardswish(a) + functional.hardsigmoid(b) * functional.hardtanh(a, -0.3, 0.2),
    "leaky": lambda a, b: functional.leaky_relu(a, 0.3) * functional.relu(b) + functional.threshold(a, 0.2, -1.0),
    "many": lambda a, b: sum((torch.sin(a * k) * (b + k) for k in range(9)), start=a),
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
