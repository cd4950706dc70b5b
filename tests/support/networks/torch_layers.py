# SPDX-License-Identifier: Apache-2.0
"""Each layer, activation and loss of `torch.nn`, small, behind a trained layer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

Way = Callable[[Any, Tensor], Any]
BASES = ("Module", "Container", "RNNBase", "RNNCellBase")
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict")


def public_layers() -> list[str]:
    """Names of the classes, without containers and bases.

    What becomes another class when it is first called is left out, too.
    """
    classes = (name for name, one in vars(nn).items() if inspect.isclass(one) and issubclass(one, nn.Module))
    return sorted(name for name in classes if name not in BASES + CONTAINERS and not name.startswith("Lazy"))


class Behind(nn.Module):
    """A layer behind a trained one, and how it is called."""

    def __init__(self, before: nn.Module, layer: nn.Module, way: Way) -> None:
        super().__init__()
        self.before, self.layer, self.way = before, layer, way

    def forward(self, x: Tensor) -> Any:
        return self.way(self.layer, self.before(x))


def _before(name: str) -> tuple[nn.Module, Tensor]:
    """Rows, or signals, planes and volumes of four channels."""
    axes = {"1d": 1, "2d": 2, "3d": 3}.get(name[-2:], 2 if name in _OF_PLANES else 0)
    if axes:
        return nn.Linear(6, 6), torch.randn(2, 4, *[6] * axes)
    return nn.Linear(6, 8), torch.randn((3, 5, 6) if name in _OF_SEQUENCES else (3, 6))


_OF_PLANES = (
    *("PixelShuffle", "PixelUnshuffle", "ChannelShuffle", "Softmax2d", "Unfold", "Upsample", "GroupNorm"),
    *("LocalResponseNorm", "SyncBatchNorm"),
)
_OF_SEQUENCES = ("GRU", "LSTM", "RNN", "MultiheadAttention", "Transformer", *(f"Transformer{kind}{layer}"
    for kind in ("Encoder", "Decoder") for layer in ("", "Layer")))  # fmt: skip


def _encoder() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def _decoder() -> nn.TransformerDecoderLayer:
    return nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)


# What layers are given that are not made from nothing, by the name or how it begins.
_GIVEN: dict[str, tuple[Any, ...]] = {
    "Linear": (8, 3),
    "Bilinear": (8, 8, 3),
    "Conv": (4, 3, 3),
    "AdaptiveAvg": (4,),
    "AdaptiveMax": (4,),
    "LPPool": (2, 2),
    "FractionalMaxPool": (2, 3),
    **dict.fromkeys(("AvgPool", "MaxPool", "MaxUnpool", "PixelShuffle", "PixelUnshuffle", "ChannelShuffle"), (2,)),
    **dict.fromkeys(("Unfold", "Upsample", "LocalResponseNorm", "CrossMapLRN2d"), (2,)),
    "UpsamplingBilinear2d": (9,),
    "UpsamplingNearest2d": (9,),
    "ConstantPad": (1, 0.5),
    **dict.fromkeys(("ReflectionPad", "ReplicationPad", "CircularPad", "ZeroPad", "Softmax", "Softmin"), (1,)),
    "LogSoftmax": (1,),
    "Softmax2d": (),
    **dict.fromkeys(("BatchNorm", "InstanceNorm", "SyncBatchNorm"), (4,)),
    "GroupNorm": (2, 4),
    **dict.fromkeys(("LayerNorm", "RMSNorm", "PReLU"), (8,)),
    "Threshold": (0.1, 0.2),
    "Embedding": (7, 8),
    "Fold": ((4, 4), 2),
    "Unflatten": (1, (2, 4)),
    **dict.fromkeys(("GRUCell", "LSTMCell", "RNNCell"), (8, 8)),
    "AdaptiveLogSoftmaxWithLoss": (8, 5, [2]),
    "LinearCrossEntropyLoss": (8, 3),
}
_MADE: dict[str, Callable[[], nn.Module]] = {
    **{one.__name__: partial(one, 8, 8, batch_first=True) for one in (nn.GRU, nn.LSTM, nn.RNN)},
    "MultiheadAttention": lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    "Transformer": lambda: nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True),
    "TransformerEncoderLayer": _encoder,
    "TransformerDecoderLayer": _decoder,
    "TransformerEncoder": lambda: nn.TransformerEncoder(_encoder(), 1, enable_nested_tensor=False),
    "TransformerDecoder": lambda: nn.TransformerDecoder(_decoder(), 1),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(4, affine=True, track_running_stats=True),
    "DataParallel": lambda: nn.DataParallel(nn.Linear(8, 8)),
}


def _unpooled(pool: Callable[..., Any], layer: Any, x: Tensor) -> Any:
    return layer(*pool(x, 2, return_indices=True))


_WAYS: dict[str, Way] = {
    **dict.fromkeys(("GRU", "LSTM", "RNN", "LSTMCell"), lambda layer, x: layer(x)[0]),
    "MultiheadAttention": lambda layer, x: layer(x, x, x)[0],
    **dict.fromkeys(("Transformer", "TransformerDecoder", "TransformerDecoderLayer"), lambda layer, x: layer(x, x * 2)),
    **dict.fromkeys(("Bilinear", "PairwiseDistance", "CosineSimilarity"), lambda layer, x: layer(x, x * x + 1)),
    "MaxUnpool1d": partial(_unpooled, F.max_pool1d),
    "MaxUnpool2d": partial(_unpooled, F.max_pool2d),
    "MaxUnpool3d": partial(_unpooled, F.max_pool3d),
    "AdaptiveLogSoftmaxWithLoss": lambda layer, x: layer(x, torch.tensor([0, 3, 4])).output,
    "LinearCrossEntropyLoss": lambda layer, x: layer(x, torch.tensor([0, 1, 2])),
    "CTCLoss": lambda layer, x: layer(x.log_softmax(-1)[:, None], torch.tensor([[1, 2]]), (3,), (2,)),
}


def _plus_minus() -> Tensor:
    return torch.where(torch.arange(24).view(3, 8) % 2 == 0, 1.0, -1.0)


def _of_two(layer: Any, y: Tensor, target: Tensor) -> Any:
    return layer(y, y * y + 0.5, target)


# Losses: the target, and how a loss is called if not by scores and target.
_LOSSES: dict[str, tuple[Callable[[], Tensor], Callable[..., Tensor] | None]] = {
    **dict.fromkeys(("L1Loss", "MSELoss", "HuberLoss", "SmoothL1Loss"), (lambda: torch.randn(3, 8), None)),
    **dict.fromkeys(("BCEWithLogitsLoss", "PoissonNLLLoss"), (lambda: torch.rand(3, 8), None)),
    "MultiLabelSoftMarginLoss": (lambda: torch.rand(3, 8).round(), None),
    **dict.fromkeys(("SoftMarginLoss", "HingeEmbeddingLoss"), (_plus_minus, None)),
    **dict.fromkeys(("CrossEntropyLoss", "MultiMarginLoss"), (lambda: torch.tensor([0, 5, 2]), None)),
    "MultiLabelMarginLoss": (lambda: torch.tensor([[1, 0, -1, 0, 0, 0, 0, 0], [7, -1, *[0] * 6], [-1] * 8]), None),
    "BCELoss": (lambda: torch.rand(3, 8), lambda layer, y, target: layer(y.sigmoid(), target)),
    "KLDivLoss": (lambda: torch.rand(3, 8), lambda layer, y, target: layer(y.log_softmax(1), target)),
    "NLLLoss": (lambda: torch.tensor([0, 5, 2]), lambda layer, y, target: layer(y.log_softmax(1), target)),
    "NLLLoss2d": (
        lambda: torch.randint(4, (2, 6, 6)),
        lambda layer, y, target: layer(y.log_softmax(1), target),
    ),
    "MarginRankingLoss": (_plus_minus, _of_two),
    "CosineEmbeddingLoss": (lambda: torch.tensor([1.0, -1, 1]), _of_two),
    "GaussianNLLLoss": (lambda: torch.randn(3, 8), lambda layer, y, target: layer(y, target, y * y + 0.1)),
    **dict.fromkeys(("TripletMarginLoss", "TripletMarginWithDistanceLoss"), (lambda: torch.randn(3, 8), _of_two)),
}


def model(name: str) -> Model:
    """A training step that has this layer or loss."""
    torch.manual_seed(0)
    layer = _layer(name)
    before, x = _before(name)
    if name in _LOSSES:
        target, way = _LOSSES[name]
        loss = layer if way is None else lambda y, t: way(layer, y, t)
        return Model(name, before, (x,), (target(),), loss)
    if name.startswith("Embedding"):
        before, x = nn.Identity(), torch.randint(7, (3, 4))
    if name == "Fold":
        before, x = nn.Conv1d(8, 16, 1), torch.randn(2, 8, 9)
    module = Behind(before, layer, _WAYS.get(name, lambda layer, x: layer(x)))
    return Model(name, module, (x,), (torch.randn(_shape(module, x)),), F.mse_loss)


def _shape(module: nn.Module, x: Tensor) -> torch.Size:
    """Of the result; of nothing where PyTorch itself fails."""
    try:
        shape: torch.Size = module(x).shape
    except RuntimeError:
        return torch.Size()
    return shape


def _layer(name: str) -> nn.Module:
    if name in _MADE:
        return _MADE[name]()
    begins = [key for key in _GIVEN if name.startswith(key)]
    layer: nn.Module = getattr(nn, name)(*(_GIVEN[max(begins, key=len)] if begins else ()))
    return layer
