# SPDX-License-Identifier: Apache-2.0
"""Networks as a user brings them, small ones, each with layers that no built-in model has."""

from __future__ import annotations

from collections.abc import Callable

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy, binary_cross_entropy_with_logits, cross_entropy, mse_loss

BATCH, CLASSES = 4, 3
Loss = Callable[..., Tensor]


def _labels(batch: int) -> Tensor:
    return torch.randint(CLASSES, (batch,))


def _bits(batch: int) -> Tensor:
    return torch.randint(2, (batch, CLASSES)).float()


def _own(name: str, module: nn.Module, shape: tuple[int, ...], loss: Loss, batch: int | None) -> Model:
    count = batch or BATCH
    target = _labels(count) if loss is cross_entropy else _bits(count)
    return Model(name, module, (torch.randn(count, *shape),), (target,), loss)


def sigmoid_bce(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.Sigmoid(), nn.Linear(12, CLASSES), nn.Sigmoid())
    return _own("sigmoid_bce", module, (10,), binary_cross_entropy, batch)


def logits_bce(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.LeakyReLU(0.1), nn.Linear(12, CLASSES))
    return _own("logits_bce", module, (10,), binary_cross_entropy_with_logits, batch)


def relu6(batch: int | None = None) -> Model:
    """A block of MobileNet: expansion, depthwise, projection, each with its batch norm."""
    module = nn.Sequential(
        nn.Conv2d(2, 8, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(inplace=True),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 4, 1, bias=False),
        nn.BatchNorm2d(4),
        nn.Hardtanh(-1.5, 1.5),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, CLASSES),
    )
    return _own("relu6", module, (2, 6, 6), cross_entropy, batch)


def leaky_relu(batch: int | None = None) -> Model:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.01), nn.Conv2d(4, 4, 3), nn.LeakyReLU(0.2, inplace=True), nn.Flatten()
    )
    return _own("leaky_relu", nn.Sequential(module, nn.Linear(16, CLASSES)), (1, 6, 6), cross_entropy, batch)


def silu(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Conv2d(4, 4, 3), nn.SiLU(inplace=True), nn.Flatten())
    return _own("silu", nn.Sequential(module, nn.Linear(16, CLASSES)), (1, 6, 6), cross_entropy, batch)


def hard_activations(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.Hardswish(), nn.Linear(12, 12), nn.Hardsigmoid(), nn.Linear(12, 3))
    return _own("hard_activations", module, (10,), mse_loss, batch)


def dropout(batch: int | None = None) -> Model:
    """Elements and whole channels, and a share left out that takes a factor above what billionths in 32 bits hold."""
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.ReLU(),
        nn.Dropout2d(0.3),
        nn.Conv2d(4, 4, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.6),
        nn.Linear(16, 16),
        nn.Dropout(0.0),
        nn.Linear(16, CLASSES),
    )
    return _own("dropout", module, (1, 6, 6), cross_entropy, batch)


def many_layers(batch: int | None = None) -> Model:
    """Most of what stands here in one network, so that a board is built once for all of it."""
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU6(),
        nn.Dropout2d(0.2),
        nn.Conv2d(4, 4, 1),
        nn.SiLU(),
        nn.Conv2d(4, 4, 3, groups=4),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.Hardswish(),
        nn.Dropout(0.4),
        nn.Linear(8, CLASSES),
        nn.Sigmoid(),
    )
    return _own("many_layers", module, (1, 6, 6), binary_cross_entropy, batch)


def encoder(batch: int | None = None) -> Model:
    """An encoder layer as PyTorch makes it unless told otherwise: with dropout in the attention, too."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.Sequential(nn.Unflatten(1, (3, 4)), nn.Linear(4, 8), layer, nn.Flatten(), nn.Linear(24, CLASSES))
    return _own("encoder", module, (12,), cross_entropy, batch)


def encoder_in_time(batch: int | None = None) -> Model:
    """The same with the batch behind time, as PyTorch has it by default."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2)
    module = nn.Sequential(nn.Linear(4, 8), layer, MeanOverTime(), nn.Linear(8, CLASSES))
    return Model(
        "encoder_in_time", module, (torch.randn(5, batch or BATCH, 4),), (_labels(batch or BATCH),), cross_entropy
    )


class MeanOverTime(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(0)


class Gated(nn.Module):
    """Gates, differences and repeated operands, as attention over channels has them."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Conv2d(2, 4, 1)
        self.gates = nn.Linear(2, 4)
        self.offset = nn.Parameter(torch.randn(4, 1, 1))
        self.fc = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        values = self.values(x) - self.offset.detach()
        gates: Tensor = torch.sigmoid(self.gates(x.mean((2, 3)))).detach()
        out: Tensor = self.fc((values * gates[:, :, None, None]).flatten(1))
        return out


def gated(batch: int | None = None) -> Model:
    return _own("gated", Gated(), (2, 2, 2), cross_entropy, batch)


OWN_MODELS: tuple[Callable[[int | None], Model], ...] = (
    sigmoid_bce,
    logits_bce,
    relu6,
    leaky_relu,
    silu,
    hard_activations,
    dropout,
    many_layers,
    encoder,
    encoder_in_time,
    gated,
)
