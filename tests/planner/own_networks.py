"""Networks as a user brings them, small ones: one-dimensional, on a frozen backbone, with group norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

BATCH, CLASSES = 4, 3


def _own(name: str, module: nn.Module, shape: tuple[int, ...], batch: int | None) -> Model:
    count = batch or BATCH
    return Model(name, module, (torch.randn(count, *shape),), (torch.randint(CLASSES, (count,)),), cross_entropy)


def keyword_spotter(batch: int | None = None) -> Model:
    """Conv1d, strided, depthwise and pointwise, with 1-d pools and BatchNorm1d over 3-d and 2-d tensors."""
    module = nn.Sequential(
        nn.Conv1d(4, 8, 5, padding=2, bias=False),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(8, 8, 3, stride=2, padding=1, groups=8, bias=False),
        nn.Conv1d(8, 12, 1),
        nn.ReLU(),
        nn.AvgPool1d(2),
        nn.AdaptiveMaxPool1d(2),
        nn.Flatten(),
        nn.Linear(24, 16, bias=False),
        nn.BatchNorm1d(16),
        nn.ReLU(),
        nn.Linear(16, CLASSES),
    )
    return _own("keyword_spotter", module, (4, 32), batch)


class Causal(nn.Module):
    """A convolution that does not look ahead: zeros in front, and the mean over what comes out."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(2, 6, 3)
        self.second = nn.Conv1d(6, 6, 3)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(pad(x, (2, 0))))
        out: Tensor = self.fc(torch.relu(self.second(pad(x, (2, 0)))).mean(-1))
        return out


def causal(batch: int | None = None) -> Model:
    return _own("causal", Causal(), (2, 9), batch)


class OnBackbone(nn.Module):
    """A head on a backbone in evaluation mode, with running statistics as after training."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.BatchNorm2d(8, eps=1e-3),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Linear(32, CLASSES)
        for layer in self._batch_norms():
            nn.init.uniform_(layer.weight, 0.5, 2)
            nn.init.normal_(layer.bias)
            nn.init.normal_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.5, 2)
        self.backbone.eval()

    def _batch_norms(self) -> list[nn.BatchNorm2d]:
        return [layer for layer in self.backbone if isinstance(layer, nn.BatchNorm2d)]

    def train(self, mode: bool = True) -> OnBackbone:
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.features(x))
        return out

    def features(self, x: Tensor) -> Tensor:
        out: Tensor = self.backbone(x)
        return out

    def with_frozen_norms(self) -> OnBackbone:
        for layer in self._batch_norms():
            layer.requires_grad_(False)
        return self


class WithoutGradients(OnBackbone):
    def features(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super().features(x)


def frozen_backbone(batch: int | None = None) -> Model:
    module = OnBackbone()
    module.backbone.requires_grad_(False)
    return _own("frozen_backbone", module, (1, 8, 8), batch)


def backbone_without_gradients(batch: int | None = None) -> Model:
    return _own("backbone_without_gradients", WithoutGradients(), (1, 8, 8), batch)


def trained_through_fixed_statistics(batch: int | None = None) -> Model:
    return _own("trained_through_fixed_statistics", OnBackbone(), (1, 8, 8), batch)


def trained_through_frozen_norms(batch: int | None = None) -> Model:
    return _own("trained_through_frozen_norms", OnBackbone().with_frozen_norms(), (1, 8, 8), batch)


def biases_alone(batch: int | None = None) -> Model:
    """Weights frozen, biases trained, through batch norms in training mode."""
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3),
        nn.GroupNorm(2, 4),
        nn.Flatten(),
        nn.LayerNorm(4),
        nn.Linear(4, CLASSES),
    )
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name.endswith("bias"))
    return _own("biases_alone", module, (1, 8, 8), batch)


def moving_statistics(batch: int | None = None) -> Model:
    """Nothing of the backbone is trained, but its batch norm goes on counting."""
    images = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 4))
    backbone = nn.Sequential(images, nn.Flatten(), nn.LayerNorm(36)).requires_grad_(False)
    return _own("moving_statistics", nn.Sequential(backbone, nn.Linear(36, CLASSES)), (1, 8, 8), batch)


def group_norms(batch: int | None = None) -> Model:
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.GroupNorm(4, 8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, padding=1),
        nn.GroupNorm(1, 6),
        nn.ReLU(),
        nn.Conv2d(6, 6, 1),
        nn.InstanceNorm2d(6, affine=True),
        nn.AdaptiveMaxPool2d(2),
        nn.Flatten(),
        nn.Linear(24, CLASSES),
    )
    return _own("group_norms", module, (1, 8, 8), batch)


OWN_NETWORKS: tuple[Callable[[int | None], Model], ...] = (
    keyword_spotter,
    causal,
    frozen_backbone,
    backbone_without_gradients,
    trained_through_fixed_statistics,
    trained_through_frozen_norms,
    biases_alone,
    moving_statistics,
    group_norms,
)
