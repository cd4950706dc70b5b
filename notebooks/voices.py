# SPDX-License-Identifier: Apache-2.0
"""Voices of nine men, a network that tells them apart, and three of them as strangers to it: for notebook 06.

The data are in `data/japanese_vowels.npz`; `data/README.md` says whose they are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

DATA = Path(__file__).parent / "data" / "japanese_vowels.npz"
UNIT = 1 / 8192
COEFFICIENTS, FRAMES = 12, 32
KNOWN, STRANGERS = (1, 2, 3, 4, 5, 6), (7, 8, 9)
NAMES = tuple(f"speaker {number}" for number in STRANGERS)
# Of a speaker's 30 utterances for training; the others are to validate with.
ENROLLED = 18
TRAINED = 270

Utterances = tuple[NDArray[np.int16], NDArray[np.int32]]


def utterances(speakers: tuple[int, ...]) -> tuple[Utterances, Utterances, Utterances]:
    """To train on, to validate with, and those of another occasion; labels are places in ``speakers``."""
    table = dict(np.load(DATA))
    ends = np.cumsum(table["frames"], dtype=np.int64)
    x = np.zeros((len(ends), COEFFICIENTS, FRAMES), np.int16)
    for row, end, count in zip(x, ends, table["frames"], strict=True):
        row[:, :count] = table["x"][end - count : end].T
    first, rest, later = [], [], []
    for speaker in speakers:
        numbers = np.flatnonzero(table["speaker"] == speaker)
        first += [*numbers[:ENROLLED]]
        rest += [*numbers[ENROLLED : np.searchsorted(numbers, TRAINED)]]
        later += [*numbers[np.searchsorted(numbers, TRAINED) :]]
    labels = np.array([speakers.index(one) if one in speakers else -1 for one in table["speaker"]], np.int32)
    return tuple((x[numbers], labels[numbers]) for numbers in (first, rest, later))  # type: ignore[return-value]


def numbers(x: NDArray[np.int16]) -> Tensor:
    """What the network reads."""
    return torch.from_numpy(x.astype(np.float32) * np.float32(UNIT))


def untrained(speakers: int) -> nn.Sequential:
    """Three convolutions over the frames, their mean, and a score for each speaker."""

    def block(channels: int, filters: int, width: int, stride: int) -> nn.Sequential:
        conv = nn.Conv1d(channels, filters, width, stride, width // 2, bias=False)
        return nn.Sequential(conv, nn.BatchNorm1d(filters), nn.ReLU())

    backbone = nn.Sequential(
        block(COEFFICIENTS, 32, 5, 1), block(32, 32, 5, 2), block(32, 64, 3, 2), nn.AdaptiveAvgPool1d(1), nn.Flatten()
    )
    return nn.Sequential(backbone, nn.Linear(64, speakers))


def pretrained(seed: int = 0, epochs: int = 25) -> nn.Sequential:
    """What knows the six others."""
    torch.manual_seed(seed)
    module = untrained(len(KNOWN))
    parts = utterances(KNOWN)[:2]
    x = numbers(np.concatenate([x for x, _ in parts]))
    y = torch.from_numpy(np.concatenate([y for _, y in parts])).long()
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3, weight_decay=1e-3)
    for _ in range(epochs):
        for chosen in torch.randperm(len(x)).split(20):
            optimizer.zero_grad()
            cross_entropy(module(x[chosen]), y[chosen]).backward()
            optimizer.step()
    return module.eval()


def network(batch: int | None) -> Model:
    """Its backbone frozen, and a new head for three strangers: for `poet-plan --model`."""
    module = untrained(len(STRANGERS)).eval()
    module[0].requires_grad_(requires_grad=False)
    x = torch.randn(batch or 6, COEFFICIENTS, FRAMES)
    return Model("voices", module, (x,), (torch.randint(len(STRANGERS), (len(x),)),), cross_entropy, NAMES)
