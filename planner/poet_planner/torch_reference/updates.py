# SPDX-License-Identifier: Apache-2.0
"""An optimiser's updates in f32, every product, sum and quotient rounded by itself, in the firmware's order.

So the weights have a board's bits where the gradients have. ``torch.optim`` contracts some of these operations, which
changes the last bits.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from poet_profiles.errors import UserError
from torch import Tensor

from poet_planner.graph.optimizer import Method, Optimizer

_MOST = 2**64 - 1  # next to 1


class AdamFactors(NamedTuple):
    """What Adam's updates of a step have in common: the members of ``poet_adam_factors``."""

    size: float
    root: float
    left: float
    rest1: float
    beta2: float
    rest2: float


@dataclass
class _State:
    steps: int
    first: Tensor
    second: Tensor


class Updates:
    """Gradient descent with state, which begins with zeros.

    ``learning_rate`` is that of every step; rounded to f32.
    """

    def __init__(self, optimizer: Optimizer, learning_rate: float) -> None:
        self._optimizer = optimizer
        self._rate = rounded(learning_rate)
        self._states: dict[str, _State] = {}

    def check_loss(self, loss: Tensor, step: int) -> None:
        """Refuse what no training goes on from: a loss, of a step counted from 0, that is infinite or no number."""
        if not loss.isfinite():
            cause = f": the rate {self._rate:g} is too high, or a sample is damaged"
            if not step or not self._rate:
                cause = ", before any weight has changed: samples or weights are damaged, or too large"
            raise UserError(f"the loss of step {step + 1} is no number{cause}")

    def apply(self, name: str, parameter: Tensor, gradient: Tensor) -> None:
        """One step of a parameter, in place; ``name`` is where its state belongs."""
        optimizer = self._optimizer
        if optimizer.clip_value is not None:
            gradient = gradient.clamp(-optimizer.clip_value, optimizer.clip_value)
        if optimizer.weight_decay and optimizer.method is not Method.ADAMW:
            gradient = gradient + optimizer.weight_decay * parameter
        if name not in self._states:
            self._states[name] = _State(0, torch.zeros_like(parameter), torch.zeros_like(parameter))
        state = self._states[name]
        state.steps += 1
        if optimizer.is_adam:
            _adam(state, parameter, gradient, optimizer, self._rate)
        else:
            _descend(state, parameter, gradient, optimizer, self._rate)


def _descend(state: _State, parameter: Tensor, gradient: Tensor, optimizer: Optimizer, rate: float) -> None:
    state.first = velocity = optimizer.momentum * state.first + gradient
    parameter -= rate * (gradient + optimizer.momentum * velocity if optimizer.nesterov else velocity)


def _adam(state: _State, parameter: Tensor, gradient: Tensor, optimizer: Optimizer, rate: float) -> None:
    factors = adam_factors(optimizer, rate, state.steps)
    state.first = state.first + factors.rest1 * (gradient - state.first)
    state.second = factors.beta2 * state.second + (factors.rest2 * gradient) * gradient
    eps = rounded(factors.root * rounded(optimizer.eps))
    if factors.left < 1:
        parameter *= factors.left
    roots = torch.from_numpy(np.sqrt(state.second.numpy()))  # PyTorch's own are not always the nearest
    parameter -= factors.size * state.first / (roots + eps)


def adam_factors(optimizer: Optimizer, rate: float, steps: int) -> AdamFactors:
    """Of a step, from how many there are with it: powers in units of 2^-64, the rest in f32."""
    beta1, beta2 = (round(beta * 10**9) * 2**64 // 10**9 for beta in optimizer.betas)
    root = rounded(math.sqrt(_number(_MOST - _power(beta2, steps))))
    decay = rounded(optimizer.weight_decay) if optimizer.method is Method.ADAMW else 0.0
    size = rounded(rounded(rate * root) / _number(_MOST - _power(beta1, steps)))
    left = rounded(1.0 - rounded(rate * decay))
    return AdamFactors(size, root, left, *map(_number, (_MOST - beta1, beta2, _MOST - beta2)))


def rounded(number: float) -> float:
    """To the nearest f32."""
    nearest: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return nearest


def _power(base: int, exponent: int) -> int:
    """By squaring, as the firmware does it: other ways differ in the last bit."""
    result = _MOST
    while exponent:
        if exponent % 2:
            result = result * base >> 64
        base = base * base >> 64
        exponent //= 2
    return result


def _number(share: int) -> float:
    return rounded(share / 2**64)
