# SPDX-License-Identifier: Apache-2.0
"""Networks whose frozen part PyTorch's own flow has quantised, by torchao."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict
from collections.abc import Callable

import torch
from poet_planner import models
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn import functional

EXTENT = 8


class Branches(nn.Module):
    """Strides, a sum with a ReLU behind it, channels by themselves, a clipped ReLU, a mean, a linear layer.

    And a convolution used twice, which this quantiser leaves in f32 the second time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1, stride=2)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.alone = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.clipped, self.mean, self.fully = nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        x = torch.relu(x + torch.relu(self.second(x)))
        x = self.clipped(self.alone(x))
        x = functional.hardswish(self.second(x))
        x = self.mean(x).flatten(1)
        return torch.relu(self.fully(x))


def chain() -> nn.Module:
    """Convolutions, batch norms, a pool and a flattening, as of the built-in backbones."""
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 1
    for number, width in enumerate((7, 12), 1):
        layers[f"conv{number}"] = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        layers[f"norm{number}"] = nn.BatchNorm2d(width)
        layers[f"relu{number}"] = nn.ReLU()
        channels = width
    layers["pool"] = nn.MaxPool2d(2)
    layers |= {"last": nn.Conv2d(channels, 5, 1), "flat": nn.Flatten()}
    net = nn.Sequential(layers)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.normal_(module.running_mean, std=0.1)
    return net


def quantised(frozen: nn.Module, seed: int = 0) -> nn.Module:
    """It with a head behind it, calibrated on random images."""
    torch.manual_seed(seed)
    frozen = frozen.requires_grad_(False).eval()
    batch = torch.rand(64, 1, EXTENT, EXTENT)
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torchao.quantization.pt2e import allow_exported_model_train_eval
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

        count = torch.export.Dim("n", min=1, max=4096)
        exported = torch.export.export(frozen, (batch,), dynamic_shapes=({0: count},)).module(check_guards=False)
        quantiser = XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True))
        prepared = prepare_pt2e(exported, quantiser)
        prepared(batch)
        made = convert_pt2e(prepared)
        allow_exported_model_train_eval(made)
    logging.disable(logging.NOTSET)
    made.requires_grad_(False)
    features = made(batch).shape[1]
    return nn.Sequential(OrderedDict(backbone=made, head=nn.Linear(features, 10)))


def of_chain(batch: int | None = None) -> Model:
    """A model as `--model` takes it."""
    return _named(chain, batch or 2)


def of_branches(batch: int | None = None) -> Model:
    return _named(Branches, batch or 2)


def of_finetune_cnn_small(batch: int | None = None) -> Model:
    """The built-in network with its frozen part quantised."""
    return _named(lambda: models.load("finetune_cnn_small", 2).module.get_submodule("backbone"), batch or 2)


def _named(make: Callable[[], nn.Module], batch: int) -> Model:
    torch.manual_seed(0)
    module = quantised(make())
    inputs, targets = torch.rand(batch, 1, EXTENT, EXTENT), torch.arange(batch) % 10
    return Model("quantised", module, (inputs,), (targets,), functional.cross_entropy)
