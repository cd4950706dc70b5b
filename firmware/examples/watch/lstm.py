# SPDX-License-Identifier: Apache-2.0
"""An LSTM that learns the watch's exercises on the board, of its wearer alone, from nothing.

    poet-plan --model lstm:network --profile nrf52840 --optimizer adam --out build/lstm
    poet-plan data --model lstm:network --steps 1 --out build/lstm.npz
    poet-harness train --emulate --board nrf52840 --plan build/lstm --data build/lstm.npz --samples lstm:samples \
        --epochs 30 --shuffle 1 --lr 0.02 --validate
"""

from __future__ import annotations

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset
from watch import EXERCISES, LEFT, WINDOW, numbers, tested_with, windows_of

USER = 9


class Exercises(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 16, batch_first=True), nn.Linear(16, len(EXERCISES))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.lstm(x)[0].mean(1))
        return scores


def network(batch: int | None) -> Model:
    x, y = torch.randn(batch or 8, WINDOW, 6), torch.randint(len(EXERCISES), (batch or 8,))
    return Model("lstm", Exercises(), (x,), (y,), cross_entropy, EXERCISES)


def samples() -> dict[str, TensorDataset]:
    """The first half of the wearer's recordings to learn from, the second to be recognised."""
    shown = windows_of(lambda each: each.user == USER and each.side == LEFT, 0.0, 0.5)
    parts = {"train": shown, "validation": tested_with(USER)}
    return {name: TensorDataset(numbers(x)[:, :, 0].mT, torch.from_numpy(y).long()) for name, (x, y) in parts.items()}
