# SPDX-License-Identifier: Apache-2.0
"""Networks as a user brings them, small ones, each with layers that no built-in model has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn.functional import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    interpolate,
    max_pool2d,
    mse_loss,
    pad,
    relu,
    scaled_dot_product_attention,
)

BATCH, CLASSES = 4, 3
Loss = Callable[..., Tensor]


def _own(name: str, module: nn.Module, shape: tuple[int, ...], batch: int | None, loss: Loss = cross_entropy) -> Model:
    count = batch or BATCH
    inputs = torch.randn(count, *shape)
    labels = torch.randint(CLASSES, (count,)) if loss is cross_entropy else torch.randint(2, (count, CLASSES)).float()
    return Model(name, module, (inputs,), (labels,), loss)


def sigmoid_bce(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.Sigmoid(), nn.Linear(12, CLASSES), nn.Sigmoid())
    return _own("sigmoid_bce", module, (10,), batch, binary_cross_entropy)


def logits_bce(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.LeakyReLU(0.1), nn.Linear(12, CLASSES))
    return _own("logits_bce", module, (10,), batch, binary_cross_entropy_with_logits)


def lone_bce(batch: int | None = None) -> Model:
    """One score, of something rare."""
    module = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 1))
    x, rare = torch.randn(batch or 4, 10), torch.tensor(8.0)

    def loss(scores: Tensor, there: Tensor) -> Tensor:
        return binary_cross_entropy_with_logits(scores.squeeze(1), there, pos_weight=rare)

    return Model("lone_bce", module, (x,), ((x[:, 0] > 0.5).float(),), loss, ("nothing", "it"))


def relu6(batch: int | None = None) -> Model:
    """A block of MobileNet: expansion, depthwise, projection, each with its batch norm."""
    module = nn.Sequential(
        *(nn.Conv2d(2, 8, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True)),
        *(nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8, bias=False), nn.BatchNorm2d(8), nn.ReLU6()),
        *(nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Hardtanh(-1.5, 1.5), nn.AdaptiveAvgPool2d(1)),
        *(nn.Flatten(), nn.Linear(4, CLASSES)),
    )
    return _own("relu6", module, (2, 6, 6), batch)


def leaky_relu(batch: int | None = None) -> Model:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.LeakyReLU(0.01), nn.Conv2d(4, 4, 3), nn.LeakyReLU(0.2, inplace=True), nn.Flatten()
    )
    return _own("leaky_relu", nn.Sequential(module, nn.Linear(16, CLASSES)), (1, 6, 6), batch)


def silu(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.SiLU(), nn.Conv2d(4, 4, 3), nn.SiLU(inplace=True), nn.Flatten())
    return _own("silu", nn.Sequential(module, nn.Linear(16, CLASSES)), (1, 6, 6), batch)


def hard_activations(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(10, 12), nn.Hardswish(), nn.Linear(12, 12), nn.Hardsigmoid(), nn.Linear(12, 3))
    return _own("hard_activations", module, (10,), batch, mse_loss)


def dropout(batch: int | None = None) -> Model:
    """Elements and whole channels, and a share left out that takes a factor above what billionths in 32 bits hold."""
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Dropout2d(0.3)),
        *(nn.Conv2d(4, 4, 3), nn.ReLU()),
        *(nn.Flatten(), nn.Dropout(0.6), nn.Linear(16, 16), nn.Dropout(0.0), nn.Linear(16, CLASSES)),
    )
    return _own("dropout", module, (1, 6, 6), batch)


def sixteen_channels(batch: int | None = None) -> Model:
    """Convolutions by Winograd's algorithm, of two parts of channels each."""
    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64, CLASSES)),
    )
    return _own("sixteen_channels", module, (1, 8, 8), batch)


def convolutions(batch: int | None = None) -> Model:
    """Each kind that has kernels of its own: by Winograd's algorithm, direct, strided, depthwise, and of stride 2."""
    module = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU()),
        nn.Conv2d(8, 8, 3, padding=1),
        *(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU()),
        nn.Conv2d(8, 8, 5, stride=2, padding=2),
        nn.Conv2d(8, 8, 3, stride=2, padding=1, groups=8),
        nn.Conv2d(8, 6, 1),
        *(nn.Flatten(), nn.Linear(24, CLASSES)),
    )
    return _own("convolutions", module, (1, 8, 8), batch)


def many_layers(batch: int | None = None) -> Model:
    """Most of what stands here in one network, so that a board is built once for all of it."""
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU6(), nn.Dropout2d(0.2)),
        *(nn.Conv2d(4, 4, 1), nn.SiLU()),
        *(nn.Conv2d(4, 4, 3, groups=4), nn.LeakyReLU(0.1)),
        *(nn.Flatten(), nn.Linear(16, 8), nn.Hardswish(), nn.Dropout(0.4), nn.Linear(8, CLASSES), nn.Sigmoid()),
    )
    return _own("many_layers", module, (1, 6, 6), batch, binary_cross_entropy)


def encoder_with_dropout(batch: int | None = None) -> Model:
    """An encoder layer as PyTorch makes it unless asked otherwise: with dropout in the attention, too."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    module = nn.Sequential(nn.Unflatten(1, (3, 4)), nn.Linear(4, 8), layer, nn.Flatten(), nn.Linear(24, CLASSES))
    return _own("encoder_with_dropout", module, (12,), batch)


def encoder_in_time(batch: int | None = None) -> Model:
    """The same with the batch after time, as PyTorch has it by default."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2)
    module = nn.Sequential(nn.Linear(4, 8), layer, MeanOverTime(), nn.Linear(8, CLASSES))
    count = batch or BATCH
    labels = torch.randint(CLASSES, (count,))
    return Model("encoder_in_time", module, (torch.randn(5, count, 4),), (labels,), cross_entropy)


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
    return _own("gated", Gated(), (2, 2, 2), batch)


def keyword_spotter(batch: int | None = None) -> Model:
    """Conv1d, strided, depthwise and pointwise, with 1-d pools and BatchNorm1d over 3-d and 2-d tensors."""
    module = nn.Sequential(
        *(nn.Conv1d(4, 8, 5, padding=2, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(2)),
        nn.Conv1d(8, 8, 3, stride=2, padding=1, groups=8, bias=False),
        *(nn.Conv1d(8, 12, 1), nn.ReLU(), nn.AvgPool1d(2), nn.AdaptiveMaxPool1d(2)),
        *(nn.Flatten(), nn.Linear(24, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES)),
    )
    return _own("keyword_spotter", module, (4, 32), batch or 12)


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


def with_statistics(module: nn.Module) -> None:
    """Batch norms as after training: weights and statistics that are neither 0 nor 1."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(layer.running_mean)
            nn.init.uniform_(layer.running_var, 0.5, 2)
            if layer.affine:
                nn.init.uniform_(layer.weight, 0.5, 2)
                nn.init.normal_(layer.bias)


class OnBackbone(nn.Module):
    """A head on a backbone in evaluation mode, with running statistics as after training."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            *(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8, eps=1e-3), nn.ReLU(), nn.AdaptiveAvgPool2d(2)),
            nn.Flatten(),
        )
        self.head = nn.Linear(32, CLASSES)
        with_statistics(self.backbone)
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


def trained_through_folded_norms(batch: int | None = None) -> Model:
    """Trained, frozen and trained again; the frozen part has norms after convolutions and after linear layers."""
    frozen = nn.Sequential(
        *(nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Conv2d(6, 6, 3, groups=3), nn.BatchNorm2d(6, affine=False)),
        *(nn.Flatten(), nn.Linear(24, 10, bias=False), nn.BatchNorm1d(10), nn.Tanh(), nn.Linear(10, 8)),
        nn.BatchNorm1d(8, eps=1e-3),
    )
    with_statistics(frozen)
    frozen.requires_grad_(False).eval()
    module = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), frozen, nn.Linear(8, CLASSES))
    return _own("trained_through_folded_norms", module, (1, 8, 8), batch)


class Positions(nn.Module):
    """Looks up a frozen table at places that it knows itself, and has one more parameter, which nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 4).requires_grad_(False)
        self.register_buffer("places", torch.tensor([7, 2, 8]))
        self.unread = nn.Parameter(torch.randn(3))
        self.head = nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head((x + self.table(self.places).flatten()).relu())
        return out


def positions(batch: int | None = None) -> Model:
    return _own("positions", Positions(), (12,), batch)


def biases_alone(batch: int | None = None) -> Model:
    """Weights frozen, biases trained, through batch norms in training mode."""
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4)),
        *(nn.Flatten(), nn.LayerNorm(4), nn.Linear(4, CLASSES)),
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
        *(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 6, 3, padding=1), nn.GroupNorm(1, 6), nn.ReLU()),
        *(nn.Conv2d(6, 6, 1, bias=False), nn.InstanceNorm2d(6, affine=True), nn.AdaptiveMaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(24, CLASSES)),
    )
    return _own("group_norms", module, (1, 8, 8), batch)


class Encoder(nn.Module):
    """Layers of a transformer's encoder, the mean over the tokens, and a head."""

    def __init__(self, count: int, mask: Tensor | None = None, causal: bool = False, **options: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **options) for _ in range(count)
        )
        self.mask = mask
        self.causal = causal
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, src_mask=self.mask, is_causal=self.causal)
        out: Tensor = self.fc(x.mean(1))
        return out


def encoder_layer(batch: int | None = None) -> Model:
    return _own("encoder_layer", Encoder(1), (6, 8), batch)


def encoder(batch: int | None = None) -> Model:
    """Norms first, GELU, no biases: two layers."""
    return _own("encoder", Encoder(2, norm_first=True, activation="gelu", bias=False), (5, 8), batch)


def causal_encoder(batch: int | None = None) -> Model:
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    return _own("causal_encoder", Encoder(1, mask, causal=True), (6, 8), batch)


def masked_encoder(batch: int | None = None) -> Model:
    return _own("masked_encoder", Encoder(1, torch.triu(torch.ones(6, 6, dtype=torch.bool), 2)), (6, 8), batch)


class CrossAttention(nn.Module):
    """Learned queries look at a sequence: heads of another length than the keys."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.randn(1, 2, 3, 4))
        self.keys = nn.Linear(6, 8, bias=False)
        self.values = nn.Linear(6, 8)
        self.fc = nn.Linear(24, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        keys, values = (layer(x).unflatten(2, (2, 4)).transpose(1, 2) for layer in (self.keys, self.values))
        seen = scaled_dot_product_attention(self.queries.expand(len(x), -1, -1, -1), keys, values, scale=0.7)
        out: Tensor = self.fc(seen.transpose(1, 2).flatten(1))
        return out


def cross_attention(batch: int | None = None) -> Model:
    return _own("cross_attention", CrossAttention(), (5, 6), batch)


class Joined(nn.Module):
    """Branches joined, one of no channels among them, enlarged, cut apart, gated, and summed over several axes."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(2, 4, 3, padding=1)
        self.narrow = nn.Conv2d(2, 2, 1)
        self.mixed = nn.Conv2d(8, 6, 3, stride=2, padding=1)
        self.fc = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        small = interpolate(max_pool2d(self.narrow(x), 2), scale_factor=2)
        values, gates = self.mixed(torch.cat([self.wide(x), small, x[:, 2:], torch.cat([x])], 1)).chunk(2, 1)
        gated = values * torch.sigmoid(gates)
        rows = torch.stack([gated.sum((2, 3)), gated.mean((2, 3))], 2)
        out: Tensor = self.fc(rows.flatten(1))
        return out


def joined(batch: int | None = None) -> Model:
    return _own("joined", Joined(), (2, 6, 6), batch)


def decoder_layer(batch: int | None = None) -> Model:
    """Attention to another sequence, and a token of its own in front."""
    return _own("decoder_layer", Decoder(), (5, 8), batch)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        queries = torch.cat([self.token.expand(len(x), -1, -1), x[:, :2]], 1)
        out: Tensor = self.fc(self.layer(queries, x)[:, 0])
        return out


class Patches(nn.Module):
    """Attention as vision transformers write it: queries, keys and values of one layer, permuted along five axes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, 8, 4, 4)
        self.attended = nn.Linear(8, 24)
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        shared = self.attended(tokens).reshape(len(x), -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(*shared.unbind(0), is_causal=True)
        out: Tensor = self.fc(seen.transpose(1, 2).flatten(2).mean(1))
        return out


def patches(batch: int | None = None) -> Model:
    return _own("patches", Patches(), (1, 8, 12), batch)


class OtherOrder(nn.Module):
    """Images, weights and gradients that PyTorch stores by channels, seen as rows without a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, 2, 1)
        self.fc = nn.Linear(54, CLASSES)
        self.to(memory_format=torch.channels_last)

    def forward(self, x: Tensor) -> Tensor:
        x = self.second(relu(self.norm(self.first(x.to(memory_format=torch.channels_last)))))
        out: Tensor = self.fc(x.permute(0, 2, 3, 1).flatten(1))
        return out


def other_order(batch: int | None = None) -> Model:
    return _own("other_order", OtherOrder(), (2, 8, 8), batch)


def soft_targets(batch: int | None = None) -> Model:
    """Targets of 0 and 1 for each class, as mixup and distillation have between them."""
    return _own("soft_targets", nn.Linear(6, CLASSES), (6,), batch, partial(cross_entropy, reduction="mean"))


def smoothed(batch: int | None = None) -> Model:
    model = _own("smoothed", nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)), (6,), batch)
    return replace(model, loss=partial(cross_entropy, label_smoothing=0.1))


def some_labels(batch: int | None = None) -> Model:
    """Weights of classes, and rows that the loss leaves out."""
    model = _own("some_labels", nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, CLASSES)), (6,), batch)
    model.targets[0][1::4] = -100
    return replace(model, loss=_weighted_sum)


def _weighted_sum(scores: Tensor, labels: Tensor) -> Tensor:
    return cross_entropy(scores, labels, torch.arange(1, CLASSES + 1, dtype=scores.dtype), reduction="sum")


class Residual(nn.Module):
    """Two dilated convolutions and what they add to, as temporal convolutional networks have them."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.first = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.second = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return relu(x + self.second(relu(self.first(pad(x, (self.pad, 0))))))


def temporal(batch: int | None = None) -> Model:
    blocks = (Residual(8, dilation) for dilation in (1, 2, 4, 8))
    head = (nn.Conv1d(8, 6, 5, padding=3, dilation=2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, CLASSES))
    return _own("temporal", nn.Sequential(nn.Conv1d(2, 8, 1), *blocks, *head), (2, 30), batch)


class UNet(nn.Module):
    """Down by a stride, through two axes of a dilation, and up again by transposed convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.further = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2, padding=1)
        self.wide, self.up = nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.norm, self.out = nn.GroupNorm(2, 8), nn.ConvTranspose2d(8, CLASSES, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        first = relu(self.down(x))
        up = self.up(relu(self.wide(relu(self.further(first)))))
        out: Tensor = self.out(self.norm(torch.cat([first, up], 1))).mean((2, 3))
        return out


def u_net(batch: int | None = None) -> Model:
    return _own("u_net", UNet(), (1, 8, 8), batch)


def norms_without_weights(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU()),
        *(nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4, affine=False), nn.InstanceNorm2d(4)),
        *(nn.Flatten(), nn.LayerNorm(64, elementwise_affine=False), nn.Linear(64, 16), nn.LayerNorm(16, bias=False)),
        nn.Linear(16, CLASSES),
    )
    return _own("norms_without_weights", module, (1, 8, 8), batch)


class LastStep(nn.Module):
    """Of what a recurrent layer yields."""

    def forward(self, given: tuple[Tensor, Any]) -> Tensor:
        return given[0][:, -1]


class Cells(nn.Module):
    """Two cells step by step, from states that are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.head = nn.LSTMCell(4, 5), nn.GRUCell(5, 3, bias=False), nn.Linear(3, CLASSES)
        self.first = nn.Parameter(torch.randn(1, 3))

    def forward(self, x: Tensor) -> Tensor:
        states, last = None, self.first.expand(len(x), 3)
        for step in x.unbind(1):
            states = self.lstm(step, states)
            last = self.gru(states[0], last)
        out: Tensor = self.head(last)
        return out


def lstm(batch: int | None = None) -> Model:
    """Two layers in both directions, with dropout between them."""
    layer = nn.LSTM(4, 5, 2, dropout=0.3, bidirectional=True, batch_first=True)
    return _own("lstm", nn.Sequential(layer, LastStep(), nn.Linear(10, CLASSES)), (6, 4), batch)


def gru(batch: int | None = None) -> Model:
    layer = nn.GRU(4, 5, batch_first=True)
    return _own("gru", nn.Sequential(layer, LastStep(), nn.Linear(5, CLASSES)), (6, 4), batch)


def cells(batch: int | None = None) -> Model:
    return _own("cells", Cells(), (3, 4), batch)


OWN_NETWORKS: tuple[Callable[[int | None], Model], ...] = (
    *(sigmoid_bce, logits_bce, relu6, leaky_relu, silu, hard_activations, dropout, many_layers, encoder_with_dropout),
    *(encoder_in_time, gated, keyword_spotter, causal, frozen_backbone, backbone_without_gradients),
    *(trained_through_fixed_statistics, trained_through_frozen_norms, trained_through_folded_norms, biases_alone),
    *(moving_statistics, group_norms, norms_without_weights, encoder_layer, encoder, causal_encoder, masked_encoder),
    *(cross_attention, decoder_layer, joined, patches, other_order),
    *(temporal, u_net, soft_targets, smoothed, some_labels, lstm, gru, cells),
)
