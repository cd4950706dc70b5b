# SPDX-License-Identifier: Apache-2.0
"""What the firmware's recurrent operators compute, as operators of PyTorch.

Here sums are in PyTorch's order; the firmware's is in docs/SPEC.md, section 1. Importing this module registers
``torch.ops.poet.lstm`` and the others. ``x`` of shape (steps, samples, gates * h) are the products of the input, with
biases; states have shape (samples, h). In ``reverse`` the last step comes first. Gradients ``gy`` of all results and
``gh``, ``gc`` of the last state may be missing.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _states(x: Tensor, h0: Tensor) -> Tensor:
    return x.new_empty((len(x), *h0.shape))


def _begun(gradient: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if gradient is None else gradient


def _before(h0: Tensor, y: Tensor, reverse: bool) -> Tensor:
    """The state before each step."""
    return torch.cat([y[1:], h0[None]] if reverse else [h0[None], y[:-1]])


@torch.library.custom_op("poet::lstm", mutates_args=())
def lstm(x: Tensor, w: Tensor, h0: Tensor, c0: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Activated gates i, f, g, o; results; cells."""
    gates, y, cells = torch.empty_like(x), _states(x, h0), _states(x, h0)
    h, c = h0, c0
    for t in _order(len(x), reverse):
        i, f, g, o = (x[t] + h @ w.t()).chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        h = o * c.tanh()
        gates[t], y[t], cells[t] = torch.cat([i, f, g, o], 1), h, c
    return gates, y, cells


@torch.library.custom_op("poet::lstm_backward", mutates_args=())
def lstm_backward(
    gates: Tensor,
    cells: Tensor,
    w: Tensor,
    c0: Tensor,
    gy: Tensor | None,
    gh: Tensor | None,
    gc: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``x`` and of both states before the first step."""
    gx, before = torch.empty_like(gates), _before(c0, cells, reverse)
    from_state, from_cell = _begun(gh, c0), _begun(gc, c0)
    for t in _order(len(gates), not reverse):
        i, f, g, o = gates[t].chunk(4, 1)
        u = cells[t].tanh()
        up = from_state if gy is None else gy[t] + from_state
        d = from_cell + up * o * (1 - u * u)
        parts = [d * g * (i * (1 - i)), d * before[t] * (f * (1 - f)), d * i * (1 - g * g), up * u * (o * (1 - o))]
        gx[t] = torch.cat(parts, 1)
        from_state, from_cell = gx[t] @ w, d * f
    return gx, from_state, from_cell


@torch.library.custom_op("poet::gru", mutates_args=())
def gru(x: Tensor, w: Tensor, bias: Tensor | None, h0: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Activated gates r, z, n; what r is multiplied with; results."""
    gates, hidden, y, h = torch.empty_like(x), _states(x, h0), _states(x, h0), h0
    for t in _order(len(x), reverse):
        r, z, n = x[t].chunk(3, 1)
        from_r, from_z, hidden[t] = torch.nn.functional.linear(h, w, bias).chunk(3, 1)
        r, z = (r + from_r).sigmoid(), (z + from_z).sigmoid()
        n = (n + r * hidden[t]).tanh()
        h = (1 - z) * n + z * h
        gates[t], y[t] = torch.cat([r, z, n], 1), h
    return gates, hidden, y


@torch.library.custom_op("poet::gru_backward", mutates_args=())
def gru_backward(
    gates: Tensor,
    hidden: Tensor,
    y: Tensor,
    w: Tensor,
    h0: Tensor,
    gy: Tensor | None,
    gh: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of ``x``, of what r is multiplied with, and of the state before the first step."""
    gx, ghidden = torch.empty_like(gates), torch.empty_like(hidden)
    before, from_state = _before(h0, y, reverse), _begun(gh, h0)
    for t in _order(len(gates), not reverse):
        r, z, n = gates[t].chunk(3, 1)
        up = from_state if gy is None else gy[t] + from_state
        gn = up * (1 - z) * (1 - n * n)
        ghidden[t] = gn * r
        gx[t] = torch.cat([gn * hidden[t] * (r * (1 - r)), up * (before[t] - n) * (z * (1 - z)), gn], 1)
        two = gx[t][:, : 2 * h0.shape[1]]
        from_state = up * z + torch.cat([two, ghidden[t]], 1) @ w
    return gx, ghidden, from_state


@torch.library.custom_op("poet::rnn", mutates_args=())
def rnn(x: Tensor, w: Tensor, h0: Tensor, relu: bool, reverse: bool) -> Tensor:
    y, h = torch.empty_like(x), h0
    for t in _order(len(x), reverse):
        sums = x[t] + h @ w.t()
        h = sums.relu() if relu else sums.tanh()
        y[t] = h
    return y


@torch.library.custom_op("poet::rnn_backward", mutates_args=())
def rnn_backward(
    y: Tensor, w: Tensor, gy: Tensor | None, gh: Tensor | None, relu: bool, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Gradients of ``x`` and of the state before the first step."""
    gx, from_state = torch.empty_like(y), _begun(gh, y[0])
    for t in _order(len(y), not reverse):
        up = from_state if gy is None else gy[t] + from_state
        gx[t] = up * (y[t] > 0) if relu else up * (1 - y[t] * y[t])
        from_state = gx[t] @ w
    return gx, from_state


@torch.library.custom_op("poet::recurrent_weights", mutates_args=())
def recurrent_weights(gx: Tensor, apart: Tensor | None, h0: Tensor, y: Tensor, reverse: bool) -> Tensor:
    """The gradient of ``w``; the last gate's rows are ``apart`` where that is given."""
    if apart is not None:
        gx = torch.cat([gx[..., : -h0.shape[1]], apart], 2)
    return gx.flatten(0, 1).t() @ _before(h0, y, reverse).flatten(0, 1)


@lstm.register_fake
def _(x: Tensor, w: Tensor, h0: Tensor, c0: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), _states(x, h0), _states(x, h0)


@lstm_backward.register_fake
def _(gates: Tensor, cells: Tensor, w: Tensor, c0: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(gates), torch.empty_like(c0), torch.empty_like(c0)


@gru.register_fake
def _(x: Tensor, w: Tensor, bias: Tensor | None, h0: Tensor, reverse: bool) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), _states(x, h0), _states(x, h0)


@gru_backward.register_fake
def _(gates: Tensor, hidden: Tensor, y: Tensor, w: Tensor, h0: Tensor, *_: object) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(gates), torch.empty_like(hidden), torch.empty_like(h0)


@rnn.register_fake
def _(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


@rnn_backward.register_fake
def _(y: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    return torch.empty_like(y), torch.empty_like(y[0])


@recurrent_weights.register_fake
def _(gx: Tensor, apart: Tensor | None, h0: Tensor, *_: object) -> Tensor:
    return gx.new_empty((gx.shape[2], h0.shape[1]))
