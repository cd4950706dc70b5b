# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's cells and autograd compute over some steps, in double precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Params = Mapping[str, int]
Tensors = tuple[Tensor, ...]
Draw = Callable[..., Tensor]
Recurrence = Callable[[Params, Draw], tuple[Tensors, Tensors]]
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


class _Steps:
    """A layer's tensors, with autograd recording: what it is given, and what each step yields."""

    def __init__(self, kind: str, p: Params, draw: Draw) -> None:
        s, n, h, gates = p["s"], p["n"], p["h"], GATES[kind]
        self.x, self.w = draw(s, n, gates * h).requires_grad_(), draw(gates * h, h).requires_grad_()
        self.h0, self.c0 = draw(n, h).requires_grad_(), draw(n, h).requires_grad_()
        self.b = draw(3 * h) if p.get("bias") else None
        same = torch.eye(gates * h, dtype=torch.float64)
        self.before, self.y, self.cells = ([self.h0] * s for _ in range(3))
        state, cell = self.h0, self.c0
        self.order = range(s - 1, -1, -1) if p["reverse"] else range(s)
        for t in self.order:
            self.before[t] = state
            weights = same, self.w, None if self.b is None else torch.zeros_like(self.b), self.b
            if kind == "lstm":
                state, cell = torch.lstm_cell(self.x[t], (state, cell), *weights)
            elif kind == "gru":
                state = torch.gru_cell(self.x[t], state, *weights)
            else:
                state = (torch.rnn_relu_cell if p["relu"] else torch.rnn_tanh_cell)(self.x[t], state, *weights)
            self.y[t], self.cells[t] = state, cell

    def sums(self) -> Tensor:
        """Of the states before, of all gates, with their bias."""
        return F.linear(torch.stack(self.before), self.w, self.b)

    def differentiated(self, p: Params, draw: Draw, *by: Tensor) -> tuple[Tensors, Tensors]:
        """Gradients that are given, and those that follow."""
        last = self.order[-1]
        ends = {"gy": torch.stack(self.y), "gh": self.y[last], "gc": self.cells[last]}
        results = [result for name, result in ends.items() if p.get(name)]
        given = tuple(draw(*result.shape) for result in results)
        return given, torch.autograd.grad(results, by, given, materialize_grads=True)


def _lstm(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("lstm", p, draw)
    return (steps.x, steps.w, steps.h0, steps.c0), (_gates_lstm(steps), torch.stack(steps.y), torch.stack(steps.cells))


def _gates_lstm(steps: _Steps) -> Tensor:
    i, f, g, o = (steps.x + steps.sums()).chunk(4, 2)
    return torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 2)


def _lstm_backward(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("lstm", p, draw)
    given, found = steps.differentiated(p, draw, steps.x, steps.h0, steps.c0)
    return (_gates_lstm(steps), torch.stack(steps.cells), steps.w, steps.c0, *given), found


def _gru(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("gru", p, draw)
    bias = () if steps.b is None else (steps.b,)
    return (steps.x, steps.w, *bias, steps.h0), (*_gates_gru(steps), torch.stack(steps.y))


def _gates_gru(steps: _Steps) -> Tensors:
    (x_r, x_z, x_n), (r, z, hidden) = steps.x.chunk(3, 2), steps.sums().chunk(3, 2)
    r = (x_r + r).sigmoid()
    return torch.cat([r, (x_z + z).sigmoid(), (x_n + r * hidden).tanh()], 2), hidden


def _gru_backward(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("gru", p, draw)
    given, (gx, gh0) = steps.differentiated(p, draw, steps.x, steps.h0)
    gates, hidden = _gates_gru(steps)
    ghidden = gx[..., -p["h"] :] * gates[..., : p["h"]]
    return (gates, hidden, torch.stack(steps.y), steps.w, steps.h0, *given), (gx, ghidden, gh0)


def _rnn(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("rnn", p, draw)
    return (steps.x, steps.w, steps.h0), (torch.stack(steps.y),)


def _rnn_backward(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    steps = _Steps("rnn", p, draw)
    given, found = steps.differentiated(p, draw, steps.x, steps.h0)
    return (torch.stack(steps.y), steps.w, *given), found


def _weights(p: Params, draw: Draw) -> tuple[Tensors, Tensors]:
    s, n, h, gates = (p[name] for name in ("s", "n", "h", "gates"))
    gx, apart, h0, y = draw(s, n, gates * h), draw(s, n, h), draw(n, h), draw(s, n, h)
    before = torch.cat([y[1:], h0[None]] if p["reverse"] else [h0[None], y[:-1]])
    rows = torch.cat([gx[..., :-h], apart], 2) if p["apart"] else gx
    return (gx, *([apart] if p["apart"] else []), h0, y), (torch.einsum("tng,tnh->gh", rows, before),)


RECURRENT_REFERENCES: dict[str, Recurrence] = {
    **{"lstm": _lstm, "lstm_backward": _lstm_backward, "gru": _gru, "gru_backward": _gru_backward},
    **{"rnn": _rnn, "rnn_backward": _rnn_backward, "recurrent_weights": _weights},
}
