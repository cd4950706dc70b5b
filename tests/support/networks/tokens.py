# SPDX-License-Identifier: Apache-2.0
"""Networks whose frozen part reads whole numbers: alone, several, beside floats."""

from __future__ import annotations

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

WORDS, LENGTH, CLASSES, BATCH = 12, 6, 4, 8


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.body = nn.Embedding(WORDS, 16), nn.Linear(16, 64)
        self.deep, self.head = nn.Linear(64, 64), nn.Linear(64, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        hidden = torch.relu(self.body(self.words(ids[:, ::2].contiguous()).mean(1)))
        result: Tensor = self.head(torch.relu(self.deep(hidden)))
        return result


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.parts = nn.Embedding(WORDS, 16), nn.Embedding(LENGTH, 16), nn.Embedding(2, 16)
        self.body = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, CLASSES))

    def forward(self, ids: Tensor, mask: Tensor, places: Tensor, parts: Tensor) -> Tensor:
        encoded = self.body(self.words(ids) + self.places(places) + self.parts(parts))
        result: Tensor = self.head((encoded * mask.unsqueeze(-1)).mean(1))
        return result


class Mixed(nn.Module):
    """Floats beside the words, into the frozen part and into the head; one embedding is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head_words = nn.Embedding(WORDS, 8), nn.Embedding(WORDS + 3, 4)
        self.body, self.deep = nn.Linear(8 * LENGTH + 5, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32 + 4 * LENGTH + 5, CLASSES)

    def forward(self, floats: Tensor, ids: Tensor) -> Tensor:
        hidden = torch.relu(self.body(torch.cat([self.words(ids).flatten(1), floats], 1)))
        own = self.head_words(ids).flatten(1)
        result: Tensor = self.head(torch.cat([torch.relu(self.deep(hidden)), own, floats], 1))
        return result


def bag(batch: int | None = None) -> Model:
    return _trained_head(Bag(), (_words(batch),), batch)


def encoder(batch: int | None = None) -> Model:
    count = batch or BATCH
    mask = (torch.rand(count, LENGTH) > 0.3).float()
    places, parts = torch.arange(LENGTH).repeat(count, 1), torch.randint(2, (count, LENGTH))
    return _trained_head(Encoder(), (_words(batch), mask, places, parts), batch)


def mixed(batch: int | None = None) -> Model:
    return _trained_head(Mixed(), (torch.randn(batch or BATCH, 5), _words(batch)), batch)


def _words(batch: int | None) -> Tensor:
    return torch.randint(WORDS, (batch or BATCH, LENGTH))


def _trained_head(net: nn.Module, inputs: tuple[Tensor, ...], batch: int | None) -> Model:
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.startswith("head"))
    return Model(type(net).__name__, net, inputs, (torch.randint(CLASSES, (batch or BATCH,)),), cross_entropy)
