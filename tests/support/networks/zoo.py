# SPDX-License-Identifier: Apache-2.0
"""Small models, each with something that makes tracing hard."""

from __future__ import annotations

from collections.abc import Callable

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

CLASSES = 5


def _model(module: nn.Module, *inputs: Tensor) -> Model:
    labels = torch.randint(CLASSES, (inputs[0].shape[0],))
    return Model(type(module).__name__, module, inputs, (labels,), functional.cross_entropy)


class LastState(nn.Module):
    def __init__(self, cells: nn.Module) -> None:
        super().__init__()
        self.cells = cells
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.cells(x)[0][:, -1])


class UnrolledCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(6, 8)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.zeros(x.shape[0], 8)
        state = torch.zeros(x.shape[0], 8)
        for step in range(x.shape[1]):
            hidden, state = self.cell(x[:, step], (hidden, state))
        return self.fc(hidden)


class SharedBatchNorm(nn.Module):
    """One batch norm used twice: its second update starts from its first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.fc = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn(self.conv1(x)), inplace=True)
        x = functional.relu(self.bn(self.conv2(x)), inplace=True)
        return self.fc(x.mean((2, 3)))


class InPlace(nn.Module):
    """Writes through views, into fresh memory, and into its own buffers."""

    seen: Tensor
    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 8)
        self.out = nn.Linear(8, CLASSES)
        self.register_buffer("seen", torch.zeros(8))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(x)
        y[:, :4].mul_(2.0)
        y[:, 4:] += 1
        y = functional.leaky_relu_(y)
        z = y.clone()
        z[0] = 0
        z.add_(y)
        swapped = torch.empty(x.shape[0], 8)
        swapped[:, :4] = z[:, 4:]
        swapped[:, 4:] = z[:, :4]
        self.seen.mul_(0.9).add_(swapped.detach().mean(0), alpha=0.1)
        self.count += 1
        swapped.masked_fill_(swapped < -1, -1.0)
        return self.out(swapped.sigmoid_())


class Constants(nn.Module):
    """Tensors that are neither parameters nor buffers, and a layer that nothing uses."""

    def __init__(self) -> None:
        super().__init__()
        self.mask = torch.tril(torch.ones(6, 6))
        self.fc = nn.Linear(6, CLASSES)
        self.unused = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x @ self.mask + torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])) * torch.linspace(0, 1, CLASSES)


class SharedGradient(nn.Module):
    """Two parameters with the same gradient, and one whose gradient is an expanded view."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Parameter(torch.randn(CLASSES))
        self.other = nn.Parameter(torch.randn(CLASSES))
        self.scale = nn.Parameter(torch.randn(2, 2))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :CLASSES] + self.one + self.other + self.scale.expand(3, 2, 2).sum()


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU())
        self.out = nn.Linear(8, CLASSES)
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        first = x + self.out.bias.sum() if self.reentrant else x
        return self.out(checkpoint(self.block, first, use_reentrant=self.reentrant))


def frozen() -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()),
        *(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Hardswish(), nn.AdaptiveMaxPool2d(1)),
        *(nn.Flatten(), nn.Linear(4, CLASSES)),
    )
    module[1].eval()
    module[0].weight.requires_grad_(False)
    return _model(module, torch.randn(3, 2, 6, 6))


def norms() -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True, track_running_stats=True), nn.PReLU()),
        *(nn.GroupNorm(2, 4), nn.ELU(inplace=True), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(16, CLASSES)),
    )
    return _model(module, torch.randn(3, 2, 6, 6))


def random() -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, track_running_stats=False), nn.Dropout2d(0.3), nn.AlphaDropout(0.2)),
        nn.RReLU(),
        *(nn.Flatten(), nn.Dropout(0.5, inplace=True), nn.Linear(64, CLASSES)),
    )
    return _model(module, torch.randn(3, 2, 6, 6))


def encoder_layer() -> Model:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    return _model(nn.Sequential(layer, nn.Flatten(), nn.Linear(40, CLASSES)), torch.randn(3, 5, 8))


def spectral_norm() -> Model:
    normed = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8))
    return _model(nn.Sequential(normed, nn.SiLU(), nn.Linear(8, CLASSES)), torch.randn(3, 6))


ZOO: dict[str, Callable[[], Model]] = {
    "lstm": lambda: _model(LastState(nn.LSTM(6, 8, 2, batch_first=True, dropout=0.2)), torch.randn(3, 5, 6)),
    "gru": lambda: _model(LastState(nn.GRU(6, 8, batch_first=True)), torch.randn(3, 4, 6)),
    "lstm cell": lambda: _model(UnrolledCell(), torch.randn(3, 4, 6)),
    "shared batch norm": lambda: _model(SharedBatchNorm(), torch.randn(3, 2, 6, 6)),
    "in-place": lambda: _model(InPlace(), torch.randn(3, 6)),
    "constants": lambda: _model(Constants(), torch.randn(3, 6)),
    "shared gradient": lambda: _model(SharedGradient(), torch.randn(3, 6)),
    "two inputs": lambda: _model(nn.Bilinear(3, 4, CLASSES), torch.randn(3, 3), torch.randn(3, 4)),
    "embedding bag": lambda: _model(
        nn.Sequential(nn.EmbeddingBag(10, 6, mode="sum"), nn.Linear(6, CLASSES)), torch.randint(10, (3, 4))
    ),
    "checkpointed": lambda: _model(Checkpointed(False), torch.randn(3, 6)),
    "checkpointed, reentrant": lambda: _model(Checkpointed(True), torch.randn(3, 6)),
    "half precision": lambda: _model(
        nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, CLASSES)).bfloat16(),
        torch.randn(3, 2, 6, 6).bfloat16(),
    ),
    "channels last": lambda: _model(
        nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, CLASSES)
        ),
        torch.randn(3, 2, 6, 6).contiguous(memory_format=torch.channels_last),
    ),
    "frozen": frozen,
    "norms": norms,
    "random": random,
    "encoder layer": encoder_layer,
    "spectral norm": spectral_norm,
}


def zoo_model(name: str) -> Model:
    torch.manual_seed(0)
    return ZOO[name]()
