# SPDX-License-Identifier: Apache-2.0
"""Small models of every family of layers and every common trick, each of which is to train bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

CLASSES = 4
Make = Callable[[], Model]


def _labels(count: int) -> Tensor:
    return torch.arange(count) % CLASSES


def _model(module: nn.Module, *inputs: Tensor, loss: Callable[..., Tensor] = F.cross_entropy) -> Model:
    return Model("zoo", module, inputs, (_labels(inputs[0].shape[0]),), loss)


def _scored(module: nn.Module, x: Tensor, target: Tensor, loss: Callable[..., Tensor]) -> Model:
    return Model("zoo", module, (x,), (target,), loss)


class Fn(nn.Module):
    """Layers by name, and what to do with them."""

    def __init__(self, forward: Callable[..., Tensor], **layers: nn.Module | nn.Parameter | Tensor) -> None:
        super().__init__()
        self.way = forward
        for name, layer in layers.items():
            if isinstance(layer, nn.Module | nn.Parameter):
                setattr(self, name, layer)
            else:
                self.register_buffer(name, layer)

    def forward(self, *inputs: Any) -> Tensor:
        return self.way(self, *inputs)


class Mean(nn.Module):
    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = tuple(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(self.dims)


class OneResult(nn.Module):
    """One of several results."""

    def __init__(self, layer: nn.Module, index: int = 0) -> None:
        super().__init__()
        self.layer, self.index = layer, index

    def forward(self, *x: Tensor) -> Tensor:
        return self.layer(*x)[self.index]


def _image(*layers: nn.Module, channels: int = 2, side: int = 6) -> Make:
    """Layers over images, after a convolution and in front of a classifier."""

    def make() -> Model:
        x = torch.randn(3, channels, side, side)
        body = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), *deepcopy(layers), nn.Flatten())
        width = body.eval()(x).shape[1]
        return _model(nn.Sequential(body, nn.Linear(width, CLASSES)).train(), x)

    return make


def _signal(*layers: nn.Module) -> Make:
    def make() -> Model:
        x = torch.randn(3, 2, 12)
        body = nn.Sequential(nn.Conv1d(2, 4, 3), *deepcopy(layers), nn.Flatten())
        width = body.eval()(x).shape[1]
        return _model(nn.Sequential(body, nn.Linear(width, CLASSES)).train(), x)

    return make


def _volume(*layers: nn.Module) -> Make:
    def make() -> Model:
        x = torch.randn(3, 1, 4, 4, 4)
        body = nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), *deepcopy(layers), nn.Flatten())
        width = body.eval()(x).shape[1]
        return _model(nn.Sequential(body, nn.Linear(width, CLASSES)).train(), x)

    return make


def _vector(*layers: nn.Module) -> Make:
    return lambda: _model(nn.Sequential(nn.Linear(6, 8), *deepcopy(layers), nn.Linear(8, CLASSES)), torch.randn(3, 6))


def _linear(way: Callable[..., Tensor], **layers: Callable[[], Any]) -> Make:
    """Something done with vectors, in front of a classifier."""
    return lambda: _model(
        nn.Sequential(nn.Linear(6, 8), Fn(way, **{n: make() for n, make in layers.items()}), nn.Linear(8, CLASSES)),
        torch.randn(3, 6),
    )


def _tokens(*layers: nn.Module) -> Make:
    return lambda: _model(nn.Sequential(*deepcopy(layers)), torch.randint(9, (3, 4)))


def _sequence(layer: Callable[[], nn.Module], width: int) -> Make:
    return lambda: _model(
        nn.Sequential(layer(), Fn(lambda m, x: x[:, -1]), nn.Linear(width, CLASSES)), torch.randn(3, 4, 6)
    )


def _activation(layer: nn.Module) -> Make:
    return _vector(layer)


def _criterion(loss: Callable[..., Tensor], target: Callable[[], Tensor], outputs: int = CLASSES) -> Make:
    return lambda: _scored(
        nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs)), torch.randn(3, 6), target(), loss
    )


def _unrolled(cell: nn.Module) -> Make:
    def way(m: Any, x: Tensor) -> Tensor:
        state: Any = None
        for step in range(x.shape[1]):
            state = m.cell(x[:, step], state)
        return m.out(state[0] if isinstance(state, tuple) else state)

    return lambda: _model(Fn(way, cell=deepcopy(cell), out=nn.Linear(8, CLASSES)), torch.randn(3, 4, 6))


class Square(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        context.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        (x,) = context.saved_tensors
        return gradient * 2 * x


class Rounded(torch.autograd.Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(context: Any, x: Tensor) -> Tensor:
        return x.round()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


class Doubled(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w * 2


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.out = nn.Linear(8, 9, bias=False)
        self.out.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.table(tokens).mean(1))


class TwoNames(nn.Module):
    """A module under two names, whose weight another module shares: as peft prompts a tied language model."""

    def __init__(self) -> None:
        super().__init__()
        self.base = Tied()
        self.words = self.base.table

    def forward(self, tokens: Tensor) -> Tensor:
        return self.base(tokens) + self.words(tokens).sum()


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(6, 6), nn.GELU()) for _ in range(3))
        self.heads = nn.ModuleDict({"a": nn.Linear(6, CLASSES), "b": nn.Linear(6, CLASSES)})

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = x + block(x)
        return self.heads["a"](x) + self.heads["b"](x.detach())


class Shadow(nn.Module):
    """Keeps an average of its weight in a buffer, and reads it."""

    shadow: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, CLASSES)
        self.register_buffer("shadow", self.fc.weight.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.shadow.lerp_(self.fc.weight, 0.1)
        return self.fc(x) + F.linear(x, self.shadow)


class Replaced(Shadow):
    """The same, with a new tensor in the buffer's place."""

    def forward(self, x: Tensor) -> Tensor:
        self.shadow = 0.9 * self.shadow + 0.1 * self.fc.weight.detach()
        return self.fc(x) + F.linear(x, self.shadow)


class Counted(nn.Module):
    """Warms up by a counter in a buffer, which the next step goes on from."""

    count: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, CLASSES)
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return self.fc(x) * torch.clamp(self.count / 3, max=1.0)


class Clamped(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight.clamp_(-0.2, 0.2)
        return super().forward(x)


class Centred(nn.Linear):
    """Changes its batch where it lies."""

    def forward(self, x: Tensor) -> Tensor:
        x -= x.mean(1, keepdim=True)
        return super().forward(x)


class Keeps(nn.Linear):
    """Leaves its last activation for others to look at."""

    def forward(self, x: Tensor) -> Tensor:
        self.last = super().forward(x)
        return self.last


class Attention(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out, self.causal = nn.Linear(6, 24), nn.Linear(8, CLASSES), causal

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(3, 4, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(3, 4, 8).mean(1))


class CenterLoss(nn.Module):
    """A loss with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.centers = nn.Parameter(torch.randn(CLASSES, CLASSES))

    def forward(self, y: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(y, labels) + 0.1 * (y - self.centers[labels]).pow(2).mean()


def _einsum(m: Any, x: Tensor) -> Tensor:
    return torch.einsum("bi,bj,ijk->bk", x, x, m.core)


def _views(m: Any, x: Tensor) -> Tensor:
    y = x.view(3, 2, 4).transpose(1, 2).flatten(1)
    a, b = y.chunk(2, 1)
    return torch.cat([b, a.flip(1)], 1).unfold(1, 4, 4).reshape(3, 8) + y.roll(1, 1)


def _in_place(m: Any, x: Tensor) -> Tensor:
    y = x.clone()
    y[:, ::2] *= 2
    y[1].zero_()
    y.index_add_(0, torch.tensor([0, 2]), x[:2])
    y.masked_fill_(y > 1, 1.0)
    return F.relu_(y.addcmul_(x, x, value=0.5))


def _scatter(m: Any, x: Tensor) -> Tensor:
    index = torch.tensor([[0, 3, 1, 2, 7, 6, 5, 4]] * 3)
    return torch.zeros(3, 8).scatter_add(1, index, x) + x.gather(1, index) + x.index_select(1, index[0])


def _sorting(m: Any, x: Tensor) -> Tensor:
    top, _ = x.topk(4, dim=1)
    return x.sort(1).values + x.cumsum(1) + torch.cat([top, x.logsumexp(1, keepdim=True).expand(3, 4)], 1)


def _where(m: Any, x: Tensor) -> Tensor:
    return torch.where(x > 0, x.abs().sqrt(), x.abs().clamp(min=0.1)) + torch.maximum(x, -x)


def _matrices(m: Any, x: Tensor) -> Tensor:
    square = x.view(3, 2, 4) @ x.view(3, 4, 2) + 3 * torch.eye(2)
    return torch.linalg.solve(square, x.view(3, 2, 4)).reshape(3, 8) * torch.linalg.norm(x)


def _stochastic_depth(m: Any, x: Tensor) -> Tensor:
    keep = torch.empty(x.shape[0], 1).bernoulli_(0.7) if m.training else 1.0
    return x + keep * m.block(x) / 0.7


def _noise(m: Any, x: Tensor) -> Tensor:
    gumbel = F.gumbel_softmax(x, tau=0.7)
    return gumbel + 0.1 * torch.randn_like(x) + x[torch.randperm(3)] + torch.rand(8)


def _checkpointed(m: Any, x: Tensor) -> Tensor:
    y = checkpoint(m.block, x, use_reentrant=False)
    return y + checkpoint_sequential(m.chain, 2, x, use_reentrant=False)


def _autocast(m: Any, x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = m.again(m.again(x))
        with torch.autocast("cpu", enabled=False):
            y = torch.tanh(y.float())
        return m.again(y).float()


def _no_grad(m: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        teacher = m.layer(x)
    return m.layer(x) - teacher.softmax(1)


def _penalised(m: Any, x: Tensor) -> Tensor:
    """The gradient of one network is the input of another: a second derivative."""
    x = x.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(torch.tanh(m.layer(x)).sum(), x, create_graph=True)
    return gradient


def _harmless_look(m: Any, x: Tensor) -> Tensor:
    if (x != x).any():
        raise ValueError("not a number")
    return x


def _hooked(pre: bool) -> Make:
    def make() -> Model:
        module = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, CLASSES))
        if pre:
            module[1].register_forward_pre_hook(lambda m, inputs: (inputs[0] * 2,))
        else:
            module[1].register_forward_hook(lambda m, inputs, output: output + inputs[0])
        return _model(module, torch.randn(3, 6))

    return make


def _frozen_features() -> Model:
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, CLASSES))
    module[:2].requires_grad_(False)
    module[1].eval()
    return _model(module, torch.randn(3, 2, 6, 6))


def _shared(m: Any, x: Tensor) -> Tensor:
    return m.layer(torch.relu(m.layer(torch.relu(m.layer(x)))))


def _channels_last() -> Model:
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.MaxPool2d(2), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(16, CLASSES)
    )
    module = module.to(memory_format=torch.channels_last)
    return _model(module, torch.randn(3, 2, 6, 6).to(memory_format=torch.channels_last))


def _unpool(m: Any, x: Tensor) -> Tensor:
    y, places = F.max_pool2d(x, 2, return_indices=True)
    return F.max_unpool2d(y, places, 2)


def _triplet(y: Tensor, labels: Tensor) -> Tensor:
    return F.triplet_margin_loss(y[:1], y[1:2], y[2:3])


LAYERS: dict[str, Make] = {
    # Convolutions, pooling, resampling.
    "conv1d": _signal(nn.ReLU(), nn.MaxPool1d(2)),
    "conv1d, dilated, circular": _signal(nn.Conv1d(4, 4, 3, dilation=2, padding=2, padding_mode="circular")),
    "conv3d": _volume(nn.ReLU(), nn.MaxPool3d(2)),
    "conv2d, grouped, strided, reflect": _image(nn.Conv2d(4, 4, 3, 2, 1, groups=2, padding_mode="reflect")),
    "depthwise": _image(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 6, 1)),
    "transposed conv1d": _signal(nn.ConvTranspose1d(4, 2, 3, 2)),
    "transposed conv2d": _image(nn.ConvTranspose2d(4, 2, 3, 2, 1, output_padding=1)),
    "transposed conv3d": _volume(nn.ConvTranspose3d(4, 2, 2, 2)),
    "average pools": _image(nn.AvgPool2d(3, 1, 1, count_include_pad=False), nn.AdaptiveAvgPool2d(2)),
    "power pool": _image(nn.ReLU(), nn.LPPool2d(2, 2)),
    "adaptive max pool": _signal(nn.AdaptiveMaxPool1d(3)),
    "fractional pool": _image(nn.FractionalMaxPool2d(2, output_size=3)),
    "unpool": _image(Fn(_unpool)),
    "upsample nearest": _image(nn.Upsample(scale_factor=2)),
    "upsample bilinear": _image(nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True)),
    "upsample bicubic": _image(nn.Upsample(size=9, mode="bicubic")),
    "pixel shuffle": _image(nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ChannelShuffle(2)),
    "pads": _image(nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.ConstantPad2d(1, 0.5), nn.ZeroPad2d(-1)),
    "fold": _image(nn.Unfold(2), nn.Fold((6, 6), 2)),
    "grid sample": _image(
        Fn(
            lambda m, x: F.grid_sample(x, F.affine_grid(m.t.expand(3, 2, 3), [3, 4, 5, 5], False), align_corners=False),
            t=nn.Parameter(torch.tensor([[[1.0, 0.1, 0.0], [0.0, 0.9, 0.1]]])),
        )
    ),
    # Normalisations.
    "batch norm 1d": _vector(nn.BatchNorm1d(8), nn.ReLU()),
    "batch norm 3d, cumulative": _volume(nn.BatchNorm3d(4, momentum=None)),
    "batch norm without affine": _image(nn.BatchNorm2d(4, affine=False)),
    "batch norm in eval": lambda: _model(_image(nn.BatchNorm2d(4))().module.eval(), torch.randn(3, 2, 6, 6)),
    "layer norm": _vector(nn.LayerNorm(8)),
    "rms norm": _vector(nn.RMSNorm(8)),
    "group norm": _image(nn.GroupNorm(2, 4)),
    "instance norm": _signal(nn.InstanceNorm1d(4, affine=True)),
    "local response norm": _image(nn.LocalResponseNorm(2)),
    "normalised": _vector(Fn(lambda m, x: F.normalize(x, dim=1))),
    # Activations.
    **{
        type(layer).__name__.lower(): _activation(layer)
        for layer in (
            *(nn.ELU(), nn.SELU(), nn.CELU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.SiLU(inplace=True), nn.Mish()),
            *(nn.Softplus(), nn.Softsign(), nn.Softshrink(), nn.Hardshrink(), nn.Hardtanh(), nn.Hardsigmoid()),
            *(nn.Hardswish(), nn.LeakyReLU(), nn.LogSigmoid(), nn.PReLU(8), nn.ReLU6(), nn.Sigmoid(), nn.Tanh()),
            *(nn.Tanhshrink(), nn.Threshold(0.1, 0.2), nn.Softmax(1), nn.Softmin(1), nn.LogSoftmax(1)),
        )
    },
    "glu": lambda: _model(nn.Sequential(nn.Linear(6, 16), nn.GLU(), nn.Linear(8, CLASSES)), torch.randn(3, 6)),
    # Random layers.
    "dropout": _vector(nn.Dropout(0.3)),
    "dropouts": _image(nn.Dropout2d(0.3), nn.AlphaDropout(0.2), nn.FeatureAlphaDropout(0.2)),
    "random relu": _vector(nn.RReLU()),
    "stochastic depth": _linear(_stochastic_depth, block=lambda: nn.Linear(8, 8)),
    "noise": _linear(_noise),
    # Recurrent layers.
    "rnn": _sequence(lambda: OneResult(nn.RNN(6, 8, 2, nonlinearity="relu", batch_first=True)), 8),
    "gru, both ways": _sequence(lambda: OneResult(nn.GRU(6, 8, batch_first=True, bidirectional=True)), 16),
    "lstm, projected": _sequence(lambda: OneResult(nn.LSTM(6, 8, batch_first=True, proj_size=3)), 3),
    "rnn cell": _unrolled(nn.RNNCell(6, 8)),
    "gru cell": _unrolled(nn.GRUCell(6, 8)),
    "lstm cell": _unrolled(nn.LSTMCell(6, 8)),
    # Embeddings.
    "embedding with padding": _tokens(nn.Embedding(9, 6, padding_idx=0), nn.Flatten(), nn.Linear(24, CLASSES)),
    "embedding with max_norm": _tokens(nn.Embedding(9, 6, max_norm=1.0), nn.Flatten(), nn.Linear(24, CLASSES)),
    "embedding scaled by frequency": _tokens(nn.Embedding(9, 6, scale_grad_by_freq=True), Mean([1]), nn.Linear(6, 4)),
    "embedding bag": _tokens(nn.EmbeddingBag(9, 6, mode="max"), nn.Linear(6, CLASSES)),
    "embedding bag with max_norm": _tokens(nn.EmbeddingBag(9, 6, max_norm=0.5), nn.Linear(6, CLASSES)),
    "one-hot": _tokens(Fn(lambda m, t: F.one_hot(t, 9).float()), nn.Flatten(), nn.Linear(36, CLASSES)),
    # Attention.
    "attention": lambda: _model(Attention(False), torch.randn(3, 4, 6)),
    "causal attention": lambda: _model(Attention(True), torch.randn(3, 4, 6)),
    "multi-head attention": lambda: _model(
        Fn(
            lambda m, x: m.out(m.attention(x, x, x)[0][:, 0]),
            attention=nn.MultiheadAttention(6, 2, 0.1, batch_first=True),
            out=nn.Linear(6, CLASSES),
        ),
        torch.randn(3, 4, 6),
    ),
    "transformer decoder": lambda: _model(
        Fn(
            lambda m, x: m.out(m.layer(x, x.flip(1))[:, 0]),
            layer=nn.TransformerDecoderLayer(6, 2, 8, 0.1, batch_first=True),
            out=nn.Linear(6, CLASSES),
        ),
        torch.randn(3, 4, 6),
    ),
    "encoder, norm first": _sequence(
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, norm_first=True), 2, enable_nested_tensor=False
        ),
        6,
    ),
    # Losses.
    "label smoothing": _criterion(nn.CrossEntropyLoss(label_smoothing=0.1), lambda: _labels(3)),
    "class weights": _criterion(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3, 4])), lambda: _labels(3)),
    "ignored label": _criterion(nn.CrossEntropyLoss(ignore_index=1), lambda: _labels(3)),
    "soft labels": _criterion(F.cross_entropy, lambda: torch.rand(3, CLASSES).softmax(1)),
    "bce": _criterion(nn.BCEWithLogitsLoss(pos_weight=torch.full((CLASSES,), 2.0)), lambda: torch.rand(3, CLASSES)),
    "l1": _criterion(nn.L1Loss(), lambda: torch.randn(3, CLASSES)),
    "mse, summed": _criterion(nn.MSELoss(reduction="sum"), lambda: torch.randn(3, CLASSES)),
    "huber": _criterion(nn.HuberLoss(), lambda: torch.randn(3, CLASSES)),
    "smooth l1": _criterion(nn.SmoothL1Loss(), lambda: torch.randn(3, CLASSES)),
    "kl": _criterion(
        lambda y, t: F.kl_div(y.log_softmax(1), t, reduction="batchmean"), lambda: torch.rand(3, CLASSES).softmax(1)
    ),
    "poisson": _criterion(nn.PoissonNLLLoss(), lambda: torch.rand(3, CLASSES)),
    "gaussian": _criterion(
        lambda y, t: 0.5 * (y[:, 1:2].exp().log() + (y[:, :1] - t) ** 2 / y[:, 1:2].exp()).mean(),
        lambda: torch.randn(3, 1),
        2,
    ),
    "multi-margin": _criterion(nn.MultiMarginLoss(), lambda: _labels(3)),
    "multi-label": _criterion(nn.MultiLabelSoftMarginLoss(), lambda: torch.ones(3, CLASSES)),
    "hinge embedding": _criterion(nn.HingeEmbeddingLoss(), lambda: torch.ones(3, CLASSES)),
    "triplet": _criterion(_triplet, lambda: _labels(3)),
    "ctc": lambda: Model(
        "zoo",
        nn.Linear(6, 5),
        (torch.randn(7, 3, 6),),
        (torch.randint(1, 5, (3, 3)),),
        lambda y, t: F.ctc_loss(y.log_softmax(2), t, (7, 7, 7), (3, 3, 3)),
    ),
    "loss with a parameter": lambda: _scored(nn.Linear(6, CLASSES), torch.randn(3, 6), _labels(3), CenterLoss()),
    "loss over the weights": lambda: (
        lambda module: _model(
            module,
            torch.randn(3, 6),
            loss=lambda y, t: F.cross_entropy(y, t) + 1e-2 * sum(p.pow(2).sum() for p in module.parameters()),
        )
    )(nn.Linear(6, CLASSES)),
    # Tricks.
    "tied": lambda: Model("zoo", Tied(), (torch.randint(9, (3, 4)),), (torch.arange(3),), F.cross_entropy),
    "tied under two names": lambda: Model(
        "zoo", TwoNames(), (torch.randint(9, (3, 4)),), (torch.arange(3),), F.cross_entropy
    ),
    "residual, lists, dicts": lambda: _model(Residual(), torch.randn(3, 6)),
    "shared layer": _linear(_shared, layer=lambda: nn.Linear(8, 8)),
    "weight norm": _vector(parametrizations.weight_norm(nn.Linear(8, 8))),
    "old weight norm": lambda: _model(
        nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.Linear(8, CLASSES)), torch.randn(3, 6)
    ),
    "spectral norm": _vector(parametrizations.spectral_norm(nn.Linear(8, 8))),
    "old spectral norm": lambda: _model(
        nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.Linear(8, CLASSES)), torch.randn(3, 6)
    ),
    "orthogonal": _vector(parametrizations.orthogonal(nn.Linear(8, 8), orthogonal_map="cayley")),
    "symmetric weight": lambda: _vector(_with(nn.Linear(8, 8), Symmetric()))(),
    "two parametrizations": lambda: _vector(_with(_with(nn.Linear(8, 8), Symmetric()), Doubled()))(),
    "pruned": lambda: _model(nn.Sequential(_pruned(nn.Linear(6, 8)), nn.Linear(8, CLASSES)), torch.randn(3, 6)),
    "own function": _linear(lambda m, x: Square.apply(x)),
    "straight through": _linear(lambda m, x: Rounded.apply(x * 4) / 4),
    "einsum": _linear(_einsum, core=lambda: nn.Parameter(torch.randn(8, 8, 8) / 8)),
    "views": _linear(_views),
    "in place": _linear(_in_place),
    "scatter": _linear(_scatter),
    "sorting": _linear(_sorting),
    "where": _linear(_where),
    "matrices": _linear(_matrices),
    "fft": _linear(lambda m, x: torch.fft.irfft(torch.fft.rfft(x) * torch.arange(5), n=8)),
    "checkpoint": _linear(
        _checkpointed,
        block=lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2)),
        chain=lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)),
    ),
    "autocast, shared weight": _linear(_autocast, again=lambda: nn.Linear(8, 8)),
    "no_grad teacher": _linear(_no_grad, layer=lambda: nn.Linear(8, 8)),
    "second derivative": _linear(_penalised, layer=lambda: nn.Linear(8, 8)),
    "a look that changes nothing": _linear(_harmless_look),
    "forward hook": _hooked(False),
    "forward pre-hook": _hooked(True),
    "frozen features": _frozen_features,
    "channels last": _channels_last,
    "shadow weights": lambda: _model(Shadow(), torch.randn(3, 6)),
    "replaced buffer": lambda: _model(Replaced(), torch.randn(3, 6)),
    "counted in a buffer": lambda: _model(Counted(), torch.randn(3, 6)),
    "clamped weight": lambda: _model(Clamped(6, CLASSES), torch.randn(3, 6)),
    "batch changed in place": lambda: _model(Centred(6, CLASSES), torch.randn(3, 6)),
    "kept activation": lambda: _model(Keeps(6, CLASSES), torch.randn(3, 6)),
    "double precision": lambda: _model(nn.Linear(6, CLASSES).double(), torch.randn(3, 6).double()),
    "bilinear": lambda: _model(nn.Bilinear(3, 5, CLASSES), torch.randn(3, 3), torch.randn(3, 5)),
    "distances": lambda: _model(
        Fn(
            lambda m, a, b: m.out(torch.stack([m.cosine(a, b), m.pairwise(a, b)], 1)),
            cosine=nn.CosineSimilarity(),
            pairwise=nn.PairwiseDistance(),
            out=nn.Linear(2, CLASSES),
            scale=nn.Linear(5, 5),
        ),
        torch.randn(3, 5),
        torch.randn(3, 5),
    ),
}


# Layers of PyTorch's own that no plan can repeat, and a word of the line that refuses each.
REFUSED = {"batch norm 3d, cumulative": "0.1 takes a number out of a tensor", "ctc": "depends on its data"}


def _with(layer: nn.Module, parametrization: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(layer, "weight", parametrization)


def _pruned(layer: nn.Module) -> nn.Module:
    from torch.nn.utils import prune

    return prune.l1_unstructured(layer, "weight", 0.5)


def layer_model(name: str) -> Model:
    torch.manual_seed(0)
    random.seed(0)
    return LAYERS[name]()
