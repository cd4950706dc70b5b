# SPDX-License-Identifier: Apache-2.0
"""Transformers: BERT (Devlin et al., 2018), a small GPT (Radford et al., 2019), and encoders of two layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention


@dataclass(frozen=True)
class Size:
    """Dimensions of a transformer; ``hidden`` is a multiple of ``heads``, the feed-forward part four times as wide."""

    layers: int
    hidden: int
    heads: int
    vocabulary: int
    positions: int
    dropout: float = 0.0


BERT_BASE = Size(layers=12, hidden=768, heads=12, vocabulary=30522, positions=512, dropout=0.1)
BERT_BASE_16 = replace(BERT_BASE, positions=16, dropout=0.0)  # a short sentence, for microcontrollers
TWO_LAYERS = Size(layers=2, hidden=128, heads=2, vocabulary=1000, positions=128)
BERT_2X128 = Size(layers=2, hidden=128, heads=2, vocabulary=1000, positions=32)
GPT_SMALL = Size(layers=4, hidden=128, heads=4, vocabulary=1000, positions=128)


class Attention(nn.Module):
    """Multi-head self-attention with its scores written out, so that dropout can act on them."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.query = nn.Linear(size.hidden, size.hidden)
        self.key = nn.Linear(size.hidden, size.hidden)
        self.value = nn.Linear(size.hidden, size.hidden)
        self.dropout = nn.Dropout(size.dropout)
        self.output = nn.Linear(size.hidden, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (_split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        weights = self.dropout(scores.softmax(dim=-1))
        mixed: Tensor = self.output(_join_heads(weights @ value))
        return mixed


class EncoderLayer(nn.Module):
    """Attention and a feed-forward part, each added to its input and normalised after it."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention = Attention(size)
        self.dropout1 = nn.Dropout(size.dropout)
        self.norm1 = nn.LayerNorm(size.hidden)
        self.wide = nn.Linear(size.hidden, 4 * size.hidden)
        self.narrow = nn.Linear(4 * size.hidden, size.hidden)
        self.dropout2 = nn.Dropout(size.dropout)
        self.norm2 = nn.LayerNorm(size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.dropout1(self.attention(x)))
        y: Tensor = self.norm2(x + self.dropout2(self.narrow(gelu(self.wide(x)))))
        return y


class Bert(nn.Module):
    """An encoder that classifies whole sequences by their first token; input: token ids, shape (batch, length)."""

    def __init__(self, size: Size, classes: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.hidden)
        self.positions = nn.Embedding(size.positions, size.hidden)
        self.norm = nn.LayerNorm(size.hidden)
        self.dropout = nn.Dropout(size.dropout)
        self.layers = nn.Sequential(*(EncoderLayer(size) for _ in range(size.layers)))
        self.pooler = nn.Linear(size.hidden, size.hidden)
        self.classifier = nn.Linear(size.hidden, classes)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = self.layers(self.dropout(self.norm(x)))
        logits: Tensor = self.classifier(torch.tanh(self.pooler(x[:, 0])))
        return logits


class DecoderLayer(nn.Module):
    """Causal attention and a feed-forward part, each after a norm and added to its input."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.norm1 = nn.LayerNorm(size.hidden)
        self.project = nn.Linear(size.hidden, 3 * size.hidden)
        self.mix = nn.Linear(size.hidden, size.hidden)
        self.norm2 = nn.LayerNorm(size.hidden)
        self.wide = nn.Linear(size.hidden, 4 * size.hidden)
        self.narrow = nn.Linear(4 * size.hidden, size.hidden)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(self.norm1(x)).chunk(3, dim=-1)
        query, key, value = (_split_heads(part, self.heads) for part in parts)
        x = x + self.mix(_join_heads(scaled_dot_product_attention(query, key, value, is_causal=True)))
        y: Tensor = x + self.narrow(gelu(self.wide(self.norm2(x)), approximate="tanh"))
        return y


class Gpt(nn.Module):
    """Predicts the next token at every place; the output layer is the token embedding (tied weights)."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.hidden)
        self.positions = nn.Embedding(size.positions, size.hidden)
        self.layers = nn.Sequential(*(DecoderLayer(size) for _ in range(size.layers)))
        self.norm = nn.LayerNorm(size.hidden)
        self.head = nn.Linear(size.hidden, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        logits: Tensor = self.head(self.norm(self.layers(x)))
        return logits


def next_token_loss(logits: Tensor, ids: Tensor) -> Tensor:
    """Mean cross-entropy over every place of every sequence."""
    return cross_entropy(logits.flatten(0, 1), ids.flatten())


def _split_heads(x: Tensor, heads: int) -> Tensor:
    batch, length, hidden = x.shape
    return x.view(batch, length, heads, hidden // heads).transpose(1, 2)


def _join_heads(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(-2)
