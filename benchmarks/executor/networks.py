# SPDX-License-Identifier: Apache-2.0
"""The networks of the comparison, at CIFAR-10's sizes, and the blocks that checkpointing recomputes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from poet_planner.models.mobilenet import InvertedResidual, mobilenet_v2
from poet_planner.models.resnet import BasicBlock, resnet18_cifar
from poet_planner.models.transformer import Bert, EncoderLayer, Size
from poet_planner.models.vgg import vgg16
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Batch = tuple[Tensor, Tensor]

BERT = Size(layers=4, hidden=256, heads=4, vocabulary=8192, positions=128, dropout=0.1)


def _mobilenet() -> nn.Module:
    """With stride 1 in stem and second group, as is usual for small images."""
    module = mobilenet_v2(10)
    module.conv.stride = (1, 1)  # type: ignore[union-attr, assignment]
    module.block2_1.branch.depthwise.conv.stride = (1, 1)  # type: ignore[union-attr, assignment]
    return module


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": resnet18_cifar,
    "vgg16": lambda: vgg16(32, 10, hidden=512),
    "mobilenet_v2": _mobilenet,
    "bert4": lambda: Bert(BERT),
}


def network(name: str, batch: int, device: str = "cpu") -> tuple[nn.Module, Batch]:
    """A network in training mode and a batch, on a device; equal names give equal numbers."""
    torch.manual_seed(0)
    module = NETWORKS[name]()
    if name == "bert4":
        x, y = torch.randint(BERT.vocabulary, (batch, BERT.positions)), torch.randint(2, (batch,))
    else:
        x, y = torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    return module.to(device), (x.to(device), y.to(device))


def checkpoint_every_block(module: nn.Module) -> int:
    """Let `torch.utils.checkpoint` recompute each block: residual, of BERT's layers, of VGG's groups. Their number."""
    blocks = [part for part in module.modules() if isinstance(part, BasicBlock | InvertedResidual | EncoderLayer)]
    if not blocks:
        return _checkpoint_groups(module)
    for block in blocks:
        block.forward = _checkpointed(block.forward)  # type: ignore[method-assign]
    return len(blocks)


def _checkpoint_groups(module: nn.Module) -> int:
    """Of a plain sequence: from one pooling to the next."""
    parts = [*module.children()]
    cuts = [0, *(index + 1 for index, part in enumerate(parts) if isinstance(part, nn.MaxPool2d))]
    groups = [nn.Sequential(*parts[begin:end]) for begin, end in pairwise(cuts)]
    rest = nn.Sequential(*parts[cuts[-1] :])

    def forward(x: Tensor) -> Tensor:
        for group in groups:
            x = checkpoint(group, x, use_reentrant=False)
        output: Tensor = rest(x)
        return output

    module.forward = forward  # type: ignore[method-assign]
    return len(groups)


def _checkpointed(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def recomputed(*given: Tensor) -> Tensor:
        output: Tensor = checkpoint(forward, *given, use_reentrant=False)
        return output

    return recomputed
