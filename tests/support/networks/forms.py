# SPDX-License-Identifier: Apache-2.0
"""Forty-three small forms of networks that people want on a microcontroller."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from poet_planner.models import Model
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.parametrizations import weight_norm

BATCH, CLASSES = 3, 3
Loss = Callable[..., Tensor]
Layers = tuple[nn.Module, ...]


def _labels(count: int) -> Tensor:
    return torch.randint(CLASSES, (count,))


def _classifier(name: str, module: nn.Module, shape: tuple[int, ...], batch: int | None) -> Model:
    count = batch or BATCH
    return Model(name, module, (torch.randn(count, *shape),), (_labels(count),), F.cross_entropy)


def _regression(
    name: str, module: nn.Module, x: tuple[int, ...], y: tuple[int, ...], batch: int | None, loss: Loss = F.mse_loss
) -> Model:
    count = batch or BATCH
    return Model(name, module, (torch.randn(count, *x),), (torch.randn(count, *y),), loss)


# Recurrent networks.


class LastState(nn.Module):
    """A recurrent layer of PyTorch's, and a classifier of what it knows at the end."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(layer.hidden_size, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.layer(x)
        return self.head(y[:, -1])


def lstm(batch: int | None = None) -> Model:
    return _classifier("lstm", LastState(nn.LSTM(6, 8, 2, batch_first=True)), (10, 6), batch)


def gru(batch: int | None = None) -> Model:
    return _classifier("gru", LastState(nn.GRU(6, 8, batch_first=True)), (8, 6), batch)


class Backwards(LastState):
    """Reads time from its end."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(1))


def rnn_backwards(batch: int | None = None) -> Model:
    return _classifier("rnn_backwards", Backwards(nn.RNN(6, 8, batch_first=True)), (8, 6), batch)


class BothWays(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(6, 5, batch_first=True, bidirectional=True)
        self.head = nn.Linear(10, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.gru(x)
        return self.head(y.mean(1))


def bidirectional(batch: int | None = None) -> Model:
    return _classifier("bidirectional", BothWays(), (6, 6), batch)


class LongShortTermMemory(nn.Module):
    """An LSTM by hand, for each step its outputs."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.x = nn.Linear(inputs, 4 * hidden)
        self.h = nn.Linear(hidden, 4 * hidden, bias=False)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = c = x.new_zeros(x.shape[0], self.hidden)
        for t in range(x.shape[1]):
            i, f, g, o = (self.x(x[:, t]) + self.h(h)).chunk(4, dim=1)
            c = torch.sigmoid(f + 1.0) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


def lstm_by_hand(batch: int | None = None) -> Model:
    return _classifier("lstm_by_hand", LongShortTermMemory(6, 8), (6, 6), batch)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(6, 8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], 8)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)


def gru_cell(batch: int | None = None) -> Model:
    return _classifier("gru_cell", Cells(), (6, 6), batch)


class MinGru(nn.Module):
    """All steps at once, by a scan in logarithms ("Were RNNs all we needed?", appendix B)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.to_hidden_and_gate = nn.Linear(inputs, 2 * hidden)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden, gate = self.to_hidden_and_gate(x).chunk(2, dim=-1)
        log_coeffs = -F.softplus(gate)
        log_z = -F.softplus(-gate)
        log_values = log_z + torch.where(hidden >= 0, (F.relu(hidden) + 0.5).log(), -F.softplus(-hidden))
        a_star = log_coeffs.cumsum(dim=1)
        log_h = a_star + (log_values - a_star).logcumsumexp(dim=1)
        return self.head(log_h.exp()[:, -1])


def min_gru(batch: int | None = None) -> Model:
    return _classifier("min_gru", MinGru(6, 8), (10, 6), batch)


class QuasiRecurrent(nn.Module):
    """Gates by a causal convolution, a state by pooling over time."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.gates = nn.Conv1d(inputs, 3 * hidden, 2)
        self.head = nn.Linear(hidden, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        z, f, o = self.gates(F.pad(x, (1, 0))).chunk(3, dim=1)
        z, f, o = torch.tanh(z), torch.sigmoid(f), torch.sigmoid(o)
        c = torch.zeros_like(z[..., 0])
        states = []
        for t in range(z.shape[-1]):
            c = f[..., t] * c + (1 - f[..., t]) * z[..., t]
            states.append(o[..., t] * c)
        return self.head(torch.stack(states, dim=-1).amax(-1))


def quasi_recurrent(batch: int | None = None) -> Model:
    return _classifier("quasi_recurrent", QuasiRecurrent(6, 8), (6, 6), batch)


class StateSpace(nn.Module):
    """A diagonal state space, discretised by zero-order hold, step by step (S4D's real form)."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.log_dt = nn.Parameter(torch.rand(width) - 2)
        self.log_a = nn.Parameter(torch.log(0.5 + torch.arange(states)).repeat(width, 1))
        self.b = nn.Parameter(torch.randn(width, states))
        self.c = nn.Parameter(torch.randn(width, states))
        self.d = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, u: Tensor) -> Tensor:
        dt, a = torch.exp(self.log_dt)[:, None], -torch.exp(self.log_a)
        decay = torch.exp(dt * a)
        b = (decay - 1) / a * self.b
        state = torch.zeros(u.shape[0], *a.shape)
        ys = []
        for t in range(u.shape[1]):
            state = decay * state + b * u[:, t, :, None]
            ys.append((state * self.c).sum(-1) + self.d * u[:, t])
        return self.head(F.gelu(torch.stack(ys, 1)).mean(1))


def state_space(batch: int | None = None) -> Model:
    return _classifier("state_space", StateSpace(6, 4), (6, 6), batch)


# Attention.


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 8))
        self.position = nn.Parameter(0.02 * torch.randn(1, 6, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.position
        y = self.norm(x)
        y, _ = self.attention(y, y, y, need_weights=False)
        x = x + y
        x = x + self.mlp(x)
        return self.head(x.mean(1))


def self_attention(batch: int | None = None) -> Model:
    return _classifier("self_attention", SelfAttention(), (6, 8), batch)


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class Llama(nn.Module):
    """A language model's block: RMS norm, rotary embeddings, a causal mask, SwiGLU."""

    cos: Tensor
    sin: Tensor

    def __init__(self, words: int = 11, width: int = 8, heads: int = 2, length: int = 6) -> None:
        super().__init__()
        self.heads = heads
        self.table = nn.Embedding(words, width)
        self.norm1, self.norm2, self.norm = RmsNorm(width), RmsNorm(width), RmsNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 16, bias=False), nn.Linear(width, 16, bias=False)
        self.down = nn.Linear(16, width, bias=False)
        frequencies = 1.0 / 10000 ** (torch.arange(0, width // heads, 2) / (width // heads))
        angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        n, t, d = x.shape
        q, k, v = (y.view(n, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(d, dim=-1))
        q, k = (y * self.cos + rotate_half(y) * self.sin for y in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, d))
        y = self.norm2(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.norm(x) @ self.table.weight.T


def llama(batch: int | None = None) -> Model:
    count = batch or BATCH
    text = torch.randint(11, (count, 7))

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(logits.view(-1, logits.size(-1)), target.reshape(-1))

    return Model("llama", Llama(), (text[:, :-1],), (text[:, 1:],), loss)


class LinearAttention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1, self.v(x)
        context = torch.einsum("btd,bte->bde", k, v)
        z = 1 / (torch.einsum("btd,bd->bt", q, k.sum(1)) + 1e-6)
        y = torch.einsum("btd,bde,bt->bte", q, context, z)
        return self.head((x + y).mean(1))


def linear_attention(batch: int | None = None) -> Model:
    return _classifier("linear_attention", LinearAttention(8), (6, 8), batch)


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels, channels // 2)
        self.fc2 = nn.Linear(channels // 2, channels)

    def forward(self, x: Tensor) -> Tensor:
        s = torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3))))))
        return x * s.unsqueeze(-1).unsqueeze(-1)


def squeeze_excite(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), SqueezeExcite(8)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)),
    )
    return _classifier("squeeze_excite", module, (1, 8, 8), batch)


class Cbam(nn.Module):
    """Attention over channels, then over places, each by means and greatest values."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(channels, channels // 2), nn.ReLU(), nn.Linear(channels // 2, channels))
        self.conv = nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        scale = self.mlp(F.avg_pool2d(x, x.shape[2:]).flatten(1)) + self.mlp(F.max_pool2d(x, x.shape[2:]).flatten(1))
        x = x * torch.sigmoid(scale)[:, :, None, None].expand_as(x)
        pooled = torch.cat((torch.max(x, 1)[0].unsqueeze(1), torch.mean(x, 1).unsqueeze(1)), dim=1)
        return x * torch.sigmoid(self.conv(pooled))


def cbam(batch: int | None = None) -> Model:
    module = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), Cbam(8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, CLASSES)
    )
    return _classifier("cbam", module, (1, 8, 8), batch)


class BiasedAttention(nn.Module):
    """One head by hand; what is added to its scores is ``bias`` of the model."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, CLASSES)

    def bias(self, length: int) -> Tensor:
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads) + self.bias(t)
        y = (scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(n, t, d)
        return self.head(y[:, -1])


class RelativeBias(BiasedAttention):
    """A learned bias a distance, as Swin and T5 have it."""

    index: Tensor

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__(width, heads)
        self.table = nn.Parameter(0.02 * torch.randn(2 * length - 1, heads))
        places = torch.arange(length)
        self.register_buffer("index", places[:, None] - places[None, :] + length - 1)

    def bias(self, length: int) -> Tensor:
        return self.table[self.index.view(-1)].view(length, length, -1).permute(2, 0, 1).contiguous().unsqueeze(0)


def relative_bias(batch: int | None = None) -> Model:
    return _classifier("relative_bias", RelativeBias(8, 2, 6), (6, 8), batch)


class Alibi(BiasedAttention):
    """Scores fall with the distance, and what is later is out of sight."""

    def bias(self, length: int) -> Tensor:
        slopes = 2.0 ** -torch.arange(1, self.heads + 1)
        places = torch.arange(length)
        distance = places[None, :] - places[:, None]
        return (slopes[:, None, None] * distance).masked_fill(distance > 0, float("-inf"))


def alibi(batch: int | None = None) -> Model:
    return _classifier("alibi", Alibi(8, 2), (6, 8), batch)


class AttentionPooling(nn.Module):
    """Words of texts that differ in length; what pads them is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 8, padding_idx=0)
        self.score = nn.Linear(8, 1)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        scores = self.score(torch.tanh(x)).squeeze(-1).masked_fill(tokens == 0, -1e9)
        weights = torch.softmax(scores, dim=1)
        return self.head((weights.unsqueeze(-1) * x).sum(1))


def attention_pooling(batch: int | None = None) -> Model:
    count = batch or BATCH
    tokens = torch.randint(1, 12, (count, 6)) * (torch.arange(6) < torch.randint(2, 7, (count, 1)))
    loss = nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]), label_smoothing=0.1)
    return Model("attention_pooling", AttentionPooling(), (tokens,), (_labels(count),), loss)


# Other bases and neurons.


class KanLayer(nn.Module):
    """Radial functions of each input, as FastKAN has them, beside a plain branch."""

    grid: Tensor

    def __init__(self, inputs: int, outputs: int, functions: int = 5) -> None:
        super().__init__()
        self.register_buffer("grid", torch.linspace(-2, 2, functions))
        self.norm = nn.LayerNorm(inputs)
        self.spline = nn.Linear(inputs * functions, outputs, bias=False)
        self.base = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        basis = torch.exp(-(((self.norm(x)[..., None] - self.grid) / 1.0) ** 2))
        return self.spline(basis.flatten(-2)) + self.base(F.silu(x))


def kan_radial(batch: int | None = None) -> Model:
    return _regression("kan_radial", nn.Sequential(KanLayer(4, 6), KanLayer(6, 1)), (4,), (1,), batch)


class ChebyshevLayer(nn.Module):
    def __init__(self, inputs: int, outputs: int, degree: int = 3) -> None:
        super().__init__()
        self.degree = degree
        self.coefficients = nn.Parameter(torch.randn(inputs, outputs, degree + 1) / (inputs * (degree + 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(x)
        basis = [torch.ones_like(x), x]
        for _ in range(2, self.degree + 1):
            basis.append(2 * x * basis[-1] - basis[-2])
        return torch.einsum("bid,iod->bo", torch.stack(basis, -1), self.coefficients)


def kan_chebyshev(batch: int | None = None) -> Model:
    module = nn.Sequential(ChebyshevLayer(4, 6), nn.LayerNorm(6), ChebyshevLayer(6, 1))
    return _regression("kan_chebyshev", module, (4,), (1,), batch)


class Spike(torch.autograd.Function):
    """A step; its gradient is that of a fast sigmoid."""

    @staticmethod
    def forward(ctx: Any, membrane: Tensor) -> Tensor:
        ctx.save_for_backward(membrane)
        return (membrane > 0).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (membrane,) = ctx.saved_tensors
        return gradient / (10 * torch.abs(membrane) + 1.0) ** 2


class Spiking(nn.Module):
    """Leaky neurons that fire, and are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(6, 10), nn.Linear(10, CLASSES)
        self.beta = nn.Parameter(torch.full((10,), 0.9))

    def forward(self, x: Tensor) -> Tensor:
        membrane = torch.zeros(x.shape[0], 10)
        count = torch.zeros(x.shape[0], CLASSES)
        for t in range(x.shape[1]):
            membrane = self.beta.clamp(0, 1) * membrane + self.fc1(x[:, t])
            spikes = Spike.apply(membrane - 0.3)
            membrane = membrane - spikes.detach() * 0.3
            count = count + self.fc2(spikes)
        return count / x.shape[1]


def spiking(batch: int | None = None) -> Model:
    return _classifier("spiking", Spiking(), (5, 6), batch)


# Convolutions.


class TemporalBlock(nn.Module):
    """Causal: what a convolution has seen beyond the end is chopped off."""

    def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
        super().__init__()
        self.conv1 = weight_norm(nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation))
        self.conv2 = weight_norm(nn.Conv1d(outputs, outputs, 3, padding=2 * dilation, dilation=dilation))
        self.chop = 2 * dilation
        self.dropout = nn.Dropout(0.2)
        self.down = nn.Conv1d(inputs, outputs, 1) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.dropout(F.relu(self.conv1(x)[:, :, : -self.chop].contiguous()))
        y = self.dropout(F.relu(self.conv2(y)[:, :, : -self.chop].contiguous()))
        return F.relu(y + (x if self.down is None else self.down(x)))


class Tcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(TemporalBlock(3, 6, 1), TemporalBlock(6, 6, 2), TemporalBlock(6, 6, 4))
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(x)[:, :, -1])


def tcn(batch: int | None = None) -> Model:
    return _classifier("tcn", Tcn(), (3, 16), batch)


def _double(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, up: nn.Module) -> None:
        super().__init__()
        self.down1, self.down2, self.up = _double(1, 4), _double(4, 8), up
        self.fuse, self.out = _double(12, 4), nn.Conv2d(4, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down1(x)
        y = self.up(self.down2(F.max_pool2d(skip, 2)))
        return self.out(self.fuse(torch.cat([skip, y], dim=1)))


def dice_and_weighted_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    probabilities = torch.softmax(logits, dim=1)[:, 1]
    wanted = (target == 1).float()
    overlap = (probabilities * wanted).sum((1, 2))
    dice = 1 - (2 * overlap + 1) / (probabilities.sum((1, 2)) + wanted.sum((1, 2)) + 1)
    return dice.mean() + F.cross_entropy(logits, target, weight=torch.tensor([0.3, 0.7]))


def _segmentation(name: str, up: nn.Module, batch: int | None, loss: Loss) -> Model:
    count = batch or 2
    return Model(name, UNet(up), (torch.randn(count, 1, 8, 8),), (torch.randint(2, (count, 8, 8)),), loss)


def u_net_transposed(batch: int | None = None) -> Model:
    up = nn.ConvTranspose2d(8, 8, 2, stride=2)
    return _segmentation("u_net_transposed", up, batch, dice_and_weighted_cross_entropy)


def u_net_bilinear(batch: int | None = None) -> Model:
    up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
    return _segmentation("u_net_bilinear", up, batch, nn.CrossEntropyLoss(ignore_index=255))


class WaveNet(nn.Module):
    def __init__(self, channels: int = 6, dilations: tuple[int, ...] = (1, 2, 4)) -> None:
        super().__init__()
        self.start = nn.Conv1d(1, channels, 1)
        self.filters = nn.ModuleList(nn.Conv1d(channels, channels, 2, dilation=d) for d in dilations)
        self.gates = nn.ModuleList(nn.Conv1d(channels, channels, 2, dilation=d) for d in dilations)
        self.skips = nn.ModuleList(nn.Conv1d(channels, channels, 1) for _ in dilations)
        self.end = nn.Sequential(nn.ReLU(), nn.Conv1d(channels, channels, 1), nn.ReLU(), nn.Conv1d(channels, 1, 1))
        self.dilations = dilations

    def forward(self, x: Tensor) -> Tensor:
        x = self.start(x)
        skip: Tensor | float = 0
        for d, filter, gate, one in zip(self.dilations, self.filters, self.gates, self.skips, strict=True):
            padded = F.pad(x, (d, 0))
            y = torch.tanh(filter(padded)) * torch.sigmoid(gate(padded))
            skip = skip + one(y)
            x = x + y
        return self.end(skip)


def wavenet(batch: int | None = None) -> Model:
    return _regression("wavenet", WaveNet(), (1, 16), (1, 16), batch, F.l1_loss)


class SubSpectralNorm(nn.Module):
    def __init__(self, channels: int, bands: int) -> None:
        super().__init__()
        self.bands = bands
        self.norm = nn.BatchNorm2d(channels * bands)

    def forward(self, x: Tensor) -> Tensor:
        n, c, f, t = x.shape
        return self.norm(x.view(n, c * self.bands, f // self.bands, t)).view(n, c, f, t)


class BcBlock(nn.Module):
    """Two dimensions, then their mean over frequency, spread again."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.f2 = nn.Sequential(
            nn.Conv2d(channels, channels, (3, 1), padding=(1, 0), groups=channels), SubSpectralNorm(channels, 2)
        )
        self.f1 = nn.Sequential(
            nn.Conv2d(channels, channels, (1, 3), padding=(0, dilation), dilation=(1, dilation), groups=channels),
            *(nn.BatchNorm2d(channels), nn.SiLU(), nn.Conv2d(channels, channels, 1), nn.Dropout2d(0.1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.f2(x)
        z = self.f1(y.mean(2, keepdim=True))
        return F.relu(x + y + z)


def bc_resnet(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, stride=(2, 1), padding=2), nn.BatchNorm2d(6), nn.ReLU()),
        *(BcBlock(6, 1), BcBlock(6, 2), nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, CLASSES, 1), nn.Flatten()),
    )
    return _classifier("bc_resnet", module, (1, 8, 10), batch)


def eeg_net(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, (1, 7), padding="same", bias=False), nn.BatchNorm2d(4)),
        *(nn.Conv2d(4, 8, (4, 1), groups=4, bias=False), nn.BatchNorm2d(8), nn.ELU()),
        *(nn.AvgPool2d((1, 4)), nn.Dropout(0.25)),
        *(nn.Conv2d(8, 8, (1, 4), padding=(0, 2), groups=8, bias=False), nn.Conv2d(8, 8, 1, bias=False)),
        *(nn.BatchNorm2d(8), nn.ELU(), nn.AvgPool2d((1, 3)), nn.Flatten(), nn.LazyLinear(CLASSES)),
    )
    module(torch.randn(2, 1, 4, 32))
    return _classifier("eeg_net", module, (1, 4, 32), batch)


class MixerBlock(nn.Module):
    def __init__(self, tokens: int, channels: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.tokens = nn.Sequential(nn.Linear(tokens, 8), nn.GELU(), nn.Linear(8, tokens))
        self.channels = nn.Sequential(nn.Linear(channels, 16), nn.GELU(), nn.Linear(16, channels))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 4, stride=4)
        self.blocks = nn.Sequential(MixerBlock(4, 8), MixerBlock(4, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.blocks(self.stem(x).flatten(2).transpose(1, 2)).mean(dim=1))


def mlp_mixer(batch: int | None = None) -> Model:
    return _classifier("mlp_mixer", Mixer(), (1, 8, 8), batch)


class ConvNextBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.up, self.act, self.down = nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels)
        self.gamma = nn.Parameter(1e-2 * torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(self.act(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 6, 2, stride=2), ConvNextBlock(6), nn.Conv2d(6, 8, 2, stride=2), ConvNextBlock(8)),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, CLASSES)),
    )
    return _classifier("convnext", module, (1, 8, 8), batch)


class InvertedResidual(nn.Module):
    def __init__(self, channels: int, expanded: int) -> None:
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(channels, expanded, 1, bias=False), nn.BatchNorm2d(expanded))
        self.depthwise = nn.Sequential(
            nn.Conv2d(expanded, expanded, 3, padding=1, groups=expanded, bias=False), nn.BatchNorm2d(expanded)
        )
        self.squeeze = nn.Sequential(
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(expanded, 4, 1), nn.ReLU(inplace=True)),
            *(nn.Conv2d(4, expanded, 1), nn.Hardsigmoid(inplace=True)),
        )
        self.project = nn.Sequential(nn.Conv2d(expanded, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = F.hardswish(self.depthwise(F.hardswish(self.expand(x))))
        return x + self.project(y * self.squeeze(y))


def mobilenet_v3(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), nn.Hardswish(inplace=True)),
        *(InvertedResidual(6, 12), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(6, CLASSES)),
    )
    return _classifier("mobilenet_v3", module, (1, 10, 10), batch)


def charbonnier(y: Tensor, target: Tensor) -> Tensor:
    return torch.sqrt((y - target) ** 2 + 1e-6).mean()


def super_resolution(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Conv2d(1, 8, 5, padding=2, padding_mode="reflect"), nn.Tanh(), nn.Conv2d(8, 6, 3, padding=1), nn.Tanh()),
        *(nn.Conv2d(6, 4, 3, padding=1), nn.PixelShuffle(2)),
    )
    return _regression("super_resolution", module, (1, 6, 6), (1, 12, 12), batch, charbonnier)


# Generating, comparing, teaching.


class Vae(nn.Module):
    """The noise comes with the batch: so a step can be taken again."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 12), nn.ReLU())
        self.mu, self.logvar = nn.Linear(12, 3), nn.Linear(12, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 12), nn.ReLU(), nn.Linear(12, 16), nn.Sigmoid())

    def forward(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        mu, logvar = self.mu(h), self.logvar(h)
        return self.decoder(mu + torch.exp(0.5 * logvar) * noise), mu, logvar


def evidence_bound(output: tuple[Tensor, Tensor, Tensor], x: Tensor) -> Tensor:
    reconstructed, mu, logvar = output
    divergence = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return (F.binary_cross_entropy(reconstructed, x, reduction="sum") + divergence) / x.shape[0]


def vae(batch: int | None = None) -> Model:
    count = batch or BATCH
    x = torch.rand(count, 16)
    return Model("vae", Vae(), (x, torch.randn(count, 3)), (x.clone(),), evidence_bound)


class Encoder(nn.Module):
    """Embeds as many inputs as there are."""

    def __init__(self, unit: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 6))
        self.unit = unit

    def forward(self, *xs: Tensor) -> tuple[Tensor, ...]:
        return tuple(F.normalize(self.body(x), dim=1) if self.unit else self.body(x) for x in xs)


def info_nce(views: tuple[Tensor, Tensor]) -> Tensor:
    """Views of one sample attract each other, all others repel (SimCLR)."""
    z = torch.cat(views)
    n = len(views[0])
    similarity = z @ z.T / 0.5
    similarity = similarity.masked_fill(torch.eye(2 * n, dtype=torch.bool), float("-inf"))
    partners = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(similarity, partners)


def contrastive(batch: int | None = None) -> Model:
    views = torch.randn(2, batch or BATCH, 8)
    return Model("contrastive", Encoder(unit=True), tuple(views), (), info_nce)


def triplet_and_cosine(embedded: tuple[Tensor, ...], same: Tensor) -> Tensor:
    anchor, positive, negative = embedded
    loss = F.triplet_margin_loss(anchor, positive, negative, margin=2.0)
    return loss + F.cosine_embedding_loss(anchor, negative, same, margin=0.1)


def metric_learning(batch: int | None = None) -> Model:
    count = batch or BATCH
    same = torch.where(torch.arange(count) % 2 == 0, 1.0, -1.0)
    return Model("metric_learning", Encoder(), tuple(torch.randn(3, count, 8)), (same,), triplet_and_cosine)


class Prototypical(nn.Module):
    """Two examples of each of three classes; queries are near their class's mean."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 6))

    def forward(self, support: Tensor, queries: Tensor) -> Tensor:
        prototypes = self.encoder(support).view(CLASSES, 2, -1).mean(1)
        return -((self.encoder(queries)[:, None] - prototypes[None]) ** 2).sum(-1)


def prototypical(batch: int | None = None) -> Model:
    count = batch or BATCH
    inputs = (torch.randn(2 * CLASSES, 8), torch.randn(count, 8))
    return Model("prototypical", Prototypical(), inputs, (_labels(count),), F.cross_entropy)


class Distilled(nn.Module):
    """A student beside its frozen teacher."""

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Linear(10, CLASSES)
        self.teacher = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, CLASSES)).requires_grad_(False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            taught = self.teacher(x)
        return self.student(x), taught


def knowledge(output: tuple[Tensor, Tensor], labels: Tensor, temperature: float = 2.0) -> Tensor:
    student, teacher = output
    soft = F.kl_div(
        F.log_softmax(student / temperature, dim=1), F.softmax(teacher / temperature, dim=1), reduction="batchmean"
    )
    return 0.7 * soft * temperature**2 + 0.3 * F.cross_entropy(student, labels)


def distillation(batch: int | None = None) -> Model:
    count = batch or BATCH
    return Model("distillation", Distilled(), (torch.randn(count, 10),), (_labels(count),), knowledge)


class Siren(nn.Module):
    """Layers of sines, times a decay that is a parameter, as in physics."""

    def __init__(self, omega: float = 5.0) -> None:
        super().__init__()
        self.omega = omega
        self.fc1, self.fc2, self.fc3 = nn.Linear(2, 12), nn.Linear(12, 12), nn.Linear(12, 1)
        self.decay = nn.Parameter(torch.tensor(0.3))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.sin(self.omega * self.fc1(x))
        y = torch.sin(self.omega * self.fc2(y))
        return self.fc3(y) * torch.exp(-self.decay.abs() * x[:, :1]) * torch.cos(x[:, 1:])


def siren(batch: int | None = None) -> Model:
    return _regression("siren", Siren(), (2,), (1,), batch)


# Sets, graphs, experts.


class MixtureOfExperts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, CLASSES)) for _ in range(3))
        self.gate = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        gates = F.softmax(self.gate(x), dim=-1)
        outputs = torch.stack([expert(x) for expert in self.experts], dim=1)
        return (gates.unsqueeze(-1) * outputs).sum(1), gates


def balanced(output: tuple[Tensor, Tensor], labels: Tensor) -> Tensor:
    """Every expert is to get its share: the square of the shares' variation."""
    scores, gates = output
    share = gates.sum(0)
    return F.cross_entropy(scores, labels) + 0.01 * share.var() / (share.mean() ** 2 + 1e-10)


def mixture_of_experts(batch: int | None = None) -> Model:
    count = batch or BATCH
    return Model("mixture_of_experts", MixtureOfExperts(), (torch.randn(count, 8),), (_labels(count),), balanced)


class DeepSets(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(3, 10), nn.ReLU(), nn.Linear(10, 8))
        self.rho = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return self.rho(self.phi(x).max(dim=1).values)


def deep_sets(batch: int | None = None) -> Model:
    return _classifier("deep_sets", DeepSets(), (7, 3), batch)


class GraphConvolution(nn.Module):
    """Over a dense adjacency, normalised by the degrees."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        a = adjacency + torch.eye(adjacency.shape[-1])
        d = a.sum(-1).pow(-0.5)
        a = d.unsqueeze(-1) * a * d.unsqueeze(-2)
        x = F.relu(a @ self.fc1(x))
        return (a @ self.fc2(x)).mean(1)


def graph_convolution(batch: int | None = None) -> Model:
    count = batch or BATCH
    edges = torch.triu((torch.rand(count, 5, 5) < 0.5).float(), 1)
    inputs = (torch.randn(count, 5, 4), edges + edges.transpose(1, 2))
    return Model("graph_convolution", GraphConvolution(), inputs, (_labels(count),), F.cross_entropy)


# Units, norms, losses.


def gated_units(batch: int | None = None) -> Model:
    module = nn.Sequential(
        *(nn.Linear(6, 16), nn.GLU(), nn.Linear(8, 8), nn.Mish(), nn.Linear(8, 8), nn.ELU(0.7), nn.Linear(8, 8)),
        *(nn.Softplus(2.0), nn.Linear(8, 8), nn.PReLU(8), nn.Linear(8, 8), nn.SELU(), nn.Linear(8, 8)),
        *(nn.GELU(approximate="tanh"), nn.Linear(8, 8), nn.Softsign(), nn.Linear(8, CLASSES)),
    )
    return _classifier("gated_units", module, (6,), batch)


class Normalised(nn.Module):
    """An instance norm, then features and weights of length one (ArcFace without its margin)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 6, 3)
        self.norm = nn.InstanceNorm1d(6, affine=True)
        self.fc = weight_norm(nn.Linear(60, 8))
        self.weight = nn.Parameter(torch.randn(CLASSES, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.fc(F.relu(self.norm(self.conv(x))).flatten(1))
        return 4.0 * F.linear(F.normalize(y), F.normalize(self.weight))


def normalised(batch: int | None = None) -> Model:
    return _classifier("normalised", Normalised(), (2, 12), batch)


class Detector(nn.Module):
    """A box, whether something is there, and of which class."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 12), nn.ReLU())
        self.box, self.there, self.classes = nn.Linear(12, 4), nn.Linear(12, 1), nn.Linear(12, CLASSES)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        y = self.body(x)
        return {"box": self.box(y), "there": self.there(y), "classes": self.classes(y)}


def detection(output: dict[str, Tensor], box: Tensor, there: Tensor, classes: Tensor) -> Tensor:
    """Smooth L1, weighted binary cross entropy, and a focal loss over sigmoids."""
    boxes = F.smooth_l1_loss(output["box"], box, beta=0.5)
    found = F.binary_cross_entropy_with_logits(output["there"], there, pos_weight=torch.tensor([2.0]))
    ce = F.binary_cross_entropy_with_logits(output["classes"], classes, reduction="none")
    focal = ((1 - torch.exp(-ce)) ** 2 * ce).mean()
    return boxes + found + focal


def detector(batch: int | None = None) -> Model:
    count = batch or BATCH
    targets = (
        torch.rand(count, 4),
        torch.randint(2, (count, 1)).float(),
        F.one_hot(_labels(count), CLASSES).float(),
    )
    return Model("detector", Detector(), (torch.randn(count, 1, 8, 8),), targets, detection)


def forecasting(y: Tensor, target: Tensor) -> Tensor:
    """Quantiles, a Gaussian, a count, and Huber's: losses of one forecast."""
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    error = target[:, :1] - y[:, :3]
    pinball = torch.max(quantiles * error, (quantiles - 1) * error).mean()
    mean, variance = y[:, 3], F.softplus(y[:, 4]) + 1e-4
    gaussian = 0.5 * (torch.log(variance) + (target[:, 1] - mean) ** 2 / variance).mean()
    counts = F.poisson_nll_loss(y[:, 5], target[:, 2].abs())
    return pinball + gaussian + counts + F.huber_loss(y[:, 6], target[:, 3], delta=0.5)


def forecaster(batch: int | None = None) -> Model:
    module = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 7))
    return _regression("forecaster", module, (12,), (4,), batch, forecasting)


FORMS: tuple[Callable[[int | None], Model], ...] = (
    *(lstm, gru, rnn_backwards, bidirectional, lstm_by_hand, gru_cell, min_gru, quasi_recurrent, state_space),
    *(self_attention, llama, linear_attention, squeeze_excite, cbam, relative_bias, alibi, attention_pooling),
    *(kan_radial, kan_chebyshev, spiking, tcn, u_net_transposed, u_net_bilinear, wavenet, bc_resnet, eeg_net),
    *(
        mlp_mixer,
        convnext,
        mobilenet_v3,
        super_resolution,
        vae,
        contrastive,
        metric_learning,
        prototypical,
        distillation,
        siren,
    ),
    *(mixture_of_experts, deep_sets, graph_convolution, gated_units, normalised, detector, forecaster),
)
